//! What every command that calls a server begins with: the workspace, the server, a client, and how the reply is printed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::failure::{Failure, exit_of, sentence_of};
use super::{Exit, talk};
use crate::client::{Address, Client, ClientError, Credential, Inbox, Limits};
use crate::local::describe::NAME_MAX;
use crate::local::{DiscoverError, Flags, Names, ServerAccess, Workspace, clock, notices, repair, session_file};
use crate::text::terminal::clean;
use crate::wire::{Code, Notice, Time};

/// A person or an agent waits for the reply, not a commit, so a slow network is allowed more time than in a hook.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(2), total: Duration::from_secs(30), answer_bytes: 256 << 20 };

#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// The server's address [default: DIBS_URL, git config dibs.url, the server of this repository]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A file with the token to use [default: DIBS_TOKEN, the session that runs you, this worktree's session, git config
    /// dibs.tokenFile]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The repository's name, if the server has several repositories [default: DIBS_REPO, git config dibs.repo]
    #[arg(long, value_name = "NAME")]
    pub repo: Option<String>,
}

/// The server, the session to act for, and the form of the output.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Server")]
pub struct CommonArgs {
    /// Print the server's reply unchanged, as one JSON document
    #[arg(long, help_heading = None)]
    pub json: bool,
    /// The session to act for, with an admin's or a worker's token [default: DIBS_SESSION]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What a command needs to call the server and to print the reply.
pub struct Context {
    pub workspace: Workspace,
    pub access: ServerAccess,
    pub client: Client,
    /// Print JSON for a program instead of text for a person.
    pub json: bool,
    /// Whether a flag names the session.
    session_is_named: bool,
}

impl Context {
    /// Finds the repository, the server, the token and the session. Nothing is sent yet, except to end the sessions of
    /// `git-dibs run` processes that were killed here.
    pub fn open(args: &CommonArgs) -> Result<Context, Failure> {
        Context::open_with(args, Workspace::discover)
    }

    fn open_with(
        args: &CommonArgs,
        discover: fn(&Workspace, Flags) -> Result<ServerAccess, DiscoverError>,
    ) -> Result<Context, Failure> {
        let open = || -> Result<Context, Failure> {
            let workspace = Workspace::open().map_err(|error| Failure::new(Exit::Error, error.to_string()))?;
            let ServerArgs { url, token_file, repo } = args.server.clone();
            let access = discover(&workspace, Flags { url, token_file, repo, session: args.session.clone() })?;
            if let Some(warning) = access.token_warning() {
                talk::say(&warning);
            }
            let client = access.client(LIMITS)?;
            for session in workspace.repo.iter().flat_map(session_file::end_abandoned) {
                let id = clean(&session, NAME_MAX);
                talk::say(&format!("session {id} was left behind by a command that was killed; it has been ended"));
            }
            let session_is_named = args.session.is_some();
            Ok(Context { workspace, access, client, json: args.json, session_is_named })
        };
        open().map_err(|failure| failure.for_program(args.json))
    }

    /// The same for a command that has no `--session` flag.
    pub fn open_without_session(server: &ServerArgs, json: bool) -> Result<Context, Failure> {
        Context::open(&CommonArgs { json, session: None, server: server.clone() })
    }

    /// The same for a command that reads the history: see [`Workspace::discover_for_history`].
    pub fn open_for_history(server: &ServerArgs, json: bool) -> Result<Context, Failure> {
        let args = CommonArgs { json, session: None, server: server.clone() };
        Context::open_with(&args, Workspace::discover_for_history)
    }

    /// The keys that the arguments mean.
    pub fn names(&self, args: &[OsString]) -> Result<Names, Failure> {
        let names =
            Names::typed(&self.workspace.cwd, args).map_err(|error| Failure::from(error).for_program(self.json))?;
        names.notes().for_each(|note| talk::say(&note));
        Ok(names)
    }

    /// The session to act for.
    pub fn session(&self) -> Result<String, Failure> {
        match self.access.require_session() {
            Ok(session) => Ok(session.to_owned()),
            Err(sentence) => Err(Failure::new(Exit::Auth, sentence).for_program(self.json)),
        }
    }

    /// Makes a call that only looks. If the server does not accept the token, the call is made again as a person without
    /// a session, and the problem with the token is reported.
    pub fn look<T>(
        &mut self,
        call: impl Fn(&mut Client, Option<&str>) -> Result<T, ClientError>,
    ) -> Result<T, Failure> {
        let result = self.try_look(call)?;
        self.checked(result)
    }

    /// The same for a command that has its own words for some errors of the server.
    pub fn try_look<T>(
        &mut self,
        call: impl Fn(&mut Client, Option<&str>) -> Result<T, ClientError>,
    ) -> Result<Result<T, ClientError>, Failure> {
        let mut result = call(&mut self.client, self.access.session.as_deref());
        if let Err(error) = &result {
            // A token that is valid, but not for the session that a flag names, is a mistake in the arguments.
            let is_mistake = self.session_is_named && error.code() == Some(Code::Forbidden);
            if !is_mistake && self.access.reject_token(error) {
                self.client = self.access.client(LIMITS)?;
                result = call(&mut self.client, self.access.session.as_deref());
            }
        }
        if let (Ok(_), Some(problem)) = (&result, &self.access.token_problem) {
            talk::say(problem);
        }
        Ok(result)
    }

