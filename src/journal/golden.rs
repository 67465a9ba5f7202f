//! Journals of earlier versions still load: `fixtures/journal/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::suite::{OnDisk, load};
use super::{Journal, SqliteJournal, db};
use crate::engine::{EndState, Event, LeftWhy, Mode, Owner, Record, Seq, Ttl, UnlockAnswer, Why};

/// The formats of earlier versions, and the record that the snapshot of each journal was taken after.
const FORMATS: [(&str, u64); 4] = [("v1", 20), ("v2", 2), ("v3-restored", 1), ("v4-while-session", 3)];

const STATE: &[u8] = b"what the first twenty add up to";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal").join(name)
}

fn lines(format: &str) -> Vec<Record> {
    let text = fs::read_to_string(fixture(&format!("{format}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn records_of_every_format_are_written_unchanged() {
    for (format, _) in FORMATS {
        let text = fs::read_to_string(fixture(&format!("{format}.jsonl"))).unwrap();
        let again: Vec<String> = lines(format).iter().map(|record| serde_json::to_string(record).unwrap()).collect();
        assert_eq!(again, text.lines().collect::<Vec<_>>());
    }
}

#[test]
fn a_journal_of_every_format_loads() {
    for (format, snapshot) in FORMATS {
        if std::env::var_os("DIBS_MAKE_FIXTURES").is_some_and(|made| made == format) {
            make_db(format, Seq(snapshot));
        }
        let place = OnDisk::new();
        fs::copy(fixture(&format!("{format}.db")), place.path()).unwrap();
        let written = lines(format);
        let mut journal = SqliteJournal::open(&place.path()).unwrap();
        let loaded = load(&mut journal).unwrap();
        assert_eq!(loaded.snapshot, Some((Seq(snapshot), STATE.to_vec())));
        assert_eq!(loaded.records, written[snapshot as usize..]);
        let page = journal.reader().unwrap().read(Seq::ZERO, usize::MAX).unwrap();
        assert_eq!((page.oldest, page.records), (Seq(1), written));
        drop(journal);
        db::check(&place.path()).unwrap();
    }
}

/// Otherwise an earlier version would read it, up to the first record that it does not know.
#[test]
fn an_opened_journal_of_an_earlier_format_is_refused_by_the_earlier_version() {
    let place = OnDisk::new();
    fs::copy(fixture("v1.db"), place.path()).unwrap();
    let format = || -> i64 {
        let db = rusqlite::Connection::open(place.path()).unwrap();
        db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(format(), 1);
    drop(SqliteJournal::open(&place.path()).unwrap());
    assert_eq!(format(), super::sqlite::file::FORMAT);
}

#[test]
fn the_fixtures_have_every_kind_of_event() {
    let all = FORMATS.iter().flat_map(|(format, _)| lines(format));
    let seen: BTreeSet<&str> = all.flat_map(|record| words(&record.event)).collect();
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
        "committed",
        "reopened",
        "reopened without an owner",
        "reopened by a token",
        "restored",
        "reserved while the session is there",
        "amended while the session is there",
        "queued while the session is there",
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
        Event::Reopened { owner: None, .. } => vec!["reopened", "reopened without an owner"],
        Event::Reopened { owner: Some(_), .. } => vec!["reopened", "reopened by a token"],
        Event::Ended { state, .. } => vec![
            "ended",
            match state {
                EndState::Completed => "completed",
                EndState::Failed => "failed",
                EndState::Stopped => "ended stopped",
                EndState::Lost => "lost",
            },
        ],
        Event::Reserved { mode, ttl: Ttl::Plain(_), .. } => vec!["reserved", how(*mode)],
        Event::Reserved { ttl: Ttl::WhileSession(_), .. } => vec!["reserved while the session is there"],
        Event::Amended { mode, ttl: Ttl::Plain(_), .. } => vec!["amended", how(*mode)],
        Event::Amended { ttl: Ttl::WhileSession(_), .. } => vec!["amended while the session is there"],
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
        Event::Queued { wants, .. } if wants.iter().any(|want| want.ttl.is_while_session()) => {
            vec!["queued while the session is there"]
        }
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
        Event::Committed { .. } => vec!["committed"],
        Event::Restored { .. } => vec!["restored"],
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

/// How the database of a format was made, with `DIBS_MAKE_FIXTURES=v1`. Done once, never again.
fn make_db(format: &str, snapshot: Seq) {
    let file = fixture(&format!("{format}.db"));
    assert!(!file.exists(), "a fixture of an earlier version is never changed");
    let place = OnDisk::new();
    let mut journal = SqliteJournal::open(&place.path()).unwrap();
    let records = lines(format);
    let mut done = 0;
    for count in [1, 6, 10, 15, records.len()] {
        let next = (done + count).min(records.len());
        if next > done {
            let after = records[..done].last().map_or(Seq::ZERO, |record| record.seq);
            journal.append(after, &records[done..next]).unwrap();
        }
        done = next;
    }
    journal.reader().unwrap().save_snapshot(snapshot, STATE, Seq(1)).unwrap();
    drop(journal);
    fs::copy(place.path(), file).unwrap();
}
