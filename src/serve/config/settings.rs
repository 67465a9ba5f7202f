//! What a server was told, with flags, variables, file and defaults put together.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{File, Problem, Reading, Told};
use crate::cli::serve::Args;
use crate::engine::Policy;
use crate::http::{KeyPolicy, Limits};
use crate::serve::Format;
use crate::token::KeyringConfig;

/// Everything there is to know before a server starts.
pub struct Settings {
    /// The file they came from.
    pub file: Option<PathBuf>,
    /// What lasts as long as the server does.
    pub fixed: Fixed,
    /// How the log is written.
    pub log: Option<Format>,
    /// What SIGHUP can change.
    pub live: Live,
}

/// What lasts as long as the server does.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// Repositories: a path, or NAME=PATH.
    pub repo: Vec<Told<String>>,
    /// The address to listen on.
    pub listen: Option<Told<String>>,
    /// The Unix socket to listen on.
    pub socket: Option<Told<PathBuf>>,
    /// The directory for journal, ledger, secret and socket.
    pub data: Option<Told<PathBuf>>,
    /// Somebody in front speaks TLS and knows whom to let through.
    pub behind_proxy: bool,
    /// Write no ledger.
    pub no_ledger: bool,
}

/// What SIGHUP can change.
#[derive(Debug, Clone)]
pub struct Live {
    /// Names the server goes by, besides localhost.
    pub hosts: Vec<String>,
    /// A file with the HS256 secret.
    pub secret_file: Option<Told<PathBuf>>,
    /// A JWKS with public keys.
    pub jwks: Option<Told<PathBuf>>,
    /// The only `iss` accepted.
    pub issuer: Option<String>,
    /// The name that must be among `aud`.
    pub audience: Option<String>,
    /// How much is logged.
    pub log_level: Option<String>,
    /// The line of the file that says so.
    pub log_level_line: Option<usize>,
    /// What may be reserved, for how long and how.
    pub policy: KeyPolicy,
    /// How much of everything the door takes.
    pub limits: Limits,
    /// How much of everything the rules allow.
    pub rules: Policy,
}

impl Settings {
    /// Puts everything together: a flag, else a variable, else the file, else a default. Says what is wrong with it.
    pub fn of(args: &Args) -> (Settings, Vec<Problem>) {
        let path = args.config.as_deref();
        let reading = path.map(Reading::of);
        let (file, mut problems) = reading.map_or_else(Default::default, |reading| (reading.file, reading.problems));
        if args.session_timeout == Some(0) {
            let sentence = "the session timeout must be at least one second".to_owned();
            problems.push(Problem { line: None, sentence });
        }
        (Settings::put_together(args, path, file), problems)
    }

    fn put_together(args: &Args, path: Option<&Path>, file: File) -> Settings {
        fn either<T: Clone>(told: &Option<T>, file: Option<Told<T>>) -> Option<Told<T>> {
            told.clone().map(Told::elsewhere).or(file)
        }
        fn many(told: &[String], file: Vec<Told<String>>) -> Vec<Told<String>> {
            if told.is_empty() { file } else { told.iter().cloned().map(Told::elsewhere).collect() }
        }
        let mut rules = file.rules;
        if let Some(seconds) = either(&args.session_timeout, file.session_timeout) {
            rules.session_timeout = Duration::from_secs(seconds.value);
        }
        let fixed = Fixed {
            repo: many(&args.repo, file.repo),
            listen: either(&args.listen, file.listen),
            socket: either(&args.socket, file.socket),
            data: either(&args.data, file.data),
            behind_proxy: either(&args.behind_proxy, file.behind_proxy).is_some_and(|told| told.value),
            no_ledger: either(&args.no_ledger, file.no_ledger).is_some_and(|told| told.value),
        };
        let log = either(&args.log, file.log).map(|told| told.value);
        let log_level = either(&args.log_level, file.log_level);
        let live = Live {
            hosts: many(&args.host, file.host).into_iter().map(|told| told.value).collect(),
            secret_file: either(&args.secret_file, file.secret_file),
            jwks: either(&args.jwks, file.jwks),
            issuer: either(&args.issuer, file.issuer).map(|told| told.value),
            audience: either(&args.audience, file.audience).map(|told| told.value),
            log_level_line: log_level.as_ref().and_then(|told| told.line),
            log_level: log_level.map(|told| told.value),
            policy: file.policy,
            limits: file.limits,
            rules,
        };
        Settings { file: path.map(Path::to_owned), fixed, log, live }
    }

    /// The names of what is told otherwise there, and cannot change while the server runs.
    pub fn differences(&self, other: &Settings) -> Vec<&'static str> {
        fn values<T: PartialEq>(a: &[Told<T>], b: &[Told<T>]) -> bool {
            a.iter().map(|told| &told.value).eq(b.iter().map(|told| &told.value))
        }
        fn value<T: PartialEq>(a: &Option<Told<T>>, b: &Option<Told<T>>) -> bool {
            a.as_ref().map(|told| &told.value) == b.as_ref().map(|told| &told.value)
        }
        let (a, b) = (&self.fixed, &other.fixed);
        let same = [
            ("repo", values(&a.repo, &b.repo)),
            ("listen", value(&a.listen, &b.listen)),
            ("socket", value(&a.socket, &b.socket)),
            ("data", value(&a.data, &b.data)),
            ("behind-proxy", a.behind_proxy == b.behind_proxy),
            ("no-ledger", a.no_ledger == b.no_ledger),
            ("log", self.log == other.log),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }

    /// A problem as a person reads it, with the file it is in.
    pub fn shown(&self, problem: &Problem) -> String {
        match (&self.file, problem.line) {
            (Some(file), Some(_)) => format!("{}:{problem}", file.display()),
            (Some(file), None) if problem.sentence.starts_with("cannot be read") => {
                format!("{} {problem}", file.display())
            }
            _ => problem.to_string(),
        }
    }
}

impl Live {
    /// What verifies tokens. `usual` is where the secret is if nobody says otherwise.
    pub fn keyring(&self, usual: PathBuf) -> anyhow::Result<KeyringConfig> {
        let secret = std::env::var("DIBS_JWT_SECRET").ok().filter(|secret| !secret.is_empty());
        let secret_file = match (&secret, &self.secret_file) {
            (Some(_), Some(_)) => {
                anyhow::bail!("DIBS_JWT_SECRET and a secret file are both given; give only one of them")
            }
            (Some(_), None) => None,
            (None, Some(named)) => Some(std::path::absolute(&named.value)?),
            (None, None) => Some(std::path::absolute(usual)?),
        };
        Ok(KeyringConfig {
            secret: secret.map(String::into_bytes),
            secret_file,
            jwks_file: self.jwks.as_ref().map(|told| told.value.clone()),
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
        })
    }
}
