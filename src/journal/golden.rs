//! Journals of earlier versions still load: `fixtures/journal/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::suite::{OnDisk, load};
use super::{Journal, SqliteJournal, db};
use crate::engine::{EndState, Event, LeftWhy, Mode, Owner, Record, Seq, UnlockAnswer, Why};

const STATE: &[u8] = b"what the first twenty add up to";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal").join(name)
}

fn lines() -> Vec<Record> {
    let text = fs::read_to_string(fixture("v1.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn records_of_format_1_are_written_unchanged() {
    let text = fs::read_to_string(fixture("v1.jsonl")).unwrap();
    let again: Vec<String> = lines().iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    assert_eq!(again, text.lines().collect::<Vec<_>>());
}

#[test]
fn a_journal_of_format_1_loads() {
    if std::env::var_os("DIBS_MAKE_FIXTURES").is_some() {
        make_v1_db();
    }
    let place = OnDisk::new();
    fs::copy(fixture("v1.db"), place.path()).unwrap();
    let written = lines();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    let loaded = load(&mut journal).unwrap();
    assert_eq!(loaded.snapshot, Some((Seq(20), STATE.to_vec())));
    assert_eq!(loaded.records, written[20..]);
    let page = journal.reader().unwrap().read(Seq::ZERO, usize::MAX).unwrap();
    assert_eq!((page.oldest, page.records), (Seq(1), written));
    drop(journal);
    db::check(&place.path()).unwrap();
}

#[test]
fn the_fixture_has_every_kind_of_event() {
    let seen: BTreeSet<&str> = lines().iter().flat_map(|record| words(&record.event)).collect();
    let all = [
        "opened",
        "opened without an owner",
        "opened by itself",
        "opened by a worker",
        "bound",
        "bound to itself",
        "bound to a worker",
        "worker without iss",
        "worker with iss",
        "ended",
        "completed",
        "failed",
        "ended stopped",
        "lost",
        "reserved",
        "exclusive",
        "shared",
        "amended",
        "released",
        "let go",
        "expired",
        "by end",
        "overridden",
        "by approval",
        "unheard",
        "queued",
        "left",
        "timedOut",
        "gone",
        "left stopped",
        "left by end",
        "version",
        "paused",
        "deadlock",
        "seated",
        "counted",
        "unlockRequested",
        "unlockAnswered",
        "approved",
        "rejected",
        "withdrawn",
        "moot",
    ];
    assert_eq!(seen, BTreeSet::from(all));
}

/// The kinds of an event. A new event does not compile here until it is listed; it needs a line in a fixture too.
fn words(event: &Event) -> Vec<&'static str> {
    match event {
        Event::Opened { owner: None, .. } => vec!["opened", "opened without an owner"],
        Event::Opened { owner: Some(Owner::Itself), .. } => vec!["opened", "opened by itself"],
        Event::Opened { owner: Some(Owner::Worker { iss, .. }), .. } => {
            vec!["opened", "opened by a worker", issuer(iss.is_some())]
        }
        Event::Bound { owner: Owner::Itself, .. } => vec!["bound", "bound to itself"],
        Event::Bound { owner: Owner::Worker { iss, .. }, .. } => {
            vec!["bound", "bound to a worker", issuer(iss.is_some())]
        }
        Event::Ended { state, .. } => vec![
            "ended",
            match state {
                EndState::Completed => "completed",
                EndState::Failed => "failed",
                EndState::Stopped => "ended stopped",
                EndState::Lost => "lost",
            },
        ],
        Event::Reserved { mode, .. } => vec!["reserved", how(*mode)],
        Event::Amended { mode, .. } => vec!["amended", how(*mode)],
        Event::Released { why, .. } => vec![
            "released",
            match why {
                Why::Released => "let go",
                Why::Expired => "expired",
                Why::Ended => "by end",
                Why::Overridden { .. } => "overridden",
                Why::Approved { .. } => "by approval",
                Why::Unheard => "unheard",
            },
        ],
        Event::Queued { mode, .. } => vec!["queued", how(*mode)],
        Event::Left { why, .. } => vec![
            "left",
            match why {
                LeftWhy::TimedOut => "timedOut",
                LeftWhy::Gone => "gone",
                LeftWhy::Stopped => "left stopped",
                LeftWhy::Ended => "left by end",
                LeftWhy::Version => "version",
                LeftWhy::Paused => "paused",
                LeftWhy::Deadlock => "deadlock",
            },
        ],
        Event::Seated { .. } => vec!["seated"],
        Event::Counted { .. } => vec!["counted"],
        Event::UnlockRequested { .. } => vec!["unlockRequested"],
        Event::UnlockAnswered { answer, .. } => vec![
            "unlockAnswered",
            match answer {
                UnlockAnswer::Approved => "approved",
                UnlockAnswer::Rejected => "rejected",
                UnlockAnswer::Withdrawn => "withdrawn",
                UnlockAnswer::Moot => "moot",
            },
        ],
    }
}

fn issuer(named: bool) -> &'static str {
    if named { "worker with iss" } else { "worker without iss" }
}

fn how(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

/// How `v1.db` was made, with `DIBS_MAKE_FIXTURES=1`. Done once, never again.
fn make_v1_db() {
    assert!(!fixture("v1.db").exists(), "a fixture of an earlier version is never changed");
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    let records = lines();
    let mut done = 0;
    for count in [1, 6, 10, 15, records.len()] {
        let next = (done + count).min(records.len());
        journal.append(Seq(done as u64), &records[done..next]).unwrap();
        done = next;
    }
    journal.reader().unwrap().save_snapshot(Seq(20), STATE, Seq(1)).unwrap();
    drop(journal);
    fs::copy(place.path(), fixture("v1.db")).unwrap();
}
