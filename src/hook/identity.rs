//! Who is asking, and where the server is.
//!
//! Both are found from the environment, git's settings and a few small files; nothing here opens a connection.
//! Start at [`Identity::find`].

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::git::{Repo, Settings};

use super::environment::Environment;
use super::{AskError, Moment};

/// Under the git directory of a worktree: the token of the session that works there, mode 0600.
pub const TOKEN_FILE: &str = "dibs/token";
/// Under the common directory: where a local server listens, as [`Recorded`].
pub const SERVER_FILE: &str = "dibs/server.json";
/// Under the common directory: a token that may look but not change, made by a local server for the people beside it.
pub const READ_TOKEN_FILE: &str = "dibs/read-token";

/// A bearer token. Its text is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes the text of a token, without the white space around it.
    pub fn new(text: &str) -> Token {
        Token(text.trim().to_owned())
    }

    /// The text, for the one place that sends it.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// What a local server leaves behind so that others find it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    /// Its Unix socket.
    pub socket: Option<PathBuf>,
    /// Its address, such as `http://127.0.0.1:3427`.
    pub url: Option<String>,
    /// Its token for people without a session, if that is not [`READ_TOKEN_FILE`].
    pub read_token_file: Option<PathBuf>,
    /// The name the server knows this repository by, where it serves several.
    pub repo: Option<String>,
}

/// Where to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Tried first.
    pub socket: Option<PathBuf>,
    /// Tried where there is no socket, or nobody listens on it.
    pub url: Option<String>,
    /// Who said so, for messages: `DIBS_URL`, `dibs.url` or the file of a local server.
    pub source: String,
}

/// Whom the token speaks for, as far as its origin tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A session's own token.
    Session,
    /// A token that only looks: a person without a session, or a stranger who pushes.
    Person,
    /// There is none.
    Nobody,
}

/// Who is asking, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Where to ask.
    pub server: Server,
    /// What to show there.
    pub token: Option<Token>,
    /// Whom it speaks for.
    pub origin: Origin,
    /// The name the server knows this repository by, where it is known.
    pub repo: Option<String>,
}

impl Identity {
    /// Finds both; the error is a sentence about what is missing.
    ///
    /// `moment` is the hook this happens in, or none outside of hooks: whoever pushes into a repository is not whoever
    /// works in it, so `pre-receive` reads no token file of a session.
    pub fn find(
        moment: Option<Moment>,
        repo: &Repo,
        environment: &Environment,
        settings: &Settings,
    ) -> Result<Identity, AskError> {
        let recorded = recorded(&repo.common_dir)?;
        let server = server(environment, settings, &recorded, &repo.common_dir)?;
        let (token, origin) = match session_token(moment, repo, environment)? {
            Some(token) => (Some(token), Origin::Session),
            None => match read_token(repo, environment, settings, &recorded)? {
                Some(token) => (Some(token), Origin::Person),
                None => (None, Origin::Nobody),
            },
        };
        let repo = environment.text("DIBS_REPO").or_else(|| settings.get("repo").map(str::to_owned)).or(recorded.repo);
        Ok(Identity { server, token, origin, repo })
    }
}

fn recorded(common_dir: &Path) -> Result<Recorded, AskError> {
    let file = common_dir.join(SERVER_FILE);
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) if missing(&error) => return Ok(Recorded::default()),
        Err(error) => return Err(AskError::Unreachable(format!("{} cannot be read: {error}", file.display()))),
    };
    let what = |error| {
        let file = file.display();
        AskError::Unreachable(format!("{file} does not say where the server is ({error}); restart git dibs serve"))
    };
    serde_json::from_slice(&text).map_err(what)
}

fn server(
    environment: &Environment,
    settings: &Settings,
    recorded: &Recorded,
    common_dir: &Path,
) -> Result<Server, AskError> {
    let told = [("DIBS_URL", environment.text("DIBS_URL")), ("dibs.url", settings.get("url").map(str::to_owned))];
    for (source, url) in told {
        if let Some(url) = url.filter(|url| !url.trim().is_empty()) {
            return Ok(Server { socket: None, url: Some(url.trim().to_owned()), source: source.to_owned() });
        }
    }
    if recorded.socket.is_none() && recorded.url.is_none() {
        let what = "no git-dibs server is known here; start one with: git dibs serve, or name one with: git config dibs.url URL";
        return Err(AskError::Unreachable(what.to_owned()));
    }
    let source = common_dir.join(SERVER_FILE).display().to_string();
    Ok(Server { socket: recorded.socket.clone(), url: recorded.url.clone(), source })
}

fn session_token(moment: Option<Moment>, repo: &Repo, environment: &Environment) -> Result<Option<Token>, AskError> {
    let receiving = moment == Some(Moment::PreReceive);
    let option = if receiving { environment.push_option("dibs-token") } else { None };
    let told = option.or_else(|| environment.text("DIBS_TOKEN")).filter(|text| !text.trim().is_empty());
    match told {
        Some(text) => Ok(Some(Token::new(&text))),
        None if receiving => Ok(None),
        None => token_in(&repo.git_dir.join(TOKEN_FILE)),
    }
}

