//! What a server leaves behind for the next one of the repository: its port, and whether it had settings of its own.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::data_dir;

/// In the `dibs` directory of a repository.
const FILE: &str = "last-server.json";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastServer {
    /// The port on the loopback device. The next server takes the same one if it is free, so that addresses in the
    /// environment of running programs stay valid.
    #[serde(default)]
    pub port: Option<u16>,
    /// It was started with another data directory, other keys or several repositories. A server without these settings
    /// would have another journal, or refuse its tokens, so none is started in its place.
    #[serde(default)]
    pub has_own_settings: bool,
}

impl LastServer {
    /// Of the repository with this `dibs` directory; the default if no server ran there.
    pub fn read(dibs_dir: &Path) -> LastServer {
        let bytes = std::fs::read(dibs_dir.join(FILE)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub fn write(&self, dibs_dir: &Path) -> Result<()> {
        if LastServer::read(dibs_dir) == *self && dibs_dir.join(FILE).exists() {
            return Ok(());
        }
        data_dir::write_private(&dibs_dir.join(FILE), &serde_json::to_vec(self)?)
    }
}
