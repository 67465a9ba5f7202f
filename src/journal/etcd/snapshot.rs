//! Snapshots in etcd: chunks below an id of their own, made valid by one pointer; then what they replace is dropped.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::entry::{SnapshotPointer, encode};
use super::read::State;
use super::{Place, VALUE_BYTES_MAX, ranges};
use crate::engine::Seq;
use crate::etcd::messages::{RangeRequest, TxnRequest};
use crate::etcd::{EtcdError, after_prefix, create_is, delete, get, mod_is, put};
use crate::journal::JournalError;

/// A read sees one state of etcd; none takes this long.
const READ_TIME_MAX: Duration = Duration::from_secs(30);

impl Place {
    pub(super) fn save_snapshot(&self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError> {
        let stored = self.state()?;
        let head = stored.head.seq;
        assert!(at <= head, "a snapshot at {at} was taken of a journal that ends at {head}");
        let revision = stored.revision;
        self.store_if_newer(at, state, stored)?;
        self.drop_entries(keep_from.min(at.next()))?;
        self.compact(revision);
        Ok(())
    }

    /// Lets etcd forget the states that no reader needs any more, so that dropped records take no space. What is decided does
    /// not depend on it, but etcd fills up if it fails again and again.
    fn compact(&self, revision: i64) {
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        revisions.push_back((Instant::now(), revision));
        let mut old = None;
        while let Some((_, revision)) = revisions.pop_front_if(|(at, _)| at.elapsed() > READ_TIME_MAX) {
            old = Some(revision);
        }
        drop(revisions);
        match old.map(|revision| self.store.compact(revision)) {
            // The leader of another repository may have done more already.
            None | Some(Ok(()) | Err(EtcdError::Compacted)) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "etcd could not be compacted after a snapshot, so it keeps what is not needed any more");
            }
        }
    }

    /// Stores the snapshot unless there is one that is as new.
    fn store_if_newer(&self, at: Seq, state: &[u8], mut stored: State) -> Result<(), JournalError> {
        let is_newer = |stored: &State| stored.snapshot.as_ref().is_none_or(|pointer| at > pointer.at);
        if !is_newer(&stored) {
            return Ok(());
        }
        let id = format!("{:020}-{}", at.0, uuid::Uuid::now_v7().simple());
        let chunks = state.chunks(VALUE_BYTES_MAX);
        let pointer = SnapshotPointer { at, id, chunks: chunks.len() };
        for (number, chunk) in chunks.enumerate() {
            self.change("store a snapshot", vec![put(&self.keys.chunk(&pointer.id, number), chunk)])?;
        }
        while is_newer(&stored) {
            if self.point_to(&pointer, stored.snapshot_revision)? {
                if let Some(old) = &stored.snapshot {
                    self.drop_chunks(&old.id)?;
                }
                return Ok(());
            }
            stored = self.state()?;
        }
        self.drop_chunks(&pointer.id)
    }

    /// Makes the snapshot valid if the pointer is still as it was. An unclear attempt may have done that already.
    fn point_to(&self, pointer: &SnapshotPointer, seen_revision: i64) -> Result<bool, JournalError> {
        let key = self.keys.snapshot();
        let value = encode(pointer);
        let request = TxnRequest {
            compare: vec![mod_is(&key, seen_revision), create_is(self.keys.leader(), self.epoch)],
            success: vec![put(&key, &value)],
            failure: vec![get(&key)],
        };
        let reply = self.txn("store a snapshot", request)?;
        if reply.succeeded {
            return Ok(true);
        }
        let found = ranges(reply).into_iter().flatten().next();
        if found.as_ref().is_some_and(|found| found.value == value) {
            return Ok(true);
        }
        if found.map_or(0, |found| found.mod_revision) == seen_revision {
            return Err(JournalError::Deposed);
        }
        Ok(false)
    }

    fn drop_chunks(&self, id: &str) -> Result<(), JournalError> {
        let chunks = self.keys.chunks(id);
        self.change("drop an old snapshot", vec![delete(&chunks, &after_prefix(chunks.as_bytes()))]).map(drop)
    }

    /// Drops the entries with nothing but records before `keep_from`, and their pieces.
    fn drop_entries(&self, keep_from: Seq) -> Result<(), JournalError> {
        let Some(keep) = self.entry_around(keep_from, 0)? else { return Ok(()) };
        // The last entry before `keep_from` may be all before it.
        let reply = self
            .range("read the journal", RangeRequest { key: self.keys.entry(keep).into(), ..RangeRequest::default() })?;
        let last = match reply.kvs.first() {
            Some(found) => super::entry::decode_entry(&found.key, &found.value)?.0.last,
            None => return Ok(()),
        };
        let keep = if last < keep_from { last.next() } else { keep };
        let pieces = self.keys.all_pieces();
        let operations = vec![
            delete(&self.keys.entries(), self.keys.entry(keep).as_bytes()),
            delete(&pieces, self.keys.pieces_from(keep).as_bytes()),
        ];
        self.change("drop old records", operations).map(drop)
    }

    /// Removes the chunks of snapshots that never became valid. No earlier leader can add any more.
    pub(super) fn remove_unfinished_snapshots(&self) -> Result<(), JournalError> {
        let valid = self.state()?.snapshot.map(|pointer| self.keys.chunks(&pointer.id));
        let all = self.keys.all_chunks();
        let request = RangeRequest {
            key: all.clone().into(),
            range_end: after_prefix(all.as_bytes()),
            keys_only: true,
            ..RangeRequest::default()
        };
        let found = self.range("read the journal", request)?.kvs;
        let names = found.iter().filter_map(|found| std::str::from_utf8(&found.key).ok());
        let mut ids: Vec<&str> = names.filter_map(|name| name.strip_prefix(&all)?.split('/').next()).collect();
        ids.dedup();
        for id in ids.into_iter().filter(|id| valid.as_deref() != Some(&self.keys.chunks(id))) {
            self.drop_chunks(id)?;
        }
        Ok(())
    }
}
