//! What a session should know, said after the answer to whatever it asked.
//!
//! The server tells early releases and answers to requests once, to whoever calls next for the session. Under
//! `git-dibs run` that is often the heartbeat, which nobody reads; it leaves what it heard in a file of the worktree, for
//! the session's next command to say.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::Deserialize;

use super::talk::{self, because, key, person};
use crate::git::Repo;
use crate::hook::text::clean;
use crate::local::Cwd;
use crate::wire::{Notice, UnlockStatus};

/// The longest file of notices that is read, in bytes.
const NOTICES_MAX: u64 = 1 << 20;

/// The notices that came with an answer.
pub fn of_answer(body: &[u8]) -> Vec<Notice> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        notices: Vec<Notice>,
    }
    serde_json::from_slice::<Answer>(body).map(|answer| answer.notices).unwrap_or_default()
}

/// Says them, a line each.
pub fn say(notices: &[Notice], cwd: &Cwd) {
    notices.iter().filter_map(|notice| sentence(notice, cwd)).for_each(|sentence| talk::say(&sentence));
}

/// Leaves for the session's next command what is told only once; the rest is told again anyway.
pub fn leave(repo: &Repo, session: &str, notices: &[Notice]) {
    let once = |notice: &&Notice| matches!(notice, Notice::UnlockAnswered { .. } | Notice::Released { .. });
    let lines: Vec<String> =
        notices.iter().filter(once).filter_map(|notice| serde_json::to_string(notice).ok()).collect();
    if lines.is_empty() {
        return;
    }
    let Some(file) = file(repo, session) else { return };
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    // What cannot be kept is still seen by whoever looks; nothing depends on it.
    let _ = file.and_then(|mut file| file.write_all((lines.join("\n") + "\n").as_bytes()));
}

/// Takes what was left for this session.
pub fn collect(repo: &Repo, session: &str) -> Vec<Notice> {
    let Some(file) = file(repo, session) else { return Vec::new() };
    if fs::metadata(&file).is_ok_and(|metadata| metadata.len() > NOTICES_MAX) {
        let _ = fs::remove_file(&file);
    }
    // Renamed first: what the heartbeat adds meanwhile goes into a new file and waits for the next command.
    let taken = file.with_extension(std::process::id().to_string());
    let text = match fs::rename(&file, &taken) {
        Ok(()) => fs::read_to_string(&taken).unwrap_or_default(),
        Err(_) => return Vec::new(),
    };
    let _ = fs::remove_file(&taken);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn file(repo: &Repo, session: &str) -> Option<PathBuf> {
    // A session id has no character that means anything in a path; one that has was left in a variable by somebody.
    let is_name = !session.contains('/');
    is_name.then(|| repo.git_dir.join("dibs").join(format!("notices-{session}")))
}

fn sentence(notice: &Notice, cwd: &Cwd) -> Option<String> {
    Some(match notice {
        Notice::UnlockRequested { request_id, file_path, requested_by, requested_by_name, reason, .. } => format!(
            "{} asks you to let go of {}{}\nAnswer with: git dibs approve {id} — or: git dibs reject {id}",
            person(requested_by, requested_by_name.as_deref()),
            key(file_path, None),
            because(Some(reason)),
            id = clean(request_id, 64),
        ),
        Notice::UnlockAnswered { file_path, status, responded_by, note, .. } => {
            let what = key(file_path, None);
            let who = responded_by.as_deref().map_or_else(|| "the holder".to_owned(), |who| person(who, None));
            let note = because(note.as_deref());
            let again = talk::shell_word(&cwd.typed(file_path)).map(|word| format!(" {word}")).unwrap_or_default();
            match status {
                UnlockStatus::Approved => format!("{who} let go of {what} because you asked{note}"),
                UnlockStatus::Rejected => format!("{who} keeps {what}{note}"),
                UnlockStatus::Moot => format!("{what} became free before {who} answered; git dibs reserve{again}"),
                UnlockStatus::Withdrawn | UnlockStatus::Pending => return None,
            }
        }
        Notice::Released { file_path, why, by, reason, .. } => {
            let by = by.as_deref().map(|by| format!(" by {}", clean(by, 200))).unwrap_or_default();
            let again = talk::shell_word(&cwd.typed(file_path)).map(|word| format!(" {word}")).unwrap_or_default();
            format!(
                "you no longer hold {} ({}{by}){}; take it again with: git dibs reserve{again}",
                key(file_path, None),
                clean(why, 40),
                because(reason.as_deref()),
            )
        }
        Notice::Paused { feature, reserved_by, reserved_by_name, reason, .. } => format!(
            "your feature {} is paused by {}{}",
            clean(feature, 200),
            person(reserved_by, reserved_by_name.as_deref()),
            because(reason.as_deref()),
        ),
        Notice::Unrecognized => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Time;

    fn released(reason: &str) -> Notice {
        Notice::Released {
            reservation_id: "res_1".to_owned(),
            file_path: "src/a.rs".to_owned(),
            why: "overridden".into(),
            by: Some("ops".into()),
            reason: Some(reason.into()),
            at: Time(0),
        }
    }

    #[test]
    fn notices_are_left_and_collected_once() {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        leave(&repo, "ana", &[released("no directory yet, so lost")]);
        fs::create_dir(repo.git_dir.join("dibs")).unwrap();
        let pause = Notice::Paused {
            feature: "F".into(),
            reserved_by: "bo".into(),
            reserved_by_name: None,
            reason: None,
            expires_at: Time(0),
        };
        leave(&repo, "ana", &[released("one"), pause]);
        leave(&repo, "ana", &[released("two")]);
        assert_eq!(collect(&repo, "bo"), []);
        assert_eq!(collect(&repo, "ana"), [released("one"), released("two")]);
        assert_eq!(collect(&repo, "ana"), []);
    }

    #[test]
    fn notices_are_sentences_that_draw_nothing() {
        let cwd = Cwd::default();
        let told = sentence(&released("night\u{1b}[2J"), &cwd).unwrap();
        assert_eq!(
            told,
            "you no longer hold src/a.rs (overridden by ops): night\\x1b[2J; take it again with: git dibs reserve src/a.rs"
        );
        assert_eq!(sentence(&Notice::Unrecognized, &cwd), None);
    }

    #[test]
    fn an_answer_without_notices_has_none() {
        assert_eq!(of_answer(b"{}"), []);
        assert_eq!(of_answer(b"garbage"), []);
        assert_eq!(of_answer(br#"{"notices":[{"kind":"weather"}]}"#), [Notice::Unrecognized]);
    }
}
