//! A token to send, and what it says about itself. The server verifies tokens; the client only reads them.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::address::Address;

/// The largest file that is read as a token, in bytes.
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
    /// The session file that this variable leads to.
    SessionFile(&'static str),
    /// The worktree's file, written when its session started.
    Worktree(PathBuf),
    /// The file that `dibs.tokenFile` names.
    TokenFile(PathBuf),
    /// The read token that the local server writes for people without a session.
    LocalServer(PathBuf),
}

impl Origin {
    /// Whether the token is a file of the repository, or was sent to it. Such a token may go where the repository says.
    pub fn is_repository(&self) -> bool {
        match self {
            Origin::PushOption | Origin::SessionFile(_) | Origin::Worktree(_) | Origin::LocalServer(_) => true,
            Origin::Flag(_) | Origin::Environment | Origin::TokenFile(_) => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::PushOption => f.write_str("the push option dibs-token"),
            Origin::Environment => f.write_str("DIBS_TOKEN"),
            // Neither the value of the variable nor the file's name: a process that knows them could act as the session.
            Origin::SessionFile(variable) => write!(f, "the session file of {variable}"),
            Origin::Flag(path) | Origin::Worktree(path) | Origin::TokenFile(path) | Origin::LocalServer(path) => {
                path.display().fmt(f)
            }
        }
    }
}

/// A token and what it says about itself. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    token: String,
    /// The session that the token belongs to, or that a worker uses it for; none for a read or admin token.
    pub session: Option<String>,
    /// The session of a worker's token that does not name it.
    pub chosen_session: Option<String>,
    /// When the token expires, in seconds since 1970, if it says so.
    pub expires: Option<i64>,
    /// Whether its claims can be read. A token of which they cannot is never accepted.
    pub is_readable: bool,
    /// The only repository that the token is for, by the server's name.
    pub repo: Option<String>,
    /// Whether it is an admin token.
    pub is_admin: bool,
    /// Whether it is the token of a worker that may act for several sessions.
    pub is_worker: bool,
    /// What the ids of a worker's sessions must begin with.
    pub prefix: Option<String>,
    /// The addresses that it is for, if it names any.
    pub addresses: Vec<Address>,
    /// The id of the server that it is for, if it names one.
    pub server_id: Option<String>,
    pub from: Origin,
    /// The mode of its file, if other users can read it.
    pub open_mode: Option<u32>,
}

impl Credential {
    /// Reads the text of a token. The error completes a sentence that starts with the token's origin.
    pub fn new(text: &str, from: Origin) -> Result<Credential, &'static str> {
        let token = text.trim();
        if token.is_empty() {
            return Err("is empty");
        }
        // The token goes into a header.
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a character that a token cannot have");
        }
        // Not verified: the server does that. The claims only tell which calls to make.
        let claims = jsonwebtoken::dangerous::insecure_decode_claims(token);
        let is_readable = claims.is_ok();
        let claims: Claims = claims.unwrap_or_default();
        Ok(Credential {
            token: token.to_owned(),
            expires: claims.exp.as_i64(),
            is_readable,
            is_admin: claims.scope.as_deref() == Some("admin"),
            is_worker: claims.scope.as_deref() == Some("worker"),
            prefix: claims.prefix.as_str().filter(|_| claims.scope.as_deref() == Some("worker")).map(str::to_owned),
            addresses: claims.addresses(),
            server_id: claims.srv.as_str().map(str::to_owned),
            repo: claims.repo.clone(),
            session: claims.session(),
            chosen_session: None,
            from,
            open_mode: None,
        })
    }

    /// The token of a worker, used for this session.
    pub fn acting_for(self, session: &str) -> Credential {
        let session = Some(session.to_owned());
        Credential { session: session.clone(), chosen_session: session, ..self }
    }

    /// What a token file of this worktree has in it. A session that the token does not name is on a line of its own.
    pub fn file_text(&self) -> String {
        match &self.chosen_session {
            Some(session) => format!("{}\n{session}\n", self.token),
            None => format!("{}\n", self.token),
        }
    }

    /// Reads a token from a file; none if the file does not exist. A worker's token may have a session on the next line.
    pub fn read(path: &Path, from: Origin) -> Result<Option<Credential>, String> {
        // A pipe in its place is not waited for.
        let file = match std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(format!("cannot be read ({error})")),
        };
        let about = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
        let open_mode = Some(about.mode() & 0o7777).filter(|mode| about.is_file() && mode & 0o077 != 0);
        let mut text = String::new();
        file.take(TOKEN_MAX).read_to_string(&mut text).map_err(|error| format!("cannot be read ({error})"))?;
        let (token, session) = text.trim().split_once('\n').unwrap_or((&text, ""));
        let credential = Credential { open_mode, ..Credential::new(token, from).map_err(str::to_owned)? };
        if let (Some(mode), Origin::Worktree(_)) = (open_mode, &credential.from) {
            return Err(format!("is in a file that other users can read (mode {mode:04o})"));
        }
        match session.trim() {
            "" => Ok(Some(credential)),
            session if credential.is_worker => Ok(Some(credential.acting_for(session))),
            _ => Err("has more than one line".to_owned()),
        }
    }

    /// The token itself, for the header and for token files.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("session", &self.session).field("from", &self.from).finish_non_exhaustive()
    }
}

