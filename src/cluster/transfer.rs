//! A journal from an SQLite file into etcd, and back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::election::LeaderRecord;
use super::lease::{Lease, TermLeadership};
use super::member::{self, wall_ms};
use super::names::Names;
use super::view::Bell;
use crate::boot_clock;
use crate::engine::{Record, Seq, Timestamp};
use crate::etcd::messages::{Compare, OperationResult, RangeRequest, RequestOp, TxnRequest, TxnResponse};
use crate::etcd::{Etcd, EtcdError, after_prefix, create_is, delete, get, is_absent, put, put_leased, value_is};
use crate::journal::{EtcdJournal, EtcdKeys, Journal, LoadItem, SqliteJournal, begin_generation};

/// Records that are copied at once.
const PAGE: usize = 2000;

/// What the key of a leader says instead of the name of a node, and the value of the key of an unfinished import.
const IMPORT: &str = "import";
const UNFINISHED: &[u8] = b"unfinished";

/// The import was paused for longer than its lease, or etcd did not answer for as long.
const LOST: &str = "the import lost its lease, and nothing of it is valid; repeat it";

/// The lease of an import. It is kept alive, so nothing waits for long after one that was killed.
const LEASE_TIME: Duration = Duration::from_secs(10);

const KEEP_EVERY: Duration = Duration::from_secs(2);

/// Why no node leads a repository whose import has not been finished.
pub(super) fn unfinished(repository: &str, is_running: bool) -> String {
    match is_running {
        true => format!("the journal of {repository} is being imported; no node leads it until that is finished"),
        false => format!(
            "an import of the journal of {repository} was not finished, so no node leads it; repeat git dibs cluster import, \
             which begins again"
        ),
    }
}

/// Copies the journal at `path` to a repository of the cluster that has none yet. Its numbers continue in a new generation,
/// so that none is given out twice if the old server was used since. Returns the last copied number and the next one.
///
/// While a key says so, the journal in etcd is not complete, and no node leads it. The last transaction deletes that key. What
/// an import that broke off has left is deleted by the next one.
pub fn import(etcd: &Arc<Etcd>, prefix: &str, repository: &str, path: &Path) -> Result<(Seq, Seq)> {
    if !path.try_exists().unwrap_or(false) {
        bail!("there is no journal at {}; name the directory of a server with --data", path.display());
    }
    // Locks it, so no server may run on it.
    let source = SqliteJournal::open(path)?;
    let names = Names::new(prefix);
    member::open_prefix(etcd, &names)?;
    if let Some(problem) = member::agree_on_format(etcd, &names, &member::nodes(etcd, &names)?)? {
        bail!(problem);
    }
    let lead = Lead::take(etcd, &names, repository)?;
    match copy(etcd, &names, repository, &source, &lead) {
        Ok(numbers) => {
            lead.finish()?;
            Ok(numbers)
        }
        Err(error) => {
            // If this fails, the next import does it.
            let _ = lead.discard();
            Err(error)
        }
    }
}

fn copy(etcd: &Arc<Etcd>, names: &Names, repository: &str, source: &SqliteJournal, lead: &Lead) -> Result<(Seq, Seq)> {
    lead.delete_copied()?;
    let mut journal = EtcdJournal::open(etcd.clone(), names.journal(repository), lead.epoch, lead.leadership.clone())?;
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
/// the journal at one moment. Its numbers continue in a new generation, so that a server on it gives out none that the cluster
/// has given out. Returns the last copied number and the next one.
pub fn export(etcd: &Arc<Etcd>, prefix: &str, repository: &str, path: &Path) -> Result<(Seq, Seq)> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists already, and an export never replaces a file; name another directory", path.display());
    }
    let names = Names::new(prefix);
    member::open_prefix(etcd, &names)?;
    if member::find(etcd, &names.import(repository))?.is_some() {
        bail!(unfinished(repository, member::find(etcd, names.journal(repository).leader())?.is_some()));
    }
    // It only reads, so it is the leader of no epoch.
    let mut source = EtcdJournal::read_only(etcd.clone(), names.journal(repository))?;
    if source.head()? == Seq::ZERO {
        bail!("the cluster has no journal of {repository}; git dibs cluster status lists what it has");
    }
    // It gets its name when it is complete: a server would take what is there for all of it.
    let partial = path.with_extension("partial");
    remove_journal(&partial);
    let mut journal = SqliteJournal::open(&partial).context("cannot create the journal")?;
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
    let last = journal.head();
    let next = begin_generation(&mut journal, last, Timestamp(wall_ms()))?;
    drop(journal);
    std::fs::rename(&partial, path).with_context(|| format!("cannot create {}", path.display()))?;
    remove_journal(&partial);
    Ok((last, next))
}

