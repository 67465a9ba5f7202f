//! What every command that asks a server begins with: who is asking, where, and how the answer leaves.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::failure::{Failure, exit_of, sentence_of};
use super::{Exit, notices, talk};
use crate::client::{Client, ClientError, Credential, Limits, Origin};
use crate::git::{GitError, Repo, Settings};
use crate::local::{Cwd, Door, Flags, Found, Names, Surroundings, discover};
use crate::wire::{Code, Time};

/// A person or an agent waits for the answer, not a commit, so a slow network is no failure yet.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(2), total: Duration::from_secs(30), answer_bytes: 256 << 20 };

/// Where the server is and who is asking, on the command line.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// The server to ask [default: DIBS_URL, git config dibs.url, the one serving this repository]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A file with the token to show [default: DIBS_TOKEN, this worktree's session, git config dibs.tokenFile]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The repository, where the server has several [default: DIBS_REPO, git config dibs.repo]
    #[arg(long, value_name = "NAME")]
    pub repo: Option<String>,
}

/// The same, with the session to act for and the form of the answer.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct Common {
    /// Print the server's answer as it came, as one JSON document
    #[arg(long, help_heading = None)]
    pub json: bool,
    /// The session to act for, with a token that is no session's own [default: DIBS_SESSION]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A command with everything it needs to ask.
pub struct Here {
    /// The repository we are in, if we are in one.
    pub repo: Option<Repo>,
    /// Its `dibs.*` settings.
    pub settings: Settings,
    /// What typed names are relative to.
    pub cwd: Cwd,
    /// Where the server is, and who is asking.
    pub found: Found,
    /// Asks.
    pub client: Client,
    /// Whether the answer is for a program.
    pub json: bool,
}

impl Here {
    /// Looks around; nothing is asked yet.
    pub fn open(common: &Common) -> Result<Here, Failure> {
        let found = Here::look(&common.server, common.session.clone());
        let (repo, settings, found) = found.map_err(|failure| failure.for_program(common.json))?;
        let client = client(&found, found.credential.clone(), LIMITS)?;
        Ok(Here { cwd: Cwd::of(repo.as_ref()), repo, settings, found, client, json: common.json })
    }

