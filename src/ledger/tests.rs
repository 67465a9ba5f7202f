//! The ledger with a real journal and real git, compared with the engine.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::engine::{
    Actor, Command, EndState, Engine, KeyName, Mode, Owner, Policy, ReservationId, Reserve, Seq, SessionId,
    SessionIdentity, Timestamp, Ttl, Turn, Want,
};
use crate::journal::{Journal, JournalReader, MemoryJournal};
use crate::key::{Key, KeyRules};

/// An engine with its journal and its ledger, without a desk.
struct LedgerFixture {
    dir: tempfile::TempDir,
    engine: Engine,
    journal: MemoryJournal,
    now: Timestamp,
}

impl LedgerFixture {
    fn new() -> LedgerFixture {
        LedgerFixture {
            dir: tempfile::tempdir().unwrap(),
            engine: Engine::new(Policy::default()),
            journal: MemoryJournal::new(),
            now: Timestamp(1_790_000_000_000),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ledger.git")
    }

    fn reader(&self) -> Box<dyn JournalReader> {
        self.journal.reader().unwrap()
    }

    fn execute(&mut self, actor: Actor, command: Command) {
        let after = self.engine.head();
        self.now = self.now.after(Duration::from_millis(250));
        let mut turn = Turn::at(self.now);
        // A random command may be refused; then it leaves no record.
        let _ = self.engine.execute(&mut turn, &actor, command);
        self.journal.append(after, &turn.records).unwrap();
    }

    fn reserve_as(&mut self, session: &str, keys: Vec<Key>, mode: Mode) {
        let id = SessionId::parse(session).unwrap();
        let want = |key| Want { id: ReservationId(uuid::Uuid::now_v7()), key, ttl: Ttl::Plain(60) };
        let wants = keys.into_iter().map(want).collect();
        let reason = Some("because".into());
        let ask = Reserve { session: id.clone(), wants, mode, reason, wait: None, if_version: None };
        self.execute(intro(&id), Command::Reserve(ask));
    }

    fn reserve(&mut self, session: &str, keys: &[&str]) {
        self.reserve_as(session, keys.iter().map(|text| key(text)).collect(), Mode::Exclusive);
    }

    fn release(&mut self, session: &str, text: &str) {
        let session = SessionId::parse(session).unwrap();
        let keys = [KeyName { key: key(text), literal: None }].into_iter().collect();
        self.execute(intro(&session), Command::Release { session, keys });
    }

    fn end(&mut self, session: &str) {
        let session = SessionId::parse(session).unwrap();
        self.execute(intro(&session), Command::End { session: session.clone(), state: EndState::Completed });
    }

    /// Stores a snapshot of the current state, and drops the records before `keep_from`.
    fn snapshot(&self, keep_from: u64) {
        let state = serde_json::to_vec(&self.engine.image()).unwrap();
        self.reader().save_snapshot(self.engine.head(), &state, Seq(keep_from)).unwrap();
    }

    /// Opens a writer and writes all records.
    fn write(&self) -> Writer {
        // A program that another test is starting has copies of all open files until its `exec`, the lock included.
        let open = |_| match Writer::open(&self.path(), self.reader().as_mut()) {
            Err(LedgerError::InUse { .. }) => {
                std::thread::sleep(Duration::from_millis(10));
                None
            }
            opened => Some(opened.unwrap()),
        };
        let mut writer = (0..1_000).find_map(open).expect("no other process writes this ledger");
        while self.flush(&mut writer).more {}
        writer
    }

    /// Writes the next records as one commit.
    fn flush(&self, writer: &mut Writer) -> FlushReport {
        writer.flush(self.reader().as_mut()).unwrap()
    }

    /// The output of git in the ledger.
    fn git(&self, args: &[&str]) -> String {
        let out = git(&self.path()).args(args).output().unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The tree has exactly the reservations that the engine has.
    #[track_caller]
    fn assert_tree_matches_engine(&self) {
        let reader = LedgerReader::open(&self.path()).unwrap();
        let tip = reader.tip().unwrap().unwrap();
        assert_eq!(tip.trailers.seq, self.engine.head());
        let holdings = reader.holdings(&tip).unwrap();
        let in_tree = |held: &Holding| {
            let stamp = |stamp: Option<Stamp>| stamp.unwrap().0.0;
            let (since, until) = (stamp(held.since), stamp(held.until));
            format!(
                "{} {:?} {} {:?} {:?} {:?} {since} {until} {:?}",
                held.id,
                held.key,
                held.session,
                held.name,
                held.mode.unwrap(),
                held.reason,
                held.fence.unwrap()
            )
        };
        let tree: BTreeSet<String> = holdings.iter().map(in_tree).collect();
        let in_engine = |(person, grant): (crate::engine::SessionName, crate::engine::Grant)| {
            format!(
                "{} {:?} {} {:?} {:?} {:?} {} {} {:?}",
                grant.id,
                grant.key,
                person.session,
                person.name,
                grant.mode,
                grant.reason,
                grant.since.0,
                grant.since.after(grant.ttl.duration()).0,
                grant.fence
            )
        };
        let engine: BTreeSet<String> = self.engine.reservations(Seq::ZERO).map(in_engine).collect();
        assert_eq!(tree, engine);
    }
}

fn key(text: &str) -> Key {
    Key::parse_percent(text, &KeyRules::default()).unwrap()
}

fn intro(session: &SessionId) -> Actor {
    let name = Some(format!("Name of {session}").into());
    Actor::Session(SessionIdentity {
        id: session.clone(),
        name,
        feature: None,
        owner: Owner::Itself,
        issued: None,
        hears_notices: true,
    })
}

#[test]
fn git_shows_past_and_current_holders() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["src/a.rs", "src/b.rs", "docs/", "db:schema:slot"]);
    let mut writer = world.write();
    world.release("ana", "src/a.rs");
    world.flush(&mut writer);
    world.reserve("bo", &["src/a.rs"]);
    world.flush(&mut writer);
    assert_eq!(world.flush(&mut writer), FlushReport { events: 0, bytes: 0, more: false });

