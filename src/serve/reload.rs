//! What runs at SIGHUP: the configuration is read again.
//!
//! Settings that can change while the server runs are changed. A setting that cannot is logged by name: it changes at the
//! next restart. If the new configuration has an error, nothing changes.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use arc_swap::ArcSwap;

use super::config::{CommandLine, ReloadableSettings, ServerSettings};
use super::discovery::DiscoveryFiles;
use super::logging::LogLevel;
use super::tls;
use crate::http::{App, TlsIdentity};

pub struct Reloader {
    /// Flags and environment variables, which still take precedence over the file.
    pub command_line: CommandLine,
    /// The settings in force.
    pub settings: ServerSettings,
    /// The secret file to use if none is configured.
    pub default_secret_file: PathBuf,
    pub app: Arc<App>,
    pub log_level: LogLevel,
    pub discovery: Arc<DiscoveryFiles>,
    /// The certificate in use, if the server speaks TLS.
    pub tls: Option<TlsIdentity>,
    /// The settings for repositories that are opened later.
    pub current: Arc<ArcSwap<ReloadableSettings>>,
}

impl Reloader {
    /// Reads the configuration again and applies it, or logs why not.
    pub fn reload(&mut self) {
        let (new, problems) = ServerSettings::load(&self.command_line);
        if let Some(first) = problems.first() {
            let more = match problems.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            tracing::warn!(
                "the configuration was not reloaded, because it has errors: {}{more}; \
                 git-dibs serve --check-config lists them all",
                new.describe(first)
            );
            return;
        }
        if let Err(error) = self.apply(&new.reloadable) {
            tracing::warn!("the configuration was not reloaded: {error:#}");
            return;
        }
        tracing::info!("the configuration was reloaded");
        for name in self.settings.fixed.differences(&new.fixed) {
            tracing::warn!(setting = name, "the new value of {name} takes effect when the server is restarted");
        }
        self.current.store(Arc::new(new.reloadable.clone()));
        self.settings.reloadable = new.reloadable;
    }

    /// Everything that can fail comes first, so that either all settings change or none.
    fn apply(&self, new: &ReloadableSettings) -> Result<()> {
        let keys = new.keyring(self.default_secret_file.clone())?;
        let secret_file = keys.secret_file.clone();
        let level = self.log_level.parse(new.log_level.as_deref())?;
        let certificate = tls::load(new)?;
        self.app.keyring.reconfigure(keys)?;
        if let (Some(identity), Some(certificate)) = (&self.tls, certificate) {
            identity.store(certificate);
        }
        self.log_level.set(level);
        self.discovery.set(secret_file, new.public_url.as_ref().map(|url| url.value.clone()));
        self.discovery.write_or_warn();
        self.app.set_limits(new.limits.clone());
        self.app.set_hosts(new.hosts.clone());
        self.app.set_public_url(new.public_url.as_ref().map(|url| url.value.as_str().into()));
        for repo in self.app.repositories.open() {
            let (fold_case, seed) = (repo.policy().rules.fold_case, repo.policy().ports.seed);
            let mut policy = new.key_policy.clone().folded(fold_case);
            policy.ports.seed = seed;
            repo.set_policy(policy);
            repo.desk.set_policy(new.engine_policy.clone());
        }
        Ok(())
    }
}
