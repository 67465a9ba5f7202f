//! Where the server is and who is asking, from flags, the environment, git's configuration and two files.
//!
//! | question | answer |
//! |---|---|
//! | where | `--url`, else `DIBS_URL`, else `dibs.url`, else what a local server recorded in `<common dir>/dibs/server.json` |
//! | who | `--token-file`, else `DIBS_TOKEN`, else `<git dir>/dibs/token`, else a person: `dibs.tokenFile`, else the local server's `read-token` |
//!
//! Whoever pushes into a repository is not whoever works in it, so there the token comes from a push option, else from
//! `DIBS_TOKEN`, and never from the worktree's file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::client::{Credential, Endpoint, Origin, is_absent};

/// Under a worktree's git directory: the token of the session that works there, mode 0600.
pub const TOKEN_FILE: &str = "dibs/token";

/// Under the common directory: where a local server listens, as a [`ServerRecord`].
pub const SERVER_FILE: &str = "dibs/server.json";

/// Under the common directory: a token for looking, made by a local server for the people beside it.
pub const READ_TOKEN_FILE: &str = "dibs/read-token";

/// What there is to look at. Plain values and functions, so that nothing in here opens a repository.
pub struct Surroundings<'a> {
    /// What the command line said.
    pub flags: Flags,
    /// Whose work it is.
    pub door: Door,
    /// Looks up a variable of the environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Looks up a setting of git, such as `dibs.url`.
    pub config: &'a dyn Fn(&str) -> Option<String>,
    /// The worktree's git directory, inside a repository.
    pub git_dir: Option<PathBuf>,
    /// The repository's git directory, shared by its worktrees.
    pub common_dir: Option<PathBuf>,
}

/// What the command line said; it counts before everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// The server.
    pub url: Option<String>,
    /// A file with the token.
    pub token_file: Option<PathBuf>,
    /// The session to act for.
    pub session: Option<String>,
    /// The repository, as the server calls it.
    pub repo: Option<String>,
}

/// Whose work is asked about.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Door {
    /// That of whoever works in this worktree.
    #[default]
    Worktree,
    /// That of somebody who pushes into this repository, with the token of their push option, where they gave one.
    Receiving(Option<String>),
}

/// Where the server is, and who is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Ways to reach the server, in the order to try them; at least one.
    pub endpoints: Vec<Endpoint>,
    /// Who is asking; nobody that the server knows where there is nothing.
    pub credential: Option<Credential>,
    /// The session to act for: `--session`, else the one the credential names, else `DIBS_SESSION`.
    pub session: Option<String>,
    /// How the server calls the repository, where somebody says so.
    pub repo: Option<String>,
    /// Who says where the server is, for messages.
    pub source: String,
    /// Where the server's secret is, if it is the local one.
    pub secret_file: Option<PathBuf>,
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
    /// How it calls this repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The file with the secret that signs its tokens, where it is in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undiscovered {
    /// No server is named anywhere.
    #[error("no server is known here; start one with: git dibs serve, or name one in DIBS_URL or git config dibs.url")]
    NoServer,
    /// Something names a server, and it makes no sense.
    #[error("{from} says {text:?}, which is not an address: {why}")]
    BadAddress {
        /// Who says so.
        from: &'static str,
        /// What it says.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The local server's record makes no sense.
    #[error("{} {why}; starting the server again writes it anew: git dibs serve", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is a token, and it cannot be used.
    #[error("the token in {from} {why}")]
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
    let (endpoints, source, is_local) = match named(here)? {
        // The local server under its public name: its socket is still the better way.
        Some((from, endpoint)) if local.contains(&endpoint) => (local, from.to_owned(), true),
        Some((from, endpoint)) => (vec![endpoint], from.to_owned(), false),
        None if local.is_empty() => return Err(Undiscovered::NoServer),
        None => (local, in_dir(&here.common_dir, SERVER_FILE).unwrap_or_default().display().to_string(), true),
    };
    let credential = credential(here, is_local)?;
    // A token that is a session's own acts for no other, so a variable left over from elsewhere must not matter.
    let own = credential.as_ref().and_then(|who| who.session.clone());
    let session = here.flags.session.clone().or(own).or_else(|| env(here, "DIBS_SESSION"));
    let record = record.filter(|_| is_local);
    let (recorded_repo, secret_file) = record.map_or((None, None), |record| (record.repo, record.secret_file));
    let repo = here.flags.repo.clone().or_else(|| env(here, "DIBS_REPO")).or_else(|| config(here, "dibs.repo"));
    Ok(Found { endpoints, credential, session, repo: repo.or(recorded_repo), source, secret_file })
}

