//! A journal in etcd, for several servers: only the node that leads a repository can write it.
//!
//! Every change is a transaction that compares the leader's epoch, which is the revision that created the leader's key;
//! an append compares the head too. So two nodes that both believe to lead cannot both write. A lease has no part in
//! this; it only decides when answers without a record may leave, see [`Journal::confirm`].
//!
//! Records that are appended together are one key, or several pieces and one key that makes them valid; see `append` for the
//! rule about unclear answers. A snapshot is in chunks, made valid by one pointer; see `snapshot`.

mod append;
mod entry;
mod keys;
mod read;
mod recent;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use keys::EtcdKeys;

use super::{Journal, JournalError, JournalReader, LoadCallback, RecordPage, assert_numbered};
use crate::engine::{Record, Seq};
use crate::etcd::messages::{
    KeyValue, OperationResult, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use crate::etcd::{EtcdError, KeyValueStore, create_is};
use entry::Head;
use recent::RecentAppends;

/// The most bytes of one value. etcd accepts requests of 1.5 MiB, and a transaction is to have 1 MiB at the most.
const VALUE_BYTES_MAX: usize = 960 * 1024;

/// What a node knows about its leadership of a repository without asking etcd.
pub trait Leadership: Send + Sync {
    /// No other node can lead, whatever the clocks say within the margin.
    fn is_certain(&self) -> bool;

    /// This node may still lead. Once this is false, unclear calls are not sent again.
    fn is_possible(&self) -> bool;
}

/// Of a program that only reads. It asks once.
struct NoLeadership;

impl Leadership for NoLeadership {
    fn is_certain(&self) -> bool {
        false
    }

    fn is_possible(&self) -> bool {
        false
    }
}

/// A journal in etcd, opened by the node that leads.
pub struct EtcdJournal {
    place: Place,
    head: Head,
    /// Whether the head's key exists.
    has_head: bool,
    broken: bool,
}

struct EtcdReader {
    place: Place,
}

/// Where the journal is, and as which leader this node writes it.
#[derive(Clone)]
struct Place {
    store: Arc<dyn KeyValueStore>,
    keys: Arc<EtcdKeys>,
    epoch: i64,
    leadership: Arc<dyn Leadership>,
    /// What this node has appended last.
    recent: Arc<Mutex<RecentAppends>>,
    /// Revisions at which snapshots were taken, with the time, for a later compaction.
    revisions: Arc<Mutex<VecDeque<(Instant, i64)>>>,
}

impl EtcdJournal {
    /// Opens the journal as the leader of this epoch, and removes what an earlier leader left unfinished.
    pub fn open(
        store: Arc<dyn KeyValueStore>,
        keys: EtcdKeys,
        epoch: i64,
        leadership: Arc<dyn Leadership>,
    ) -> Result<EtcdJournal, JournalError> {
        let (recent, revisions) = (Arc::default(), Arc::default());
        let place = Place { store, keys: Arc::new(keys), epoch, leadership, recent, revisions };
        let head = place.head(0)?;
        place.remove_unfinished_snapshots()?;
        Ok(EtcdJournal { place, has_head: head.is_some(), head: head.unwrap_or_default(), broken: false })
    }

    /// A reader for a program that leads nothing. It cannot store snapshots.
    pub fn read_only(store: Arc<dyn KeyValueStore>, keys: EtcdKeys) -> Result<Box<dyn JournalReader>, JournalError> {
        let (leadership, recent, revisions) = (Arc::new(NoLeadership), Arc::default(), Arc::default());
        let place = Place { store, keys: Arc::new(keys), epoch: 0, leadership, recent, revisions };
        Ok(Box::new(EtcdReader { place }))
    }

    /// Begins an empty journal with a number other than zero, for records that were in another journal before.
    pub fn begin_after(&mut self, seq: Seq) -> Result<(), JournalError> {
        assert!(!self.has_head && self.head.seq == Seq::ZERO, "the journal has records");
        self.head.seq = seq;
        Ok(())
    }

    pub fn head(&self) -> Seq {
        self.head.seq
    }
}

impl Journal for EtcdJournal {
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.place.load(Seq(u64::MAX), on)
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        assert_numbered(after, records);
        if self.broken {
            return Err(JournalError::EtcdBroken);
        }
        if after != self.head.seq {
            return Err(JournalError::Superseded { expected: after, actual_head: self.head.seq });
        }
        let Some(last) = records.last() else { return Ok(()) };
        let result = append::append(&self.place, self.has_head.then_some(self.head), after, records);
        match result {
            Ok(lines) => {
                self.head = Head { seq: last.seq, bytes: self.head.bytes + lines.len() as u64 };
                self.has_head = true;
                self.place.recent().push(records[0].seq, last.seq, lines);
                Ok(())
            }
            Err(error) => {
                self.broken = error.may_be_stored();
                Err(error)
            }
        }
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        if self.place.leadership.is_certain() { Ok(()) } else { self.place.confirm_epoch() }
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        Ok(Box::new(EtcdReader { place: self.place.clone() }))
    }
}

