//! Joining a cluster: what its prefix must look like, and the record by which the other nodes know this one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::names::Names;
use super::view::NodeAddress;
use crate::etcd::messages::{KeyValue, RangeRequest, TxnRequest};
use crate::etcd::{Etcd, EtcdError, after_prefix, delete, get, is_absent, mod_is, put, put_leased};

/// The newest format of the keys that this version reads, and the oldest that it writes. The cluster has one format, which is
/// raised once all of its nodes read a newer one.
pub const FORMAT: u32 = 1;
pub const OLDEST_WRITTEN: u32 = 1;

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
    /// What it can lead. None of a version that does not say so.
    #[serde(default)]
    pub repositories: Option<Vec<String>>,
}

impl NodeRecord {
    /// Whether it may lead this repository.
    pub fn serves(&self, repository: &str) -> bool {
        self.repositories.as_ref().is_none_or(|all| all.iter().any(|name| name == repository))
    }
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

/// The record of the cluster, which exists once a node has joined, with its key and value.
fn cluster(etcd: &Etcd, names: &Names) -> Result<Option<(ClusterRecord, KeyValue)>, EtcdError> {
    let request = RangeRequest { key: names.cluster().into(), ..RangeRequest::default() };
    let found = etcd.range(request)?.kvs.into_iter().next();
    Ok(found.and_then(|found| Some((serde_json::from_slice(&found.value).ok()?, found))))
}

/// Raises the format of the cluster to the newest one that all nodes read, if that is newer. Returns why this version may not
/// write it all the same.
pub fn agree_on_format(etcd: &Etcd, names: &Names, nodes: &[NodeRecord]) -> Result<Option<String>, EtcdError> {
    let Some((record, found)) = cluster(etcd, names)? else { return Ok(None) };
    let oldest_node = nodes.iter().min_by_key(|node| node.format);
    let agreed = oldest_node.map_or(FORMAT, |node| node.format.min(FORMAT));
    if agreed <= record.format {
        return Ok(format_problem(record.format, oldest_node));
    }
    let raised = ClusterRecord { format: agreed, ..record };
    let value = serde_json::to_vec(&raised).expect("a record is plain data");
    let key = names.cluster();
    let request = TxnRequest {
        compare: vec![mod_is(&key, found.mod_revision)],
        success: vec![put(&key, &value)],
        failure: vec![],
    };
    if etcd.txn(request)?.succeeded {
        tracing::info!(format = agreed, "all nodes read a newer format, and the cluster has it from now on");
        return Ok(format_problem(agreed, oldest_node));
    }
    // Another node does the same.
    Ok(format_problem(raised.format, oldest_node))
}

/// Why this version does not write the format of the cluster.
fn format_problem(format: u32, oldest_node: Option<&NodeRecord>) -> Option<String> {
    if format > FORMAT {
        return Some(format!("the cluster has format {format}, and this git-dibs knows formats up to {FORMAT}"));
    }
    if format >= OLDEST_WRITTEN {
        return None;
    }
    Some(match oldest_node.filter(|node| node.format < OLDEST_WRITTEN) {
        Some(NodeRecord { name, version, format: known, .. }) => format!(
            "node {name} of version {version} knows formats up to {known}, and this git-dibs writes none older than \
             {OLDEST_WRITTEN}; upgrade node {name}, or stop it"
        ),
        None => format!("the cluster has format {format}, and this git-dibs writes none older than {OLDEST_WRITTEN}"),
    })
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
            // Another node may have begun the cluster since.
            if find(etcd, &key)?.is_some() {
                continue;
            }
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

/// Takes the record of this node away: it stops. If this fails, the record goes with the lease.
pub fn unregister(etcd: &Etcd, names: &Names, node: &NodeRecord) {
    let key = names.node(&node.name);
    let request = RangeRequest { key: key.clone().into(), ..RangeRequest::default() };
    let Some(found) = etcd.range(request).ok().and_then(|reply| reply.kvs.into_iter().next()) else { return };
    if serde_json::from_slice::<NodeRecord>(&found.value).is_ok_and(|found| found.instance == node.instance) {
        let compare = vec![mod_is(&key, found.mod_revision)];
        let _ = etcd.txn(TxnRequest { compare, success: vec![delete(&key, b"")], failure: vec![] });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_a_node_does_not_know_or_that_is_not_written_any_more_is_a_problem() {
        assert_eq!(format_problem(FORMAT, None), None);
        let too_new = format_problem(FORMAT + 1, None).unwrap();
        assert!(too_new.contains("knows formats up to"), "{too_new}");
        let too_old = format_problem(OLDEST_WRITTEN - 1, None).unwrap();
        assert!(too_old.contains("writes none older than"), "{too_old}");
    }
}
