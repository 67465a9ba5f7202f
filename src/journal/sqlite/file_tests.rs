//! Locks, formats, file modes, and files that are not journals.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rusqlite::Connection;

use super::SqliteJournal;
use super::file::{FORMAT, beside};
use crate::engine::{Event, Mode, Record, ReservationId, Seq, SessionId, Text, Timestamp, Ttl};
use crate::journal::suite::{JournalStorage, OnDisk, load, records};
use crate::journal::{Journal, JournalError};
use crate::key::Key;

/// Every file in the directory with its bytes.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn refusal(path: &Path) -> JournalError {
    SqliteJournal::open(path).err().expect("it should have been refused")
}

#[test]
fn a_second_open_names_the_process_that_has_it() {
    let place = OnDisk::new();
    let journal = SqliteJournal::open(&place.path()).unwrap();
    let link = place.directory.path().join("also.db");
    symlink(place.path(), &link).unwrap();
    for path in [place.path(), link] {
        let refused = refusal(&path);
        assert!(
            matches!(&refused, JournalError::InUse { pid: Some(pid), .. } if *pid == std::process::id()),
            "{refused}"
        );
        assert!(refused.to_string().contains(&format!("is in use by process {}; stop", std::process::id())));
    }
    let lock = beside(&place.path(), ".lock");
    assert_eq!(fs::read_to_string(&lock).unwrap(), format!("{}\n", std::process::id()));
    drop(journal);
    assert!(lock.exists());
    SqliteJournal::open(&place.path()).unwrap();
}

