//! Where the server is and who is asking, from the environment, git's configuration and two files.
//!
//! | question | answer |
//! |---|---|
//! | where | `DIBS_URL`, else `dibs.url`, else what a local server recorded in `<common dir>/dibs/server.json` |
//! | who | `DIBS_TOKEN`, else `<git dir>/dibs/token`, else a person: `dibs.tokenFile`, else the local server's `read-token` |

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::address::Endpoint;
use super::credential::{Credential, Origin, is_absent};

/// What there is to look at. Plain values and functions, so that nothing in here opens a repository.
pub struct Surroundings<'a> {
    /// Looks up a variable of the environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Looks up a setting of git, such as `dibs.url`.
    pub config: &'a dyn Fn(&str) -> Option<String>,
    /// The worktree's git directory, inside a repository.
    pub git_dir: Option<PathBuf>,
    /// The repository's git directory, shared by its worktrees.
    pub common_dir: Option<PathBuf>,
}

/// Where the server is, and who is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Ways to reach the server, in the order to try them; at least one.
    pub endpoints: Vec<Endpoint>,
    /// Who is asking; nobody that the server knows where there is nothing.
    pub credential: Option<Credential>,
    /// The session to act for: `DIBS_SESSION`, else the one the credential names.
    pub session: Option<String>,
}

/// What a local server writes down about itself, in `<common dir>/dibs/server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    /// Its process.
    pub pid: u32,
    /// Its socket, where it has one.
    #[serde(default)]
    pub socket: Option<PathBuf>,
    /// Its address on the loopback device, where it has one.
    #[serde(default)]
    pub url: Option<String>,
    /// Since when it runs.
    pub started_at: crate::wire::Time,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undiscovered {
    /// No server is named anywhere.
    #[error("No server is known here; start one with: git dibs serve, or name one in DIBS_URL or git config dibs.url.")]
    NoServer,
    /// Something names a server, and it makes no sense.
    #[error("{from} says {text:?}, which is not an address: {why}.")]
    BadAddress {
        /// Who says so.
        from: &'static str,
        /// What it says.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The local server's record makes no sense.
    #[error("{} {why}; starting the server again writes it anew: git dibs serve.", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is a token, and it cannot be used.
    #[error("The token in {from} {why}.")]
    BadToken {
        /// Where it is.
        from: Origin,
        /// What is wrong with it.
        why: String,
    },
}

/// Says where the server is and who is asking.
pub fn discover(here: &Surroundings<'_>) -> Result<Found, Undiscovered> {
    let record = recorded(here)?;
    let local = record.iter().flat_map(ways).collect::<Vec<_>>();
    let (endpoints, is_local) = match named(here)? {
        // The local server under its public name: its socket is still the better way.
        Some(endpoint) if local.contains(&endpoint) => (local, true),
        Some(endpoint) => (vec![endpoint], false),
        None if local.is_empty() => return Err(Undiscovered::NoServer),
        None => (local, true),
    };
    let credential = credential(here, is_local)?;
    let session = env(here, "DIBS_SESSION").or_else(|| credential.as_ref().and_then(|who| who.session.clone()));
    Ok(Found { endpoints, credential, session })
}

/// The server that somebody named.
fn named(here: &Surroundings<'_>) -> Result<Option<Endpoint>, Undiscovered> {
    let by_env = env(here, "DIBS_URL").map(|text| ("DIBS_URL", text));
    let by_config = || config(here, "dibs.url").map(|text| ("git config dibs.url", text));
    let Some((from, text)) = by_env.or_else(by_config) else { return Ok(None) };
    match Endpoint::parse(&text) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(why) => Err(Undiscovered::BadAddress { from, text, why }),
    }
}

/// What the local server wrote down; nothing where none was started here.
fn recorded(here: &Surroundings<'_>) -> Result<Option<ServerRecord>, Undiscovered> {
    let Some(common_dir) = &here.common_dir else { return Ok(None) };
    let path = common_dir.join("dibs/server.json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(Undiscovered::BadRecord { path, why: format!("cannot be read ({error})") }),
    };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Ok(Some(record)),
        Err(error) => Err(Undiscovered::BadRecord { path, why: format!("is not a server's record ({error})") }),
    }
}