    /// Calls the server from now on at the address that a browser can use, and returns it.
    pub fn use_browser_address(&mut self) -> Result<Address, Failure> {
        self.access.endpoints.retain(|endpoint| !matches!(endpoint.address, Address::Unix(_)));
        let Some(endpoint) = self.access.endpoints.first() else {
            let sentence = "the server listens only on a socket, which browsers cannot use; start it with: \
                            git dibs serve --listen 127.0.0.1:3427";
            return Err(Failure::new(Exit::Unreachable, sentence).for_program(self.json));
        };
        let address = endpoint.address.clone();
        self.use_credential()?;
        Ok(address)
    }

    /// Calls the server from now on with the token that `access` has.
    pub fn use_credential(&mut self) -> Result<(), Failure> {
        self.client = self.access.client(LIMITS)?;
        Ok(())
    }

    /// Another client for the same server and session, which does not start the server.
    pub fn quiet_client(&self) -> Result<Client, Failure> {
        Ok(self.access.without_start().client(LIMITS)?)
    }

    /// From now on a server that does not answer is not started.
    pub fn start_no_server(&mut self) -> Result<(), Failure> {
        if self.access.autostart.take().is_some() {
            self.client = self.access.client(LIMITS)?;
        }
        Ok(())
    }

    /// Another client for the same server, with another token.
    pub fn client_as(&self, credential: Option<Credential>, limits: Limits) -> Result<Client, Failure> {
        Ok(self.access.client_as(credential, limits)?)
    }

    /// Turns the error of a call into the failure to report.
    pub fn checked<T>(&self, result: Result<T, ClientError>) -> Result<T, Failure> {
        result.map_err(|error| self.failure(&error))
    }

    pub fn failure(&self, error: &ClientError) -> Failure {
        self.failure_with(error, sentence_of(error))
    }

    /// A failure with a sentence of the command's own. A program still gets the server's reply.
    pub fn failure_with(&self, error: &ClientError, mut sentence: String) -> Failure {
        match (error.code(), &self.access.credential) {
            (Some(Code::Unauthenticated | Code::Forbidden | Code::SessionEnded), _)
                if let Some(problem) = &self.access.token_problem =>
            {
                sentence.push_str(&format!("\n{problem}"));
            }
            // Another token, such as an admin's, is still valid after the session has ended.
            (Some(Code::SessionEnded), Some(credential)) if credential.session.is_some() => {
                sentence.push_str(&format!("\nStart a new session with: {}", repair(&credential.from)));
            }
            (Some(Code::Unauthenticated), Some(credential)) => {
                let from = &credential.from;
                sentence.push_str(&format!("\nThe token came from {from}; to repair this: {}", repair(from)));
            }
            (Some(Code::SessionEnded), _) => sentence.push_str("\nStart a new session with: git dibs session start"),
            (Some(Code::Unauthenticated), None) => {
                sentence.push_str("\nStart a session with: git dibs session start");
            }
            (Some(Code::Forbidden), Some(credential)) => {
                sentence.push_str(&format!("\nThe token came from {}", credential.from));
            }
            _ => {}
        }
        let document = match error {
            ClientError::Refused { .. } if self.json => Some(self.client.latest_body().to_vec()),
            _ => None,
        };
        Failure { document, ..Failure::new(exit_of(error), sentence) }.for_program(self.json)
    }

    /// Prints the latest reply: unchanged for a program, as `text` for a person. Then prints the session's notices.
    pub fn print(&self, text: &str) -> std::io::Result<()> {
        if self.json {
            talk::document(self.client.latest_body())?;
        } else {
            talk::data(text)?;
        }
        self.print_notices();
        Ok(())
    }

    /// Prints the session's notices on stderr.
    pub fn print_notices(&self) {
        let mut notices = self.received_notices();
        if let (Some(repo), Some(session)) = (&self.workspace.repo, &self.access.session) {
            notices = notices::not_shown_lately(&repo.common_dir, session, notices, SystemTime::now());
            notices.extend(notices::take(&repo.common_dir, session));
        }
        self.print_sentences(&notices);
    }

    /// The notices that came with replies and were not printed yet. A program has those of the latest reply in its document.
    pub fn received_notices(&self) -> Vec<Notice> {
        let mut notices = self.access.inbox.take();
        if self.json {
            let printed = Inbox::in_reply(self.client.latest_body());
            notices.retain(|notice| !printed.contains(notice));
        }
        notices
    }

    /// Prints these notices on stderr, one sentence each.
    pub fn print_sentences(&self, notices: &[Notice]) {
        let sentences = notices.iter().filter_map(|notice| notices::sentence(notice, &self.workspace.cwd));
        sentences.for_each(|sentence| talk::say(&sentence));
    }

    /// The server's clock at its latest reply, or this machine's if the reply did not tell it.
    pub fn now(&self) -> Time {
        self.client.server_time().unwrap_or_else(clock::now)
    }

    /// The time left until `until`, by the server's clock.
    pub fn time_left(&self, until: Time) -> Duration {
        clock::between(self.now(), until)
    }
}

impl Drop for Context {
    /// Whatever the command does with the replies, and also if it fails: the server does not repeat what it told the session.
    fn drop(&mut self) {
        let mut notices = self.received_notices();
        if let (Some(repo), Some(session)) = (&self.workspace.repo, &self.access.session) {
            notices = notices::not_shown_lately(&repo.common_dir, session, notices, SystemTime::now());
        }
        self.print_sentences(&notices);
    }
}
