//! The text of verdicts, word for word.

use std::collections::HashSet;

use super::*;
use crate::git::{Path, Settings};
use crate::local::Environment;
use crate::wire::{CheckReply, Conflict, HeldBy, Mode, Paused, Time};

const COMMIT: Occasion = Occasion { noun: "commit", is_staged: true, on_unreachable: OnUnreachable::Warn };
const PUSH: Occasion = Occasion { noun: "push", is_staged: false, on_unreachable: OnUnreachable::Block };

fn policy(occasion: &Occasion, settings: &[(&str, &str)]) -> CheckPolicy {
    CheckPolicy::read(occasion, &Environment::default(), &Settings::from_pairs(settings.iter().copied()))
}

fn held_by_ana(path: &str) -> Conflict {
    Conflict {
        file_path: format!("file:{path}"),
        key: "src/**".to_owned(),
        reserved_by: "sess_02def".into(),
        reserved_by_name: Some("ana".into()),
        mode: Mode::Exclusive,
        reason: Some("refactoring the parser".into()),
        expires_at: Time(250_000),
        held_by: HeldBy { session_id: "sess_02def".into(), reserved_at: Time(0) },
        example: None,
        waiting: false,
        queue_length: None,
        encoding: None,
        more_holders: None,
    }
}

fn in_conflict(conflicts: Vec<Conflict>) -> CheckReply {
    CheckReply { conflicts, ..CheckReply::default() }
}

fn holding(paths: &[&str]) -> CheckReply {
    CheckReply { held: paths.iter().map(|path| format!("file:{path}")).collect(), ..CheckReply::default() }
}

/// The verdict for a session, or for a person without one.
fn verdict_for(
    occasion: &Occasion,
    settings: &[(&str, &str)],
    paths: &[&str],
    session: Option<&str>,
    reply: CheckReply,
) -> Verdict {
    let paths: Vec<Path> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let policy = policy(occasion, settings);
    let objections = Objections::find(&policy, &paths, session, reply, Time(0), |_| HashSet::new());
    verdict(occasion, &policy, Ok(&objections))
}

fn session(occasion: &Occasion, settings: &[(&str, &str)], paths: &[&str], reply: CheckReply) -> Verdict {
    verdict_for(occasion, settings, paths, Some("sess_me"), reply)
}

fn unchecked(occasion: &Occasion, settings: &[(&str, &str)], error: CheckError) -> Verdict {
    verdict(occasion, &policy(occasion, settings), Err(&Unchecked::Server(error)))
}

fn blocked(verdict: Verdict) -> String {
    match verdict {
        Verdict::Block(text) => text,
        other => panic!("not blocked: {other:?}"),
    }
}

fn warned(verdict: Verdict) -> String {
    match verdict {
        Verdict::Warn(text) => text,
        other => panic!("no warning: {other:?}"),
    }
}

#[test]
fn a_change_without_objections_passes_silently() {
    for occasion in [&COMMIT, &PUSH] {
        assert_eq!(session(occasion, &[], &["a", "b"], holding(&["a"])), Verdict::Pass);
        assert_eq!(session(occasion, &[("require", "held")], &["a"], holding(&["a"])), Verdict::Pass);
    }
}

