//! SIGHUP: what can change while the server runs, changes; what cannot is named.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

use super::config::{Live, Settings};
use super::discovery::Residents;
use super::logging::Level;
use crate::cli::serve::Args;
use crate::http::App;

/// Everything that can be told something new.
pub struct Reload {
    /// The flags, which still count for more than the file.
    pub args: Args,
    /// As they are in force.
    pub settings: Settings,
    /// Where the secret is if nobody says otherwise.
    pub usual_secret: PathBuf,
    /// Answers requests.
    pub app: Arc<App>,
    /// How much is logged.
    pub level: Level,
    /// Find the server.
    pub residents: Arc<Residents>,
}

impl Reload {
    /// Reads the configuration again at every SIGHUP.
    pub fn on_signal(mut self) -> Result<impl Future<Output = ()>> {
        let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        Ok(async move {
            while hangup.recv().await.is_some() {
                self.reload();
            }
        })
    }

    fn reload(&mut self) {
        let (new, problems) = Settings::of(&self.args);
        if let Some(first) = problems.first() {
            let more = match problems.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let what = new.shown(first);
            tracing::warn!("the configuration stays as it was: {what}{more}; see git-dibs serve --check-config");
            return;
        }
        match self.change(&new.live) {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(error) => {
                tracing::warn!("the configuration stays as it was: {error:#}");
                return;
            }
        }
        for name in self.settings.differences(&new) {
            tracing::warn!(setting = name, "{name} has changed in the configuration, and counts only after a restart");
        }
        self.settings.live = new.live;
    }

    /// What can fail comes first, so that everything changes or nothing does.
    fn change(&self, live: &Live) -> Result<()> {
        let keys = live.keyring(self.usual_secret.clone())?;
        let secret_file = keys.secret_file.clone();
        self.level.check(live.log_level.as_deref())?;
        self.app.keyring.reconfigure(keys)?;
        self.level.set(live.log_level.as_deref());
        self.residents.set_secret_file(secret_file);
        self.residents.try_tell();
        self.app.set_limits(live.limits.clone());
        self.app.set_hosts(live.hosts.clone());
        for repo in self.app.repositories.values() {
            let fold_case = repo.policy().rules.fold_case;
            repo.set_policy(live.policy.clone().folded(fold_case));
            repo.desk.set_policy(live.rules.clone());
        }
        Ok(())
    }
}
