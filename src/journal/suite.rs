//! The tests that every journal must pass, run on each of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    EtcdJournal, EtcdKeys, Journal, JournalError, JournalReader, Leadership, LoadItem, MemoryJournal, RecordPage,
    SqliteJournal,
};
use crate::engine::{Event, Record, Seq, SessionId, Timestamp};
use crate::etcd::messages::TxnRequest;
use crate::etcd::{Etcd, EtcdOptions, delete, put, tests::shared_etcd};

/// A journal's storage, where it can be opened, closed and opened again.
pub(super) trait JournalStorage {
    fn open(&self) -> Box<dyn Journal>;

    /// Removes the lock that keeps a second owner out.
    fn unlock(&self);
}

pub(super) struct InMemory(MemoryJournal);

impl JournalStorage for InMemory {
    fn open(&self) -> Box<dyn Journal> {
        Box::new(self.0.reopen())
    }

    fn unlock(&self) {}
}

pub(super) struct OnDisk {
    pub(super) directory: tempfile::TempDir,
}

impl OnDisk {
    pub(super) fn new() -> OnDisk {
        OnDisk { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("journal.db")
    }
}

impl JournalStorage for OnDisk {
    fn open(&self) -> Box<dyn Journal> {
        // A program that another test is starting has copies of our open files until its `exec`. Until then it keeps
        // locks, and the space of removed files.
        let mut tries = 0;
        loop {
            match SqliteJournal::open(&self.path()) {
                Err(JournalError::Full { .. } | JournalError::InUse { .. }) if tries < 200 => tries += 1,
                opened => return Box::new(opened.unwrap()),
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn unlock(&self) {
        std::fs::remove_file(self.directory.path().join("journal.db.lock")).unwrap();
    }
}

/// A prefix of its own in a real etcd. The program that opens the journal becomes its leader.
pub(super) struct InEtcd {
    pub(super) etcd: Arc<Etcd>,
    pub(super) keys: EtcdKeys,
}

/// The journal itself must refuse what another leader may do; a lease is no part of it.
pub(super) struct AlwaysCertain;

impl Leadership for AlwaysCertain {
    fn is_certain(&self) -> bool {
        true
    }

    fn is_possible(&self) -> bool {
        true
    }
}

impl InEtcd {
    /// None where there is no etcd on this machine.
    pub(super) fn new() -> Option<InEtcd> {
        let address = shared_etcd()?;
        let etcd = Arc::new(Etcd::new(&address, EtcdOptions::default()).unwrap());
        let (journal, leader) = (format!("{}/journal", address.prefix), format!("{}/leader", address.prefix));
        Some(InEtcd { etcd, keys: EtcdKeys::new(&journal, &leader) })
    }

    /// Becomes the leader, and returns the epoch.
    pub(super) fn lead(&self) -> i64 {
        let leader = self.keys.leader();
        self.etcd.txn(TxnRequest { success: vec![delete(leader, b"")], ..TxnRequest::default() }).unwrap();
        let put = TxnRequest { success: vec![put(leader, b"test")], ..TxnRequest::default() };
        self.etcd.txn(put).unwrap().header.unwrap().revision
    }

    pub(super) fn open_as(&self, epoch: i64) -> EtcdJournal {
        EtcdJournal::open(self.etcd.clone(), self.keys.clone(), epoch, Arc::new(AlwaysCertain)).unwrap()
    }
}

impl JournalStorage for InEtcd {
    fn open(&self) -> Box<dyn Journal> {
        Box::new(self.open_as(self.lead()))
    }

    fn unlock(&self) {}
}

/// A record with any text in it.
pub(super) fn record(seq: u64, text: &str) -> Record {
    let session = SessionId::parse("ana").unwrap();
    let event = Event::Opened { session, name: Some(text.into()), feature: None, owner: None };
    Record { seq: Seq(seq), at: Timestamp(1_700_000_000_000 + seq as i64), event }
}

/// Plain records, numbered `from` to `to`.
pub(super) fn records(from: u64, to: u64) -> Vec<Record> {
    (from..=to).map(|seq| record(seq, &format!("n{seq}"))).collect()
}

/// Everything that a load returned.
#[derive(Debug, PartialEq)]
pub(super) struct All {
    pub(super) snapshot: Option<(Seq, Vec<u8>)>,
    pub(super) records: Vec<Record>,
    pub(super) head: Seq,
}

pub(super) fn load(journal: &mut dyn Journal) -> Result<All, JournalError> {
    collect(|on| journal.load(on))
}

fn load_up_to(reader: &mut dyn JournalReader, up_to: Seq) -> All {
    collect(|on| reader.load(up_to, on)).unwrap()
}

fn collect(load: impl FnOnce(super::LoadCallback<'_>) -> Result<Seq, JournalError>) -> Result<All, JournalError> {
    let (mut snapshot, mut records) = (None, Vec::new());
    let head = load(&mut |loaded| {
        match loaded {
            LoadItem::Snapshot { at, state } => {
                assert!(snapshot.is_none() && records.is_empty(), "a snapshot comes once, and first");
                snapshot = Some((at, state.to_vec()));
            }
            LoadItem::Record(record) => records.push(record),
        }
        Ok(())
    })?;
    Ok(All { snapshot, records, head })
}

macro_rules! for_every_journal {
    ($($name:ident)*) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&super::InMemory(super::MemoryJournal::new())); })*
        }
        mod sqlite {
            $(#[test] fn $name() { super::$name(&super::OnDisk::new()); })*
        }
        mod etcd {
            $(#[test] fn $name() {
                if let Some(storage) = super::InEtcd::new() { super::$name(&storage); }
            })*
        }
    };
}