    let subjects = "reserve src/a.rs (+1) by Name of bo\nrelease src/a.rs by Name of ana\n\
                    reserve src/a.rs (+4) by Name of ana\n";
    assert_eq!(world.git(&["log", "--format=%s", "ledger", "--", "src/a.rs"]), subjects);
    assert_eq!(world.git(&["log", "--format=%s", "ledger", "--", "src/b.rs"]).lines().count(), 1);
    let held: serde_json::Value = serde_json::from_str(&world.git(&["show", "ledger:src/a.rs"])).unwrap();
    assert_eq!((&held["session"], &held["fence"]), (&"bo".into(), &8.into()));
    let all = world.git(&["ls-tree", "-r", "--name-only", "ledger"]);
    assert_eq!(all, ".dibs/events\n.dibs/glob/docs%2F**\n.dibs/name/db:schema:slot\nsrc/a.rs\nsrc/b.rs\n");
    let trailers = world.git(&["log", "-1", "--format=%(trailers:only,unfold)", "ledger"]);
    assert_eq!(trailers.trim(), "Dibs-Event: 7 open bo\nDibs-Event: 8 reserve bo src/a.rs\nDibs-Seq: 8");
    assert_eq!(world.git(&["log", "-1", "--format=%an %ct", "ledger"]).trim(), "git-dibs 1790000000");
    world.git(&["fsck", "--strict", "--no-dangling"]);
    world.assert_tree_matches_engine();
}

