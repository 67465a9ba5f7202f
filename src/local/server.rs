//! Where the server is.
//!
//! `--url`, else `DIBS_URL`, else the server that a session file names, else git's `dibs.url`, else what a local server
//! recorded in `<common dir>/dibs/server.json`, else the address that the token names. If the server is named, a record that
//! cannot be used does not matter.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::data_dir;
use super::destination::Destination;
use super::discover::{DiscoverError, Lookup};
use super::identity::OwnToken;
use crate::client::{Address, Endpoint, is_absent};

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
    /// The server that its tokens name. It stays the same as long as the secret does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The address that clients elsewhere use, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// The names of all repositories that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<String>,
    /// Whether it runs in the background, and ends by itself when it is not used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl ServerRecord {
    /// The record in a file; none if there is none that can be read.
    pub fn read(file: &Path) -> Option<ServerRecord> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }
}

/// A server, before anyone is identified to it.
pub(super) struct Server {
    pub endpoints: Vec<Endpoint>,
    pub source: String,
    /// The server runs on this machine and serves this repository.
    pub is_local: bool,
    pub repo: Option<String>,
    pub secret_file: Option<PathBuf>,
    pub id: Option<String>,
    /// Whether it may be started if it does not run: it is the repository's, and no setting names its address.
    pub may_start: bool,
}

impl Server {
    /// Where a token for this server goes.
    pub fn destination(&self) -> Destination {
        Destination::new(&self.endpoints, self.id.clone())
    }

    /// A server that is not known to be on this machine. It has several addresses if it is a cluster.
    fn elsewhere(endpoints: Vec<Endpoint>, source: String) -> Server {
        Server { endpoints, source, is_local: false, repo: None, secret_file: None, id: None, may_start: false }
    }
}

/// Finds the server, for a caller with this token.
pub(super) fn find(lookup: &Lookup<'_>, own: &OwnToken) -> Result<Server, DiscoverError> {
    let named = named(lookup, own)?;
    let record = match (&named, recorded(lookup.common_dir)) {
        (_, Ok(record)) => record,
        (Some(_), Err(_)) => None,
        (None, Err(error)) => return Err(error),
    };
    // Another user's record must not replace the address that the caller named by the socket in the record.
    let record = record.filter(|record| named.is_none() || record.is_own);
    let mut local: Vec<Endpoint> = record.iter().flat_map(|found| endpoints(&found.record)).collect();
    let source = match named {
        None => None,
        // The nodes of a cluster.
        Some((from, endpoints)) if endpoints.len() > 1 => return Ok(Server::elsewhere(endpoints, from.to_owned())),
        Some((from, endpoints)) => match local.iter_mut().find(|local| local.address == endpoints[0].address) {
            // The local server under its public name: its socket is still the better way.
            Some(same) => {
                *same = endpoints[0].clone();
                Some(from.to_owned())
            }
            // The local server has another port since it was started again, and the old one may be another server's by now.
            None if is_former_address(from, &endpoints[0], own, record.as_ref()) => Some(from.to_owned()),
            None => return Ok(Server::elsewhere(endpoints, from.to_owned())),
        },
    };
    match (record, own) {
        (Some(Recorded { path, record, .. }), _) if !local.is_empty() => Ok(Server {
            endpoints: local,
            // `git-dibs run` gives the address to its command in DIBS_URL.
            may_start: source.as_deref().is_none_or(|from| from == URL_VARIABLE),
            source: source.unwrap_or_else(|| path.display().to_string()),
            is_local: true,
            repo: record.repo,
            secret_file: record.secret_file,
            id: record.id,
        }),
        (_, OwnToken::Found { credential, .. }) if let Some(address) = credential.addresses.first() => {
            Ok(Server::elsewhere(vec![address.clone().into()], format!("the token in {}", credential.from)))
        }
        _ => Err(DiscoverError::NoServer),
    }
}