    /// Finds the repository, its settings, the server and the caller.
    fn look(args: &ServerArgs, session: Option<String>) -> Result<(Option<Repo>, Settings, Found), Failure> {
        let repo = Repo::from_environment();
        let settings = match &repo {
            Ok(repo) => Settings::of(repo).map_err(|error| Failure::new(Exit::Error, error.to_string()))?,
            Err(_) => Settings::default(),
        };
        let flags =
            Flags { url: args.url.clone(), token_file: args.token_file.clone(), session, repo: args.repo.clone() };
        let found = discover(&Surroundings {
            flags,
            door: Door::Worktree,
            env: &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
            config: &|name| settings.get(name.strip_prefix("dibs.").unwrap_or(name)).map(str::to_owned),
            git_dir: repo.as_ref().ok().map(|repo| repo.git_dir.clone()),
            common_dir: repo.as_ref().ok().map(|repo| repo.common_dir.clone()),
        });
        match (found, repo) {
            (Ok(found), repo) => Ok((repo.ok(), settings, found)),
            (Err(_), Err(error)) if args.url.is_none() => Err(no_repository(&error)),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// What was typed, as keys.
    pub fn names(&self, args: &[OsString]) -> Result<Names, Failure> {
        Names::typed(&self.cwd, args).map_err(|error| Failure::from(error).for_program(self.json))
    }

    /// The session to act for.
    pub fn session(&self) -> Result<String, Failure> {
        if let Some(session) = &self.found.session {
            return Ok(session.clone());
        }
        let sentence = match &self.found.credential {
            None | Some(Credential { from: Origin::LocalServer(_), .. }) => {
                "this needs a session, and there is none here; start one with: git dibs session start, \
                 or start your command in one with: git dibs run -- COMMAND"
                    .to_owned()
            }
            Some(credential) => format!(
                "the token in {} is no session's own; say which session is meant with --session ID or DIBS_SESSION, \
                 or start one with: git dibs session start",
                credential.from
            ),
        };
        Err(Failure::new(Exit::Auth, sentence).for_program(self.json))
    }

    /// Another way of asking the same server, as somebody else.
    pub fn client_as(&self, credential: Option<Credential>, limits: Limits) -> Result<Client, Failure> {
        client(&self.found, credential, limits)
    }

    /// The answer, or why there is none in words for whoever reads them.
    pub fn heard<T>(&self, answer: Result<T, ClientError>) -> Result<T, Failure> {
        answer.map_err(|error| self.failure(&error))
    }

    /// Why there is no answer.
    pub fn failure(&self, error: &ClientError) -> Failure {
        self.failure_saying(error, sentence_of(error))
    }

    /// Why there is no answer, in words of the command's own; a program still gets the server's.
    pub fn failure_saying(&self, error: &ClientError, mut sentence: String) -> Failure {
        match (error.code(), &self.found.credential) {
            (Some(Code::SessionEnded), _) => sentence.push_str("\nStart a new one with: git dibs session start"),
            (Some(Code::Unauthenticated), Some(credential)) => {
                sentence.push_str(&format!(
                    "\nThe token came from {}; get a new one with: git dibs session start",
                    credential.from
                ));
            }
            (Some(Code::Unauthenticated), None) => {
                sentence.push_str("\nStart a session with: git dibs session start");
            }
            (Some(Code::Forbidden), Some(credential)) => {
                sentence.push_str(&format!("\nThe token came from {}", credential.from));
            }
            _ => {}
        }
        let document = match error {
            ClientError::Refused { .. } if self.json => Some(self.client.answer().to_vec()),
            _ => None,
        };
        Failure { document, ..Failure::new(exit_of(error), sentence) }.for_program(self.json)
    }

    /// Prints the latest answer, as it came for a program and as `text` for a person, and then the session's news.
    pub fn tell(&self, text: &str) -> std::io::Result<()> {
        if self.json {
            talk::document(self.client.answer())?;
        } else {
            talk::data(text)?;
        }
        self.tell_notices();
        Ok(())
    }

    /// What the session should know besides, on stderr. A program finds it in the answer.
    pub fn tell_notices(&self) {
        if !self.json {
            notices::say(&notices::of_answer(self.client.answer()), &self.cwd);
        }
        if let (Some(repo), Some(session)) = (&self.repo, &self.found.session) {
            notices::say(&notices::collect(repo, session), &self.cwd);
        }
    }

    /// How far away a moment is by the server's clock.
    pub fn left(&self, until: Time) -> Duration {
        let now = self.client.server_time().unwrap_or_else(wall_clock);
        Duration::from_millis(u64::try_from(until.0 - now.0).unwrap_or(0))
    }
}

/// This machine's clock.
pub fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn client(found: &Found, credential: Option<Credential>, limits: Limits) -> Result<Client, Failure> {
    match Client::new(found.endpoints.clone(), credential, limits) {
        Ok(client) => Ok(client.for_repo(found.repo.clone())),
        Err(error) => Err(Failure::new(Exit::Error, format!("cannot ask anybody anything: {error}"))),
    }
}

fn no_repository(error: &GitError) -> Failure {
    let sentence = match error {
        GitError::Failed { said, .. } if !said.contains("not a git repository") => {
            format!("git does not open the repository here: {said}; repair that, or name a server in DIBS_URL")
        }
        GitError::Failed { .. } => {
            "there is no repository here, so no server is known; go into one, or name a server in DIBS_URL".to_owned()
        }
        other => other.to_string(),
    };
    Failure::new(Exit::Unreachable, sentence)
}