for_every_journal! {
    a_new_journal_is_empty
    what_was_appended_is_loaded_after_a_restart
    a_wrong_head_is_superseded_and_writes_nothing
    a_stale_journal_is_superseded
    numbers_with_gaps_panic
    an_error_of_the_callback_ends_the_load
    a_snapshot_replaces_the_records_before_it
    a_snapshot_can_be_in_the_middle_of_an_append
    the_newest_snapshot_wins
    a_snapshot_keeps_the_records_it_should_keep
    a_snapshot_never_drops_what_comes_after_it
    an_empty_snapshot_is_a_snapshot
    a_snapshot_beyond_the_head_panics
    the_head_stays_when_all_records_are_dropped
    a_reader_loads_up_to_a_number
    a_load_reads_one_consistent_state
    pages_follow_each_other
    a_page_says_when_it_begins_late
    a_reader_sees_whole_appends_while_they_go_on
    snapshots_of_two_readers_do_not_harm_each_other
    any_text_is_returned_unchanged
    ten_thousand_records_are_one_append
}

fn a_new_journal_is_empty(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    assert_eq!(load(&mut *journal).unwrap(), All { snapshot: None, records: vec![], head: Seq::ZERO });
    let page = journal.reader().unwrap().read(Seq::ZERO, 10).unwrap();
    assert_eq!(page, RecordPage { records: vec![], oldest: Seq(1) });
    assert!(!page.begins_late(Seq::ZERO));
}

fn what_was_appended_is_loaded_after_a_restart(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 1)).unwrap();
    journal.append(Seq(1), &[]).unwrap();
    journal.append(Seq(1), &records(2, 5)).unwrap();
    let expected = All { snapshot: None, records: records(1, 5), head: Seq(5) };
    assert_eq!(load(&mut *journal).unwrap(), expected);
    drop(journal);

    let mut journal = storage.open();
    journal.append(Seq(5), &records(6, 6)).unwrap();
    drop(journal);
    assert_eq!(load(&mut *storage.open()).unwrap().records, records(1, 6));
}

fn a_wrong_head_is_superseded_and_writes_nothing(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 3)).unwrap();
    for (believed, count) in [(0, 1), (2, 1), (4, 1), (2, 0), (9, 0)] {
        let refused = journal.append(Seq(believed), &records(believed + 1, believed + count)).unwrap_err();
        let JournalError::Superseded { expected, actual_head } = refused else { panic!("{refused}") };
        assert_eq!((expected, actual_head), (Seq(believed), Seq(3)));
    }
    assert_eq!(load(&mut *journal).unwrap().records, records(1, 3));
    journal.append(Seq(3), &records(4, 4)).expect("a wrong head does not break the journal");
}

/// With a lock that works there are never two journals on one store. This is the second line of defence.
fn a_stale_journal_is_superseded(storage: &dyn JournalStorage) {
    let mut stale = storage.open();
    stale.append(Seq(0), &records(1, 2)).unwrap();
    storage.unlock();
    let mut other = storage.open();
    other.append(Seq(2), &records(3, 7)).unwrap();
    for snapshot in [false, true] {
        if snapshot {
            // Now there is no row whose primary key would refuse the stale append.
            other.reader().unwrap().save_snapshot(Seq(7), b"seven", Seq(8)).unwrap();
        }
        let refused = stale.append(Seq(2), &records(3, 3)).unwrap_err();
        assert!(matches!(refused, JournalError::Superseded { expected: Seq(2), actual_head: Seq(7) }), "{refused}");
    }
    let loaded = load(&mut *other).unwrap();
    assert_eq!(loaded, All { snapshot: Some((Seq(7), b"seven".to_vec())), records: vec![], head: Seq(7) });
}