#[test]
fn unusual_names_are_in_the_tree_too() {
    let mut world = LedgerFixture::new();
    let long = "l".repeat(255);
    let deep = vec!["deep and long"; 250].join("/");
    let names: Vec<Vec<u8>> = vec![
        b"caf\xe9/\xff".to_vec(),
        b"a\nb".to_vec(),
        b"-x".to_vec(),
        b"with:colon and space".to_vec(),
        b".gitmodules".to_vec(),
        b"sub/.gitattributes".to_vec(),
        b".dibs/events".to_vec(),
        b".dibs".to_vec(),
        long.clone().into_bytes(),
        format!("{long}/{long}").into_bytes(),
        deep.clone().into_bytes(),
        vec!["d"; 200].join("/").into_bytes(),
        b"both".to_vec(),
        b"both/below".to_vec(),
        b"both/below/further".to_vec(),
    ];
    let keys: Vec<Key> = names.iter().map(|name| Key::literal(name, &KeyRules::default()).unwrap()).collect();
    world.reserve_as("ana", keys.clone(), Mode::Shared);
    world.reserve_as("bo", keys.clone(), Mode::Shared);
    let texts = ["api:GET /v1/users", "github://acme/app:x/issues/42", "flag:billing/*", "**/*.rs", "gen/", "./db:*"];
    world.reserve_as("cy", texts.iter().map(|text| key(text)).collect(), Mode::Exclusive);
    let mut writer = world.write();
    world.assert_tree_matches_engine();
    world.git(&["fsck", "--strict", "--no-dangling"]);
    let show = |name: &str| world.git(&["show", &format!("ledger:{name}")]).lines().count();
    assert_eq!(show("both/below/further"), 2, "both holders are in the blob");
    assert_eq!(show(".dibs/path/both"), 2);
    assert_eq!(show("d/".repeat(200).trim_end_matches('/')), 2);

    // A directory becomes a file, and a file becomes a directory.
    world.release("ana", "both/below/further");
    world.end("bo");
    world.flush(&mut writer);
    world.assert_tree_matches_engine();
    assert_eq!(world.git(&["show", "ledger:both/below"]).lines().count(), 1);
    world.end("ana");
    world.reserve("dan", &["caf", "both", "a"]);
    world.flush(&mut writer);
    world.assert_tree_matches_engine();
    assert_eq!(world.git(&["show", "ledger:both"]).lines().count(), 1);
    world.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn show_path_of_a_path_that_is_also_a_directory_is_where_its_holder_is_found() {
    let mut world = LedgerFixture::new();
    let path_of =
        |world: &LedgerFixture, text: &str| String::from_utf8(path_in_tree(&world.path(), &key(text)).unwrap());
    assert_eq!(path_of(&world, "a/b").unwrap(), "a/b", "there is no ledger yet");
    world.reserve("ana", &["a/b"]);
    let mut writer = world.write();
    assert_eq!(path_of(&world, "a/b").unwrap(), "a/b");
    world.reserve("ana", &["a/b/c"]);
    world.flush(&mut writer);
    for text in ["a/b", "a/b/c"] {
        let blob = world.git(&["show", &format!("ledger:{}", path_of(&world, text).unwrap())]);
        let held: serde_json::Value = serde_json::from_str(&blob).unwrap();
        assert_eq!(held["key"], text);
    }
    assert_eq!(path_of(&world, "a").unwrap(), ".dibs/path/a", "where it would be");
    world.release("ana", "a/b/c");
    world.flush(&mut writer);
    assert_eq!(path_of(&world, "a/b").unwrap(), "a/b");
}

#[test]
fn a_deleted_ledger_is_rebuilt_from_the_journal() {
    let mut world = LedgerFixture::new();
    for n in 0..20 {
        world.reserve("ana", &[&format!("src/{n}.rs")]);
    }
    drop(world.write());
    let before = world.git(&["rev-parse", "ledger^{tree}"]);
    std::fs::remove_dir_all(world.path()).unwrap();
    drop(world.write());
    assert_eq!(world.git(&["rev-parse", "ledger^{tree}"]), before);
    world.assert_tree_matches_engine();
}

#[test]
fn a_ledger_that_is_older_than_the_snapshot_loses_nothing() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["a", "b", "c"]);
    drop(world.write());
    world.reserve("bo", &["d"]);
    world.release("ana", "a");
    world.end("bo");
    world.reserve("ana", &["e"]);
    world.snapshot(5);
    world.release("ana", "b");
    drop(world.write());
    world.assert_tree_matches_engine();
    let log = world.git(&["log", "-1", "--format=%B", "ledger"]);
    assert!(log.contains("Dibs-Event: 5 open bo") && !log.contains("Gap"), "{log}");
    assert!(log.contains("Dibs-Event: 11 release ana b"), "{log}");
}

