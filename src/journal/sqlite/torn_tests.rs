//! Truncated files, as a power failure or an incomplete copy may leave them: what loads is a prefix of what was
//! acknowledged, or the damage is reported. `DIBS_TORN=all` cuts at every single byte.

use std::fs;

use super::SqliteJournal;
use super::file::beside;
use crate::engine::Seq;
use crate::journal::suite::{JournalStorage, OnDisk, load, record, records};
use crate::journal::{Journal, JournalError};

/// A page of the file, and a page of the log with its header.
const PAGE_BYTES: usize = 4096;
const FRAME_BYTES: usize = PAGE_BYTES + 24;

/// A directory in memory where possible: a thousand journals are opened, and the disk itself is not under test.
fn scratch() -> OnDisk {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.map_or_else(|_| OnDisk::new(), |directory| OnDisk { directory })
}

/// Where to cut a file: everywhere, or around page boundaries and at some places between them.
fn cuts(length: usize, seam: usize) -> Vec<usize> {
    let all = std::env::var_os("DIBS_TORN").is_some_and(|how| how == "all");
    // The log has a header of 32 bytes, and each of its pages has one of 24 bytes.
    let at_seam = |at: usize| at < 60 || at + 60 > length || [0, 1, 31, 32, 33, 45, 56, 57].contains(&(at % seam));
    (0..=length).filter(|at| all || at % 1021 == 0 || at_seam(*at)).collect()
}

#[test]
fn a_log_cut_off_anywhere_is_a_prefix() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    let mut ends = vec![0];
    let mut append = |journal: &mut SqliteJournal, count: u64, text: &str| {
        let head = *ends.last().unwrap();
        let batch: Vec<_> = (head + 1..=head + count).map(|seq| record(seq, text)).collect();
        journal.append(Seq(head), &batch).unwrap();
        ends.push(head + count);
    };
    for count in [1, 1, 40, 2, 1] {
        append(&mut journal, count, "before the snapshot");
    }
    journal.reader().unwrap().save_snapshot(Seq(44), &[44; 9000], Seq(43)).unwrap();
    for (count, length) in [(1, 10), (1, 20_000), (3, 5), (30, 300)] {
        append(&mut journal, count, &"y".repeat(length));
    }
    let (file, log) = (fs::read(place.path()).unwrap(), fs::read(beside(&place.path(), "-wal")).unwrap());
    drop(journal);

    let reopened = |log: &[u8], what: &str| {
        let copy = scratch();
        fs::write(copy.path(), &file).unwrap();
        fs::write(beside(&copy.path(), "-wal"), log).unwrap();
        let mut journal = SqliteJournal::open(&copy.path()).unwrap();
        let loaded = load(&mut journal).unwrap();
        let head = loaded.head.0;
        assert!(ends.contains(&head), "{what}: {head} is half of an append");
        let from = loaded.snapshot.map_or(0, |(at, state)| {
            assert_eq!((at, state), (Seq(44), vec![44; 9000]), "{what}");
            at.0
        });
        assert!(loaded.records.iter().map(|record| record.seq.0).eq(from + 1..=head), "{what}");
        journal.append(Seq(head), &records(head + 1, head + 1)).unwrap();
        (head, from)
    };
    let mut last = (0, 0);
    for cut in cuts(log.len(), FRAME_BYTES) {
        let now = reopened(&log[..cut], &format!("cut at {cut}"));
        assert!(now >= last, "a longer log holds no less");
        last = now;
    }
    assert_eq!(reopened(&log, "whole"), (*ends.last().unwrap(), 44));
    // A block that never reached the disk although later ones did.
    for hole in (0..log.len()).step_by(4096) {
        let mut torn = log.clone();
        let end = (hole + 512).min(torn.len());
        torn[hole..end].fill(0);
        reopened(&torn, &format!("hole at {hole}"));
    }
}

/// No prefix of the file is a valid journal: anything that is missing is reported.
#[test]
fn a_file_cut_off_anywhere_is_whole_or_damaged() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    for seq in 1..=60 {
        journal.append(Seq(seq - 1), &[record(seq, &"z".repeat(400))]).unwrap();
    }
    journal.reader().unwrap().save_snapshot(Seq(20), &[20; 9000], Seq(21)).unwrap();
    drop(journal);
    assert!(!beside(&place.path(), "-wal").exists(), "the log is in the file");
    let whole = load(&mut *place.open()).unwrap();
    let file = fs::read(place.path()).unwrap();
    let mut damaged = 0;
    for cut in cuts(file.len(), PAGE_BYTES) {
        let copy = scratch();
        fs::write(copy.path(), &file[..cut]).unwrap();
        match SqliteJournal::open(&copy.path()).and_then(|mut journal| load(&mut journal)) {
            Ok(all) => assert_eq!(all, whole, "cut at {cut}"),
            Err(JournalError::Corrupt { .. } | JournalError::Foreign { .. }) => damaged += 1,
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    assert!(damaged > 100, "only {damaged} were damaged");
}