fn read_token(
    repo: &Repo,
    environment: &Environment,
    settings: &Settings,
    recorded: &Recorded,
) -> Result<Option<Token>, AskError> {
    if let Some(name) = settings.get("tokenFile") {
        let file = match (name.strip_prefix("~/"), environment.get("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => repo.common_dir.join(name),
        };
        let nothing =
            || AskError::Unauthorized(format!("dibs.tokenFile names {}, which does not exist", file.display()));
        return token_in(&file)?.ok_or_else(nothing).map(Some);
    }
    match &recorded.read_token_file {
        Some(file) => token_in(file),
        None => token_in(&repo.common_dir.join(READ_TOKEN_FILE)),
    }
}

fn token_in(file: &Path) -> Result<Option<Token>, AskError> {
    let refused = |why: String| Err(AskError::Unauthorized(format!("the token file {} {why}", file.display())));
    match std::fs::read_to_string(file) {
        Ok(text) if text.trim().is_empty() => {
            refused("is empty; start a session with: git dibs session start".to_owned())
        }
        Ok(text) => Ok(Some(Token::new(&text))),
        Err(error) if missing(&error) => Ok(None),
        Err(error) => refused(format!("cannot be read: {error}")),
    }
}

fn missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        repo: Repo,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        Place { repo, _dir: dir }
    }

    impl Place {
        fn file(&self, name: &str, text: &str) {
            let file = self.repo.common_dir.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }

        fn find(
            &self,
            moment: Moment,
            variables: &[(&str, &str)],
            settings: &[(&str, &str)],
        ) -> Result<Identity, AskError> {
            let environment = Environment::from_pairs(variables.iter().copied());
            Identity::find(Some(moment), &self.repo, &environment, &Settings::from_pairs(settings.iter().copied()))
        }
    }

    fn secret(identity: &Identity) -> Option<&str> {
        identity.token.as_ref().map(Token::secret)
    }

    #[test]
    fn the_environment_then_the_setting_then_the_local_server() {
        let place = place();
        place.file(SERVER_FILE, r#"{"socket": "/run/dibs.sock", "url": "http://127.0.0.1:3427", "newer": 1}"#);
        let url = [("url", "https://dibs.example")];
        let found = place.find(Moment::PreCommit, &[("DIBS_URL", " http://one ")], &url).unwrap();
        assert_eq!((found.server.url.as_deref(), found.server.source.as_str()), (Some("http://one"), "DIBS_URL"));
        let found = place.find(Moment::PreCommit, &[("DIBS_URL", "")], &url).unwrap();
        assert_eq!(found.server.url.as_deref(), Some("https://dibs.example"));
        assert_eq!(found.server.socket, None);
        let found = place.find(Moment::PreCommit, &[], &[]).unwrap();
        assert_eq!(found.server.socket.as_deref(), Some(Path::new("/run/dibs.sock")));
        assert_eq!(found.server.url.as_deref(), Some("http://127.0.0.1:3427"));
    }

    #[test]
    fn no_server_and_a_broken_record_are_sentences() {
        let place = place();
        let error = place.find(Moment::PreCommit, &[], &[]).unwrap_err().to_string();
        assert!(error.contains("git dibs serve"), "{error}");
        place.file(SERVER_FILE, "<html>");
        let error = place.find(Moment::PreCommit, &[], &[]).unwrap_err();
        assert!(matches!(&error, AskError::Unreachable(text) if text.contains("server.json")), "{error}");
    }

    #[test]
    fn a_session_speaks_by_variable_then_by_the_file_of_its_worktree_then_it_is_a_person() {
        let place = place();
        let server = [("DIBS_URL", "http://x")];
        assert_eq!(place.find(Moment::PreCommit, &server, &[]).unwrap().origin, Origin::Nobody);
        place.file(READ_TOKEN_FILE, "look\n");
        let found = place.find(Moment::PreCommit, &server, &[]).unwrap();
        assert_eq!((secret(&found), found.origin), (Some("look"), Origin::Person));
        place.file(TOKEN_FILE, "mine\n");
        let found = place.find(Moment::PreCommit, &server, &[]).unwrap();
        assert_eq!((secret(&found), found.origin), (Some("mine"), Origin::Session));
        let variables = [server[0], ("DIBS_TOKEN", "told")];
        let found = place.find(Moment::PreCommit, &variables, &[]).unwrap();
        assert_eq!((secret(&found), found.origin), (Some("told"), Origin::Session));
        assert!(!format!("{found:?}").contains("told"), "a token is never shown");
    }

    #[test]
    fn whoever_pushes_here_is_not_whoever_works_here() {
        let place = place();
        place.file(TOKEN_FILE, "mine");
        place.file("elsewhere", "look");
        let base =
            [("DIBS_URL", "http://x"), ("GIT_PUSH_OPTION_COUNT", "1"), ("GIT_PUSH_OPTION_0", "dibs-token=pushed")];
        let found = place.find(Moment::PreReceive, &base, &[]).unwrap();
        assert_eq!(secret(&found), Some("pushed"));
        let found = place.find(Moment::PrePush, &base, &[]).unwrap();
        assert_eq!(secret(&found), Some("mine"), "options only count where they arrive");
        let found = place.find(Moment::PreReceive, &base[..1], &[("tokenFile", "elsewhere")]).unwrap();
        assert_eq!((secret(&found), found.origin), (Some("look"), Origin::Person));
    }

    #[test]
    fn a_token_file_that_is_no_use_is_a_sentence() {
        let place = place();
        let server = [("DIBS_URL", "http://x")];
        place.file(TOKEN_FILE, " \n");
        let error = place.find(Moment::PreCommit, &server, &[]).unwrap_err();
        assert!(matches!(&error, AskError::Unauthorized(text) if text.contains("is empty")), "{error}");
        std::fs::remove_file(place.repo.git_dir.join(TOKEN_FILE)).unwrap();
        std::fs::create_dir(place.repo.git_dir.join(TOKEN_FILE)).unwrap();
        let error = place.find(Moment::PreCommit, &server, &[]).unwrap_err();
        assert!(matches!(&error, AskError::Unauthorized(text) if text.contains("cannot be read")), "{error}");
        let error = place.find(Moment::PreReceive, &server, &[("tokenFile", "nowhere")]).unwrap_err();
        assert!(matches!(&error, AskError::Unauthorized(text) if text.contains("does not exist")), "{error}");
    }
}
