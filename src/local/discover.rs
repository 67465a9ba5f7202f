//! Which server to ask, and as whom: from flags, the environment, git's configuration and files in the repository.
//!
//! [`server`](super::server) finds the address, [`identity`](super::identity) the token and the session. Every front end
//! calls [`discover`], so they all find the same.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::autostart::{Autostart, StartError};
use super::destination::Destination;
use super::environment::Environment;
use super::identity::{self, OwnToken, PersonTokens, Side, repair, token_problem};
use super::session_file::Handle;
use super::{nothing_held, server};
use crate::client::{Client, ClientError, Credential, Endpoint, Inbox, Limits, Origin, QuickCall, are_nodes};
use crate::git::{Repo, Settings};
use crate::text::shell;
use crate::text::terminal::clean;
use crate::wire::Code;

/// The longest reason of a server that is repeated, in characters.
const WHY_CHARS_MAX: usize = 300;

/// Where to look. Plain values, so that tests need no repository.
pub struct Lookup<'a> {
    pub flags: Flags,
    pub side: Side,
    pub environment: &'a Environment,
    pub settings: &'a Settings,
    /// What leads to the session of an agent, if its hook asks.
    pub handles: &'a [Handle],
    /// The worktree's git directory; none outside of a repository.
    pub git_dir: Option<&'a Path>,
    /// The git directory that all worktrees of the repository share.
    pub common_dir: Option<&'a Path>,
    /// Whether the repository's server is started if none runs.
    pub may_start: bool,
    /// Whether it only matters what is held: then no server is needed where the last one said that nothing is.
    pub is_check: bool,
}

impl<'a> Lookup<'a> {
    /// Looks in this repository, its settings and the environment, without flags.
    pub fn new(repo: Option<&'a Repo>, environment: &'a Environment, settings: &'a Settings) -> Lookup<'a> {
        Lookup {
            flags: Flags::default(),
            side: Side::Worktree,
            environment,
            settings,
            handles: &[],
            git_dir: repo.map(|repo| repo.git_dir.as_path()),
            common_dir: repo.map(|repo| repo.common_dir.as_path()),
            may_start: false,
            is_check: false,
        }
    }

    /// The value of an environment variable. An empty one counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.environment.text(name).filter(|text| !text.trim().is_empty())
    }

    /// The value of the setting `dibs.<name>`. An empty one counts as unset.
    pub(super) fn setting(&self, name: &str) -> Option<&'a str> {
        self.settings.get(name).filter(|text| !text.trim().is_empty())
    }
}

/// Command line flags. They take precedence over everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub url: Option<String>,
    pub token_file: Option<PathBuf>,
    /// The session to act for.
    pub session: Option<String>,
    /// The server's name for the repository.
    pub repo: Option<String>,
}

/// How to reach the server, and who is asking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerAccess {
    /// Addresses of one server, in the order to try them; at least one.
    pub endpoints: Vec<Endpoint>,
    /// The token to send; none if no token was found.
    pub credential: Option<Credential>,
    /// The session to act for; none for a person without one.
    pub session: Option<String>,
    /// The server's name for the repository, if one is configured.
    pub repo: Option<String>,
    /// What named the server (`--url`, `DIBS_URL`, a file …), for messages.
    pub source: String,
    /// The file with the server's secret, if the server is the local one.
    pub secret_file: Option<PathBuf>,
    /// Whether the server runs on this machine for this repository.
    pub is_local: bool,
    /// One line about a token that was found and cannot be used; the caller then counts as a person without a session.
    pub token_problem: Option<String>,
    /// Where such a person gets a token.
    pub person: PersonTokens,
    /// Which tokens the server may get.
    pub destination: Destination,
    /// A file with certificate authorities that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The longest time for a reply, if the server failed a moment ago.
    pub reply_limit: Option<Duration>,
    /// How to start the server if it does not answer.
    pub autostart: Option<Autostart>,
    /// The notices for the session that came with replies, until they are shown.
    pub inbox: Inbox,
}

impl ServerAccess {
    /// A client for this server, with the token that was found. It puts notices into the inbox.
    pub fn client(&self, limits: Limits) -> io::Result<Client> {
        Ok(self.client_as(self.credential.clone(), limits)?.with_inbox(self.inbox.clone()))
    }