#[test]
fn a_gap_in_the_journal_is_stated_in_the_ledger() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["a", "b", "c", "d"]);
    drop(world.write());
    world.reserve("bo", &["gone", "stays"]);
    let lost = world.engine.head();
    world.release("bo", "gone");
    world.reserve_as("ana", vec![key("b")], Mode::Shared);
    world.release("ana", "a");
    world.reserve("cy", &["x"]);
    world.snapshot(lost.0 + 1);
    drop(world.write());
    let body = world.git(&["log", "-1", "--format=%B", "ledger"]);
    assert!(body.contains("The events #6 to #8 are missing"), "{body}");
    assert!(body.contains("Dibs-Gap: 6-8\nDibs-Restated: yes\nDibs-Seq: 13"), "{body}");
    world.assert_tree_matches_engine();

    // Without any record, the ledger still shows what is held.
    std::fs::remove_dir_all(world.path()).unwrap();
    world.snapshot(u64::MAX);
    drop(world.write());
    world.assert_tree_matches_engine();
    assert_eq!(world.git(&["log", "--format=%s", "ledger"]), "continue after missing events\n");
    world.reserve("cy", &["y"]);
    drop(world.write());
    world.assert_tree_matches_engine();
}

#[test]
fn holdings_before_the_oldest_record_are_computed_backwards() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["stays", "goes", "changes"]);
    let lost = world.engine.head();
    world.release("ana", "goes");
    world.reserve_as("ana", vec![key("changes")], Mode::Shared);
    world.reserve("ana", &["comes"]);
    world.snapshot(lost.0 + 1);
    let mut writer = Writer::open(&world.path(), world.reader().as_mut()).unwrap();
    assert_eq!(writer.seq(), lost);
    let mut paths: Vec<_> = writer.paths().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    paths.sort();
    assert_eq!(paths, ["changes", "goes", "stays"]);
    world.flush(&mut writer);
    world.assert_tree_matches_engine();
}

#[test]
fn the_ledger_of_another_journal_is_not_changed() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["a", "b"]);
    drop(world.write());
    let tip = world.git(&["rev-parse", "ledger"]);
    let mut other = LedgerFixture::new();
    let refused = Writer::open(&world.path(), other.reader().as_mut()).err().unwrap();
    assert!(matches!(refused, LedgerError::Diverged { .. }), "{refused}");
    other.reserve("bo", &["a", "b", "c"]);
    let refused = Writer::open(&world.path(), other.reader().as_mut()).err().unwrap();
    assert!(refused.to_string().contains("belongs to another journal"), "{refused}");
    assert_eq!(world.git(&["rev-parse", "ledger"]), tip);
}

#[test]
fn a_damaged_tip_is_reported_and_not_overwritten() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["a"]);
    drop(world.write());
    let packs = world.path().join("objects/pack");
    for file in std::fs::read_dir(&packs).unwrap().flatten() {
        std::fs::write(file.path(), "half").unwrap_or_default();
    }
    let refused = Writer::open(&world.path(), world.reader().as_mut()).err().unwrap();
    assert!(matches!(refused, LedgerError::Damaged { .. }), "{refused}");
}

