//! What a server leaves in its repositories for hooks and commands: where it is, and a token that may look.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use super::repositories::Plan;
use super::unix_seconds;
use crate::engine::Text;
use crate::local::ServerRecord;
use crate::local::data_dir;
use crate::token::{Keyring, Mint, Scope};

/// How long the token counts that lets people on this machine look.
const READ_TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// Everybody who finds the server through a repository.
pub struct Residents {
    /// Names, and the directory of each.
    places: Vec<(Text, PathBuf)>,
    record: Mutex<ServerRecord>,
    keyring: Arc<Keyring>,
}

impl Residents {
    /// Of these repositories.
    pub fn new(plans: &[Plan], record: ServerRecord, keyring: Arc<Keyring>) -> Self {
        let places = plans.iter().map(|plan| (plan.name.clone(), data_dir::dibs_dir(&plan.repo))).collect();
        Self { places, record: Mutex::new(record), keyring }
    }

    /// Tells them, in each repository's own directory. Whoever can read that may see who holds what.
    pub fn tell(&self) -> Result<()> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, dir) in &self.places {
            let record = ServerRecord { repo: Some(name.to_string()), ..record.clone() };
            data_dir::make_private(dir)?;
            data_dir::write_private(&dir.join("server.json"), &serde_json::to_vec(&record)?)?;
            let now = unix_seconds();
            let minted = self.keyring.mint(&Mint {
                subject: "local".into(),
                scope: Scope::Read,
                repo: Some(name.clone()),
                issued: now,
                expires: now + READ_TOKEN_SECONDS,
                ..Mint::default()
            })?;
            data_dir::write_private(&dir.join("read-token"), minted.as_bytes())?;
        }
        Ok(())
    }

    /// The same while the server runs: what does not work is worth a line, and no more.
    pub fn try_tell(&self) {
        if let Err(error) = self.tell() {
            tracing::warn!(error = format!("{error:#}"), "could not renew the token for people on this machine");
        }
    }

    /// The secret is elsewhere now.
    pub fn set_secret_file(&self, path: Option<PathBuf>) {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).secret_file = path;
    }

    /// The server is gone.
    pub fn leave(&self) {
        for (_, dir) in &self.places {
            let _ = std::fs::remove_file(dir.join("server.json"));
        }
    }
}