/// Whether the error means that the file does not exist.
pub fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The claims that a client needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Claims {
    sub: Option<String>,
    sid: Option<String>,
    scope: Option<String>,
    repo: Option<String>,
    // What another issuer puts there may have any type.
    prefix: Value,
    url: Value,
    srv: Value,
    aud: Value,
    exp: Value,
}

impl Claims {
    /// `url`, and those of `aud` that are addresses: some issuers name a server there.
    fn addresses(&self) -> Vec<Address> {
        let audience = self.aud.as_array().map_or(std::slice::from_ref(&self.aud), Vec::as_slice);
        let texts = std::iter::once(&self.url).chain(audience).filter_map(Value::as_str);
        texts.filter_map(|text| Address::parse(text).ok()).collect()
    }

    fn session(self) -> Option<String> {
        match self.scope.as_deref() {
            None | Some("session") => self.sid.or(self.sub),
            // The `sub` of a worker's token is the worker; only `sid` can be a session.
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
    fn a_token_names_its_session() {
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
    fn a_token_names_its_scope_and_repository() {
        let credential = |claims| {
            let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(b"x")).unwrap();
            Credential::new(&token, Origin::Environment).unwrap()
        };
        let read = |claims| {
            let credential = credential(claims);
            (credential.is_admin, credential.repo)
        };
        assert!(credential(json!({"sub": "host", "scope": "worker"})).is_worker);
        assert!(!credential(json!({"sub": "reader", "scope": "read"})).is_worker);
        assert_eq!(read(json!({"sub": "boss", "scope": "admin"})), (true, None));
        assert_eq!(read(json!({"sub": "ana", "repo": "app"})), (false, Some("app".to_owned())));
        assert_eq!(read(json!({"sub": ["odd"], "repo": 7})), (false, None));
    }

    #[test]
    fn a_token_names_its_server() {
        let credential = |claims| {
            let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(b"x")).unwrap();
            Credential::new(&token, Origin::Environment).unwrap()
        };
        let addresses = |claims| credential(claims).addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(addresses(json!({"sub": "ana", "url": "https://Dibs.example/"})), ["https://dibs.example:443"]);
        let both = json!({"sub": "ana", "url": "http://a:1", "aud": ["dibs", "https://b"]});
        assert_eq!(addresses(both), ["http://a:1", "https://b:443"]);
        assert!(addresses(json!({"sub": "ana", "aud": "dibs"})).is_empty());
        let odd = credential(json!({"sub": "ana", "url": 7, "srv": {}, "prefix": [], "aud": [3, "x"]}));
        assert_eq!((odd.session.as_deref(), odd.server_id), (Some("ana"), None));
        assert_eq!(credential(json!({"sub": "ana", "srv": "7f"})).server_id.as_deref(), Some("7f"));
    }

    #[test]
    fn a_token_must_fit_into_a_header() {
        assert_eq!(Credential::new(" abc \n", Origin::Environment).unwrap().token(), "abc");
        for bad in ["", " \n", "a b", "a\r\nX: y", "ä", "a\0b"] {
            assert!(Credential::new(bad, Origin::Environment).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn debug_does_not_show_the_token() {
        let credential = Credential::new("very-secret", Origin::Environment).unwrap();
        assert!(!format!("{credential:?}").contains("secret"));
    }
}