#[test]
fn each_year_has_its_own_root_commit() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["a"]);
    let mut writer = world.write();
    let old = world.git(&["rev-parse", "ledger"]);
    world.now = Timestamp(1_800_000_000_000);
    world.reserve("ana", &["b"]);
    world.flush(&mut writer);
    world.reserve("ana", &["c"]);
    world.flush(&mut writer);
    assert_eq!(world.git(&["rev-list", "--count", "ledger"]).trim(), "2");
    assert_eq!(world.git(&["rev-parse", "ledger-2026"]), old);
    let reader = LedgerReader::open(&world.path()).unwrap();
    let mut commit = reader.tip().unwrap();
    let mut seqs = Vec::new();
    while let Some(one) = commit {
        seqs.push(one.trailers.seq.0);
        commit = reader.before(&one).unwrap();
    }
    assert_eq!(seqs, [4, 3, 2], "reading continues in the year before");
    world.assert_tree_matches_engine();
    drop(writer);
    world.write();
    world.assert_tree_matches_engine();
}

#[test]
fn after_any_crash_or_deletion_the_tree_matches_the_engine() {
    let mut world = LedgerFixture::new();
    let mut state = 7_u64;
    let mut dice = move |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    };
    let keys =
        ["a", "a/b", "a/b/c", "b", "src/x.rs", "src/**", "db:schema:slot", "deploy://prod", ".gitmodules", "a.b"];
    let mut writer: Option<Writer> = None;
    for round in 0..300 {
        for _ in 0..dice(6) {
            let session = format!("s{}-{}", dice(4), round / 40);
            let key_ = keys[dice(keys.len() as u64) as usize];
            match dice(8) {
                0..=3 => {
                    let mode = if dice(3) == 0 { Mode::Exclusive } else { Mode::Shared };
                    world.reserve_as(&session, vec![key(key_)], mode);
                }
                4..=6 => world.release(&session, key_),
                _ => world.end(&session),
            }
        }
        match dice(20) {
            // Killed at any moment.
            0..=3 => writer = None,
            4 => {
                writer = None;
                let _ = std::fs::create_dir_all(world.path().join("refs/heads"));
                if world.path().join("HEAD").exists() {
                    std::fs::write(world.path().join("refs/heads/ledger.lock"), "x").unwrap();
                }
            }
            5 => {
                writer = None;
                let _ = std::fs::remove_dir_all(world.path());
            }
            6 => world.snapshot(world.engine.head().0.saturating_sub(dice(40))),
            7 => {
                // A power failure after the pack was stored and before the branch moved.
                writer = None;
                let reader = LedgerReader::open(&world.path()).ok();
                let tip = reader.as_ref().and_then(|reader| reader.tip().unwrap());
                if let Some(before) = tip.and_then(|tip| tip.before) {
                    std::fs::write(world.path().join(BRANCH), format!("{before}\n")).unwrap();
                }
            }
            _ => {}
        }
        if dice(3) > 0 || world.engine.head() == Seq::ZERO {
            continue;
        }
        let journal = &mut *world.reader();
        let result = match writer.take() {
            Some(mut writer) => writer.flush(journal).map(|_| writer),
            None => Err(LedgerError::RecordsDropped { after: Seq::ZERO }),
        };
        let open = match result {
            Ok(writer) => writer,
            Err(LedgerError::RecordsDropped { .. }) => world.write(),
            Err(error) => panic!("{error}"),
        };
        writer = Some(open);
        world.assert_tree_matches_engine();
    }
    drop(writer);
    world.write();
    world.assert_tree_matches_engine();
    repack(&world.path()).unwrap();
    world.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn history_continues_in_the_ledger_where_the_journal_ends() {
    let mut world = LedgerFixture::new();
    for n in 0..5 {
        world.reserve("ana", &[&format!("src/{n}.rs")]);
        world.reserve("ana", &["docs/x"]);
        world.write();
    }
    world.snapshot(world.engine.head().0 - 1);
    world.reserve("bo", &["lib/**"]);
    let history = HistoryReader::new(world.reader(), Some(world.path()));
    let all = |query: Query| {
        let (mut seqs, mut missing) = (Vec::new(), Vec::new());
        let mut cursor = None;
        loop {
            let page = history.page(&Query { cursor, ..query.clone() }).unwrap();
            assert!(page.events.len() <= query.limit);
            seqs.extend(page.events.iter().map(|event| event.seq.0));
            missing.extend(page.missing);
            cursor = page.next.map(|next| Cursor::parse(&next.to_string()).unwrap());
            if cursor.is_none() {
                return (seqs, missing);
            }
        }
    };
    let head = world.engine.head().0;
    for limit in [1, 2, 3, 100] {
        let (seqs, missing) = all(Query { limit, ..Query::default() });
        assert_eq!(seqs, (1..=head).rev().collect::<Vec<_>>(), "{limit} at a time");
        assert_eq!(missing, []);
    }
    let (seqs, _) = all(Query { key: Some(key("src/3.rs")), limit: 10, ..Query::default() });
    assert_eq!(seqs.len(), 1);
    let (seqs, _) = all(Query { session: SessionId::parse("bo"), limit: 10, ..Query::default() });
    assert_eq!(seqs, [head, head - 1]);
    std::fs::remove_dir_all(world.path()).unwrap();
    let (seqs, missing) = all(Query { limit: 100, ..Query::default() });
    assert_eq!(
        (seqs.len() as u64, missing[0].0, missing[0].1.0),
        (head - seqs.last().unwrap() + 1, Seq(1), seqs.last().unwrap() - 1)
    );
}