#[test]
fn a_session_learns_who_holds_the_path_why_how_long_and_what_to_do() {
    insta::assert_snapshot!(blocked(session(&COMMIT, &[], &["src/a.rs"], in_conflict(vec![held_by_ana("src/a.rs")]))), @r"
    git-dibs: this commit is blocked: it changes a path that another session holds (dibs.enforce=block by default).
      src/a.rs: held by ana (sess_02def) through src/**, 4 min 10 s left: refactoring the parser
    To leave it out, commit only your own paths: git commit -- PATH...
    Ask the holder to release it, with all of src/**: git dibs request :/src/a.rs --reason TEXT
    Or wait for it: git dibs wait :/src/a.rs
    ");
}

#[test]
fn a_blocked_push_names_the_commit_and_whose_change_it_is() {
    let mut objections =
        Objections { conflicts: vec![held_by_ana("src/a.rs")], standing: Standing::Session, ..Objections::default() };
    objections.commits.insert(b"src/a.rs".to_vec(), "1a2b3c4 of Bo: Tidy up".to_owned());
    insta::assert_snapshot!(blocked(verdict(&PUSH, &policy(&PUSH, &[]), Ok(&objections))), @r"
    git-dibs: this push is blocked: it changes a path that another session holds (dibs.enforce=block by default).
      src/a.rs: held by ana (sess_02def) through src/**, 4 min 10 s left: refactoring the parser
        changed by 1a2b3c4 of Bo: Tidy up
    Ask the holder to release it, with all of src/**: git dibs request :/src/a.rs --reason TEXT
    Or wait for it: git dibs wait :/src/a.rs
    ");
}

#[test]
fn a_person_without_a_session_gets_other_advice() {
    let conflict =
        Conflict { reserved_by_name: None, reason: None, key: "src/a.rs".to_owned(), ..held_by_ana("src/a.rs") };
    insta::assert_snapshot!(blocked(verdict_for(&PUSH, &[], &["src/a.rs"], None, in_conflict(vec![conflict]))), @r"
    git-dibs: this push is blocked: it changes a path that another session holds (dibs.enforce=block by default).
      src/a.rs: held by sess_02def, 4 min 10 s left
    Talk to the holder, or start a session and wait: git dibs session start && git dibs wait :/src/a.rs
    ");
}

#[test]
fn a_conflict_line_tells_mode_queue_and_example() {
    let line = |conflict: &Conflict| explain::conflict_line(conflict, None, Time(0));
    let plain = Conflict { file_path: "src/a.rs".to_owned(), reason: None, ..held_by_ana("") };
    let shared = Conflict { mode: Mode::Shared, queue_length: Some(2), ..plain.clone() };
    assert_eq!(line(&shared), "src/a.rs: held by ana (sess_02def) through src/**, shared, 4 min 10 s left, 2 waiting");
    let waiting = Conflict { waiting: true, ..plain.clone() };
    assert_eq!(line(&waiting), "src/a.rs: ana (sess_02def) is ahead in the queue through src/**");
    let globs = Conflict { file_path: "*/a.rs".to_owned(), example: Some("src/a.rs".to_owned()), ..plain };
    assert_eq!(
        line(&globs),
        "*/a.rs: overlaps src/** (both match src/a.rs), held by ana (sess_02def), 4 min 10 s left"
    );
}

#[test]
fn many_conflicts_are_counted_not_listed() {
    let conflicts: Vec<Conflict> = (0..14).map(|n| held_by_ana(&format!("src/{n:02}.rs"))).collect();
    let text = blocked(session(&COMMIT, &[], &[], in_conflict(conflicts)));
    assert_eq!(text.lines().count(), 15);
    assert!(
        text.starts_with("git-dibs: this commit is blocked: it changes 14 paths that other sessions hold"),
        "{text}"
    );
    assert!(text.contains("\n  and 4 more\n"), "{text}");
    assert!(text.ends_with("git dibs wait :/src/00.rs :/src/01.rs :/src/02.rs …\n"), "{text}");
}

#[test]
fn two_holders_of_one_path_are_one_path() {
    let other = Conflict { reserved_by: "sess_9".into(), reserved_by_name: None, ..held_by_ana("src/a.rs") };
    let text = blocked(session(&COMMIT, &[], &["src/a.rs"], in_conflict(vec![held_by_ana("src/a.rs"), other])));
    assert!(
        text.contains("changes a path that") && text.contains("(sess_02def)") && text.contains("by sess_9"),
        "{text}"
    );
}

#[test]
fn text_from_other_sessions_cannot_control_the_terminal() {
    let conflict = Conflict {
        file_path: "file:a\x1b]0;x\x07\n%FF".to_owned(),
        reserved_by_name: Some("\x1b[2Jroot".into()),
        reason: Some("all fine\r\ngit-dibs: passed".into()),
        key: "\u{202e}b".to_owned(),
        ..held_by_ana("x")
    };
    let text = blocked(session(&COMMIT, &[], &[], in_conflict(vec![conflict])));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(!text.contains('\u{202e}'));
}

#[test]
fn enforce_warn_shows_the_objection_and_goes_ahead() {
    let reply = in_conflict(vec![held_by_ana("src/a.rs")]);
    let text = warned(session(&PUSH, &[("enforce", "warn")], &["src/a.rs"], reply));
    assert!(
        text.starts_with(
            "git-dibs: warning for this push: it changes a path that another session holds (dibs.enforce=warn)."
        ),
        "{text}"
    );
}

#[test]
fn require_held_applies_to_sessions_and_not_to_people() {
    let strict = [("require", "held")];
    insta::assert_snapshot!(blocked(session(&COMMIT, &strict, &["a", "b", "c"], holding(&["a"]))), @r"
    git-dibs: this commit is blocked: it changes 2 paths that you have not reserved (dibs.require=held).
      b
      c
    Reserve them first: git dibs reserve :/b :/c
    ");
    assert_eq!(verdict_for(&COMMIT, &strict, &["a", "b"], None, holding(&["a"])), Verdict::Pass);
    assert_eq!(session(&COMMIT, &[("require", "none")], &["a", "b"], holding(&["a"])), Verdict::Pass);
}

#[test]
fn a_path_that_another_session_holds_is_not_also_unreserved() {
    let reply = in_conflict(vec![held_by_ana("src/a.rs")]);
    let text = blocked(session(&COMMIT, &[("require", "held")], &["src/a.rs"], reply));
    assert!(!text.contains("not reserved"), "{text}");
}

#[test]
fn a_path_that_only_undoes_a_change_is_no_objection() {
    let paths = [b"a".to_vec(), b"b".to_vec()];
    let policy = policy(&COMMIT, &[("require", "held")]);
    let reply = in_conflict(vec![held_by_ana("a")]);
    let objections = Objections::find(&policy, &paths, Some("sess_me"), reply, Time(0), |suspects| {
        assert_eq!(suspects, paths);
        suspects.iter().cloned().collect()
    });
    assert!(objections.is_empty(), "{objections:?}");
    assert_eq!(verdict(&COMMIT, &policy, Ok(&objections)), Verdict::Pass);
}

#[test]
fn a_paused_feature_blocks_its_commits() {
    let pause = Paused {
        feature: "FEAT-1".into(),
        reserved_by: "lead".into(),
        reserved_by_name: None,
        reason: Some("release freeze".into()),
        expires_at: Time(0),
    };
    let reply = CheckReply { paused: Some(pause), ..CheckReply::default() };
    insta::assert_snapshot!(blocked(session(&COMMIT, &[], &["a"], reply.clone())), @r"
    git-dibs: this commit is blocked: your feature FEAT-1 is paused by lead (dibs.enforce=block by default): release freeze
    See who holds the pause, and for how long: git dibs status
    ");
    warned(session(&COMMIT, &[("enforce", "warn")], &["a"], reply));
}

#[test]
fn an_unreachable_server_follows_the_setting_and_the_text_names_it() {
    let down = || CheckError::Unreachable("no server answers at http://127.0.0.1:3427.".to_owned());
    insta::assert_snapshot!(warned(unchecked(&COMMIT, &[], down())), @r"
    git-dibs: this commit was not checked (dibs.onUnreachable=warn by default): no server answers at http://127.0.0.1:3427.
    Find the cause: git dibs doctor
    ");
    insta::assert_snapshot!(blocked(unchecked(&PUSH, &[], down())), @r"
    git-dibs: this push is blocked because it could not be checked (dibs.onUnreachable=block by default): no server answers at http://127.0.0.1:3427.
    Find the cause: git dibs doctor
    ");
    blocked(unchecked(&COMMIT, &[("onUnreachable", "block")], down()));
    warned(unchecked(&PUSH, &[("onUnreachable", "warn")], down()));
    assert_eq!(unchecked(&PUSH, &[("onUnreachable", "allow")], down()), Verdict::Pass);
    warned(unchecked(&PUSH, &[("enforce", "warn")], down()));
}

#[test]
fn an_unusable_token_gets_the_fitting_advice() {
    let expired = CheckError::Unauthorized("the token has expired".to_owned());
    assert!(warned(unchecked(&COMMIT, &[], expired)).contains("git dibs session start"));
    let ended = CheckError::SessionEnded("session sess_me has ended".to_owned());
    assert!(blocked(unchecked(&PUSH, &[], ended)).contains("Start a new session"));
    let garbage = CheckError::BadReply("http://x answered 500".to_owned());
    assert!(blocked(unchecked(&PUSH, &[], garbage)).contains("answered 500"));
    let unread = Unchecked::Paths("git diff-index failed: index file corrupt".to_owned());
    assert!(warned(verdict(&COMMIT, &policy(&COMMIT, &[]), Err(&unread))).contains("index file corrupt"));
}

#[test]
fn an_invalid_setting_is_reported_even_if_the_change_passes() {
    let text = warned(session(&COMMIT, &[("enforce", "blok")], &["a"], CheckReply::default()));
    assert_eq!(text, "git-dibs: dibs.enforce is \"blok\", but must be one of block, warn, off; the default is used.\n");
}
