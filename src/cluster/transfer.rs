//! A journal from an SQLite file into etcd, and back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::election::LeaderRecord;
use super::member::{self, wall_ms};
use super::names::Names;
use crate::engine::{Record, Seq, Timestamp};
use crate::etcd::messages::TxnRequest;
use crate::etcd::{Etcd, create_is, delete, is_absent, put_leased};
use crate::journal::{EtcdJournal, Journal, Leadership, LoadItem, SqliteJournal, begin_generation};

/// Records that are copied at once.
const PAGE: usize = 2000;

/// How long the copying may take before a node could begin to lead.
const LEASE_TIME: Duration = Duration::from_secs(3600);

/// Nothing else is known, and nothing else is needed: every write compares the epoch.
struct Copying;

impl Leadership for Copying {
    fn is_certain(&self) -> bool {
        true
    }

    fn is_possible(&self) -> bool {
        true
    }
}

/// Copies the journal at `path` to a repository of the cluster that has none yet. Its numbers continue in a new generation,
/// so that none is given out twice if the old server was used since. Returns the last copied number and the next one.
pub fn import(etcd: &Arc<Etcd>, prefix: &str, repository: &str, path: &Path) -> Result<(Seq, Seq)> {
    if !path.try_exists().unwrap_or(false) {
        bail!("there is no journal at {}; name the directory of a server with --data", path.display());
    }
    // Locks it, so no server may run on it.
    let source = SqliteJournal::open(path)?;
    let names = Names::new(prefix);
    member::open_prefix(etcd, &names)?;
    let lead = Lead::take(etcd, &names, repository)?;
    let mut journal = EtcdJournal::open(etcd.clone(), names.journal(repository), lead.epoch, Arc::new(Copying))?;
    if journal.head() > Seq::ZERO {
        bail!(
            "the cluster has a journal of {repository} already, up to record {}; import into an empty one",
            journal.head().0
        );
    }
    let mut reader = source.reader()?;
    let mut snapshot = None;
    reader.load(Seq::ZERO, &mut |item| {
        if let LoadItem::Snapshot { at, state } = item {
            snapshot = Some((at, state));
        }
        Ok(())
    })?;
    let oldest = reader.read(Seq::ZERO, 1)?.oldest;
    let mut after = Seq(oldest.0 - 1);
    journal.begin_after(after)?;
    loop {
        let records = reader.read(after, PAGE)?.records;
        let Some(last) = records.last().map(|record| record.seq) else { break };
        for run in records.chunk_by(|one, next| one.seq.next() == next.seq) {
            journal.append(after, run)?;
            after = run[run.len() - 1].seq;
        }
        after = last;
    }
    if let Some((at, state)) = snapshot {
        journal.reader()?.save_snapshot(at, &state, oldest)?;
    }
    let next = begin_generation(&mut journal, after, Timestamp(wall_ms()))?;
    Ok((after, next))
}

/// Copies the journal of a repository to a new SQLite file: the snapshot, and everything after it. Nodes may go on; the copy is
/// the journal at one moment. Returns its last number.
pub fn export(etcd: &Arc<Etcd>, prefix: &str, repository: &str, path: &Path) -> Result<Seq> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists already, and an export never replaces a file; name another directory", path.display());
    }
    let names = Names::new(prefix);
    member::open_prefix(etcd, &names)?;
    // It only reads, so it is the leader of no epoch.
    let mut source = EtcdJournal::read_only(etcd.clone(), names.journal(repository))?;
    if source.head()? == Seq::ZERO {
        bail!("the cluster has no journal of {repository}; git dibs cluster status lists what it has");
    }
    let mut journal = SqliteJournal::open(path).context("cannot create the journal")?;
    let (mut after, mut records) = (Seq::ZERO, Vec::<Record>::new());
    source.load(Seq(u64::MAX), &mut |item| {
        match item {
            LoadItem::Snapshot { at, state } => {
                journal.begin_with_snapshot(at, &state)?;
                after = at;
            }
            LoadItem::Record(record) => {
                let joins = records.last().is_none_or(|last| last.seq.next() == record.seq);
                if !joins || records.len() >= PAGE {
                    journal.append(after, &records)?;
                    after = records[records.len() - 1].seq;
                    records.clear();
                }
                records.push(record);
            }
        }
        Ok(())
    })?;
    journal.append(after, &records)?;
    Ok(journal.head())
}

/// The leadership of a repository while it is copied.
struct Lead<'a> {
    etcd: &'a Etcd,
    key: String,
    epoch: i64,
    lease: i64,
}

impl<'a> Lead<'a> {
    fn take(etcd: &'a Etcd, names: &Names, repository: &str) -> Result<Lead<'a>> {
        let key = names.leader(repository);
        let (lease, _) = etcd.grant_lease(LEASE_TIME)?;
        let record = LeaderRecord { node: "import".to_owned(), url: String::new(), instance: "import".to_owned() };
        let value = serde_json::to_vec(&record).expect("a record is plain data");
        let success = vec![put_leased(&key, &value, lease)];
        let reply = etcd.txn(TxnRequest { compare: vec![is_absent(&key)], success, failure: vec![] })?;
        if !reply.succeeded {
            let _ = etcd.revoke_lease(lease);
            bail!("a node leads {repository} now; import before the nodes are started with it");
        }
        Ok(Lead { etcd, key, epoch: reply.header.unwrap_or_default().revision, lease })
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let compare = vec![create_is(&self.key, self.epoch)];
        let _ = self.etcd.txn(TxnRequest { compare, success: vec![delete(&self.key, b"")], failure: vec![] });
        let _ = self.etcd.revoke_lease(self.lease);
    }
}