    /// A quick call to the first address of this server, with the token that was found; none to a cluster, where another node
    /// may have to be asked.
    pub fn quick_call(&self) -> Option<QuickCall<'_>> {
        Some(QuickCall {
            endpoint: self.endpoints.first().filter(|_| !are_nodes(&self.endpoints))?,
            credential: self.credential.as_ref(),
            session: self.session.as_deref(),
            repo: self.repo.as_deref(),
            inbox: &self.inbox,
        })
    }

    /// A client for this server, with another token.
    pub fn client_as(&self, credential: Option<Credential>, limits: Limits) -> io::Result<Client> {
        let client = Client::new(self.endpoints.clone(), credential, limits)?;
        let starter = self.autostart.clone().map(Autostart::into_starter);
        Ok(client.for_repo(self.repo.clone()).trusting(self.ca_file.clone()).starting_with(starter))
    }

    /// The same server, which calls do not start. It may have been stopped on purpose.
    pub fn without_start(&self) -> ServerAccess {
        ServerAccess { autostart: None, ..self.clone() }
    }

    /// A token that can start sessions: the caller's, or that of a person in `dibs.tokenFile`, who may be bound to a session
    /// already.
    pub fn starter(&self) -> Option<Credential> {
        let can_start = |one: &Credential| one.is_admin || (one.is_worker && one.session.is_none());
        let own = self.credential.clone().filter(can_start);
        own.or_else(|| self.person.read().0.filter(can_start))
    }

    /// Whether the caller has what it takes to start a session.
    pub fn can_start_session(&self) -> bool {
        self.starter().is_some() || super::session::secret(self).is_ok()
    }

    /// A token that belongs to no session, with which a person can look.
    pub fn reader(&self) -> Option<Credential> {
        self.person.without_session(None)
    }

    /// A sentence about a token file of the user that other users can read too.
    pub fn token_warning(&self) -> Option<String> {
        let credential = self.credential.as_ref()?;
        let (Origin::Flag(path) | Origin::TokenFile(path)) = &credential.from else { return None };
        let mode = credential.open_mode?;
        Some(format!(
            "other users can read the token in {} (mode {mode:04o}); run: chmod 600 {}",
            path.display(),
            shell::word(&path.to_string_lossy()).unwrap_or_default()
        ))
    }

    /// If the server refused the caller's token, the caller becomes a person without a session. Returns whether there is
    /// another token to repeat the call with.
    pub fn reject_token(&mut self, error: &ClientError) -> bool {
        let is_rejected = matches!(error.code(), Some(Code::Unauthenticated | Code::Forbidden | Code::SessionEnded));
        let Some(rejected) = self.credential.as_ref().filter(|_| is_rejected) else { return false };
        if self.token_problem.is_some() || matches!(rejected.from, Origin::LocalServer(_)) {
            return false;
        }
        let why = format!("is not accepted ({})", clean(error.to_string().trim_end_matches('.'), WHY_CHARS_MAX));
        self.token_problem = Some(token_problem(&rejected.from, &why));
        self.session = None;
        self.credential = self.person.without_session(Some(&rejected.from));
        self.credential.is_some()
    }

    /// The session to act for, or a sentence that says how to get one.
    pub fn require_session(&self) -> Result<&str, String> {
        if let Some(session) = &self.session {
            return Ok(session);
        }
        if let Some(problem) = &self.token_problem {
            return Err(format!("this command needs a session, but {problem}"));
        }
        Err(match &self.credential {
            Some(credential) if !credential.is_readable => {
                let (from, repair) = (&credential.from, repair(&credential.from));
                format!("this command needs a session, and the token in {from} is not valid; to repair this: {repair}")
            }
            None | Some(Credential { from: Origin::LocalServer(_), .. }) => {
                "this command needs a session, and there is none here; start one with: git dibs session start, \
                 or run a command in a new session with: git dibs run -- COMMAND"
                    .to_owned()
            }
            Some(credential) => format!(
                "the token in {} does not belong to a session; name the session with --session ID or DIBS_SESSION, \
                 or start one with: git dibs session start",
                credential.from
            ),
        })
    }
}

/// Why no server, or no usable token, was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    #[error(
        "no server is configured here; start one with: git dibs serve --background, or name one in DIBS_URL or git config \
         dibs.url"
    )]
    NoServer,
    /// No server runs for the repository, and none could be started.
    #[error(
        "no server runs here, and none was started: {0}. To start one: git dibs serve --background; to use another: \
         DIBS_URL or git config dibs.url"
    )]
    NotStarted(String),
    /// No server runs for the repository, and the last one said that nothing is held. Only a check gets this.
    #[error("no server runs here, and nothing is held")]
    NothingHeld,
    /// There is no repository that could name a server.
    #[error("{0}")]
    NoRepository(String),
    #[error("{from} is {text:?}, which is not an address: {why}")]
    BadAddress { from: &'static str, text: String, why: &'static str },
    /// The file that a local server wrote cannot be used.
    #[error("{} {why}; start the server again to write a new one: git dibs stop && git dibs serve --background", path.display())]
    BadRecord { path: PathBuf, why: String },
    #[error("the token in {from} {why}")]
    BadToken { from: Origin, why: String },
}