/// The server that somebody named, and who did.
fn named(here: &Surroundings<'_>) -> Result<Option<(&'static str, Endpoint)>, Undiscovered> {
    let by_flag = here.flags.url.clone().map(|text| ("--url", text));
    let by_env = || env(here, "DIBS_URL").map(|text| ("DIBS_URL", text));
    let by_config = || config(here, "dibs.url").map(|text| ("git config dibs.url", text));
    let Some((from, text)) = by_flag.or_else(by_env).or_else(by_config) else { return Ok(None) };
    match Endpoint::parse(text.trim()) {
        Ok(endpoint) => Ok(Some((from, endpoint))),
        Err(why) => Err(Undiscovered::BadAddress { from, text, why }),
    }
}

/// What the local server wrote down; nothing where none was started here.
fn recorded(here: &Surroundings<'_>) -> Result<Option<ServerRecord>, Undiscovered> {
    let Some(path) = in_dir(&here.common_dir, SERVER_FILE) else { return Ok(None) };
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
    if let Some(path) = &here.flags.token_file {
        return in_file(Origin::Flag(path.clone()), path, Some("--token-file"));
    }
    let pushed = match &here.door {
        Door::Receiving(Some(text)) if !text.trim().is_empty() => Some((Origin::PushOption, text.clone())),
        _ => None,
    };
    let told = pushed.or_else(|| env(here, "DIBS_TOKEN").map(|text| (Origin::Environment, text)));
    if let Some((from, text)) = told {
        let bad = |why: &str| Undiscovered::BadToken { from: from.clone(), why: why.to_owned() };
        return Credential::new(&text, from.clone()).map(Some).map_err(bad);
    }
    if let Some(path) = in_dir(&here.git_dir, TOKEN_FILE).filter(|_| here.door == Door::Worktree)
        && let Some(found) = in_file(Origin::Worktree(path.clone()), &path, None)?
    {
        return Ok(Some(found));
    }
    if let Some(name) = config(here, "dibs.tokenFile") {
        let path = token_file(here, &name);
        return in_file(Origin::TokenFile(path.clone()), &path, Some("git config dibs.tokenFile"));
    }
    // What the local server left is for the local server: elsewhere it counts for nothing and is nobody's business.
    match in_dir(&here.common_dir, READ_TOKEN_FILE).filter(|_| is_local) {
        Some(path) => in_file(Origin::LocalServer(path.clone()), &path, None),
        None => Ok(None),
    }
}

/// The token in a file; one that somebody named must be there.
fn in_file(from: Origin, path: &Path, named_by: Option<&str>) -> Result<Option<Credential>, Undiscovered> {
    match (Credential::read(path, from.clone()), named_by) {
        (Ok(None), Some(name)) => {
            Err(Undiscovered::BadToken { from, why: format!("is not there, but {name} names it") })
        }
        (Ok(found), _) => Ok(found),
        (Err(why), _) => Err(Undiscovered::BadToken { from, why }),
    }
}

/// Where `dibs.tokenFile` points: `~` is the home directory, and what is relative lies in the git directory.
fn token_file(here: &Surroundings<'_>, name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), env(here, "HOME"), &here.common_dir) {
        (Some(rest), Some(home), _) => Path::new(&home).join(rest),
        (_, _, Some(dir)) => dir.join(name),
        _ => PathBuf::from(name),
    }
}

fn in_dir(dir: &Option<PathBuf>, name: &str) -> Option<PathBuf> {
    dir.as_ref().map(|dir| dir.join(name))
}

/// A variable that says something; an empty one is as good as none.
fn env(here: &Surroundings<'_>, name: &str) -> Option<String> {
    (here.env)(name).filter(|text| !text.trim().is_empty())
}