/// Whether an address that was given to a program is one that the local server had before: it is on this machine, and the
/// token that was given with it names the local server.
fn is_former_address(from: &str, endpoint: &Endpoint, own: &OwnToken, record: Option<&Recorded>) -> bool {
    let is_of_session = from == URL_VARIABLE || from == SESSION_FILE;
    let here = record.and_then(|found| found.record.id.as_deref());
    let names_it =
        |id: &str| matches!(own, OwnToken::Found { credential, .. } if credential.server_id.as_deref() == Some(id));
    is_of_session && endpoint.address.is_on_this_machine() && here.is_some_and(names_it)
}

/// The addresses of the local server of a repository; empty if there is none.
pub(super) fn local_endpoints(common_dir: &Path) -> Vec<Endpoint> {
    let record = recorded(Some(common_dir)).ok().flatten();
    record.iter().flat_map(|found| endpoints(&found.record)).collect()
}

/// The server that a flag, a variable, a session file or a setting names, and which of them does. There are several addresses,
/// separated by commas or in several settings, if it is a cluster; the first that answers is used.
fn named(lookup: &Lookup<'_>, own: &OwnToken) -> Result<Option<(&'static str, Vec<Endpoint>)>, DiscoverError> {
    let of_token = || match own {
        OwnToken::Found { url, .. } => url.clone(),
        _ => None,
    };
    let by_flag = lookup.flags.url.clone().map(|text| ("--url", text));
    let by_variable = || lookup.variable(URL_VARIABLE).map(|text| (URL_VARIABLE, text));
    let by_token = || of_token().map(|text| (SESSION_FILE, text));
    let by_setting = || lookup.setting("url").map(|_| (URL_SETTING, lookup.settings.all("url").join(",")));
    let text = by_flag.or_else(by_variable).or_else(by_token).or_else(by_setting);
    let Some((from, text)) = text else { return Ok(None) };
    let of_user = lookup.settings.of_user("url").iter().flat_map(|text| text.split(','));
    let of_user: Vec<Address> = of_user.filter_map(|text| Address::parse(text.trim()).ok()).collect();
    let mut endpoints = Vec::new();
    for part in parts(&text) {
        let address = match Address::parse(part) {
            Ok(address) => address,
            Err(why) => return Err(DiscoverError::BadAddress { from, text: part.to_owned(), why }),
        };
        let by_user = from != URL_SETTING || of_user.contains(&address);
        endpoints.push(Endpoint { address, own_server_only: !by_user });
    }
    // A repository adds no node to a cluster that the user named.
    if endpoints.iter().any(|endpoint| !endpoint.own_server_only) {
        endpoints.retain(|endpoint| !endpoint.own_server_only);
    }
    Ok(Some((from, endpoints)))
}

/// The addresses in a text, at least one.
fn parts(text: &str) -> Vec<&str> {
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { vec![text.trim()] } else { parts }
}

const URL_VARIABLE: &str = "DIBS_URL";
const SESSION_FILE: &str = "the session file";

/// What messages call the setting.
const URL_SETTING: &str = "git config dibs.url";

/// A local server's record and its file.
struct Recorded {
    path: PathBuf,
    record: ServerRecord,
    /// Whether the file belongs to this user.
    is_own: bool,
}

/// The local server's record; none if no server was started here.
fn recorded(common_dir: Option<&Path>) -> Result<Option<Recorded>, DiscoverError> {
    let Some(path) = common_dir.map(|dir| dir.join(SERVER_FILE)) else { return Ok(None) };
    let read = || -> std::io::Result<(Vec<u8>, bool)> {
        let mut file = std::fs::File::open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok((bytes, data_dir::is_own(&file.metadata()?)))
    };
    let (bytes, is_own) = match read() {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(DiscoverError::BadRecord { path, why: format!("cannot be read ({error})") }),
    };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Ok(Some(Recorded { path, record, is_own })),
        Err(error) => Err(DiscoverError::BadRecord { path, why: format!("is not a server's record ({error})") }),
    }
}

/// The addresses of a recorded server, socket first: it is faster, and no other program can be listening there.
fn endpoints(record: &ServerRecord) -> impl Iterator<Item = Endpoint> {
    let socket = record.socket.clone().map(Address::Unix);
    let tcp = record.url.as_deref().and_then(|url| Address::parse(url).ok());
    socket.into_iter().chain(tcp).map(Endpoint::of_repository)
}
