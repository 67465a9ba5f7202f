//! Joining a cluster: what its prefix must look like, and the record by which the other nodes know this one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::names::Names;
use super::view::NodeAddress;
use crate::etcd::messages::{KeyValue, RangeRequest, TxnRequest};
use crate::etcd::{Etcd, EtcdError, after_prefix, get, is_absent, mod_is, put, put_leased};

/// The format of the keys. A later version writes the oldest format that a live node knows.
pub const FORMAT: u32 = 1;

/// What is in the key that names the cluster.
const PROGRAM: &str = "git-dibs";

/// Clocks of nodes may differ by this much before it is reported. A record can be some seconds old.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(60);

/// How long an unclear call is repeated at the start.
const START_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ClusterRecord {
    program: String,
    format: u32,
    /// Hexadecimal digits.
    secret: String,
}

/// A node, as the others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub name: String,
    pub url: String,
    pub version: String,
    /// The newest format that it knows.
    pub format: u32,
    /// Made at every start.
    pub instance: String,
    /// Names the keys that it verifies tokens with.
    pub keys: Option<String>,
    /// Its wall clock when the record was written, in milliseconds since 1970.
    pub clock_ms: i64,
    /// Records that its ledgers have not written yet.
    #[serde(default)]
    pub ledger_behind: u64,
    /// What it cannot do.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// Repeats a call until it is clear, for a while.
pub fn patiently<T>(mut call: impl FnMut() -> Result<T, EtcdError>) -> Result<T, EtcdError> {
    let start = Instant::now();
    loop {
        match call() {
            Err(error) if error.is_unclear() && start.elapsed() < START_TIME_MAX => {
                std::thread::sleep(Duration::from_millis(100));
            }
            result => return result,
        }
    }
}

pub fn find(etcd: &Etcd, key: &str) -> Result<Option<KeyValue>, EtcdError> {
    let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
    Ok(patiently(|| etcd.range(request.clone()))?.kvs.into_iter().next())
}

pub fn find_all(etcd: &Etcd, prefix: &str) -> Result<Vec<KeyValue>, EtcdError> {
    let request =
        RangeRequest { key: prefix.into(), range_end: after_prefix(prefix.as_bytes()), ..RangeRequest::default() };
    Ok(etcd.range(request)?.kvs)
}

/// Checks that the prefix belongs to git-dibs or is empty, and returns the secret that the nodes share.
pub fn open_prefix(etcd: &Etcd, names: &Names) -> Result<Vec<u8>> {
    let key = names.cluster();
    for _ in 0..2 {
        if let Some(found) = find(etcd, &key)? {
            let record: ClusterRecord = serde_json::from_slice(&found.value)
                .ok()
                .filter(|record: &ClusterRecord| record.program == PROGRAM)
                .with_context(|| format!("the key {key} in etcd was not written by git-dibs; choose another prefix"))?;
            if record.format > FORMAT {
                bail!(
                    "the cluster at {} has format {}, and this git-dibs knows formats up to {FORMAT}; use a newer git-dibs",
                    names.all(),
                    record.format
                );
            }
            return Ok(record.secret.into_bytes());
        }
        let request = RangeRequest {
            key: names.all().into(),
            range_end: after_prefix(names.all().as_bytes()),
            limit: 1,
            keys_only: true,
            ..RangeRequest::default()
        };
        if let Some(foreign) = patiently(|| etcd.range(request.clone()))?.kvs.first() {
            let foreign = String::from_utf8_lossy(&foreign.key).into_owned();
            bail!(
                "the prefix {} in etcd has keys that git-dibs did not write, such as {foreign}; choose another prefix",
                names.all()
            );
        }
        let secret = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let record = ClusterRecord { program: PROGRAM.to_owned(), format: FORMAT, secret };
        let value = serde_json::to_vec(&record).expect("a record is plain data");
        let create = TxnRequest { compare: vec![is_absent(&key)], success: vec![put(&key, &value)], failure: vec![] };
        patiently(|| etcd.txn(create.clone()))?;
        // Another node may have been first; what is stored now counts.
    }
    bail!("the key {key} in etcd disappears again and again; does another program use the prefix?")
}

/// Writes the record of this node. A record of the same name and address is that of an earlier run; one of another address
/// is that of another node, unless it goes within `patience`.
pub fn register(etcd: &Etcd, names: &Names, node: &NodeRecord, lease: i64, patience: Duration) -> Result<()> {
    let (key, start) = (names.node(&node.name), Instant::now());
    let value = serde_json::to_vec(node).expect("a record is plain data");
    loop {
        let found = find(etcd, &key)?;
        let other = found.as_ref().and_then(|found| serde_json::from_slice::<NodeRecord>(&found.value).ok());
        if let Some(other) = other.filter(|other| other.url != node.url) {
            if start.elapsed() > patience {
                bail!(
                    "a node named {} is in the cluster already, at {}; give this one another name with --node",
                    node.name,
                    other.url
                );
            }
            std::thread::sleep(Duration::from_millis(200));
            continue;
        }
        let request = TxnRequest {
            compare: vec![mod_is(&key, found.map_or(0, |found| found.mod_revision))],
            success: vec![put_leased(&key, &value, lease)],
            failure: vec![get(&key)],
        };
        match etcd.txn(request) {
            Ok(reply) if reply.succeeded => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_unclear() && start.elapsed() < patience => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The nodes that are in the cluster now.
pub fn nodes(etcd: &Etcd, names: &Names) -> Result<Vec<NodeRecord>, EtcdError> {
    let found = find_all(etcd, &names.nodes())?;
    Ok(found.iter().filter_map(|found| serde_json::from_slice(&found.value).ok()).collect())
}

/// The nodes other than this one.
pub fn others(own: &NodeRecord, nodes: &[NodeRecord]) -> Vec<NodeAddress> {
    let others = nodes.iter().filter(|other| other.name != own.name);
    others.map(|other| NodeAddress { node: other.name.clone(), url: other.url.clone() }).collect()
}

/// What is worth knowing about the other nodes.
pub fn notes(own: &NodeRecord, nodes: &[NodeRecord]) -> BTreeSet<String> {
    let mut notes = BTreeSet::new();
    for other in nodes.iter().filter(|other| other.name != own.name) {
        let (name, version) = (&other.name, &other.version);
        if other.format > FORMAT {
            notes.insert(format!("node {name} has the newer version {version}; upgrade this node too"));
        }
        if other.keys != own.keys {
            notes
                .insert(format!("node {name} verifies tokens with other keys; give all nodes the same secret or JWKS"));
        }
        let difference = Duration::from_millis(wall_ms().abs_diff(other.clock_ms));
        if difference > CLOCK_DIFFERENCE_MAX {
            // In steps, so that it is one note and not one for each second.
            let minutes = difference.as_secs() / 60;
            let about = if minutes < 60 { "minutes".to_owned() } else { format!("{} h", minutes / 60) };
            notes.insert(format!("the clock of node {name} differs by {about}; tokens may count as expired there"));
        }
    }
    notes
}

pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
