//! The files by which hooks and commands on this machine find the server, in each repository's `dibs` directory:
//! `server.json` with its addresses, and `read-token`, a token that may only read.
//!
//! The directory is private, so every program that can read these files may also see who holds what.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

use super::repositories::ServedRepository;
use super::unix_seconds;
use crate::engine::Text;
use crate::local::{LastServer, READ_TOKEN_FILE, SERVER_FILE, ServerRecord, data_dir};
use crate::token::{Keyring, NewToken, Scope};

/// How long a read token is valid.
const READ_TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// How often the read tokens are replaced.
const READ_TOKEN_INTERVAL: Duration = Duration::from_secs(24 * 3600);

pub struct DiscoveryFiles {
    /// The server's own directory, with another `server.json` for commands that are given this directory.
    home: PathBuf,
    /// The name of each repository, and the directory for its files.
    directories: Vec<(Text, PathBuf)>,
    record: Mutex<ServerRecord>,
    keyring: Arc<Keyring>,
}

impl DiscoveryFiles {
    pub fn new(served: &[ServedRepository], home: &Path, record: ServerRecord, keyring: Arc<Keyring>) -> Self {
        let directory = |served: &ServedRepository| (served.name.clone(), data_dir::dibs_dir(&served.repo));
        let directories = served.iter().map(directory).collect();
        Self { home: home.to_owned(), directories, record: Mutex::new(record), keyring }
    }

    /// Writes the files, with new read tokens.
    pub fn write(&self) -> Result<()> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A new secret makes another id.
        record.id = self.keyring.server_id();
        if !self.home_is_of_repository() {
            data_dir::write_private(&data_dir::server_record(&self.home), &serde_json::to_vec(&record)?)?;
        }
        for (name, dir) in &self.directories {
            let record = ServerRecord { repo: Some(name.to_string()), ..record.clone() };
            data_dir::make_private(dir)?;
            let now = unix_seconds();
            let token = self.keyring.sign(&NewToken {
                subject: "local".into(),
                scope: Scope::Read,
                repo: Some(name.clone()),
                issued: now,
                expires: now + READ_TOKEN_SECONDS,
                ..NewToken::default()
            })?;
            data_dir::write_private(&read_token_file(dir), token.as_bytes())?;
            // Last: a client that finds the server also finds its token.
            data_dir::write_private(&server_file(dir), &serde_json::to_vec(&record)?)?;
        }
        Ok(())
    }

    /// Leaves the port, and whether a server without settings would be another one, for the next server.
    pub fn remember(&self, has_own_settings: bool) -> Result<()> {
        let url = self.record.lock().unwrap_or_else(PoisonError::into_inner).url.clone();
        let port = url.as_deref().and_then(|url| url.rsplit_once(':')?.1.parse().ok());
        for (_, dir) in &self.directories {
            LastServer { port, has_own_settings }.write(dir)?;
        }
        Ok(())
    }

    /// [`write`](Self::write) while the server runs: a failure is logged, and the server goes on.
    pub fn write_or_warn(&self) {
        if let Err(error) = self.write() {
            let error = format!("{error:#}");
            tracing::warn!(
                error,
                "could not replace server.json and read-token; git dibs on this machine may not work"
            );
        }
    }

    /// Changes the secret file and the address that `server.json` names from the next write on.
    pub fn set(&self, secret_file: Option<PathBuf>, public_url: Option<String>) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        (record.secret_file, record.public_url) = (secret_file, public_url);
    }

    /// Whether the server's own directory is that of a repository, which has the file anyway.
    fn home_is_of_repository(&self) -> bool {
        self.directories.iter().any(|(_, dir)| *dir == self.home)
    }

    /// Whether a `server.json` is not there any more.
    pub fn is_missing(&self) -> bool {
        self.directories.iter().any(|(_, dir)| !server_file(dir).exists())
    }

    /// Removes `server.json`, because the server is gone. The file of another server stays.
    pub fn remove(&self) {
        let own = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_repositories = self.directories.iter().map(|(_, dir)| server_file(dir));
        for file in of_repositories.chain([data_dir::server_record(&self.home)]) {
            if ServerRecord::read(&file).is_some_and(|there| (there.pid, there.started_at) == (own.pid, own.started_at))
            {
                let _ = std::fs::remove_file(file);
            }
        }
    }
}

/// `dir` is the `dibs` directory of a repository. [`SERVER_FILE`] is relative to its parent, the common directory.
fn server_file(dir: &Path) -> PathBuf {
    dir.with_file_name(SERVER_FILE)
}

fn read_token_file(dir: &Path) -> PathBuf {
    dir.with_file_name(READ_TOKEN_FILE)
}

/// Replaces the read tokens long before they expire.
pub async fn renew_read_tokens(files: Arc<DiscoveryFiles>) {
    loop {
        tokio::time::sleep(READ_TOKEN_INTERVAL).await;
        files.write_or_warn();
    }
}