fn numbers_with_gaps_panic(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 2)).unwrap();
    let gap_before = records(4, 5);
    let gap_inside = [record(3, "c"), record(5, "e")];
    let twice = [record(3, "c"), record(3, "c")];
    for wrong in [&gap_before[..], &gap_inside, &twice, &records(2, 3)] {
        let appended = catch_unwind(AssertUnwindSafe(|| journal.append(Seq(2), wrong)));
        assert!(appended.is_err(), "taken: {wrong:?}");
    }
    assert_eq!(load(&mut *journal).unwrap().records, records(1, 2));
}

fn an_error_of_the_callback_ends_the_load(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 3)).unwrap();
    let mut seen = 0;
    let answer = journal.load(&mut |_| {
        seen += 1;
        if seen == 2 { Err(JournalError::corrupt("here".as_ref(), "enough")) } else { Ok(()) }
    });
    assert!(matches!(answer, Err(JournalError::Corrupt { what, .. }) if what == "enough"));
    assert_eq!(seen, 2);
    journal.append(Seq(3), &records(4, 4)).expect("a load that ended early changes nothing");
}

fn a_snapshot_replaces_the_records_before_it(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for seq in 1..=6 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let mut reader = journal.reader().unwrap();
    let state = pattern(3_500_000);
    reader.save_snapshot(Seq(4), &state, Seq(5)).unwrap();
    let expected = All { snapshot: Some((Seq(4), state)), records: records(5, 6), head: Seq(6) };
    assert_eq!(load(&mut *journal).unwrap(), expected);
    let page = reader.read(Seq(0), 10).unwrap();
    assert_eq!((page.oldest, page.records), (Seq(5), records(5, 6)));

    journal.append(Seq(6), &records(7, 7)).unwrap();
    drop((reader, journal));
    let loaded = load(&mut *storage.open()).unwrap();
    assert_eq!((loaded.records, loaded.head), (records(5, 7), Seq(7)));
}

fn a_snapshot_can_be_in_the_middle_of_an_append(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 4)).unwrap();
    journal.append(Seq(4), &records(5, 9)).unwrap();
    let mut reader = journal.reader().unwrap();
    reader.save_snapshot(Seq(6), b"six", Seq(7)).unwrap();
    let expected = All { snapshot: Some((Seq(6), b"six".to_vec())), records: records(7, 9), head: Seq(9) };
    assert_eq!(load(&mut *journal).unwrap(), expected);
    assert_eq!(reader.read(Seq(7), 10).unwrap().records, records(8, 9));
}

fn the_newest_snapshot_wins(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 9)).unwrap();
    let mut reader = journal.reader().unwrap();
    let long = pattern(2 << 20);
    for (at, state) in [(3, &b"three"[..]), (8, &long), (8, b"eight again"), (5, b"five")] {
        reader.save_snapshot(Seq(at), state, Seq(1)).unwrap();
    }
    let expected = All { snapshot: Some((Seq(8), long)), records: records(9, 9), head: Seq(9) };
    assert_eq!(load(&mut *journal).unwrap(), expected);
    assert_eq!(
        load(&mut *{
            drop((reader, journal));
            storage.open()
        })
        .unwrap(),
        expected
    );
}

fn a_snapshot_keeps_the_records_it_should_keep(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for seq in 1..=200 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let mut reader = journal.reader().unwrap();
    reader.save_snapshot(Seq(150), b"state", Seq(101)).unwrap();
    assert_eq!(load(&mut *journal).unwrap().records, records(151, 200));
    let page = reader.read(Seq(0), 1000).unwrap();
    assert_eq!((page.oldest, page.records), (Seq(101), records(101, 200)));
    // A smaller `keep_from` does not bring dropped records back.
    reader.save_snapshot(Seq(160), b"state", Seq(1)).unwrap();
    assert_eq!(reader.read(Seq(0), 1).unwrap().oldest, Seq(101));
}