#[test]
fn verify_accepts_an_intact_ledger_and_refuses_a_forged_one() {
    let mut world = LedgerFixture::new();
    for n in 0..5 {
        world.reserve("ana", &[&format!("src/{n}.rs"), "a", "a/b"]);
        world.release("ana", "a");
        world.reserve("bo", &[&format!("lib/{n}")]);
        world.end("bo");
        world.write();
    }
    let found = verify(&world.path()).unwrap();
    assert_eq!((found.last, found.held, found.gaps.len()), (world.engine.head(), 6, 0));
    assert_eq!((found.commits, found.events), (5, world.engine.head().0));
    world.reserve("cy", &["x"]);
    world.reserve("cy", &["y"]);
    world.snapshot(world.engine.head().0);
    world.write();
    let found = verify(&world.path()).unwrap();
    assert_eq!(found.gaps, [(Seq(found.last.0 - 2), Seq(found.last.0 - 1))]);

    // A tree that does not match its events.
    let repo = git2::Repository::open_bare(world.path()).unwrap();
    let tip = repo.refname_to_id(BRANCH).unwrap();
    let tip = repo.find_commit(tip).unwrap();
    let other = tip.parent(0).unwrap().tree().unwrap();
    let events = tip.tree().unwrap().get_path(std::path::Path::new(".dibs/events")).unwrap().id();
    let mut own = repo.treebuilder(Some(&repo.find_tree(other.get_name(".dibs").unwrap().id()).unwrap())).unwrap();
    own.insert("events", events, 0o100_644).unwrap();
    let mut root = repo.treebuilder(Some(&other)).unwrap();
    root.insert(".dibs", own.write().unwrap(), 0o040_000).unwrap();
    root.insert("forged", tip.tree().unwrap().get_name("x").unwrap().id(), 0o100_644).unwrap();
    let forged = repo.find_tree(root.write().unwrap()).unwrap();
    let id = tip.amend(Some(BRANCH), None, None, None, None, Some(&forged)).unwrap();
    let refused = verify(&world.path()).unwrap_err();
    assert!(refused.to_string().contains(&format!("commit {id}")), "{refused}");
}

