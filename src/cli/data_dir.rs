//! `--data DIR`, for commands that work on a server's files and need no server.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::git::Repo;
use crate::local::data_dir::dibs_dir;

#[derive(clap::Args)]
pub struct DataDir {
    /// The server's directory, if it is not in this repository
    #[arg(long, value_name = "DIR", global = true, env = "DIBS_DATA")]
    data: Option<PathBuf>,
}

impl DataDir {
    /// The directory that was given, or the one in the repository around the current directory.
    pub fn find(self) -> Result<PathBuf> {
        match self.data {
            Some(dir) => Ok(dir),
            None => {
                let repo =
                    Repo::from_environment().context("there is no repository here; go into one, or give --data DIR")?;
                Ok(dibs_dir(&repo))
            }
        }
    }
}
