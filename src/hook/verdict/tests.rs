//! What people read when a hook speaks, word for word.

use std::time::Duration;

use super::*;
use crate::git::Settings;
use crate::local::Environment;

fn policy(moment: Moment, settings: &[(&str, &str)]) -> Policy {
    Policy::read(moment, &Environment::default(), &Settings::from_pairs(settings.iter().copied()))
}

fn held_by_ana(path: &str) -> Conflict {
    Conflict {
        path: path.into(),
        holder: "sess_02def".to_owned(),
        holder_name: Some("ana".to_owned()),
        reason: Some("refactoring the parser".to_owned()),
        expires_in: Some(Duration::from_secs(250)),
        key: b"src/**".to_vec(),
    }
}

fn heard(moment: Moment, settings: &[(&str, &str)], paths: &[&str], answer: &Answer) -> Verdict {
    let paths: Vec<Path> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    judge(moment, &policy(moment, settings), &paths, Ok(answer), &HashSet::new())
}

fn silence(moment: Moment, settings: &[(&str, &str)], error: AskError) -> Verdict {
    judge(moment, &policy(moment, settings), &[], Err(&Trouble::Silence(error)), &HashSet::new())
}

fn me(answer: Answer) -> Answer {
    Answer { me: Some("sess_me".to_owned()), ..answer }
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
fn nothing_is_said_when_all_is_well() {
    for moment in Moment::ALL {
        let answer = me(Answer { held: vec![b"a".to_vec()], ..Answer::default() });
        assert_eq!(heard(moment, &[], &["a", "b"], &answer), Verdict::Pass);
        assert_eq!(heard(moment, &[("require", "held")], &["a"], &answer), Verdict::Pass);
    }
}

#[test]
fn a_session_is_told_who_why_how_long_and_what_to_do() {
    let answer = me(Answer { conflicts: vec![held_by_ana("src/a.rs")], ..Answer::default() });
    insta::assert_snapshot!(blocked(heard(Moment::PreCommit, &[], &["src/a.rs"], &answer)), @r"
    git-dibs: this commit changes a path held by somebody else; it is blocked (dibs.enforce=block by default).
      src/a.rs: held by ana (sess_02def) through src/**, 4 min 10 s left: refactoring the parser
    Ask for it with: git dibs request :/src/a.rs --reason TEXT — or wait for it: git dibs wait :/src/a.rs
    ");
}

#[test]
fn a_person_is_told_the_same_and_what_a_person_can_do() {
    let conflict = Conflict {
        path: b"src/a.rs".to_vec(),
        holder: "sess_02def".to_owned(),
        key: b"src/a.rs".to_vec(),
        ..Conflict::default()
    };
    let answer = Answer { conflicts: vec![conflict], ..Answer::default() };
    insta::assert_snapshot!(blocked(heard(Moment::PrePush, &[], &["src/a.rs"], &answer)), @r"
    git-dibs: this push changes a path held by somebody else; it is blocked (dibs.enforce=block by default).
      src/a.rs: held by sess_02def
    Talk to the holder, or start a session (git dibs session start) and: git dibs wait :/src/a.rs
    ");
}

#[test]
fn many_conflicts_are_counted_not_listed() {
    let conflicts: Vec<Conflict> = (0..14).map(|n| held_by_ana(&format!("src/{n:02}.rs"))).collect();
    let text = blocked(heard(Moment::PreCommit, &[], &[], &me(Answer { conflicts, ..Answer::default() })));
    assert_eq!(text.lines().count(), 13);
    assert!(text.starts_with("git-dibs: this commit changes 14 paths held"), "{text}");
    assert!(text.contains("\n  and 4 more\n"), "{text}");
    assert!(text.ends_with("git dibs wait :/src/00.rs :/src/01.rs :/src/02.rs …\n"), "{text}");
}

#[test]
fn two_holders_of_one_path_are_one_path() {
    let other = Conflict { holder: "sess_9".to_owned(), holder_name: None, ..held_by_ana("src/a.rs") };
    let answer = me(Answer { conflicts: vec![held_by_ana("src/a.rs"), other], ..Answer::default() });
    let text = blocked(heard(Moment::PreCommit, &[], &["src/a.rs"], &answer));
    assert!(
        text.contains("changes a path held") && text.contains("(sess_02def)") && text.contains("by sess_9"),
        "{text}"
    );
}

#[test]
fn what_others_wrote_cannot_play_with_the_terminal() {
    let conflict = Conflict {
        path: b"a\x1b]0;x\x07\n\xff".to_vec(),
        holder_name: Some("\x1b[2Jroot".to_owned()),
        reason: Some("all fine\r\ngit-dibs: passed".to_owned()),
        key: "\u{202e}b".into(),
        ..held_by_ana("x")
    };
    let text =
        blocked(heard(Moment::PreCommit, &[], &[], &me(Answer { conflicts: vec![conflict], ..Answer::default() })));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains('\u{202e}'));
}

#[test]
fn enforce_warn_says_it_and_lets_go() {
    let answer = me(Answer { conflicts: vec![held_by_ana("src/a.rs")], ..Answer::default() });
    let text = warned(heard(Moment::PrePush, &[("enforce", "warn")], &["src/a.rs"], &answer));
    assert!(text.starts_with(
        "git-dibs: this push changes a path held by somebody else; this is only a warning (dibs.enforce=warn)."
    ));
}

#[test]
fn require_held_wants_every_path_of_a_session_and_none_of_a_person() {
    let strict = [("require", "held")];
    let answer = me(Answer { held: vec![b"a".to_vec()], ..Answer::default() });
    insta::assert_snapshot!(blocked(heard(Moment::PreCommit, &strict, &["a", "b", "c"], &answer)), @r"
    git-dibs: this commit changes 2 paths you have not reserved; it is blocked (dibs.require=held).
      b
      c
    Reserve it first: git dibs reserve :/b :/c
    ");
    let person = Answer { me: None, ..answer.clone() };
    assert_eq!(heard(Moment::PreCommit, &strict, &["a", "b"], &person), Verdict::Pass);
    assert_eq!(heard(Moment::PreCommit, &[("require", "none")], &["a", "b"], &answer), Verdict::Pass);
}

#[test]
fn a_path_somebody_holds_is_not_also_reported_as_unreserved() {
    let answer = me(Answer { conflicts: vec![held_by_ana("src/a.rs")], ..Answer::default() });
    let text = blocked(heard(Moment::PreCommit, &[("require", "held")], &["src/a.rs"], &answer));
    assert!(!text.contains("not reserved"), "{text}");
}

#[test]
fn undoing_is_forgiven_in_every_respect() {
    let answer = me(Answer { conflicts: vec![held_by_ana("a")], ..Answer::default() });
    let paths = [b"a".to_vec(), b"b".to_vec()];
    let policy = policy(Moment::PreCommit, &[("require", "held")]);
    assert_eq!(suspects(&policy, &paths, &answer), paths);
    let verdict = judge(Moment::PreCommit, &policy, &paths, Ok(&answer), &paths.iter().cloned().collect());
    assert_eq!(verdict, Verdict::Pass);
}

#[test]
fn a_paused_feature_stops_its_commits() {
    let pause = Pause { by: "lead".to_owned(), reason: Some("release freeze".to_owned()) };
    let answer = me(Answer { paused: Some(pause), ..Answer::default() });
    insta::assert_snapshot!(blocked(heard(Moment::PreCommit, &[], &["a"], &answer)), @r"
    git-dibs: your feature is paused by lead, so this commit should wait; it is blocked (dibs.enforce=block by default): release freeze
    See when it goes on with: git dibs status
    ");
    warned(heard(Moment::PreCommit, &[("enforce", "warn")], &["a"], &answer));
}

#[test]
fn silence_follows_the_setting_and_names_it() {
    let down = || AskError::Unreachable("nobody listens on http://127.0.0.1:3427.".to_owned());
    insta::assert_snapshot!(warned(silence(Moment::PreCommit, &[], down())), @r"
    git-dibs: this commit was not checked (dibs.onUnreachable=warn by default): nobody listens on http://127.0.0.1:3427.
    Find out more with: git dibs doctor
    ");
    insta::assert_snapshot!(blocked(silence(Moment::PrePush, &[], down())), @r"
    git-dibs: this push is blocked because it could not be checked (dibs.onUnreachable=block by default): nobody listens on http://127.0.0.1:3427.
    Find out more with: git dibs doctor
    ");
    blocked(silence(Moment::PreReceive, &[], down()));
    blocked(silence(Moment::PreCommit, &[("onUnreachable", "block")], down()));
    warned(silence(Moment::PrePush, &[("onUnreachable", "warn")], down()));
    assert_eq!(silence(Moment::PrePush, &[("onUnreachable", "allow")], down()), Verdict::Pass);
    warned(silence(Moment::PrePush, &[("enforce", "warn")], down()));
}

#[test]
fn a_token_that_is_no_use_is_a_sentence_with_the_way_out() {
    let expired = AskError::Unauthorized("the token has expired".to_owned());
    assert!(warned(silence(Moment::PreCommit, &[], expired)).contains("git dibs session start"));
    let ended = AskError::Ended("session sess_me has ended".to_owned());
    assert!(blocked(silence(Moment::PrePush, &[], ended)).contains("Start a new session"));
    let garbage = AskError::Broken("http://x answered 500".to_owned());
    assert!(blocked(silence(Moment::PrePush, &[], garbage)).contains("answered 500"));
    let unread = Trouble::Unread("git diff-index failed: index file corrupt".to_owned());
    let verdict = judge(Moment::PreCommit, &policy(Moment::PreCommit, &[]), &[], Err(&unread), &HashSet::new());
    assert!(warned(verdict).contains("index file corrupt"));
}

#[test]
fn a_setting_nobody_understands_is_said_even_when_all_else_is_well() {
    let text = warned(heard(Moment::PreCommit, &[("enforce", "blok")], &["a"], &me(Answer::default())));
    assert_eq!(text, "git-dibs: dibs.enforce is \"blok\", which is none of block, warn, off; the default is used.\n");
}