/// Removes what an export that broke off has left.
fn remove_journal(partial: &Path) {
    for end in ["", "-wal", "-shm", ".lock"] {
        let mut name = partial.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
}

/// The leadership of a repository while its journal is copied into the cluster.
struct Lead {
    etcd: Arc<Etcd>,
    keys: EtcdKeys,
    epoch: i64,
    leadership: Arc<TermLeadership>,
    /// Exists until the journal is complete.
    import: String,
    origin: String,
    /// Ends the keeper.
    bell: Arc<Bell>,
    keeper: Option<JoinHandle<()>>,
}

impl Lead {
    /// Becomes the leader of a repository that has no journal, or one that an import has left unfinished.
    fn take(etcd: &Arc<Etcd>, names: &Names, repository: &str) -> Result<Lead> {
        let (keys, import) = (names.journal(repository), names.import(repository));
        let asked_at = boot_clock::now_ms();
        let (id, ttl) = member::patiently(|| etcd.grant_lease(LEASE_TIME))?;
        let instance = format!("{IMPORT}-{}", uuid::Uuid::now_v7().simple());
        let record = LeaderRecord { node: IMPORT.to_owned(), url: String::new(), instance };
        let value = serde_json::to_vec(&record).expect("a record is plain data");
        let take = |of_journal: Compare| TxnRequest {
            compare: vec![is_absent(keys.leader()), of_journal],
            success: vec![put_leased(keys.leader(), &value, id), put(&import, UNFINISHED)],
            failure: vec![],
        };
        let mut epoch = None;
        // A journal may only be replaced if another import has left it.
        for of_journal in [is_absent(&keys.head()), value_is(&import, UNFINISHED)] {
            let request = take(of_journal);
            let reply = member::patiently(|| etcd.txn(request.clone()))?;
            epoch = epoch.or(reply.succeeded.then(|| reply.header.unwrap_or_default().revision));
            if epoch.is_some() {
                break;
            }
        }
        if epoch.is_none() {
            let leader = member::find(etcd, keys.leader())?;
            let found = leader.as_ref().and_then(|found| serde_json::from_slice::<LeaderRecord>(&found.value).ok());
            match found {
                // The answer to an attempt was lost.
                Some(found) if found == record => epoch = leader.map(|leader| leader.create_revision),
                found => {
                    let _ = etcd.revoke_lease(id);
                    bail!(refusal(repository, found.as_ref()));
                }
            }
        }
        let lease = Arc::new(Lease::new(id, ttl, asked_at));
        let leadership = Arc::new(TermLeadership { lease, over: AtomicBool::new(false) });
        let bell = Arc::<Bell>::default();
        let (of_keeper, to_keep, end) = (etcd.clone(), leadership.clone(), bell.clone());
        let keeper = std::thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || keep(&of_keeper, &to_keep, &end))
            .context("cannot start a thread")?;
        let epoch = epoch.expect("it is known by now");
        Ok(Lead {
            etcd: etcd.clone(),
            keys,
            epoch,
            leadership,
            import,
            origin: names.origin(repository),
            bell,
            keeper: Some(keeper),
        })
    }

    /// Deletes everything of the journal.
    fn delete_copied(&self) -> Result<()> {
        let all = self.keys.all();
        match self.change(vec![delete(all, &after_prefix(all.as_bytes()))])?.succeeded {
            true => Ok(()),
            false => bail!(LOST),
        }
    }

    /// Leaves the repository without a journal, as it was before.
    fn discard(&self) -> Result<()> {
        let all = self.keys.all();
        let journal = delete(all, &after_prefix(all.as_bytes()));
        self.change(vec![journal, delete(&self.import, b""), delete(self.keys.leader(), b"")]).map(drop)
    }

    /// Makes the journal valid for the nodes, and lets one of them lead at once. From now on it is known in which etcd the
    /// journal was written.
    fn finish(&self) -> Result<()> {
        let origin = put(&self.origin, self.cluster_id()?.as_bytes());
        let reply = self.change(vec![origin, delete(&self.import, b""), delete(self.keys.leader(), b"")])?;
        let is_unfinished = reply.responses.into_iter().any(|response| match response.result {
            Some(OperationResult::Range(range)) => !range.kvs.is_empty(),
            _ => false,
        });
        // If the key is gone, an earlier attempt did it, and its answer was lost.
        if !reply.succeeded && is_unfinished {
            bail!(LOST);
        }
        Ok(())
    }

    /// Names the etcd.
    fn cluster_id(&self) -> Result<String> {
        let request = RangeRequest { key: self.origin.clone().into(), ..RangeRequest::default() };
        let reply = member::patiently(|| self.etcd.range(request.clone()))?;
        Ok(reply.header.unwrap_or_default().cluster_id.to_string())
    }

    fn change(&self, success: Vec<RequestOp>) -> Result<TxnResponse> {
        let compare = vec![create_is(self.keys.leader(), self.epoch)];
        let request = TxnRequest { compare, success, failure: vec![get(&self.import)] };
        Ok(member::patiently(|| self.etcd.txn(request.clone()))?)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.leadership.over.store(true, Ordering::SeqCst);
        self.bell.ring();
        self.keeper.take().map(JoinHandle::join);
        let _ = self.change(vec![delete(self.keys.leader(), b"")]);
        let _ = self.etcd.revoke_lease(self.leadership.lease.id);
    }
}

/// The thread that keeps the lease of an import alive.
fn keep(etcd: &Etcd, leadership: &TermLeadership, end: &Bell) {
    let mut heard = 0;
    loop {
        end.wait(&mut heard, KEEP_EVERY);
        if leadership.over.load(Ordering::SeqCst) {
            return;
        }
        let asked_at = boot_clock::now_ms();
        match etcd.keep_lease(leadership.lease.id) {
            Ok(()) => leadership.lease.renewed(asked_at),
            Err(EtcdError::LeaseGone) => leadership.lease.end(),
            Err(_) => {}
        }
    }
}

/// Why a repository cannot be imported now. `leader` is who leads it.
fn refusal(repository: &str, leader: Option<&LeaderRecord>) -> String {
    match leader {
        Some(leader) if leader.node == IMPORT => {
            let seconds = LEASE_TIME.as_secs();
            format!("an import of {repository} runs, or was killed in the last {seconds} s; try again in {seconds} s")
        }
        Some(_) => format!("a node leads {repository} now; import before the nodes are started with it"),
        None => format!("the cluster has a journal of {repository} already; import into an empty one"),
    }
}
