//! `git dibs cluster`: looks at a cluster, moves a repository, copies journals in and out. Speaks to etcd, not to a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;

pub use crate::cluster::status::ClusterStatus;
use crate::cluster::{status, transfer};
use crate::engine::Seq;
use crate::etcd::{Etcd, EtcdAddress};
use crate::local::data_dir;
use crate::serve::config::EtcdSignIn;

/// A cluster, and how to sign in to its etcd.
pub struct ClusterAccess {
    etcd: Arc<Etcd>,
    prefix: String,
}

/// Files and names for signing in; all may be missing.
#[derive(Default)]
pub struct SignIn {
    pub authorities: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
}

impl ClusterAccess {
    pub fn new(address: &str, sign_in: SignIn) -> Result<ClusterAccess> {
        let address: EtcdAddress = address.parse().map_err(anyhow::Error::msg)?;
        let SignIn { authorities, certificate, key, user, password_file } = sign_in;
        let sign_in = EtcdSignIn { authorities, certificate, key, user, password_file };
        Ok(ClusterAccess { etcd: Arc::new(sign_in.client(&address)?), prefix: address.prefix })
    }

    pub fn status(&self) -> Result<ClusterStatus> {
        status::read(&self.etcd, &self.prefix)
    }

    pub fn move_to(&self, repository: &str, node: &str) -> Result<()> {
        status::move_to(&self.etcd, &self.prefix, repository, node)
    }

    /// Copies the journal of a stopped server, in its directory. Returns the last copied number and the next one.
    pub fn import(&self, repository: &str, dir: &Path) -> Result<(Seq, Seq)> {
        transfer::import(&self.etcd, &self.prefix, repository, &data_dir::journal(dir))
    }

    /// Copies the journal into a directory, for a server of its own. Returns the last copied number and the next one.
    pub fn export(&self, repository: &str, dir: &Path) -> Result<(Seq, Seq)> {
        data_dir::make_private(dir)?;
        transfer::export(&self.etcd, &self.prefix, repository, &data_dir::journal(dir))
    }
}
