//! Runs every scenario of `fixtures/scenarios/*.txt` and compares what happens with what the lines expect.
//!
//! A line is `<time> <who> <verb …> -> <expected>`; `== title` begins a new scenario, `policy …` sets its limits, `#` is a
//! comment. `UPDATE_SCENARIOS=1` writes what happened into the files instead, so that a changed rule is a readable diff.

use std::fs;
use std::path::Path;
use std::time::Duration;

use git_dibs::engine::{
    Actor, Command, Engine, Mode, Outcome, Owner, Record, Refusal, ReservationId, Reserve, Seq, SessionId,
    SessionIdentity, Timestamp, Ttl, Turn, WaiterId, Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

use crate::runner::{Runner, replay, through_text};

/// The column of the arrows in updated lines.
const ARROW_COLUMN: usize = 64;

#[test]
fn every_scenario_ends_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty(), "there are scenarios");
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = format!("fixtures/scenarios/{}", file.file_name().unwrap().to_str().unwrap());
        let played = play(&name, &text, &mut wrong);
        if update && played != text {
            fs::write(&file, played).unwrap();
        }
    }
    assert!(update || wrong.is_empty(), "{} lines have another result:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a file and returns it with the actual results; differences go into `wrong`.
fn play(name: &str, text: &str, wrong: &mut Vec<String>) -> String {
    let mut written = String::new();
    let mut runner = Runner::new("");
    for (number, line) in (1..).zip(text.lines()) {
        let (asked, expected) = line.split_once("->").map_or((line, ""), |(asked, expected)| (asked, expected.trim()));
        let asked = asked.trim_end();
        let mut anew = line.trim_end().to_owned();
        if asked.starts_with("==") {
            finish(&mut runner, &format!("{name}, the scenario before line {number}"));
            runner = Runner::new("");
        } else if let Some(policy) = asked.strip_prefix("policy ") {
            runner = Runner::new(policy);
        } else if !asked.is_empty() && !asked.starts_with('#') {
            let got = runner.play(asked);
            if got != expected {
                wrong.push(format!("{name}:{number}: {asked}\n    expected  {expected}\n    got       {got}"));
                anew = format!("{asked:ARROW_COLUMN$} -> {got}");
            }
        }
        written.push_str(&anew);
        written.push('\n');
    }
    finish(&mut runner, &format!("{name}, the last scenario"));
    written
}

/// After a scenario, an engine that replayed its records and one that was restored from an image have the same state, and
/// behave the same from then on.
fn finish(live: &mut Runner, scenario: &str) {
    let policy = live.engine.policy().clone();
    let image = live.engine.image();
    let mut replayed = replay(policy.clone(), &live.records);
    assert_eq!(replayed.image(), image, "{scenario}: a replay equals the live state");
    let mut restored = Engine::restore(policy, through_text(&image));
    assert_eq!(restored.image(), image, "{scenario}: a restored image equals the live state");
    let [expected, from_records, from_image] =
        [&mut live.engine, &mut replayed, &mut restored].map(continue_after_restart);
    assert_eq!(from_records, expected, "{scenario}: a replayed engine behaves like the live one");
    assert_eq!(from_image, expected, "{scenario}: a restored engine behaves like the live one");
}

type CommandResult = Result<Outcome, Refusal>;

/// Restarts, lets a new session request everything, and lets time pass until everything has ended.
fn continue_after_restart(engine: &mut Engine) -> (Vec<Record>, Vec<(WaiterId, CommandResult)>, Vec<CommandResult>) {
    let (mut turn, mut results) = (Turn::at(Timestamp(1_000_000)), Vec::new());
    engine.resume(&mut turn);
    let sessions: Vec<SessionId> = engine.sessions().into_iter().map(|session| session.id).collect();
    let keys: Vec<Key> = engine.reservations(Seq::ZERO).map(|(_, grant)| grant.key).collect();
    let everything = Key::parse("**", &KeyRules::default()).unwrap();
    let new = SessionId::parse("new.session").unwrap();
    let actor = Actor::Session(SessionIdentity {
        id: new.clone(),
        name: None,
        feature: None,
        owner: Owner::Itself,
        issued: None,
        hears_notices: true,
    });
    let mut commands = Vec::new();
    for (key, id) in keys.into_iter().chain([everything]).zip(1 << 64..) {
        let wants = [Want { id: ReservationId(Uuid::from_u128(id)), key, ttl: Ttl::Plain(5) }].into();
        let (session, wait) = (new.clone(), Some(Duration::from_secs(3_000)));
        commands.push((
            actor.clone(),
            Command::Reserve(Reserve { session, wants, mode: Mode::Exclusive, reason: None, wait, if_version: None }),
        ));
    }
    for session in sessions.into_iter().step_by(2) {
        commands.push((Actor::Admin("admin".into()), Command::Heartbeat { session }));
    }
    for _ in 0..60 {
        commands.push((Actor::Desk, Command::Tick));
    }
    for (actor, command) in commands {
        results.push(engine.execute(&mut turn, &actor, command));
        turn.now = turn.now.after(Duration::from_secs(20));
    }
    (turn.records, turn.settled, results)
}
