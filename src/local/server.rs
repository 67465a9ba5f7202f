//! Where the server is.
//!
//! `--url`, else `DIBS_URL`, else git's `dibs.url`, else what a local server recorded in `<common dir>/dibs/server.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::discover::{DiscoverError, Lookup};
use crate::client::{Endpoint, is_absent};

/// Under the common directory: where a local server listens, as a [`ServerRecord`].
pub const SERVER_FILE: &str = "dibs/server.json";

/// What a local server writes about itself into [`SERVER_FILE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    pub pid: u32,
    /// Its Unix socket, if it has one.
    #[serde(default)]
    pub socket: Option<PathBuf>,
    /// Its address on the loopback device, if it has one.
    #[serde(default)]
    pub url: Option<String>,
    pub started_at: crate::wire::Time,
    /// The server's name for this repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The file with the secret that signs its tokens, if the secret is in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
}

/// A server, before anyone is identified to it.
pub(super) struct Server {
    pub endpoints: Vec<Endpoint>,
    pub source: String,
    /// The server runs on this machine and serves this repository.
    pub is_local: bool,
    pub repo: Option<String>,
    pub secret_file: Option<PathBuf>,
}

pub(super) fn find(lookup: &Lookup<'_>) -> Result<Server, DiscoverError> {
    let record = recorded(lookup)?;
    let local: Vec<Endpoint> = record.iter().flat_map(|(_, record)| endpoints(record)).collect();
    let source = match named(lookup)? {
        Some((from, endpoint)) if !local.contains(&endpoint) => {
            let source = from.to_owned();
            return Ok(Server { endpoints: vec![endpoint], source, is_local: false, repo: None, secret_file: None });
        }
        // The local server under its public name: its socket is still the better way.
        Some((from, _)) => Some(from.to_owned()),
        None => None,
    };
    match record {
        Some((path, record)) if !local.is_empty() => Ok(Server {
            endpoints: local,
            source: source.unwrap_or_else(|| path.display().to_string()),
            is_local: true,
            repo: record.repo,
            secret_file: record.secret_file,
        }),
        _ => Err(DiscoverError::NoServer),
    }
}

/// The server that a flag, a variable or a setting names, and which of them does.
fn named(lookup: &Lookup<'_>) -> Result<Option<(&'static str, Endpoint)>, DiscoverError> {
    let by_flag = lookup.flags.url.clone().map(|text| ("--url", text));
    let by_variable = || lookup.variable("DIBS_URL").map(|text| ("DIBS_URL", text));
    let by_setting = || lookup.setting("url").map(|text| ("git config dibs.url", text.to_owned()));
    let Some((from, text)) = by_flag.or_else(by_variable).or_else(by_setting) else { return Ok(None) };
    match Endpoint::parse(text.trim()) {
        Ok(endpoint) => Ok(Some((from, endpoint))),
        Err(why) => Err(DiscoverError::BadAddress { from, text, why }),
    }
}

/// The local server's record and its file; none if no server was started here.
fn recorded(lookup: &Lookup<'_>) -> Result<Option<(PathBuf, ServerRecord)>, DiscoverError> {
    let Some(path) = lookup.common_dir.map(|dir| dir.join(SERVER_FILE)) else { return Ok(None) };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(DiscoverError::BadRecord { path, why: format!("cannot be read ({error})") }),
    };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Ok(Some((path, record))),
        Err(error) => Err(DiscoverError::BadRecord { path, why: format!("is not a server's record ({error})") }),
    }
}

/// The addresses of a recorded server, socket first: it is faster, and no other program can be listening there.
fn endpoints(record: &ServerRecord) -> impl Iterator<Item = Endpoint> {
    let socket = record.socket.clone().map(Endpoint::Unix);
    let tcp = record.url.as_deref().and_then(|url| Endpoint::parse(url).ok());
    socket.into_iter().chain(tcp)
}