fn a_snapshot_never_drops_what_comes_after_it(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for seq in 1..=9 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let mut reader = journal.reader().unwrap();
    reader.save_snapshot(Seq(4), b"four", Seq(u64::MAX)).unwrap();
    assert_eq!(load(&mut *journal).unwrap().records, records(5, 9));
    assert_eq!(reader.read(Seq(0), 100).unwrap().oldest, Seq(5));
}

fn an_empty_snapshot_is_a_snapshot(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 1)).unwrap();
    journal.reader().unwrap().save_snapshot(Seq(1), b"", Seq(1)).unwrap();
    assert_eq!(load(&mut *journal).unwrap().snapshot, Some((Seq(1), vec![])));
}

fn a_snapshot_beyond_the_head_panics(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 2)).unwrap();
    let mut reader = journal.reader().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| reader.save_snapshot(Seq(3), b"", Seq(1)))).is_err());
    assert_eq!(load(&mut *journal).unwrap().snapshot, None);
}

/// Numbers are fences, so they must continue although all records are gone.
fn the_head_stays_when_all_records_are_dropped(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 3)).unwrap();
    journal.reader().unwrap().save_snapshot(Seq(3), b"all", Seq(4)).unwrap();
    drop(journal);
    let mut journal = storage.open();
    assert_eq!(load(&mut *journal).unwrap().head, Seq(3));
    assert_eq!(journal.reader().unwrap().read(Seq(3), 5).unwrap(), RecordPage { records: vec![], oldest: Seq(4) });
    assert!(matches!(journal.append(Seq(0), &records(1, 1)), Err(JournalError::Superseded { .. })));
    journal.append(Seq(3), &records(4, 4)).unwrap();
}

fn a_reader_loads_up_to_a_number(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 4)).unwrap();
    journal.append(Seq(4), &records(5, 9)).unwrap();
    let mut reader = journal.reader().unwrap();
    for (up_to, reached) in [(0, 0), (1, 1), (4, 4), (7, 7), (9, 9), (10, 9), (u64::MAX, 9)] {
        let loaded = load_up_to(&mut *reader, Seq(up_to));
        assert_eq!((loaded.records, loaded.head), (records(1, reached), Seq(reached)));
    }
    reader.save_snapshot(Seq(3), b"three", Seq(4)).unwrap();
    for (up_to, reached) in [(1, 3), (3, 3), (6, 6), (12, 9)] {
        let loaded = load_up_to(&mut *reader, Seq(up_to));
        assert_eq!((loaded.records, loaded.head), (records(4, reached), Seq(reached)));
    }
}

fn a_load_reads_one_consistent_state(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for seq in 1..=9 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let (mut reader, mut other) = (journal.reader().unwrap(), journal.reader().unwrap());
    reader.save_snapshot(Seq(3), b"three", Seq(4)).unwrap();
    let mut seen = Vec::new();
    let reached = reader.load(Seq(u64::MAX), &mut |loaded| {
        match loaded {
            LoadItem::Snapshot { at, .. } => {
                assert_eq!(at, Seq(3));
                other.save_snapshot(Seq(8), b"eight", Seq(9))?;
                journal.append(Seq(9), &records(10, 10))?;
            }
            LoadItem::Record(record) => seen.push(record),
        }
        Ok(())
    });
    assert_eq!((reached.unwrap(), seen), (Seq(9), records(4, 9)));
    assert_eq!(load(&mut *journal).unwrap().records, records(9, 10));
}

fn pages_follow_each_other(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for (first, last) in [(1, 1), (2, 30), (31, 31), (32, 100)] {
        journal.append(Seq(first - 1), &records(first, last)).unwrap();
    }
    let mut reader = journal.reader().unwrap();
    for limit in [1, 7, 29, 100, usize::MAX] {
        let (mut after, mut read) = (Seq(0), Vec::new());
        loop {
            let page = reader.read(after, limit).unwrap();
            assert!(page.records.len() <= limit && !page.begins_late(after));
            let Some(last) = page.records.last() else { break };
            after = last.seq;
            read.extend(page.records);
        }
        assert_eq!(read, records(1, 100), "in pages of {limit}");
    }
    assert_eq!(reader.read(Seq(3), 0).unwrap().records, vec![]);
    for beyond in [100, 101, u64::MAX] {
        let page = reader.read(Seq(beyond), 10).unwrap();
        assert!(page.records.is_empty() && !page.begins_late(Seq(beyond)));
    }
}

