//! Reading: everything from the snapshot on, or a page of records. A read sees one state of etcd from begin to end.

use super::entry::{self, EntryHeader, Head, SnapshotPointer, damaged};
use super::{Place, ranges};
use crate::engine::{Record, Seq};
use crate::etcd::messages::{KeyValue, RangeRequest, SortOrder, TxnRequest};
use crate::etcd::{EtcdError, after_prefix, get};
use crate::journal::{JournalError, LoadCallback, LoadItem, RecordPage};

/// How many entries are read at once: more where they are small.
const PAGE_ENTRIES: std::ops::RangeInclusive<i64> = 8..=4096;

/// About how many bytes are read at once.
const PAGE_BYTES: usize = 4 << 20;

/// The journal at one moment.
pub(super) struct State {
    pub revision: i64,
    pub head: Head,
    pub snapshot: Option<SnapshotPointer>,
    /// The revision at which the pointer to the snapshot was written; zero if there is none.
    pub snapshot_revision: i64,
}

impl Place {
    pub(super) fn state(&self) -> Result<State, JournalError> {
        let success = vec![get(&self.keys.head()), get(&self.keys.snapshot())];
        let reply = self.txn("read the journal", TxnRequest { success, ..TxnRequest::default() })?;
        let revision = reply.header.as_ref().map_or(0, |header| header.revision);
        let mut ranges = ranges(reply).into_iter().map(|keys| keys.into_iter().next());
        let (head, pointer) = (ranges.next().flatten(), ranges.next().flatten());
        let head = head.map_or(Ok(Head::default()), |found| entry::decode(&found.key, &found.value))?;
        let snapshot_revision = pointer.as_ref().map_or(0, |found| found.mod_revision);
        let snapshot = pointer.map(|found| entry::decode(&found.key, &found.value)).transpose()?;
        Ok(State { revision, head, snapshot, snapshot_revision })
    }

    pub(super) fn load(&self, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        let state = self.state()?;
        let mut last = Seq::ZERO;
        if let Some(pointer) = &state.snapshot {
            last = pointer.at;
            on(LoadItem::Snapshot { at: last, state: self.chunks(pointer, state.revision)? })?;
        }
        let after = last;
        let mut passed = last;
        self.each_record(after, state.revision, &mut |record| {
            if record.seq <= up_to {
                if !record.follows(passed) {
                    let what = format!("after {passed} comes {}", record.seq);
                    return Err(damaged(self.keys.entries().as_bytes(), &what));
                }
                passed = record.seq;
                on(LoadItem::Record(record))?;
            }
            Ok(passed < up_to)
        })?;
        Ok(passed)
    }

    fn chunks(&self, pointer: &SnapshotPointer, revision: i64) -> Result<Vec<u8>, JournalError> {
        let mut state = Vec::new();
        for number in 0..pointer.chunks {
            state.extend(self.value(&self.keys.chunk(&pointer.id, number), revision)?);
        }
        Ok(state)
    }

    fn value(&self, key: &str, revision: i64) -> Result<Vec<u8>, JournalError> {
        let reply =
            self.range("read the journal", RangeRequest { key: key.into(), revision, ..RangeRequest::default() })?;
        let found = reply.kvs.into_iter().next();
        found.map(|found| found.value).ok_or_else(|| damaged(key.as_bytes(), "it is missing"))
    }

    pub(super) fn read(&self, after: Seq, limit: usize) -> Result<RecordPage, JournalError> {
        let recent = if limit > 0 { self.recent().after(after, limit) } else { None };
        if let Some(recent) = recent {
            return Ok(RecordPage { records: recent.records()?, oldest: recent.oldest });
        }
        match self.try_read(after, limit) {
            // It took so long that the state it read is gone.
            Err(JournalError::Etcd { source: EtcdError::Compacted, .. }) => self.try_read(after, limit),
            result => result,
        }
    }

    fn try_read(&self, after: Seq, limit: usize) -> Result<RecordPage, JournalError> {
        let state = self.state()?;
        let oldest = self.oldest(state.revision)?.unwrap_or(state.head.seq.next());
        self.recent().oldest = Some(oldest);
        let mut records = Vec::new();
        if limit > 0 && after < state.head.seq {
            self.each_record(after, state.revision, &mut |record| {
                records.push(record);
                Ok(records.len() < limit)
            })?;
        }
        Ok(RecordPage { records, oldest })
    }

