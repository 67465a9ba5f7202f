//! The settings a server runs with: flags, environment variables, file and defaults combined.

use std::path::PathBuf;
use std::time::Duration;

use super::{ClusterSettings, CommandLine, ConfigFile, ConfigProblem, ConfigValue};
use crate::client::Address;
use crate::engine::Policy;
use crate::http::{KeyPolicy, ServerLimits};
use crate::serve::repositories::split_name;
use crate::serve::{LogFormat, idle};
use crate::token::KeyringConfig;
use crate::token::sign::secret_from_environment;

pub struct ServerSettings {
    /// The configuration file.
    pub file: Option<PathBuf>,
    pub fixed: FixedSettings,
    pub reloadable: ReloadableSettings,
}

/// Settings that change only when the server is restarted.
#[derive(Debug, Clone)]
pub struct FixedSettings {
    /// Repositories: `PATH` or `NAME=PATH`.
    pub repo: Vec<ConfigValue<String>>,
    pub listen: Option<ConfigValue<String>>,
    pub socket: Option<ConfigValue<PathBuf>>,
    /// The directory for journal, ledger, secret and socket.
    pub data: Option<ConfigValue<PathBuf>>,
    pub behind_proxy: bool,
    /// Whether the server speaks TLS. With which certificate can change.
    pub speaks_tls: bool,
    pub no_ledger: bool,
    pub log: Option<LogFormat>,
    pub in_background: bool,
    /// The server ends when it was not used for this time; none if it does not.
    pub idle_timeout: Option<Duration>,
    /// The cluster that the server is a node of, if it is.
    pub cluster: Option<ClusterSettings>,
}

/// Settings that SIGHUP can change.
#[derive(Debug, Clone)]
pub struct ReloadableSettings {
    /// Host names of the server, besides localhost.
    pub hosts: Vec<String>,
    pub tls_cert: Option<ConfigValue<PathBuf>>,
    pub tls_key: Option<ConfigValue<PathBuf>>,
    /// The address that clients use.
    pub public_url: Option<ConfigValue<String>>,
    pub secret_file: Option<ConfigValue<PathBuf>>,
    pub jwks: Option<ConfigValue<PathBuf>>,
    /// The `iss` that tokens must have.
    pub issuer: Option<String>,
    /// The name that must be among a token's `aud`.
    pub audience: Option<String>,
    pub log_level: Option<String>,
    pub log_level_line: Option<usize>,
    /// Which keys may be reserved, and how.
    pub key_policy: KeyPolicy,
    pub limits: ServerLimits,
    pub engine_policy: Policy,
}

impl ServerSettings {
    /// Reads the file and combines it with the command line. Also returns every error in them; where there is one, the
    /// settings have the default.
    pub fn load(command_line: &CommandLine) -> (ServerSettings, Vec<ConfigProblem>) {
        let path = command_line.config.as_deref();
        let (file, mut problems) = path.map_or_else(Default::default, ConfigFile::read);
        let ConfigFile { options, mut key_policy, limits, mut engine_policy } = file;
        let options = command_line.options.clone().or(options);
        if let Some(seconds) = &options.session_timeout {
            engine_policy.session_timeout = Duration::from_secs(seconds.value);
            if seconds.value == 0 {
                let sentence = "the session timeout must be at least one second".to_owned();
                problems.push(ConfigProblem { line: None, sentence });
            }
        }
        let timeout = u32::try_from(engine_policy.session_timeout.as_secs()).unwrap_or(u32::MAX);
        key_policy.idle.default = timeout;
        if let Some(url) = &options.public_url
            && let Err(why) = Address::parse(&url.value)
        {
            let sentence = format!("public-url is {:?}, which is not an address: {why}", url.value);
            problems.push(ConfigProblem { line: url.line, sentence });
        }
        let (cert, key) = (&options.tls_cert, &options.tls_key);
        if cert.is_some() != key.is_some() {
            let line = cert.as_ref().or(key.as_ref()).and_then(|file| file.line);
            let sentence = "TLS needs both tls-cert and tls-key, and only one of them is configured".to_owned();
            problems.push(ConfigProblem { line, sentence });
        }
        let cluster = ClusterSettings::read(&options, &mut problems);
        let fixed = FixedSettings {
            cluster,
            repo: options.repo,
            listen: options.listen,
            socket: options.socket,
            data: options.data,
            behind_proxy: options.behind_proxy.is_some_and(|flag| flag.value),
            speaks_tls: options.tls_cert.is_some(),
            no_ledger: options.no_ledger.is_some_and(|flag| flag.value),
            log: options.log.map(|format| format.value),
            in_background: command_line.in_background,
            idle_timeout: match options.idle_timeout {
                Some(seconds) => Some(Duration::from_secs(seconds.value)).filter(|time| !time.is_zero()),
                None => command_line.in_background.then_some(idle::DEFAULT_TIMEOUT),
            },
        };
        let reloadable = ReloadableSettings {
            hosts: options.host.into_iter().map(|host| host.value).collect(),
            tls_cert: options.tls_cert,
            tls_key: options.tls_key,
            public_url: options.public_url,
            secret_file: options.secret_file,
            jwks: options.jwks,
            issuer: options.issuer.map(|name| name.value),
            audience: options.audience.map(|name| name.value),
            log_level_line: options.log_level.as_ref().and_then(|level| level.line),
            log_level: options.log_level.map(|level| level.value),
            key_policy,
            limits,
            engine_policy,
        };
        (ServerSettings { file: path.map(PathBuf::from), fixed, reloadable }, problems)
    }