impl JournalReader for EtcdReader {
    fn load(&mut self, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.place.load(up_to, on)
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<RecordPage, JournalError> {
        self.place.read(after, limit)
    }

    fn head(&mut self) -> Result<Seq, JournalError> {
        Ok(self.place.head(0)?.unwrap_or_default().seq)
    }

    fn first_within(&mut self, bytes: u64) -> Result<Seq, JournalError> {
        self.place.first_within(bytes)
    }

    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError> {
        let saved = self.place.save_snapshot(at, state, keep_from);
        self.place.recent().oldest = None;
        saved
    }
}

impl Place {
    fn recent(&self) -> MutexGuard<'_, RecentAppends> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads again until the answer is clear.
    fn range(&self, doing: &'static str, request: RangeRequest) -> Result<RangeResponse, JournalError> {
        self.until_clear(doing, || self.store.range(request.clone()))
    }

    /// For transactions that may be carried out twice.
    fn txn(&self, doing: &'static str, request: TxnRequest) -> Result<TxnResponse, JournalError> {
        self.until_clear(doing, || self.store.txn(request.clone()))
    }

    fn until_clear<T>(
        &self,
        doing: &'static str,
        mut call: impl FnMut() -> Result<T, EtcdError>,
    ) -> Result<T, JournalError> {
        let mut tries = 0;
        loop {
            match call() {
                Err(error) if error.is_unclear() && self.leadership.is_possible() => {
                    self.store.pause(tries);
                    tries += 1;
                }
                result => return result.map_err(|source| JournalError::Etcd { doing, source }),
            }
        }
    }

    /// Changes something as the leader. The change may be carried out twice.
    fn change(&self, doing: &'static str, operations: Vec<RequestOp>) -> Result<TxnResponse, JournalError> {
        let compare = vec![create_is(self.keys.leader(), self.epoch)];
        let reply = self.txn(doing, TxnRequest { compare, success: operations, failure: Vec::new() })?;
        if reply.succeeded { Ok(reply) } else { Err(JournalError::Deposed) }
    }

    /// Whether this node still leads, as a majority of etcd knows it now.
    fn confirm_epoch(&self) -> Result<(), JournalError> {
        let request = RangeRequest { key: self.keys.leader().into(), ..RangeRequest::default() };
        let reply = self.range("confirm who leads", request)?;
        match reply.kvs.first() {
            Some(leader) if leader.create_revision == self.epoch => Ok(()),
            _ => Err(JournalError::Deposed),
        }
    }

    /// The head at a revision; zero is the newest.
    fn head(&self, revision: i64) -> Result<Option<Head>, JournalError> {
        let request = RangeRequest { key: self.keys.head().into(), revision, ..RangeRequest::default() };
        let reply = self.range("read the head of the journal", request)?;
        reply.kvs.first().map(|found| entry::decode(&found.key, &found.value)).transpose()
    }
}

/// The keys that each range of a transaction read.
fn ranges(reply: TxnResponse) -> Vec<Vec<KeyValue>> {
    let keys = reply.responses.into_iter().map(|response| match response.result {
        Some(OperationResult::Range(range)) => range.kvs,
        _ => Vec::new(),
    });
    keys.collect()
}
