//! Tokens as their bearer sees them: something to send, with an idea of whom it speaks for.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The largest file that is read as a token, in bytes; a bigger one is a mistake, not a token.
const TOKEN_MAX: u64 = 16 * 1024;

/// Where a token came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The file that `--token-file` names.
    Flag(PathBuf),
    /// The push option `dibs-token`.
    PushOption,
    /// `DIBS_TOKEN`.
    Environment,
    /// The worktree's own file, written when its session was started.
    Worktree(PathBuf),
    /// The file that `dibs.tokenFile` names.
    TokenFile(PathBuf),
    /// What the local server leaves for people without a session.
    LocalServer(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::PushOption => f.write_str("the push option dibs-token"),
            Origin::Environment => f.write_str("DIBS_TOKEN"),
            Origin::Flag(path) | Origin::Worktree(path) | Origin::TokenFile(path) | Origin::LocalServer(path) => {
                path.display().fmt(f)
            }
        }
    }
}

/// A token, and whom it speaks for. Shown without the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    token: String,
    /// The session it speaks for; nobody's where it is a token for looking, for administration or for a worker.
    pub session: Option<String>,
    /// The only repository it is for, as the server calls it.
    pub repo: Option<String>,
    /// Whether it may do anything.
    pub is_admin: bool,
    /// Where it came from.
    pub from: Origin,
}

impl Credential {
    /// Takes the text of a token; what is wrong with it goes on after its origin's name.
    pub fn new(text: &str, from: Origin) -> Result<Credential, &'static str> {
        let token = text.trim();
        if token.is_empty() {
            return Err("is empty");
        }
        // Anything else would break out of the header.
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("does not hold a token");
        }
        // Nobody is fooled by a forged token: the server checks it, we only need to know how to address it.
        let claims: Claims = jsonwebtoken::dangerous::insecure_decode_claims(token).unwrap_or_default();
        Ok(Credential {
            token: token.to_owned(),
            is_admin: claims.scope.as_deref() == Some("admin"),
            repo: claims.repo.clone(),
            session: claims.session(),
            from,
        })
    }

    /// Reads a token from a file; nothing where there is no such file.
    pub fn read(path: &Path, from: Origin) -> Result<Option<Credential>, String> {
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(format!("cannot be read ({error})")),
        };
        let mut text = String::new();
        file.take(TOKEN_MAX).read_to_string(&mut text).map_err(|error| format!("cannot be read ({error})"))?;
        Credential::new(&text, from).map(Some).map_err(str::to_owned)
    }

    /// The token itself, for the header and for files that are meant to keep it.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("session", &self.session).field("from", &self.from).finish_non_exhaustive()
    }
}

/// Whether an error says that there is no such file, rather than that it cannot be read.
pub fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// What a token says about itself, as far as its bearer needs it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Claims {
    sub: Option<String>,
    sid: Option<String>,
    scope: Option<String>,
    repo: Option<String>,
}

impl Claims {
    fn session(self) -> Option<String> {
        match self.scope.as_deref() {
            None | Some("session") => self.sid.or(self.sub),
            // A worker's `sub` is the worker; only `sid` could be a session.
            Some("worker") => self.sid,
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    use super::*;

    fn session(claims: serde_json::Value) -> Option<String> {
        let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(b"x")).unwrap();
        Credential::new(&token, Origin::Environment).unwrap().session
    }

    #[test]
    fn a_token_says_whose_it_is() {
        assert_eq!(session(json!({"sub": "ana"})).as_deref(), Some("ana"));
        assert_eq!(session(json!({"sub": "ana", "scope": "session"})).as_deref(), Some("ana"));
        assert_eq!(session(json!({"sub": "host", "sid": "ana"})).as_deref(), Some("ana"));
        assert_eq!(session(json!({"sub": "host", "scope": "worker"})), None);
        assert_eq!(session(json!({"sub": "reader", "scope": "read"})), None);
        assert_eq!(session(json!({"sub": "boss", "scope": "admin"})), None);
        assert_eq!(Credential::new("opaque", Origin::Environment).unwrap().session, None);
        assert_eq!(Credential::new("a.b.c", Origin::Environment).unwrap().session, None);
    }

    #[test]
    fn a_token_says_what_it_may_do_and_where() {
        let read = |claims| {
            let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(b"x")).unwrap();
            let credential = Credential::new(&token, Origin::Environment).unwrap();
            (credential.is_admin, credential.repo)
        };
        assert_eq!(read(json!({"sub": "boss", "scope": "admin"})), (true, None));
        assert_eq!(read(json!({"sub": "ana", "repo": "app"})), (false, Some("app".to_owned())));
        assert_eq!(read(json!({"sub": ["odd"], "repo": 7})), (false, None));
    }

    #[test]
    fn a_token_must_fit_into_a_header() {
        assert_eq!(Credential::new(" abc \n", Origin::Environment).unwrap().token(), "abc");
        for bad in ["", " \n", "a b", "a\r\nX: y", "ä", "a\0b"] {
            assert!(Credential::new(bad, Origin::Environment).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_token_is_not_shown_by_accident() {
        let credential = Credential::new("very-secret", Origin::Environment).unwrap();
        assert!(!format!("{credential:?}").contains("secret"));
    }
}