/// Finds the server, the token and the session.
pub fn discover(lookup: &Lookup<'_>) -> Result<ServerAccess, DiscoverError> {
    let own = identity::own_token(lookup)?;
    let autostart = Autostart::of(lookup);
    let server = match server::find(lookup, &own) {
        Err(DiscoverError::NoServer) if lookup.is_check && lookup.common_dir.is_some_and(nothing_held::is_told) => {
            return Err(DiscoverError::NothingHeld);
        }
        Err(error @ (DiscoverError::NoServer | DiscoverError::BadRecord { .. })) => {
            match autostart.as_ref().map(Autostart::start) {
                None | Some(Err(StartError::Off)) => return Err(error),
                Some(Err(StartError::Because(why))) => return Err(DiscoverError::NotStarted(why)),
                Some(Ok(())) => server::find(lookup, &own)?,
            }
        }
        found => found?,
    };
    let flag = lookup.flags.repo.clone();
    let repo = flag.or_else(|| lookup.variable("DIBS_REPO")).or_else(|| lookup.setting("repo").map(str::to_owned));
    let destination = server.destination().for_repo(repo.clone());
    let person = PersonTokens::of(lookup, server.is_local, destination.clone());
    let (credential, session, token_problem) = match own {
        OwnToken::Found { credential, .. } if let Some(why) = destination.refusal(&credential) => {
            (person.without_session(None), lookup.flags.session.clone(), Some(why))
        }
        OwnToken::Found { credential, .. } => {
            let session = identity::session(lookup, Some(&credential));
            (Some(credential), session, None)
        }
        OwnToken::Absent => {
            let (credential, problem) = person.read();
            let session = identity::session(lookup, credential.as_ref());
            (credential, session, problem)
        }
        OwnToken::Declined => (person.without_session(None), lookup.flags.session.clone(), None),
        OwnToken::Unusable { from, why } => {
            (person.without_session(None), lookup.flags.session.clone(), Some(token_problem(&from, &why)))
        }
    };
    Ok(ServerAccess {
        endpoints: server.endpoints,
        credential,
        session,
        repo: repo.or(server.repo),
        source: server.source,
        secret_file: server.secret_file,
        is_local: server.is_local,
        token_problem,
        person,
        destination,
        ca_file: identity::ca_file(lookup),
        reply_limit: None,
        autostart: autostart.filter(|_| server.may_start),
        inbox: Inbox::default(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    use super::*;
    use crate::git::SetBy;

    /// A token with these claims. The server would refuse it; the client only reads what it says.
    fn unsigned(claims: serde_json::Value) -> String {
        encode(&Header::default(), &claims, &EncodingKey::from_secret(b"x")).unwrap()
    }

    /// A repository without git: a worktree's directory, the common one, variables and settings.
    struct Place {
        dir: tempfile::TempDir,
        variables: Vec<(&'static str, String)>,
        settings: Vec<(&'static str, String)>,
        /// Settings outside of the repository.
        user_settings: Vec<(&'static str, String)>,
        flags: Flags,
        side: Side,
        is_check: bool,
    }

    impl Place {
        fn new() -> Place {
            Place {
                dir: tempfile::tempdir().unwrap(),
                variables: Vec::new(),
                settings: Vec::new(),
                user_settings: Vec::new(),
                flags: Flags::default(),
                side: Side::default(),
                is_check: false,
            }
        }

        fn env(mut self, name: &'static str, value: &str) -> Place {
            self.variables.push((name, value.to_owned()));
            self
        }

        fn setting(mut self, name: &'static str, value: &str) -> Place {
            self.settings.push((name, value.to_owned()));
            self
        }

        fn user_setting(mut self, name: &'static str, value: &str) -> Place {
            self.user_settings.push((name, value.to_owned()));
            self
        }

        fn file(self, name: &str, text: &str) -> Place {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
            self
        }

        /// The session file that a handle leads to.
        fn session_file(self, handle: &str, text: &str) -> Place {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, handle.as_bytes());
            let name: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!("common/dibs/runs/{name}");
            let place = self.file(&name, text);
            std::fs::set_permissions(place.path().join(name), PermissionsExt::from_mode(0o600)).unwrap();
            place
        }

        /// A local server with a socket and a port.
        fn served(self) -> Place {
            let record = r#"{"pid": 1, "socket": "/run/x.sock", "url": "http://127.0.0.1:3427", "startedAt": "2026-01-01T00:00:00.000Z", "x": 1}"#;
            self.file("common/dibs/server.json", record).file("common/dibs/read-token", "reader\n")
        }

        fn path(&self) -> &Path {
            self.dir.path()
        }

        fn discover(&self) -> Result<ServerAccess, DiscoverError> {
            let mut settings = Settings::default();
            self.user_settings.iter().for_each(|(name, value)| settings.add(name, value.clone(), SetBy::User));
            self.settings.iter().for_each(|(name, value)| settings.add(name, value.clone(), SetBy::Repository));
            discover(&Lookup {
                flags: self.flags.clone(),
                side: self.side.clone(),
                environment: &Environment::from_pairs(
                    self.variables.iter().map(|(name, value)| (*name, value.as_str())),
                ),
                settings: &settings,
                handles: &[],
                git_dir: Some(&self.path().join("worktree")),
                common_dir: Some(&self.path().join("common")),
                may_start: false,
                is_check: self.is_check,
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

    // {"sub":"ana"}, {"scope":"worker"} and {"scope":"read"}, unsigned: the server would refuse them, the client only reads
    // what they say.
    const ANA: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.x";
    const WORKER: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzY29wZSI6IndvcmtlciJ9.x";
    const READER: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzY29wZSI6InJlYWQifQ.x";

    const BOTH: [&str; 2] = ["unix:/run/x.sock", "http://127.0.0.1:3427"];

    #[test]
    fn a_variable_names_the_server_before_a_setting_before_a_record() {
        assert_eq!(Place::new().served().endpoints(), BOTH);
        let configured = Place::new().served().setting("url", "http://team:1");
        assert_eq!(configured.endpoints(), ["http://team:1"]);
        assert_eq!(configured.env("DIBS_URL", "http://env:2").endpoints(), ["http://env:2"]);
        assert_eq!(Place::new().served().env("DIBS_URL", "").endpoints(), BOTH, "empty counts as unset");
    }

    #[test]
    fn a_check_needs_no_server_where_the_last_one_said_that_nothing_is_held() {
        let mut place = Place::new().file("common/dibs/nothing-held", "");
        assert_eq!(place.discover(), Err(DiscoverError::NoServer));
        place.is_check = true;
        assert_eq!(place.discover(), Err(DiscoverError::NothingHeld));
        let named = place.env("DIBS_URL", "http://team:1");
        assert_eq!(named.endpoints(), ["http://team:1"], "another server may hold something");
        let mut started = Place::new().file("common/dibs/nothing-held", "").served();
        started.is_check = true;
        assert_eq!(started.endpoints(), BOTH, "a server that has started since is asked");
    }

    #[test]
    fn the_local_server_named_by_url_is_still_reached_by_socket() {
        assert_eq!(Place::new().served().env("DIBS_URL", "http://127.0.0.1:3427/").endpoints(), BOTH);
    }

    /// After a restart on another port, the token went to the server that had the old port by then.
    #[test]
    fn a_token_of_the_local_server_does_not_go_to_the_port_that_it_had_before() {
        let record = json!({"pid": 1, "socket": "/run/x.sock", "url": "http://127.0.0.1:3427", "id": "a1",
            "startedAt": "2026-01-01T00:00:00Z"});
        let place = || Place::new().file("common/dibs/server.json", &record.to_string());
        let token = |id: &str| unsigned(json!({"sub": "ana", "srv": id}));
        let former = place().env("DIBS_TOKEN", &token("a1")).env("DIBS_URL", "http://127.0.0.1:3428");
        assert_eq!(former.endpoints(), BOTH);
        // A token of another server, and an address elsewhere, are what the user says.
        let other = place().env("DIBS_TOKEN", &token("b2")).env("DIBS_URL", "http://127.0.0.1:3428");
        assert_eq!(other.endpoints(), ["http://127.0.0.1:3428"]);
        let elsewhere = place().env("DIBS_TOKEN", &token("a1")).env("DIBS_URL", "http://team:1");
        assert_eq!(elsewhere.endpoints(), ["http://team:1"]);
    }

    #[test]
    fn a_token_is_not_sent_to_an_address_that_only_the_repository_names() {
        let evil = "http://evil.example:1";
        let home = tempfile::tempdir().unwrap();
        let mine = home.path().join("mine");
        std::fs::write(&mine, "mine").unwrap();
        let mine = mine.to_str().unwrap();
        let record = json!({"pid": 1, "url": evil, "startedAt": "2026-01-01T00:00:00Z"}).to_string();
        let mut by_flag = Place::new().setting("url", evil);
        by_flag.flags.token_file = Some(mine.into());
        let cases = [
            Place::new().setting("url", evil).env("DIBS_TOKEN", ANA),
            Place::new().file("common/dibs/server.json", &record).env("DIBS_TOKEN", ANA),
            Place::new().setting("url", evil).setting("tokenFile", mine),
            Place::new().setting("url", evil).user_setting("tokenFile", mine),
            Place::new().user_setting("url", "http://team:1").setting("url", evil).env("DIBS_TOKEN", ANA),
            by_flag,
        ];
        for (n, place) in cases.iter().enumerate() {
            let found = place.discover().unwrap();
            assert_eq!((found.credential, found.session), (None, None), "{n}");
            let problem = found.token_problem.unwrap();
            let end = "because only this repository's own settings name that address; if you trust that server: \
                       export DIBS_URL=http://evil.example:1";
            assert!(problem.ends_with(end), "{problem}");
        }
    }

    #[test]
    fn a_token_is_sent_where_the_user_says() {
        let team = "http://team:1";
        let hostile = || Place::new().setting("tokenFile", "/nowhere").env("DIBS_TOKEN", ANA);
        let mut by_flag = hostile();
        by_flag.flags.url = Some(team.to_owned());
        let cases = [
            by_flag,
            hostile().env("DIBS_URL", team),
            hostile().user_setting("url", team),
            // The repository may repeat what the user says, and the user may say several.
            hostile().user_setting("url", team).setting("url", "http://TEAM:1/"),
            hostile().user_setting("url", team).user_setting("url", "http://other").setting("url", team),
        ];
        for (n, place) in cases.iter().enumerate() {
            assert_eq!((place.token().as_deref(), place.endpoints()), (Some(ANA), vec![team.to_owned()]), "{n}");
            assert!(place.discover().unwrap().endpoints.iter().all(|endpoint| !endpoint.own_server_only), "{n}");
        }
    }

    #[test]
    fn a_token_that_names_its_server_goes_there() {
        let token = unsigned(json!({"sub": "ana", "url": "https://team.example"}));
        let place = Place::new().env("DIBS_TOKEN", &token);
        assert_eq!(place.endpoints(), ["https://team.example:443"]);
        assert_eq!(place.discover().unwrap().source, "the token in DIBS_TOKEN");
        let place = place.setting("url", "https://team.example:443/");
        assert_eq!(place.token().as_deref(), Some(&*token));
        // Not to another server that only the repository names: neither this token nor, for lack of a server, its address.
        let place = place.setting("url", "https://evil.example");
        let both = ["https://team.example:443", "https://evil.example:443"].map(str::to_owned);
        assert_eq!((place.token(), place.endpoints()), (None, both.to_vec()));
        // A repository adds no node to the cluster that the user named.
        let nodes = Place::new().user_setting("url", "https://a.example,https://b.example").env("DIBS_TOKEN", ANA);
        let nodes = nodes.setting("url", "https://b.example,https://evil.example");
        assert_eq!(
            (nodes.token().as_deref(), nodes.endpoints()),
            (Some(ANA), vec!["https://b.example:443".to_owned()])
        );
        let bound = Place::new().setting("url", "https://evil.example,https://team.example");
        assert_eq!(bound.file("worktree/dibs/token", &token).token(), None);
        let bound = Place::new().setting("url", "https://evil.example").file("worktree/dibs/token", &token);
        let found = bound.discover().unwrap();
        assert_eq!(found.credential, None);
        let problem = found.token_problem.unwrap();
        assert!(problem.contains("is for the server https://team.example:443 and is not sent to"), "{problem}");
        assert!(problem.ends_with("to repair this: git dibs session start"), "{problem}");
        // The worktree's token goes where the repository says if it names no other server.
        let bound = Place::new().setting("url", "https://team.example").file("worktree/dibs/token", ANA);
        assert_eq!(bound.token().as_deref(), Some(ANA));
    }

    #[test]
    fn a_token_of_another_local_server_is_not_sent() {
        let record = |port: u16, id: &str| json!({"pid": 1, "url": format!("http://127.0.0.1:{port}"), "startedAt": "2026-01-01T00:00:00Z", "id": id});
        let token = unsigned(json!({"sub": "ana", "srv": "a1"}));
        let at = |port, id| Place::new().file("common/dibs/server.json", &record(port, id).to_string());
        for port in [3427, 40_000] {
            let found = at(port, "a1").env("DIBS_TOKEN", &token).discover().unwrap();
            assert_eq!(found.credential.unwrap().token(), token, "the server may listen on another port");
            assert!(found.endpoints.iter().all(|endpoint| endpoint.own_server_only));
        }
        for place in [at(3427, "b2").env("DIBS_TOKEN", &token), at(3427, "b2").file("worktree/dibs/token", &token)] {
            let found = place.discover().unwrap();
            assert_eq!(found.credential, None);
            let problem = found.token_problem.unwrap();
            assert!(
                problem.contains("is for another server and is not sent to this repository's, http://127"),
                "{problem}"
            );
        }
        // A server or a token of an earlier version has no id.
        assert_eq!(Place::new().served().env("DIBS_TOKEN", &token).token().as_deref(), Some(&*token));
        assert_eq!(at(3427, "b2").env("DIBS_TOKEN", ANA).token().as_deref(), Some(ANA));
    }

    #[test]
    fn a_socket_in_a_record_gets_a_token_only_from_its_own_user() {
        // The user names the port that a record also names; the socket beside it is still only the record's.
        let place = Place::new().served().env("DIBS_URL", "http://127.0.0.1:3427").env("DIBS_TOKEN", ANA);
        let bound: Vec<bool> = place.discover().unwrap().endpoints.iter().map(|one| one.own_server_only).collect();
        assert_eq!(bound, [true, false]);
    }

    #[test]
    fn without_a_server_the_sentence_says_what_to_do() {
        let error = Place::new().discover().unwrap_err();
        assert_eq!(error, DiscoverError::NoServer);
        assert!(error.to_string().contains("git dibs serve"));
        let nowhere = r#"{"pid": 1, "socket": null, "url": null, "startedAt": "2026-01-01T00:00:00Z"}"#;
        let place = Place::new().file("common/dibs/server.json", nowhere);
        assert_eq!(place.discover().unwrap_err(), DiscoverError::NoServer);
        let (environment, settings) = (Environment::default(), Settings::default());
        let outside = Lookup::new(None, &environment, &settings);
        assert_eq!(discover(&outside).unwrap_err(), DiscoverError::NoServer);
    }

    #[test]
    fn a_bad_address_or_record_is_named_in_the_error() {
        let sentence = Place::new().env("DIBS_URL", "team:1").sentence();
        let expected =
            r#"DIBS_URL is "team:1", which is not an address: it should begin with http://, https:// or unix:"#;
        assert_eq!(sentence, expected);
        assert!(Place::new().setting("url", "ftp://x").sentence().starts_with("git config dibs.url is"));
        for record in ["", "{}", "[]", "{\"pid\":\"x\"}", "<html>"] {
            let sentence = Place::new().file("common/dibs/server.json", record).sentence();
            assert!(sentence.contains("server.json is not a server's record"), "{sentence}");
        }
    }

    #[test]
    fn a_variable_gives_the_token_before_the_worktree_before_a_setting() {
        let person = Place::new().served();
        assert_eq!(person.token().as_deref(), Some("reader"));
        assert!(matches!(person.discover().unwrap().credential.unwrap().from, Origin::LocalServer(_)));
        let file = person.path().join("mine").to_str().unwrap().to_owned();
        let person = person.file("mine", "mine").setting("tokenFile", &file);
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
    fn an_unusable_token_counts_as_none_and_is_reported() {
        let problem = |place: Place| {
            let found = place.discover().unwrap();
            assert_eq!((found.session, found.credential.unwrap().token()), (None, "reader"));
            found.token_problem.unwrap()
        };
        let empty = problem(Place::new().served().file("worktree/dibs/token", "\n"));
        let end = "worktree/dibs/token is empty and counts as none; to repair this: git dibs session start";
        assert!(empty.ends_with(end), "{empty}");
        let open = Place::new().served().file("worktree/dibs/token", ANA);
        std::fs::set_permissions(open.path().join("worktree/dibs/token"), PermissionsExt::from_mode(0o640)).unwrap();
        let open = problem(open);
        assert!(open.contains("is in a file that other users can read (mode 0640) and counts as none"), "{open}");
        let unreadable = problem(Place::new().served().file("worktree/dibs/token/x", ""));
        assert!(unreadable.contains("worktree/dibs/token cannot be read"), "{unreadable}");
        let missing = problem(Place::new().served().setting("tokenFile", "/nowhere/token"));
        assert!(missing.contains("/nowhere/token does not exist, but git config dibs.tokenFile"), "{missing}");
        let garbled = problem(Place::new().served().env("DIBS_TOKEN", "secret secret"));
        assert!(
            garbled.starts_with("the token in DIBS_TOKEN has a character that a token cannot have and"),
            "{garbled}"
        );
        let place = Place::new().served().session_file("handle", r#"{"token": ""}"#).env("DIBS_RUN", "handle");
        assert!(problem(place).starts_with("the token in the session file of DIBS_RUN is empty and"));
        let place = Place::new().served().session_file("handle", "<html>").env("DIBS_RUN", "handle");
        assert!(problem(place).contains("is in a file that is not a session file"));
    }

    #[test]
    fn an_empty_variable_means_no_session() {
        let place = Place::new().served().file("worktree/dibs/token", ANA).env("DIBS_TOKEN", " ");
        let found = place.discover().unwrap();
        assert_eq!((found.session, found.token_problem), (None, None));
        assert_eq!(found.credential.unwrap().token(), "reader");
        // A configured token that belongs to a session is only used if there is no other, and not for its session.
        let place = Place::new().served().file("common/t", ANA).setting("tokenFile", "t").env("DIBS_TOKEN", "");
        assert_eq!(place.token().as_deref(), Some("reader"));
        let found = place.env("DIBS_URL", "http://team:1").discover().unwrap();
        assert_eq!((found.session, found.credential.unwrap().token()), (None, ANA));
    }

    #[test]
    fn a_handle_leads_to_the_session_file_before_the_worktrees_session() {
        let bound = Place::new().served().file("worktree/dibs/token", "worktree");
        let run = bound.session_file("handle", r#"{"token": "run", "url": "http://team:1"}"#).env("DIBS_RUN", "handle");
        assert_eq!((run.token().as_deref(), run.endpoints()), (Some("run"), vec!["http://team:1".to_owned()]));
        assert_eq!(run.env("DIBS_TOKEN", "env").token().as_deref(), Some("env"));
        for (agent, variable) in [
            ("claude", "CLAUDE_CODE_SESSION_ID"),
            ("codex", "CODEX_SESSION_ID"),
            ("copilot", "COPILOT_AGENT_SESSION_ID"),
            ("qwen", "QWEN_CODE_SESSION_ID"),
        ] {
            let bound = Place::new().served().file("worktree/dibs/token", "worktree");
            let place = bound.session_file(&format!("{agent}:7"), r#"{"token": "agent"}"#);
            assert_eq!(place.token().as_deref(), Some("worktree"));
            let place = place.env(variable, "7").env("DIBS_RUN", "of another repository");
            assert_eq!(place.token().as_deref(), Some("agent"), "{variable}");
            let origin = place.discover().unwrap().credential.unwrap().from.to_string();
            assert_eq!(origin, format!("the session file of {variable}"));
        }
        let open = Place::new().served().session_file("handle", r#"{"token": "run"}"#).env("DIBS_RUN", "handle");
        let file = std::fs::read_dir(open.path().join("common/dibs/runs")).unwrap().next().unwrap().unwrap().path();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o644)).unwrap();
        let problem = open.discover().unwrap().token_problem.unwrap();
        assert!(problem.contains("is in a file that is not private to you"), "{problem}");
    }

    #[test]
    fn a_named_server_is_found_whatever_the_record_says() {
        for record in ["", "<html>", "{}"] {
            let place = Place::new().file("common/dibs/server.json", record);
            let place = place.env("DIBS_URL", "http://env:2").env("DIBS_TOKEN", "env");
            assert_eq!((place.endpoints(), place.token().as_deref()), (vec!["http://env:2".to_owned()], Some("env")));
        }
        let unreadable = Place::new().file("common/dibs/server.json/x", "").env("DIBS_URL", "http://env:2");
        assert_eq!(unreadable.endpoints(), ["http://env:2"]);
    }

    #[test]
    fn the_session_comes_from_the_token_and_never_from_the_variable_alone() {
        let place = Place::new().served().env("DIBS_TOKEN", ANA).env("DIBS_SESSION", "bo");
        assert_eq!(place.discover().unwrap().session.as_deref(), Some("ana"), "the token cannot act for bo");
        for token in [None, Some("opaque"), Some(READER)] {
            let mut place = Place::new().served().env("DIBS_SESSION", "bo");
            if let Some(token) = token {
                place = place.env("DIBS_TOKEN", token);
            }
            assert_eq!(place.discover().unwrap().session, None, "{token:?}");
        }
        let mut worker = Place::new().served().env("DIBS_TOKEN", WORKER).env("DIBS_SESSION", "bo");
        assert_eq!(worker.discover().unwrap().session.as_deref(), Some("bo"));
        worker.flags.session = Some("cy".to_owned());
        assert_eq!(worker.discover().unwrap().session.as_deref(), Some("cy"));
        assert_eq!(Place::new().served().discover().unwrap().session, None);
    }

    #[test]
    fn a_flag_takes_precedence_over_everything() {
        let mut place = Place::new().served().env("DIBS_URL", "http://env:2").env("DIBS_TOKEN", "env");
        let file = place.path().join("given");
        place = place.file("given", "given\n");
        place.flags = Flags { url: Some("http://flag:3".to_owned()), token_file: Some(file), ..Flags::default() };
        assert_eq!((place.endpoints(), place.token().as_deref()), (vec!["http://flag:3".to_owned()], Some("given")));
        assert_eq!(place.discover().unwrap().source, "--url");
        place.flags.token_file = Some("/nowhere/token".into());
        assert!(place.sentence().ends_with("/nowhere/token does not exist, but --token-file names it"));
    }

    #[test]
    fn a_push_does_not_use_the_token_of_the_worktree_that_receives_it() {
        let mut place = Place::new().served().file("worktree/dibs/token", "mine");
        place.side = Side::Receiver { pushed_token: Some("pushed".to_owned()) };
        assert_eq!(place.token().as_deref(), Some("pushed"));
        place.side = Side::Receiver { pushed_token: None };
        assert_eq!(place.token().as_deref(), Some("reader"), "a pusher without a token may look");
        assert_eq!(place.env("DIBS_TOKEN", "env").token().as_deref(), Some("env"));
    }

    #[test]
    fn a_token_file_may_be_in_the_home_directory_or_in_the_git_directory() {
        let place = Place::new().served().file("home/t", "home").file("common/t", "common");
        let home = place.path().join("home").to_str().unwrap().to_owned();
        let place = place.env("HOME", &home).setting("tokenFile", "~/t");
        assert_eq!(place.token().as_deref(), Some("home"));
        assert_eq!(place.setting("tokenFile", "t").token().as_deref(), Some("common"));
    }

    #[test]
    fn a_token_for_another_repository_than_the_configured_one_counts_as_none() {
        let token = unsigned(json!({ "sub": "bo", "scope": "read", "repo": "app" }));
        let place =
            Place::new().user_setting("url", "http://team:1").file("common/t", &token).setting("tokenFile", "t");
        assert!(place.discover().unwrap().credential.is_some(), "no repository is named here");
        let place = place.setting("repo", "web");
        let found = place.discover().unwrap();
        assert_eq!((found.credential, found.session), (None, None));
        let problem = found.token_problem.unwrap();
        assert!(problem.contains("is for the repository app, but this one is web"), "{problem}");
        let session = place.env("DIBS_TOKEN", &unsigned(json!({ "sub": "ana", "repo": "app" })));
        assert_eq!(session.discover().unwrap().session, None);
        let own = session.env("DIBS_REPO", "app").discover().unwrap();
        assert_eq!((own.session.as_deref(), own.token_problem), (Some("ana"), None));
    }

    #[test]
    fn a_worker_bound_to_a_session_can_start_another_with_its_token_file() {
        let worker = unsigned(json!({ "sub": "w", "scope": "worker" }));
        let bound = unsigned(json!({ "sub": "w", "scope": "worker", "sid": "bo-1" }));
        let place =
            Place::new().user_setting("url", "http://team:1").file("common/t", &worker).setting("tokenFile", "t");
        let place = place.file("worktree/dibs/token", &bound);
        let found = place.discover().unwrap();
        assert_ne!(found.credential.clone().unwrap().token(), worker);
        assert_eq!(found.starter().unwrap().token(), worker);
    }

    #[test]
    fn the_local_servers_record_names_the_repository() {
        let record = r#"{"pid": 1, "url": "http://127.0.0.1:3427", "startedAt": "2026-01-01T00:00:00Z", "repo": "app", "secretFile": "/x/secret"}"#;
        let place = Place::new().file("common/dibs/server.json", record);
        let found = place.discover().unwrap();
        assert_eq!((found.repo.as_deref(), found.secret_file), (Some("app"), Some("/x/secret".into())));
        assert!(found.source.ends_with("common/dibs/server.json"));
        assert_eq!(place.discover().unwrap().repo.as_deref(), Some("app"));
        let place = place.setting("repo", "config");
        assert_eq!(place.discover().unwrap().repo.as_deref(), Some("config"));
        let place = place.env("DIBS_REPO", "env").env("DIBS_URL", "http://team:1");
        let found = place.discover().unwrap();
        assert_eq!((found.repo.as_deref(), found.secret_file), (Some("env"), None));
    }
}