#[test]
fn a_retaining_journal_keeps_records_until_they_are_in_the_ledger() {
    let mut world = LedgerFixture::new();
    let status = std::sync::Arc::<LedgerStatus>::default();
    let journal = RetainingJournal::new(Box::new(world.journal.reopen()), status.clone());
    world.reserve("ana", &["a", "b", "c"]);
    let state = serde_json::to_vec(&world.engine.image()).unwrap();
    let oldest = |world: &LedgerFixture| world.reader().read(Seq(100), 1).unwrap().oldest;
    journal.reader().unwrap().save_snapshot(Seq(3), &state, Seq(3)).unwrap();
    assert_eq!(oldest(&world), Seq(1), "the ledger has nothing yet");
    status.set_written(Seq(1));
    journal.reader().unwrap().save_snapshot(Seq(4), &state, Seq(4)).unwrap();
    assert_eq!(oldest(&world), Seq(2));
    status.set_written(Seq(4));
    journal.reader().unwrap().save_snapshot(Seq(4), &state, Seq(4)).unwrap();
    assert_eq!(oldest(&world), Seq(4));
}

#[test]
fn the_status_shows_errors_and_the_lag() {
    let mut world = LedgerFixture::new();
    let status = std::sync::Arc::<LedgerStatus>::default();
    std::fs::write(world.path(), "in the way").unwrap();
    world.reserve("ana", &["a"]);
    let ledger = Ledger::start("test", world.path(), world.reader(), status.clone());
    while status.error().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(status.lag().records, 2);
    std::fs::remove_file(world.path()).unwrap();
    ledger.stop(std::time::Instant::now() + std::time::Duration::from_secs(60));
    assert_eq!((status.error(), status.lag(), status.last_written_seq()), (None, Lag::default(), Seq(2)));
    world.assert_tree_matches_engine();
}

#[test]
fn more_records_than_a_flush_takes_are_written_in_the_time_that_is_left() {
    let mut world = LedgerFixture::new();
    world.reserve("ana", &["first"]);
    let status = std::sync::Arc::<LedgerStatus>::default();
    let ledger = Ledger::start("test", world.path(), world.reader(), status.clone());
    let written = |seq: Seq| {
        let poll = |_| {
            std::thread::sleep(Duration::from_millis(10));
            (status.last_written_seq() == seq).then_some(())
        };
        (0..6_000).find_map(poll).expect("the ledger is written")
    };
    written(world.engine.head());
    // Appended together, so that the thread finds all of them.
    let keys = (0..5_000).map(|n| key(&format!("many/{}/{n}", n / 100))).collect();
    world.reserve_as("bo", keys, Mode::Exclusive);
    written(world.engine.head());
    ledger.stop(std::time::Instant::now() + std::time::Duration::from_secs(60));
    assert_eq!((status.error(), status.lag()), (None, Lag::default()));
    world.assert_tree_matches_engine();
}

#[test]
fn a_tree_that_was_changed_by_hand_is_corrected() {
    for behind_a_snapshot in [false, true] {
        let mut world = LedgerFixture::new();
        world.reserve("ana", &["a", "b"]);
        drop(world.write());
        let repo = git2::Repository::open_bare(world.path()).unwrap();
        let tip = repo.find_commit(repo.refname_to_id(BRANCH).unwrap()).unwrap();
        let mut root = repo.treebuilder(Some(&tip.tree().unwrap())).unwrap();
        root.remove("a").unwrap();
        let forged = repo.find_tree(root.write().unwrap()).unwrap();
        tip.amend(Some(BRANCH), None, None, None, None, Some(&forged)).unwrap();
        world.reserve("ana", &["c"]);
        if behind_a_snapshot {
            world.snapshot(1);
        }
        drop(world.write());
        world.assert_tree_matches_engine();
        let body = world.git(&["log", "-1", "--format=%B", "ledger"]);
        assert!(body.contains("Dibs-Restated: yes") && !body.contains("Gap"), "{body}");
    }
}
