//! What `git dibs cluster status` shows, and `git dibs cluster move`: read from and written to etcd, without a server.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::election::{LeaderRecord, WantedRecord};
use super::member::{self, NodeRecord, find_all};
use super::names::Names;
use crate::etcd::messages::TxnRequest;
use crate::etcd::{Etcd, put_leased};

/// How long a wish to move a repository is valid.
const WISH_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether the node leads.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A cluster as etcd knows it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    pub nodes: Vec<NodeStatus>,
    pub repositories: Vec<RepositoryStatus>,
    pub etcd: Vec<EtcdStatus>,
    /// What is wrong.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    pub name: String,
    pub url: String,
    pub version: String,
    /// How many repositories it leads.
    pub leads: usize,
    /// Records that its ledgers have not written yet.
    pub ledger_behind: u64,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryStatus {
    pub name: String,
    /// None if no node leads it.
    pub leader: Option<String>,
    pub epoch: Option<i64>,
    /// The number of the last record.
    pub head: u64,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdStatus {
    pub endpoint: String,
    /// None if it does not answer.
    pub version: Option<String>,
    pub is_leader: bool,
    /// The size of its database, and what of it is in use.
    pub size_bytes: i64,
    pub used_bytes: i64,
    pub errors: Vec<String>,
}

/// Reads everything. A member of etcd that does not answer is no error as long as a majority does.
pub fn read(etcd: &Etcd, prefix: &str) -> Result<ClusterStatus> {
    let names = Names::new(prefix);
    let members = etcd.members();
    let etcd_status: Vec<EtcdStatus> = members
        .iter()
        .map(|member| match &member.status {
            Ok(status) => EtcdStatus {
                endpoint: member.endpoint.clone(),
                version: Some(status.version.clone()),
                is_leader: status.header.as_ref().is_some_and(|header| header.member_id == status.leader),
                size_bytes: status.db_size,
                used_bytes: status.db_size_in_use,
                errors: status.errors.clone(),
            },
            Err(error) => EtcdStatus {
                endpoint: member.endpoint.clone(),
                version: None,
                is_leader: false,
                size_bytes: 0,
                used_bytes: 0,
                errors: vec![error.to_string()],
            },
        })
        .collect();
    member::open_prefix(etcd, &names)?;
    let records: Vec<NodeRecord> = member::nodes(etcd, &names)?;
    let live = find_all(etcd, &names.live())?;
    let leader_of = |name: &str| {
        let found = live.iter().find(|found| found.key == names.leader(name).as_bytes())?;
        Some((serde_json::from_slice::<LeaderRecord>(&found.value).ok()?, found.create_revision))
    };
    let mut repositories = Vec::new();
    for name in repository_names(etcd, &names)? {
        let head = member::find(etcd, &names.journal(&name).head())?;
        let head = head.and_then(|found| serde_json::from_slice::<serde_json::Value>(&found.value).ok());
        let head = head.and_then(|head| head["seq"].as_u64()).unwrap_or_default();
        let leader = leader_of(&name);
        let epoch = leader.as_ref().map(|(_, epoch)| *epoch);
        repositories.push(RepositoryStatus { name, leader: leader.map(|(leader, _)| leader.node), epoch, head });
    }
    let nodes: Vec<NodeStatus> = records
        .iter()
        .map(|record| NodeStatus {
            name: record.name.clone(),
            url: record.url.clone(),
            version: record.version.clone(),
            leads: repositories.iter().filter(|repo| repo.leader.as_ref() == Some(&record.name)).count(),
            ledger_behind: record.ledger_behind,
        })
        .collect();
    let mut problems: Vec<String> = records.iter().flat_map(|own| member::notes(own, &records)).collect();
    for node in &records {
        problems.extend(node.problems.iter().map(|problem| format!("node {}: {problem}", node.name)));
    }
    for member in &etcd_status {
        problems.extend(member.errors.iter().map(|error| format!("etcd {}: {error}", member.endpoint)));
    }
    let importing = |name: &str| live.iter().any(|found| found.key == names.import(name).as_bytes());
    for repo in repositories.iter().filter(|repo| importing(&repo.name)) {
        problems.push(super::transfer::unfinished(&repo.name, repo.leader.is_some()));
    }
    let leaderless = repositories.iter().filter(|repo| repo.leader.is_none());
    problems.extend(leaderless.map(|repo| format!("no node leads {}", repo.name)));
    problems.sort();
    problems.dedup();
    Ok(ClusterStatus { nodes, repositories, etcd: etcd_status, problems })
}

fn repository_names(etcd: &Etcd, names: &Names) -> Result<Vec<String>> {
    // The origins are few and small; the journals are not.
    let origins = names.origin("");
    let mut found: Vec<String> =
        find_all(etcd, &origins)?.iter().filter_map(|found| names.repository_in(&origins, &found.key)).collect();
    let live = names.live();
    found.extend(find_all(etcd, &live)?.iter().filter_map(|found| names.repository_in(&live, &found.key)));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Asks the leader of a repository to hand it to another node, and waits until that one leads.
pub fn move_to(etcd: &Etcd, prefix: &str, repository: &str, node: &str) -> Result<()> {
    let names = Names::new(prefix);
    member::open_prefix(etcd, &names)?;
    let nodes = member::nodes(etcd, &names)?;
    let Some(record) = nodes.iter().find(|known| known.name == node) else {
        let known: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
        bail!("there is no node {node} in the cluster now; it has {}", known.join(", "));
    };
    let repositories = repository_names(etcd, &names)?;
    if !repositories.iter().any(|known| known == repository) {
        bail!("there is no repository {repository} in the cluster; it has {}", repositories.join(", "));
    }
    if !record.serves(repository) {
        bail!("node {node} does not serve {repository}; give it --repo {repository}=PATH first");
    }
    let (lease, _) = etcd.grant_lease(WISH_TIME)?;
    let value = serde_json::to_vec(&WantedRecord { node: node.to_owned() }).expect("a record is plain data");
    let success = vec![put_leased(&names.wanted(repository), &value, lease)];
    etcd.txn(TxnRequest { success, ..TxnRequest::default() })?;
    let start = Instant::now();
    loop {
        let leader = member::find(etcd, &names.leader(repository))?;
        let leader = leader.and_then(|found| serde_json::from_slice::<LeaderRecord>(&found.value).ok());
        let leader = leader.map(|leader| leader.node);
        match leader {
            Some(leader) if leader == node => return Ok(()),
            _ if start.elapsed() < WISH_TIME => std::thread::sleep(LOOK_EVERY),
            leader => {
                let seconds = WISH_TIME.as_secs();
                let who = leader.map_or("no node leads it".to_owned(), |leader| format!("node {leader} leads it"));
                bail!(
                    "node {node} has not taken {repository} over within {seconds} s, and {who} now; see the log of node {node}"
                );
            }
        }
    }
}