#[test]
fn a_stale_lock_file_does_not_lock() {
    let place = OnDisk::new();
    fs::write(beside(&place.path(), ".lock"), "4000000000 and more than a number\n").unwrap();
    let journal = SqliteJournal::open(&place.path()).unwrap();
    assert_eq!(fs::read_to_string(beside(journal.path(), ".lock")).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn only_its_user_may_read_it() {
    let place = OnDisk::new();
    let mut journal = place.open();
    journal.append(Seq(0), &records(1, 1)).unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(place.directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        seen += 1;
    }
    assert_eq!(seen, 4, "the file, its -wal, its -shm and its .lock");
}

/// Without this, a missing sync would only show after a power failure.
#[test]
fn every_commit_is_synced() {
    let place = OnDisk::new();
    let journal = SqliteJournal::open(&place.path()).unwrap();
    for db in [&journal.db, &super::file::connect(&place.path()).unwrap()] {
        let setting = |name| db.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
        assert_eq!(setting("journal_mode"), "wal".to_owned().into());
        assert_eq!(setting("synchronous"), 2.into(), "FULL");
    }
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = OnDisk::new();
    place.open().append(Seq(0), &records(1, 2)).unwrap();
    Connection::open(place.path()).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = contents(place.directory.path());
    let refused = refusal(&place.path());
    assert!(matches!(refused, JournalError::Newer { found: 7, known: FORMAT, .. }), "{refused}");
    assert!(refused.to_string().ends_with("use the newer git-dibs that wrote it"), "{refused}");
    assert_eq!(contents(place.directory.path()), before);
}

/// A newer version may have crashed before its format number was copied from the log to the file.
#[test]
fn a_newer_format_is_seen_in_the_log_too() {
    let place = OnDisk::new();
    let journal = place.open();
    let newer = Connection::open(place.path()).unwrap();
    newer.pragma_update(None, "user_version", FORMAT + 1).unwrap();
    let copy = OnDisk::new();
    for suffix in ["", "-wal"] {
        fs::copy(beside(&place.path(), suffix), beside(&copy.path(), suffix)).unwrap();
    }
    drop((newer, journal));
    assert!(matches!(refusal(&copy.path()), JournalError::Newer { known: FORMAT, .. }));
}

#[test]
fn foreign_files_are_not_changed() {
    let text = OnDisk::new();
    fs::write(text.path(), "Dear diary, …\n".repeat(100)).unwrap();
    let empty = OnDisk::new();
    fs::write(empty.path(), "").unwrap();
    let short = OnDisk::new();
    fs::write(short.path(), "SQLite format 3\0").unwrap();
    let other = OnDisk::new();
    Connection::open(other.path()).unwrap().execute_batch("CREATE TABLE batch (first, last, records)").unwrap();
    let logged = OnDisk::new();
    let keep = Connection::open(logged.path()).unwrap();
    keep.execute_batch("PRAGMA journal_mode = WAL; PRAGMA application_id = 99; CREATE TABLE t (x)").unwrap();
    for place in [&text, &empty, &short, &other, &logged] {
        let before = contents(place.directory.path());
        let refused = refusal(&place.path());
        assert!(matches!(refused, JournalError::Foreign { .. }), "{refused}");
        assert!(refused.to_string().contains("not a git-dibs journal and was not changed"), "{refused}");
        assert_eq!(contents(place.directory.path()), before);
    }
    let directory = OnDisk::new();
    fs::create_dir(directory.path()).unwrap();
    assert!(matches!(refusal(&directory.path()), JournalError::Foreign { .. }));
}

#[test]
fn a_lost_file_is_not_replaced_while_its_log_is_there() {
    let place = OnDisk::new();
    let mut journal = place.open();
    journal.append(Seq(0), &records(1, 2)).unwrap();
    let other = OnDisk::new();
    fs::copy(beside(&place.path(), "-wal"), beside(&other.path(), "-wal")).unwrap();
    let before = contents(other.directory.path());
    assert!(matches!(refusal(&other.path()), JournalError::Corrupt { .. }));
    assert_eq!(contents(other.directory.path()), before);
}

#[test]
fn leftovers_of_a_crash_during_creation_are_removed() {
    let place = OnDisk::new();
    for suffix in [".new", ".new-wal", ".new-shm", ".new-journal"] {
        fs::write(beside(&place.path(), suffix), "half of something").unwrap();
    }
    assert_eq!(load(&mut *place.open()).unwrap().head, Seq::ZERO);
    let names: Vec<String> = contents(place.directory.path()).into_keys().collect();
    assert_eq!(names, ["journal.db", "journal.db.lock"]);
}

#[test]
fn a_missing_directory_is_named() {
    let place = OnDisk::new();
    let refused = refusal(&place.directory.path().join("no/such/journal.db"));
    assert!(matches!(refused, JournalError::Io { .. }));
    assert!(refused.to_string().contains("no/such/journal.db"), "{refused}");
}

#[test]
fn people_can_query_single_records() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    journal.append(Seq(0), &records(1, 3)).unwrap();
    journal.append(Seq(3), &records(4, 4)).unwrap();
    let row = |seq: i64| -> (i64, String, String, String) {
        let sql = "SELECT seq, at, event, body ->> 'name' FROM record WHERE seq = ?1";
        let all = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        journal.db.query_row(sql, [seq], all).unwrap()
    };
    assert_eq!(row(2), (2, "2023-11-14T22:13:20.002Z".into(), "opened".into(), "n2".into()));
    assert_eq!(row(4), (4, "2023-11-14T22:13:20.004Z".into(), "opened".into(), "n4".into()));
    let count: i64 = journal.db.query_row("SELECT count(*) FROM record", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 4);
}

/// One row of more than a gigabyte cannot be stored, and a row is read as a whole.
#[test]
fn a_large_append_is_several_rows_and_one_transaction() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    let reason: Text = "\u{1}".repeat(1_000).into();
    let reserved = |seq: u64| Record {
        seq: Seq(seq),
        at: Timestamp(0),
        event: Event::Reserved {
            id: ReservationId(uuid::Uuid::from_u128(seq.into())),
            session: SessionId::parse("ana").unwrap(),
            key: Key::recall(&format!("src/{seq}"), false).unwrap(),
            mode: Mode::Exclusive,
            ttl: Ttl::Plain(60),
            reason: Some(reason.clone()),
        },
    };
    let records: Vec<Record> = (1..=1_000).map(reserved).collect();
    journal.append(Seq::ZERO, &records).unwrap();
    assert_eq!(journal.head(), Seq(1_000));
    let rows = || -> (i64, i64) {
        let db = rusqlite::Connection::open(place.path()).unwrap();
        db.query_row("SELECT count(*), max(octet_length(records)) FROM batch", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
    };
    let (count, longest) = rows();
    assert!((6..=8).contains(&count) && longest < 1_100_000, "{count} rows, the longest of {longest} bytes");
    let mut reader = journal.reader().unwrap();
    assert_eq!(reader.read(Seq(500), 3).unwrap().records, records[500..503]);
    let first = reader.first_within(2_500_000).unwrap();
    assert!(first > Seq(500) && first < Seq(900), "two rows fit: {first}");
    assert_eq!(reader.first_within(0).unwrap(), Seq(1_001));
    assert_eq!(reader.first_within(u64::MAX).unwrap(), Seq(1));
    // A writer that does not know the last records stores none of its own.
    let stale = journal.append(Seq(999), &[reserved(1_000)]);
    assert!(matches!(stale, Err(JournalError::Superseded { .. })), "{stale:?}");
    drop((reader, journal));
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    assert_eq!(load(&mut journal).unwrap().records, records);
    assert_eq!(rows().0, count);
}
