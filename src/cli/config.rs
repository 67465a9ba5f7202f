//! What `serve` is told: by flags, by the environment, by a file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::logging::Format;
use crate::http::TtlBounds;

/// The configuration file: the names of the flags, and what has no flag.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct File {
    /// Repositories: a path, or NAME=PATH.
    pub repo: Vec<String>,
    /// The address to listen on.
    pub listen: Option<String>,
    /// The Unix socket to listen on.
    pub socket: Option<PathBuf>,
    /// The directory for journal, ledger, secret and socket.
    pub data: Option<PathBuf>,
    /// Listen on other addresses than this machine's own.
    pub behind_proxy: Option<bool>,
    /// A file with the HS256 secret.
    pub secret_file: Option<PathBuf>,
    /// A JWKS with public keys.
    pub jwks: Option<PathBuf>,
    /// The only `iss` accepted.
    pub issuer: Option<String>,
    /// The name that must be among `aud`.
    pub audience: Option<String>,
    /// Log every decision, as `json` or `text`.
    pub log: Option<Format>,
    /// A session silent for so many seconds is lost.
    pub session_timeout: Option<u64>,
    /// Write no ledger.
    pub no_ledger: Option<bool>,
    /// How long files may be held.
    pub file_ttl: Option<Bounds>,
    /// How long logical keys and resource URIs may be held.
    pub name_ttl: Option<Bounds>,
    /// Purposes allowed in `feature:<id>:<purpose>`, besides `pause`.
    pub purposes: Vec<String>,
}

/// Seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    default: u32,
    #[serde(default = "one")]
    min: u32,
    max: u32,
}

fn one() -> u32 {
    1
}

impl Bounds {
    /// Bounds that make sense, or a sentence.
    pub fn check(self, name: &str) -> Result<TtlBounds> {
        let Bounds { default, min, max } = self;
        if min == 0 || min > default || default > max {
            bail!("{name}: 1 ≤ min ≤ default ≤ max must hold, and min is {min}, default {default}, max {max}");
        }
        Ok(TtlBounds { default, min, max })
    }
}

impl File {
    /// Reads a file; a mistake in it is shown with its line.
    pub fn read(path: &Path) -> Result<File> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a configuration for git-dibs", path.display()))
    }
}

/// A repository as it is named on the command line: `PATH` or `NAME=PATH`.
pub fn named_repo(text: &str) -> (Option<&str>, &Path) {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name), Path::new(path)),
        _ => (None, Path::new(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_may_have_a_name() {
        assert_eq!(named_repo("app=/srv/app.git"), (Some("app"), Path::new("/srv/app.git")));
        assert_eq!(named_repo("/srv/app.git"), (None, Path::new("/srv/app.git")));
        assert_eq!(named_repo("/srv/a=b"), (None, Path::new("/srv/a=b")));
    }

    #[test]
    fn unknown_names_and_senseless_bounds_are_refused() {
        assert!(toml::from_str::<File>("lisen = \"x\"").is_err());
        let file: File = toml::from_str("file-ttl = { default = 60, max = 300 }").unwrap();
        assert_eq!(file.file_ttl.unwrap().check("file-ttl").unwrap(), TtlBounds::FILES);
        let file: File = toml::from_str("file-ttl = { default = 600, max = 300 }").unwrap();
        assert!(file.file_ttl.unwrap().check("file-ttl").is_err());
    }
}