    /// Whether a server that is started without flags would have another journal or other keys.
    pub fn are_own(&self) -> bool {
        let (fixed, reloadable) = (&self.fixed, &self.reloadable);
        let has_name = |repo: &ConfigValue<String>| split_name(&repo.value).0.is_some();
        let several = fixed.repo.len() > 1 || fixed.repo.iter().any(has_name) || fixed.data.is_some();
        let keys = reloadable.secret_file.is_some() || reloadable.jwks.is_some() || secret_from_environment().is_some();
        let names = reloadable.issuer.is_some() || reloadable.audience.is_some();
        let other = fixed.speaks_tls || fixed.behind_proxy || fixed.cluster.is_some();
        self.file.is_some() || several || keys || names || other
    }

    /// A problem as one line, with the name of the file it is in.
    pub fn describe(&self, problem: &ConfigProblem) -> String {
        match (&self.file, problem.line) {
            (Some(file), Some(_)) => format!("{}:{problem}", file.display()),
            _ => problem.to_string(),
        }
    }
}

impl FixedSettings {
    /// The names of the settings that are different in `other`.
    pub fn differences(&self, other: &FixedSettings) -> Vec<&'static str> {
        fn value<T>(setting: &Option<ConfigValue<T>>) -> Option<&T> {
            setting.as_ref().map(|setting| &setting.value)
        }
        let repos = |fixed: &FixedSettings| fixed.repo.iter().map(|repo| repo.value.clone()).collect::<Vec<_>>();
        let is_same = [
            ("repo", repos(self) == repos(other)),
            ("listen", value(&self.listen) == value(&other.listen)),
            ("socket", value(&self.socket) == value(&other.socket)),
            ("data", value(&self.data) == value(&other.data)),
            ("behind-proxy", self.behind_proxy == other.behind_proxy),
            ("tls-cert", self.speaks_tls == other.speaks_tls),
            ("no-ledger", self.no_ledger == other.no_ledger),
            ("log", self.log == other.log),
            ("idle-timeout", self.idle_timeout == other.idle_timeout),
            ("cluster", self.cluster == other.cluster),
        ];
        is_same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

impl ReloadableSettings {
    /// The configuration of the keyring. `default_secret_file` is used if no secret is configured.
    pub fn keyring(&self, default_secret_file: PathBuf) -> anyhow::Result<KeyringConfig> {
        let secret = secret_from_environment();
        let secret_file = match (&secret, &self.secret_file) {
            (Some(_), Some(_)) => {
                anyhow::bail!("both DIBS_JWT_SECRET and a secret file are configured; remove one of them")
            }
            (Some(_), None) => None,
            (None, Some(file)) => Some(std::path::absolute(&file.value)?),
            (None, None) => Some(std::path::absolute(default_secret_file)?),
        };
        Ok(KeyringConfig {
            secret,
            secret_file,
            jwks_file: self.jwks.as_ref().map(|file| file.value.clone()),
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
        })
    }
}
