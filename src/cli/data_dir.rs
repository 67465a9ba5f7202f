//! `--data DIR`, for commands that work on a server's files and need no server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::git::Repo;
use crate::local::data_dir::{self, dibs_dir};
use crate::text::terminal::clean;

#[derive(clap::Args)]
pub struct DataDir {
    /// The server's directory, if it is not in this repository
    #[arg(long, value_name = "DIR", global = true, env = "DIBS_DATA")]
    data: Option<PathBuf>,
    /// The name of the repository, if the server's directory contains several
    #[arg(long, value_name = "NAME", global = true)]
    repo: Option<String>,
}

impl DataDir {
    /// The directory that was given, or the one in the repository around the current directory; with `--repo`, that of one of
    /// several repositories in it.
    pub fn find(self) -> Result<PathBuf> {
        let dir = match self.data {
            Some(dir) => dir,
            None => {
                let repo =
                    Repo::from_environment().context("there is no repository here; go into one, or give --data DIR")?;
                dibs_dir(&repo)
            }
        };
        match self.repo {
            Some(name) if is_name(&name) => Ok(dir.join(name)),
            Some(name) => bail!("{} is not the name of a repository", clean(&name, 100)),
            // A server with several repositories has a directory for each, and nothing of the kind in its own.
            None if !is_used(&dir) && !repositories(&dir).is_empty() => bail!(
                "{} is of a server with several repositories; choose one with --repo NAME: {}",
                dir.display(),
                repositories(&dir).join(", ")
            ),
            None => Ok(dir),
        }
    }
}

/// Whether a directory has a journal or a ledger.
fn is_used(dir: &Path) -> bool {
    data_dir::journal(dir).exists() || data_dir::ledger(dir).exists()
}

/// A name is one directory, never a path out of the server's.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != ".." && name != "."
}

/// The names of the repositories in a server's directory.
fn repositories(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| is_used(&entry.path()));
    let mut names: Vec<String> = entries.map(|entry| clean(&entry.file_name().to_string_lossy(), 100)).collect();
    names.sort();
    names
}