fn a_page_says_when_it_begins_late(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for seq in 1..=10 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let mut reader = journal.reader().unwrap();
    reader.save_snapshot(Seq(10), b"ten", Seq(6)).unwrap();
    for (after, late) in [(0, true), (4, true), (5, false), (6, false), (10, false), (11, false)] {
        let page = reader.read(Seq(after), 2).unwrap();
        assert_eq!(page.begins_late(Seq(after)), late, "after {after}");
        assert_eq!(page.oldest, Seq(6));
    }
    assert_eq!(reader.read(Seq(2), 2).unwrap().records, records(6, 7));
    reader.save_snapshot(Seq(10), b"ten", Seq(11)).unwrap();
    assert!(reader.read(Seq(9), 2).unwrap().begins_late(Seq(9)));
    assert!(!reader.read(Seq(10), 2).unwrap().begins_late(Seq(10)));
}

fn a_reader_sees_whole_appends_while_they_go_on(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    let (mut tail, mut keeper) = (journal.reader().unwrap(), journal.reader().unwrap());
    let last = 600;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also after a failed assertion; otherwise the other threads would never end.
        let _ends = SetOnDrop(&over);
        scope.spawn(|| {
            // Stores a snapshot of several pieces, again and again, and drops everything before it.
            while !over.load(Ordering::Relaxed) {
                let at = load_up_to(&mut *keeper, Seq(u64::MAX)).head;
                keeper.save_snapshot(at, &pattern((2 << 20) + at.0 as usize), at).unwrap();
            }
        });
        let reading = scope.spawn(|| {
            let mut after = Seq(0);
            while after < Seq(last) && !over.load(Ordering::Relaxed) {
                let page = tail.read(after, 50).unwrap();
                assert!(page.records.is_empty() || page.begins_late(after) || page.records[0].seq == after.next());
                // Each append has three records, so a visible end is a multiple of three.
                let loaded = load_up_to(&mut *tail, Seq(u64::MAX));
                assert_eq!(loaded.head.0 % 3, 0);
                let from = loaded.snapshot.map_or(0, |(at, state)| {
                    assert_eq!(state, pattern((2 << 20) + at.0 as usize));
                    at.0
                });
                assert_eq!(loaded.records, records(from + 1, loaded.head.0));
                after = page.records.last().map_or(after, |record| record.seq);
            }
        });
        for after in (0..last).step_by(3) {
            journal.append(Seq(after), &records(after + 1, after + 3)).unwrap();
        }
        reading.join().unwrap();
    });
    assert_eq!(load(&mut *journal).unwrap().head, Seq(last));
}

fn snapshots_of_two_readers_do_not_harm_each_other(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    for seq in 1..=16 {
        journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
    }
    let state = |at: u64| pattern((1 << 20) + at as usize);
    std::thread::scope(|scope| {
        for start in [1, 2] {
            let mut reader = journal.reader().unwrap();
            scope.spawn(move || {
                for at in (start..=16).step_by(2) {
                    reader.save_snapshot(Seq(at), &state(at), Seq(at + 1)).unwrap();
                    let loaded = load_up_to(&mut *reader, Seq(u64::MAX));
                    let (at, stored) = loaded.snapshot.unwrap();
                    assert!(stored == state(at.0));
                    assert_eq!(loaded.records, records(at.0 + 1, 16));
                }
            });
        }
    });
    assert_eq!(
        load(&mut *journal).unwrap(),
        All { snapshot: Some((Seq(16), state(16))), records: vec![], head: Seq(16) }
    );
}

fn any_text_is_returned_unchanged(storage: &dyn JournalStorage) {
    let huge = "long ✂ ".repeat(1_000_000);
    let texts =
        ["", "ünïcode", "日本語", "👩‍🚀", "a\u{0}b", "\u{1b}[31m", "\"'\\/", "\u{2028}\u{feff}", "e\u{301}", &huge];
    let written: Vec<Record> = (1..).zip(texts).map(|(seq, text)| record(seq, text)).collect();
    let mut journal = storage.open();
    journal.append(Seq(0), &written).unwrap();
    drop(journal);
    assert!(load(&mut *storage.open()).unwrap().records == written);
}

fn ten_thousand_records_are_one_append(storage: &dyn JournalStorage) {
    let mut journal = storage.open();
    journal.append(Seq(0), &records(1, 10_000)).unwrap();
    journal.append(Seq(10_000), &records(10_001, 10_001)).unwrap();
    drop(journal);
    assert!(load(&mut *storage.open()).unwrap().records == records(1, 10_001));
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes that show whether their order changed.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}
