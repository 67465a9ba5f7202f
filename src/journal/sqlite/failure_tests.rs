//! Full disks, missing rights, damage: no acknowledged record is lost, no half-written record is visible.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::file::beside;
use super::{SqliteJournal, rows};
use crate::engine::Seq;
use crate::journal::suite::{JournalStorage, OnDisk, load, record, records};
use crate::journal::{Journal, JournalError};

/// Appends until it fails. Returns the last acknowledged number and the error.
fn append_until_it_fails(journal: &mut SqliteJournal, from: Seq) -> (Seq, JournalError) {
    let text = "x".repeat(3000);
    let mut head = from;
    loop {
        let batch = [record(head.0 + 1, &text), record(head.0 + 2, &text)];
        match journal.append(head, &batch) {
            Ok(()) => head = batch[1].seq,
            Err(error) => return (head, error),
        }
        assert!(head < Seq(100_000), "it should have failed by now");
    }
}

#[test]
fn a_full_file_keeps_what_was_acknowledged() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    journal.db.pragma_update(None, "max_page_count", 100).unwrap();
    let (head, error) = append_until_it_fails(&mut journal, Seq(0));
    assert!(head > Seq(10), "it was too small from the start");
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    assert!(error.to_string().ends_with("free some space there, then start the server again"), "{error}");

    // The error stays until the journal is opened again, also when there is space again.
    journal.db.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    let refused = journal.append(head, &records(head.0 + 1, head.0 + 1)).unwrap_err();
    assert!(matches!(refused, JournalError::Broken { .. }), "{refused}");
    drop(journal);
    let mut journal = place.open();
    assert_eq!(load(&mut *journal).unwrap().head, head);
    journal.append(head, &records(head.0 + 1, head.0 + 1)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_what_was_acknowledged() {
    let place = OnDisk::new();
    with_file_system(place.directory.path(), "size=2m", || {
        let ballast = place.directory.path().join("ballast");
        fs::write(&ballast, vec![0; 512 << 10]).unwrap();
        let mut journal = SqliteJournal::open(&place.path()).unwrap();
        let mut reader = journal.reader().unwrap();
        let (head, error) = append_until_it_fails(&mut journal, Seq(0));
        assert!(head > Seq(10), "it was too small from the start");
        assert!(matches!(error, JournalError::Full { .. }), "{error}");
        assert!(matches!(journal.append(head, &[]), Err(JournalError::Broken { .. })));

        // A snapshot has no space either, and damages nothing.
        let error = reader.save_snapshot(head, &[7; 1 << 20], Seq(u64::MAX)).unwrap_err();
        assert!(matches!(error, JournalError::Full { .. }), "{error}");
        drop((journal, reader));

        // Opening it again without space may fail, but only for that reason, and without damage.
        match SqliteJournal::open(&place.path()) {
            Ok(mut journal) => assert_eq!(load(&mut journal).unwrap().head, head),
            Err(error) => assert!(matches!(error, JournalError::Full { .. }), "{error}"),
        }
        fs::remove_file(ballast).unwrap();
        let mut journal = SqliteJournal::open(&place.path()).unwrap();
        let loaded = load(&mut journal).unwrap();
        assert_eq!((loaded.snapshot, loaded.head), (None, head));
        assert_eq!(loaded.records.len() as u64, head.0);
        journal.append(head, &records(head.0 + 1, head.0 + 1)).unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_full_from_the_start_leaves_no_journal() {
    let place = OnDisk::new();
    with_file_system(place.directory.path(), "size=256k", || {
        let ballast = place.directory.path().join("ballast");
        // No matter where the creation runs out of space: there is a whole journal or none.
        let (mut worked, mut failed) = (0, 0);
        for left in (0..40).map(|pages| pages * 4096) {
            // Removed files may keep their space for a moment; see `OnDisk::open` in the suite.
            let mut tries = 0;
            while let Err(error) = fs::write(&ballast, vec![0; (256 << 10) - left]) {
                tries += 1;
                assert!(tries < 200, "{error}");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            match SqliteJournal::open(&place.path()) {
                Ok(_) => worked += 1,
                Err(JournalError::Full { .. }) => failed += 1,
                Err(error) => panic!("with {left} bytes left: {error}"),
            }
            fs::remove_file(&ballast).unwrap();
            assert_eq!(load(&mut *place.open()).unwrap().head, Seq::ZERO, "{left}");
            for name in ["", "-wal", "-shm", ".lock", ".new"] {
                let _ = fs::remove_file(beside(&place.path(), name));
            }
        }
        assert!(worked > 0 && failed > 0, "{worked} and {failed}");
    });
}

#[test]
fn a_journal_that_may_not_be_written_says_so() {
    let place = OnDisk::new();
    let directory = place.directory.path();
    let attempt = |set_read_only: &dyn Fn(bool)| {
        place.open().append(Seq(0), &records(1, 2)).unwrap();
        set_read_only(true);
        let refused = SqliteJournal::open(&place.path()).err().expect("it cannot be written");
        assert!(matches!(refused, JournalError::ReadOnly { .. }), "{refused}");
        let new = SqliteJournal::open(&place.directory.path().join("new.db")).err().expect("it cannot be created");
        assert!(matches!(new, JournalError::ReadOnly { .. }), "{new}");
        set_read_only(false);
        assert_eq!(load(&mut *place.open()).unwrap().head, Seq(2));
    };
    if !is_root() {
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        return attempt(&|read_only| mode(directory, if read_only { 0o500 } else { 0o700 }));
    }
    #[cfg(target_os = "linux")]
    with_file_system(directory, "size=4m", || {
        attempt(&|read_only| {
            let flags = libc::MS_REMOUNT | if read_only { libc::MS_RDONLY } else { 0 };
            mount(Path::new("tmpfs"), directory, flags, "size=4m").unwrap();
        });
    });
}

#[test]
fn a_file_that_may_not_be_written_says_so() {
    let place = OnDisk::new();
    drop(place.open());
    let path = place.path();
    let attempt = || {
        let refused = SqliteJournal::open(&path).err().expect("it cannot be written");
        assert!(matches!(refused, JournalError::ReadOnly { .. }), "{refused}");
    };
    if !is_root() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        return attempt();
    }
    #[cfg(target_os = "linux")]
    with_own_mounts(|| {
        mount(&path, &path, libc::MS_BIND, "")?;
        mount(&path, &path, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY, "")?;
        attempt();
        Ok(())
    });
}

#[test]
fn damage_is_always_reported() {
    let cases = [
        ("UPDATE batch SET records = '[{\"seq\":1' WHERE first = 1", "the records #1 to #2 cannot be read"),
        ("UPDATE batch SET records = replace(records, 'opened', 'unheard-of') WHERE first = 5", "unheard-of"),
        (
            "UPDATE batch SET records = CAST(x'ff' AS TEXT) WHERE first = 1",
            "the records #1 to #2 cannot be read: invalid utf-8",
        ),
        ("UPDATE batch SET last = 3 WHERE first = 1", "the row of the records #1 to #3 has other records"),
        ("UPDATE batch SET first = 0 WHERE first = 1", "has other records"),
        ("UPDATE batch SET first = -1 WHERE first = 1", "out of range"),
        ("DELETE FROM batch WHERE first = 1", "after #0 comes #3"),
        ("DELETE FROM batch WHERE first = 3", "after #2 comes #5"),
        ("INSERT INTO snapshot VALUES (2, 1, 5)", "should be 5 bytes in 1 pieces and is 0 bytes in 0 pieces"),
        (
            "INSERT INTO snapshot VALUES (2, 2, 2); INSERT INTO snapshot_piece VALUES (2, 1, x'00')",
            "piece 0 of its snapshot at #2 is missing",
        ),
        (
            "INSERT INTO snapshot VALUES (2, 1, 3); INSERT INTO snapshot_piece VALUES (2, 0, x'0000')",
            "should be 3 bytes in 1 pieces and is 2 bytes in 1 pieces",
        ),
        ("DROP TABLE snapshot_piece; INSERT INTO snapshot VALUES (2, 1, 3)", "no such table"),
    ];
    for (damage, said) in cases {
        let place = OnDisk::new();
        let mut journal = SqliteJournal::open(&place.path()).unwrap();
        for first in [1, 3, 5] {
            journal.append(Seq(first - 1), &records(first, first + 1)).unwrap();
        }
        journal.db.execute_batch(damage).unwrap();
        let error = load(&mut journal).expect_err(damage);
        assert!(error.to_string().contains(said), "{damage}: {error}");
        drop(journal);
        let error = crate::journal::db::check(&place.path()).expect_err(damage);
        assert!(error.to_string().contains(said), "{damage}: {error}");
    }
}

#[test]
fn overwritten_pages_are_damage() {
    let place = OnDisk::new();
    let mut journal = place.open();
    journal.append(Seq(0), &records(1, 2000)).unwrap();
    drop(journal);
    let whole = fs::read(place.path()).unwrap();
    let mut named = 0;
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        // The first page keeps its header, by which a journal is recognized.
        let from = if page == 0 { 100 } else { page * 4096 };
        damaged[from..(page + 1) * 4096].fill(0xa5);
        fs::write(place.path(), damaged).unwrap();
        let loaded = SqliteJournal::open(&place.path()).and_then(|mut journal| load(&mut journal));
        match loaded {
            Err(JournalError::Corrupt { .. }) => named += 1,
            Err(error) => panic!("page {page}: {error}"),
            Ok(all) => assert_eq!(all.records, records(1, 2000), "page {page} is not used by records"),
        }
    }
    assert!(named > 10);
}

#[test]
fn pieces_of_an_unfinished_snapshot_are_deleted() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    journal.append(Seq(0), &records(1, 9)).unwrap();
    for at in [3, 8] {
        journal.db.execute("INSERT INTO snapshot_piece VALUES (?1, 0, x'00')", [at]).unwrap();
    }
    assert_eq!(load(&mut journal).unwrap().snapshot, None);
    journal.reader().unwrap().save_snapshot(Seq(8), b"eight", Seq(9)).unwrap();
    assert_eq!(load(&mut journal).unwrap().snapshot, Some((Seq(8), b"eight".to_vec())));
    let pieces: i64 = journal.db.query_row("SELECT count(*) FROM snapshot_piece", [], |row| row.get(0)).unwrap();
    assert_eq!(pieces, 1);
}

#[test]
fn a_lock_of_another_program_is_reported() {
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    journal.db.busy_timeout(std::time::Duration::ZERO).unwrap();
    let shell = rusqlite::Connection::open(place.path()).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = journal.append(Seq(0), &records(1, 1)).unwrap_err();
    assert!(error.to_string().contains("is in use by another program; stop that first"), "{error}");
    drop(shell);
    assert_eq!(rows::head(&journal.db, journal.path()).unwrap(), Seq::ZERO);
}

/// File modes do not stop root, so tests need a read-only mount there.
fn is_root() -> bool {
    // SAFETY: only returns a number.
    unsafe { libc::geteuid() == 0 }
}

/// Runs `test` with a file system of its own at `directory`.
#[cfg(target_os = "linux")]
fn with_file_system(directory: &Path, options: &str, test: impl FnOnce() + Send) {
    with_own_mounts(|| {
        mount(Path::new("tmpfs"), directory, 0, options)?;
        test();
        Ok(())
    });
}

/// Runs `test` on a thread with its own mounts, which end with the thread. Prints a note where that is not permitted.
#[cfg(target_os = "linux")]
fn with_own_mounts(test: impl FnOnce() -> std::io::Result<()> + Send) {
    let allowed = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            // SAFETY: affects only this thread.
            if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            mount(Path::new("none"), Path::new("/"), libc::MS_REC | libc::MS_PRIVATE, "")?;
            test()
        });
        run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if let Err(error) = allowed {
        skipped(std::thread::current().name().unwrap_or_default(), &format!("mounting a file system: {error}"));
    }
}

#[cfg(target_os = "linux")]
fn mount(from: &Path, at: &Path, flags: libc::c_ulong, options: &str) -> std::io::Result<()> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (from, at, options) = (text(from), text(at), CString::new(options).unwrap());
    // Busy for a moment while a program that another test starts has copies of our open files; see the suite.
    for _ in 0..200 {
        // SAFETY: all are strings that end with a zero and outlive the call.
        let done =
            unsafe { libc::mount(from.as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), flags, options.as_ptr().cast()) };
        let error = std::io::Error::last_os_error();
        match done {
            0 => return Ok(()),
            _ if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            _ => return Err(error),
        }
    }
    Err(std::io::Error::from_raw_os_error(libc::EBUSY))
}

/// Writes around the test harness, which would capture it.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
