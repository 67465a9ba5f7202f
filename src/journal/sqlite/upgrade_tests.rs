//! A journal of an earlier format is copied before it is changed.

use std::fs;

use rusqlite::Connection;

use super::SqliteJournal;
use super::file::{FORMAT, beside};
use super::upgrade::copy_of;
use crate::engine::Seq;
use crate::journal::suite::{JournalStorage, OnDisk, load, records};
use crate::journal::{Journal, JournalError, db};

fn set_format(place: &OnDisk, format: i64) {
    Connection::open(place.path()).unwrap().pragma_update(None, "user_version", format).unwrap();
}

fn format_of(path: &std::path::Path) -> i64 {
    Connection::open(path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

#[test]
fn an_upgrade_keeps_the_journal_as_it_was() {
    let place = OnDisk::new();
    place.open().append(Seq(0), &records(1, 3)).unwrap();
    set_format(&place, 1);
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    journal.append(Seq(3), &records(4, 4)).unwrap();
    drop(journal);
    let copy = copy_of(&place.path(), 1);
    assert_eq!((format_of(&place.path()), format_of(&copy)), (FORMAT, 1));
    assert_eq!((db::check(&place.path()).unwrap().head, db::check(&copy).unwrap().head), (Seq(4), Seq(3)));

    // A journal of this format is not copied.
    fs::remove_file(&copy).unwrap();
    drop(place.open());
    assert!(!copy.exists());
}

/// Otherwise a server that fails right after the copy, again and again, would fill the disk with copies.
#[test]
fn a_second_upgrade_replaces_the_copy() {
    let place = OnDisk::new();
    for head in [0, 1] {
        place.open().append(Seq(head), &records(head + 1, head + 1)).unwrap();
        set_format(&place, 2);
        fs::write(beside(&copy_of(&place.path(), 2), ".new"), "half a copy").unwrap();
        drop(place.open());
    }
    assert_eq!(db::check(&copy_of(&place.path(), 2)).unwrap().head, Seq(2));
    let names = fs::read_dir(place.directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["journal.db", "journal.db.format-2", "journal.db.lock"]);
}

#[test]
fn a_journal_that_cannot_be_copied_is_not_changed() {
    let place = OnDisk::new();
    place.open().append(Seq(0), &records(1, 3)).unwrap();
    set_format(&place, 2);
    let before = fs::read(place.path()).unwrap();
    // Nothing can be renamed over a directory that has a file.
    let copy = copy_of(&place.path(), 2);
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("file"), "in the way").unwrap();
    let refused = SqliteJournal::open(&place.path()).err().expect("there is no copy");
    assert!(matches!(refused, JournalError::NoCopy { format: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("nothing was changed"), "{refused}");
    assert!(fs::read(place.path()).unwrap() == before);
    fs::remove_dir_all(copy).unwrap();
    assert_eq!(load(&mut *place.open()).unwrap().head, Seq(3));
}