/// A setting that says something.
fn config(here: &Surroundings<'_>, name: &str) -> Option<String> {
    (here.config)(name).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A repository without git: a worktree's directory, the common one, variables and settings.
    struct Place {
        dir: tempfile::TempDir,
        env: HashMap<&'static str, String>,
        config: HashMap<&'static str, String>,
        flags: Flags,
        door: Door,
    }

    impl Place {
        fn new() -> Place {
            Place {
                dir: tempfile::tempdir().unwrap(),
                env: HashMap::new(),
                config: HashMap::new(),
                flags: Flags::default(),
                door: Door::default(),
            }
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
                flags: self.flags.clone(),
                door: self.door.clone(),
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
        let outside = Surroundings {
            flags: Flags::default(),
            door: Door::default(),
            env: &|_| None,
            config: &|_| None,
            git_dir: None,
            common_dir: None,
        };
        assert_eq!(discover(&outside).unwrap_err(), Undiscovered::NoServer);
    }

    #[test]
    fn nonsense_is_said_to_be_nonsense_and_where() {
        let sentence = Place::new().env("DIBS_URL", "team:1").sentence();
        assert_eq!(
            sentence,
            r#"DIBS_URL says "team:1", which is not an address: it should begin with http:// or unix:"#
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
        assert!(sentence.ends_with("worktree/dibs/token is empty"), "{sentence}");
        let sentence = Place::new().served().file("worktree/dibs/token/x", "").sentence();
        assert!(sentence.contains("worktree/dibs/token cannot be read"), "{sentence}");
        let sentence = Place::new().served().config("dibs.tokenFile", "/nowhere/token").sentence();
        assert!(sentence.contains("/nowhere/token is not there"), "{sentence}");
        let sentence = Place::new().served().env("DIBS_TOKEN", "secret secret").sentence();
        assert_eq!(sentence, "the token in DIBS_TOKEN does not hold a token");
    }

    #[test]
    fn the_session_is_the_tokens_or_the_environments() {
        // {"sub":"ana"}, unsigned: the server would refuse it, the client only reads the name.
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.x";
        let place = Place::new().served().env("DIBS_TOKEN", token).env("DIBS_SESSION", "bo");
        assert_eq!(place.discover().unwrap().session.as_deref(), Some("ana"), "the token cannot act for bo");
        let mut worker = Place::new().served().env("DIBS_TOKEN", "opaque").env("DIBS_SESSION", "bo");
        assert_eq!(worker.discover().unwrap().session.as_deref(), Some("bo"));
        worker.flags.session = Some("cy".to_owned());
        assert_eq!(worker.discover().unwrap().session.as_deref(), Some("cy"));
        assert_eq!(Place::new().served().discover().unwrap().session, None);
    }

    #[test]
    fn a_flag_counts_before_everything() {
        let mut place = Place::new().served().env("DIBS_URL", "http://env:2").env("DIBS_TOKEN", "env");
        let file = place.path().join("given");
        place = place.file("given", "given\n");
        place.flags = Flags { url: Some("http://flag:3".to_owned()), token_file: Some(file), ..Flags::default() };
        assert_eq!((place.endpoints(), place.token().as_deref()), (vec!["http://flag:3".to_owned()], Some("given")));
        assert_eq!(place.discover().unwrap().source, "--url");
        place.flags.token_file = Some("/nowhere/token".into());
        assert!(place.sentence().ends_with("/nowhere/token is not there, but --token-file names it"));
    }

    #[test]
    fn whoever_pushes_here_is_not_whoever_works_here() {
        let mut place = Place::new().served().file("worktree/dibs/token", "mine");
        place.door = Door::Receiving(Some("pushed".to_owned()));
        assert_eq!(place.token().as_deref(), Some("pushed"));
        place.door = Door::Receiving(None);
        assert_eq!(place.token().as_deref(), Some("reader"), "a stranger may look");
        assert_eq!(place.env("DIBS_TOKEN", "env").token().as_deref(), Some("env"));
    }

    #[test]
    fn a_token_file_may_lie_at_home_or_beside_the_repository() {
        let place = Place::new().served().file("home/t", "home").file("common/t", "common");
        let home = place.path().join("home").to_str().unwrap().to_owned();
        let place = place.env("HOME", &home).config("dibs.tokenFile", "~/t");
        assert_eq!(place.token().as_deref(), Some("home"));
        assert_eq!(place.config("dibs.tokenFile", "t").token().as_deref(), Some("common"));
    }

    #[test]
    fn the_local_server_says_how_it_calls_the_repository() {
        let record = r#"{"pid": 1, "url": "http://127.0.0.1:3427", "startedAt": "2026-01-01T00:00:00Z", "repo": "app", "secretFile": "/x/secret"}"#;
        let place = Place::new().file("common/dibs/server.json", record);
        let found = place.discover().unwrap();
        assert_eq!((found.repo.as_deref(), found.secret_file), (Some("app"), Some("/x/secret".into())));
        assert!(found.source.ends_with("common/dibs/server.json"));
        assert_eq!(place.discover().unwrap().repo.as_deref(), Some("app"));
        let place = place.config("dibs.repo", "config");
        assert_eq!(place.discover().unwrap().repo.as_deref(), Some("config"));
        let place = place.env("DIBS_REPO", "env").env("DIBS_URL", "http://team:1");
        let found = place.discover().unwrap();
        assert_eq!((found.repo.as_deref(), found.secret_file), (Some("env"), None));
    }
}