/// The ways to a recorded server, socket first: it is faster, and nobody else can be listening there.
fn ways(record: &ServerRecord) -> impl Iterator<Item = Endpoint> {
    let socket = record.socket.clone().map(Endpoint::Unix);
    let tcp = record.url.as_deref().and_then(|url| Endpoint::parse(url).ok());
    socket.into_iter().chain(tcp)
}

/// Who is asking: the session in the environment, the worktree's session, or a person who only looks.
fn credential(here: &Surroundings<'_>, is_local: bool) -> Result<Option<Credential>, Undiscovered> {
    if let Some(text) = env(here, "DIBS_TOKEN") {
        let bad = |why: &str| Undiscovered::BadToken { from: Origin::Environment, why: why.to_owned() };
        return Credential::new(&text, Origin::Environment).map(Some).map_err(bad);
    }
    let mut files = Vec::new();
    files.extend(here.git_dir.as_ref().map(|dir| Origin::Worktree(dir.join("dibs/token"))));
    files.extend(config(here, "dibs.tokenFile").map(|path| Origin::TokenFile(PathBuf::from(path))));
    // What the local server left is for the local server: elsewhere it counts for nothing and is nobody's business.
    files.extend(
        here.common_dir.as_ref().filter(|_| is_local).map(|dir| Origin::LocalServer(dir.join("dibs/read-token"))),
    );

    for from in files {
        let (Origin::Worktree(path) | Origin::TokenFile(path) | Origin::LocalServer(path)) = &from else { continue };
        let named_but_absent = matches!(from, Origin::TokenFile(_));
        match Credential::read(path, from.clone()) {
            Ok(Some(credential)) => return Ok(Some(credential)),
            Ok(None) if named_but_absent => {
                return Err(Undiscovered::BadToken {
                    from,
                    why: "is not there, but git config dibs.tokenFile names it".to_owned(),
                });
            }
            Ok(None) => {}
            Err(why) => return Err(Undiscovered::BadToken { from, why }),
        }
    }
    Ok(None)
}

/// A variable that says something; an empty one is as good as none.
fn env(here: &Surroundings<'_>, name: &str) -> Option<String> {
    (here.env)(name).filter(|text| !text.is_empty())
}

