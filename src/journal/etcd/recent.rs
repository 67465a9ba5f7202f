//! The newest records that this node has appended, so that its own readers, such as the ledger, need not ask etcd for them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::entry;
use crate::engine::{Record, Seq};
use crate::journal::JournalError;

/// The most bytes of records that are kept.
const BYTES_MAX: usize = 16 << 20;

/// Consecutive appends, the newest last. Each is durable.
#[derive(Default)]
pub struct RecentAppends {
    appends: VecDeque<RecentAppend>,
    bytes: usize,
    /// The oldest record that etcd stores, once a read has found it out. A snapshot drops records, and makes it unknown.
    pub oldest: Option<Seq>,
}

#[derive(Clone)]
struct RecentAppend {
    first: Seq,
    last: Seq,
    /// As they were written.
    lines: Arc<Vec<u8>>,
}

impl RecentAppends {
    pub fn push(&mut self, first: Seq, last: Seq, lines: Vec<u8>) {
        if self.appends.back().is_some_and(|newest| newest.last.next() != first) || lines.len() > BYTES_MAX {
            *self = Self { oldest: self.oldest, ..Self::default() };
        }
        self.bytes += lines.len();
        self.appends.push_back(RecentAppend { first, last, lines: Arc::new(lines) });
        while self.bytes > BYTES_MAX {
            let oldest = self.appends.pop_front().expect("they have bytes");
            self.bytes -= oldest.lines.len();
        }
    }

    /// The appends with the records after `after`, about `limit` of them; none if the first of these is not here, or may have been
    /// dropped.
    pub fn after(&self, after: Seq, limit: usize) -> Option<RecentPage> {
        let begin = self.appends.partition_point(|append| append.last <= after);
        self.appends.get(begin).filter(|append| append.first <= after.next())?;
        let oldest = self.oldest.filter(|oldest| *oldest <= after.next())?;
        let end = after.0.saturating_add(limit as u64);
        let appends = self.appends.range(begin..).take_while(|append| append.first.0 <= end).cloned().collect();
        Some(RecentPage { after, limit, oldest, appends })
    }
}

/// Appends that were found, to be decoded without the lock.
pub struct RecentPage {
    after: Seq,
    limit: usize,
    pub oldest: Seq,
    appends: Vec<RecentAppend>,
}

impl RecentPage {
    pub fn records(&self) -> Result<Vec<Record>, JournalError> {
        let mut records = Vec::new();
        for append in &self.appends {
            entry::decode_records(b"in memory", &append.lines, None, &mut |record| {
                if record.seq > self.after && records.len() < self.limit {
                    records.push(record);
                }
                Ok(())
            })?;
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::suite;

    fn push(recent: &mut RecentAppends, from: u64, to: u64) {
        recent.push(Seq(from), Seq(to), entry::encode_records(&suite::records(from, to)));
    }

    fn numbers(recent: &RecentAppends, after: u64, limit: usize) -> Option<Vec<u64>> {
        let page = recent.after(Seq(after), limit)?;
        Some(page.records().unwrap().iter().map(|record| record.seq.0).collect())
    }

    #[test]
    fn only_records_without_a_gap_are_here() {
        let mut recent = RecentAppends { oldest: Some(Seq(1)), ..RecentAppends::default() };
        assert_eq!(numbers(&recent, 0, 10), None);
        push(&mut recent, 5, 7);
        push(&mut recent, 8, 8);
        push(&mut recent, 9, 12);
        assert_eq!(numbers(&recent, 3, 10), None, "4 is not here");
        assert_eq!(numbers(&recent, 4, 10), Some((5..=12).collect()));
        assert_eq!(numbers(&recent, 6, 3), Some(vec![7, 8, 9]));
        assert_eq!(numbers(&recent, 5, 4), Some(vec![6, 7, 8, 9]), "a full page, although it begins inside an append");
        assert_eq!(numbers(&recent, 12, 3), None, "nothing is newer");
        push(&mut recent, 20, 21);
        assert_eq!((numbers(&recent, 8, 3), numbers(&recent, 19, 3)), (None, Some(vec![20, 21])));
        recent.oldest = Some(Seq(21));
        assert_eq!((numbers(&recent, 19, 3), numbers(&recent, 20, 3)), (None, Some(vec![21])), "20 was dropped");
        recent.oldest = None;
        assert_eq!(numbers(&recent, 20, 3), None);
    }

    #[test]
    fn they_are_bounded_in_bytes() {
        let mut recent = RecentAppends { oldest: Some(Seq(1)), ..RecentAppends::default() };
        for number in 1..=20 {
            recent.push(Seq(number), Seq(number), vec![b'\n'; 1 << 20]);
        }
        assert!(recent.bytes <= BYTES_MAX && recent.after(Seq(0), 5).is_none() && recent.after(Seq(19), 5).is_some());
    }
}