    pub(super) fn first_within(&self, bytes: u64) -> Result<Seq, JournalError> {
        let State { revision, head, .. } = self.state()?;
        let from_byte = head.bytes.saturating_sub(bytes);
        let Some(oldest) = self.oldest(revision)? else { return Ok(head.seq.next()) };
        // The first entry at or after `from_byte` begins in this range.
        let (mut low, mut high) = (oldest.0, head.seq.0 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let request = RangeRequest { limit: 1, ..self.entries_from(Seq(middle), revision) };
            let reply = self.range("read the journal", request)?;
            match reply.kvs.first() {
                Some(found) => {
                    let (header, _) = entry::decode_entry(&found.key, &found.value)?;
                    match header.from_byte >= from_byte {
                        true => high = middle,
                        false => low = header.last.0 + 1,
                    }
                }
                None => high = middle,
            }
        }
        Ok(Seq(low))
    }

    /// The number of the first record that is stored.
    pub(super) fn oldest(&self, revision: i64) -> Result<Option<Seq>, JournalError> {
        let request = RangeRequest { limit: 1, keys_only: true, ..self.entries_from(Seq::ZERO, revision) };
        let reply = self.range("read the journal", request)?;
        reply.kvs.first().map(|found| self.first_of(&found.key)).transpose()
    }

    /// The first number of the entry that has the record `seq`, or would have it: the last one that begins at or before it.
    pub(super) fn entry_around(&self, seq: Seq, revision: i64) -> Result<Option<Seq>, JournalError> {
        let request = RangeRequest {
            key: self.keys.entries().into(),
            range_end: self.keys.entry(seq.next()).into(),
            limit: 1,
            sort_order: SortOrder::Descend.into(),
            keys_only: true,
            revision,
            ..RangeRequest::default()
        };
        let reply = self.range("read the journal", request)?;
        reply.kvs.first().map(|found| self.first_of(&found.key)).transpose()
    }

    fn entries_from(&self, first: Seq, revision: i64) -> RangeRequest {
        RangeRequest {
            key: self.keys.entry(first).into(),
            range_end: after_prefix(self.keys.entries().as_bytes()),
            revision,
            ..RangeRequest::default()
        }
    }

    fn first_of(&self, key: &[u8]) -> Result<Seq, JournalError> {
        let number =
            key.strip_prefix(self.keys.entries().as_bytes()).and_then(|number| std::str::from_utf8(number).ok());
        number.and_then(|number| number.parse().ok()).map(Seq).ok_or_else(|| damaged(key, "its name is no number"))
    }

    /// Passes the records after `after` to `on`, until that returns false. They must have no gaps.
    fn each_record(
        &self,
        after: Seq,
        revision: i64,
        on: &mut dyn FnMut(Record) -> Result<bool, JournalError>,
    ) -> Result<(), JournalError> {
        let mut from = self.entry_around(after.next(), revision)?.unwrap_or(after.next());
        let (mut last, mut limit, mut goes_on) = (None, *PAGE_ENTRIES.start(), true);
        while goes_on {
            let reply = self.range("read the journal", RangeRequest { limit, ..self.entries_from(from, revision) })?;
            let bytes: usize = reply.kvs.iter().map(|found| found.value.len()).sum();
            let is_end = !reply.more;
            for found in &reply.kvs {
                let (header, lines) = self.entry(found, revision)?;
                last = entry::decode_records(&found.key, &lines, last, &mut |record| {
                    if goes_on && record.seq > after {
                        goes_on = on(record)?;
                    }
                    Ok(())
                })?;
                if last != Some(header.last) {
                    return Err(damaged(&found.key, &format!("it does not end with {}", header.last)));
                }
                from = header.last.next();
            }
            if is_end {
                return Ok(());
            }
            limit = if bytes < PAGE_BYTES / 2 { limit * 2 } else { limit / 2 };
            limit = limit.clamp(*PAGE_ENTRIES.start(), *PAGE_ENTRIES.end());
        }
        Ok(())
    }

    /// The header and the lines of an entry, whose pieces are fetched where it has some.
    fn entry(&self, found: &KeyValue, revision: i64) -> Result<(EntryHeader, Vec<u8>), JournalError> {
        let (header, lines) = entry::decode_entry(&found.key, &found.value)?;
        if header.pieces == 0 {
            return Ok((header, lines.to_vec()));
        }
        let first = self.first_of(&found.key)?;
        let mut lines = Vec::new();
        for number in 0..header.pieces {
            lines.extend(self.value(&self.keys.piece(first, &header.append, number), revision)?);
        }
        Ok((header, lines))
    }
}