/// A setting that says something.
fn config(here: &Surroundings<'_>, name: &str) -> Option<String> {
    (here.config)(name).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;

    /// A repository without git: a worktree's directory, the common one, variables and settings.
    struct Place {
        dir: tempfile::TempDir,
        env: HashMap<&'static str, String>,
        config: HashMap<&'static str, String>,
    }

    impl Place {
        fn new() -> Place {
            Place { dir: tempfile::tempdir().unwrap(), env: HashMap::new(), config: HashMap::new() }
        }

        fn env(mut self, name: &'static str, value: &str) -> Place {
            self.env.insert(name, value.to_owned());
            self
        }

        fn config(mut self, name: &'static str, value: &str) -> Place {
            self.config.insert(name, value.to_owned());
            self
        }

        fn file(self, name: &str, text: &str) -> Place {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self
        }

        /// A local server with a socket and a port.
        fn served(self) -> Place {
            let record = r#"{"pid": 1, "socket": "/run/x.sock", "url": "http://127.0.0.1:3427", "startedAt": "2026-01-01T00:00:00.000Z", "x": 1}"#;
            self.file("common/dibs/server.json", record).file("common/dibs/read-token", "reader\n")
        }

        fn path(&self) -> &Path {
            self.dir.path()
        }

        fn discover(&self) -> Result<Found, Undiscovered> {
            discover(&Surroundings {
                env: &|name| self.env.get(name).cloned(),
                config: &|name| self.config.get(name).cloned(),
                git_dir: Some(self.path().join("worktree")),
                common_dir: Some(self.path().join("common")),
            })
        }

        fn endpoints(&self) -> Vec<String> {
            self.discover().unwrap().endpoints.iter().map(Endpoint::to_string).collect()
        }

        fn token(&self) -> Option<String> {
            self.discover().unwrap().credential.map(|who| who.token().to_owned())
        }

        fn sentence(&self) -> String {
            self.discover().unwrap_err().to_string()
        }
    }

    const BOTH: [&str; 2] = ["unix:/run/x.sock", "http://127.0.0.1:3427"];

    #[test]
    fn the_nearest_word_on_where_counts() {
        assert_eq!(Place::new().served().endpoints(), BOTH);
        let configured = Place::new().served().config("dibs.url", "http://team:1");
        assert_eq!(configured.endpoints(), ["http://team:1"]);
        assert_eq!(configured.env("DIBS_URL", "http://env:2").endpoints(), ["http://env:2"]);
        assert_eq!(Place::new().served().env("DIBS_URL", "").endpoints(), BOTH, "empty is as good as none");
    }

    #[test]
    fn the_local_server_by_its_public_name_is_still_reached_by_socket() {
        assert_eq!(Place::new().served().env("DIBS_URL", "http://127.0.0.1:3427/").endpoints(), BOTH);
    }

    #[test]
    fn without_a_server_the_sentence_says_what_to_do() {
        let error = Place::new().discover().unwrap_err();
        assert_eq!(error, Undiscovered::NoServer);
        assert!(error.to_string().contains("git dibs serve"));
        let nowhere = r#"{"pid": 1, "socket": null, "url": null, "startedAt": "2026-01-01T00:00:00Z"}"#;
        let place = Place::new().file("common/dibs/server.json", nowhere);
        assert_eq!(place.discover().unwrap_err(), Undiscovered::NoServer);
        let outside = Surroundings { env: &|_| None, config: &|_| None, git_dir: None, common_dir: None };
        assert_eq!(discover(&outside).unwrap_err(), Undiscovered::NoServer);
    }

    #[test]
    fn nonsense_is_said_to_be_nonsense_and_where() {
        let sentence = Place::new().env("DIBS_URL", "team:1").sentence();
        assert_eq!(
            sentence,
            r#"DIBS_URL says "team:1", which is not an address: it should begin with http:// or unix:."#
        );
        assert!(Place::new().config("dibs.url", "https://x").sentence().starts_with("git config dibs.url says"));
        for record in ["", "{}", "[]", "{\"pid\":\"x\"}", "<html>"] {
            let sentence = Place::new().file("common/dibs/server.json", record).sentence();
            assert!(sentence.contains("server.json is not a server's record"), "{sentence}");
        }
    }

    #[test]
    fn the_nearest_word_on_who_counts() {
        let person = Place::new().served();
        assert_eq!(person.token().as_deref(), Some("reader"));
        assert!(matches!(person.discover().unwrap().credential.unwrap().from, Origin::LocalServer(_)));
        let file = person.path().join("mine").to_str().unwrap().to_owned();
        let person = person.file("mine", "mine").config("dibs.tokenFile", &file);
        assert_eq!(person.token().as_deref(), Some("mine"));
        let session = person.file("worktree/dibs/token", "worktree");
        assert_eq!(session.token().as_deref(), Some("worktree"));
        assert_eq!(session.env("DIBS_TOKEN", "env").token().as_deref(), Some("env"));
    }

    #[test]
    fn the_local_servers_token_is_not_sent_elsewhere() {
        assert_eq!(Place::new().served().env("DIBS_URL", "http://team:1").token(), None);
    }

    #[test]
    fn a_token_that_cannot_be_used_is_a_sentence() {
        let sentence = Place::new().served().file("worktree/dibs/token", "\n").sentence();
        assert!(sentence.ends_with("worktree/dibs/token is empty."), "{sentence}");
        let sentence = Place::new().served().file("worktree/dibs/token/x", "").sentence();
        assert!(sentence.contains("worktree/dibs/token cannot be read"), "{sentence}");
        let sentence = Place::new().served().config("dibs.tokenFile", "/nowhere/token").sentence();
        assert!(sentence.contains("/nowhere/token is not there"), "{sentence}");
        let sentence = Place::new().served().env("DIBS_TOKEN", "secret secret").sentence();
        assert_eq!(sentence, "The token in DIBS_TOKEN does not hold a token.");
    }

    #[test]
    fn the_session_is_the_tokens_or_the_environments() {
        // {"sub":"ana"}, unsigned: the server would refuse it, the client only reads the name.
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.x";
        let place = Place::new().served().env("DIBS_TOKEN", token);
        assert_eq!(place.discover().unwrap().session.as_deref(), Some("ana"));
        let place = place.env("DIBS_SESSION", "bo");
        assert_eq!(place.discover().unwrap().session.as_deref(), Some("bo"));
        assert_eq!(Place::new().served().discover().unwrap().session, None);
    }
}
