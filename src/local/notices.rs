//! Notices: what a session should know, delivered with the reply to its next call.
//!
//! The server sends early releases and answers to unlock requests only once. Under `git-dibs run` the next call is often
//! a heartbeat, whose reply no one reads. The heartbeat therefore saves these notices in a file of the repository, and the
//! session's next command shows them, in whichever worktree it runs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::data_dir;
use super::describe::{self, colon_reason, key};
use super::names::Cwd;
use crate::text::shell;
use crate::text::terminal::clean;
use crate::wire::{Notice, UnlockStatus};

/// The largest file of notices that is read, in bytes.
const NOTICES_MAX: u64 = 1 << 20;

/// After this time a notice that is still true is shown again.
const SHOWN_AGAIN: Duration = Duration::from_secs(60);

/// Saves the notices that the server sends only once, for the session's next command. The server repeats the others.
pub fn save(common_dir: &Path, session: &str, notices: &[Notice]) {
    let once = |notice: &&Notice| {
        use Notice::{Expired, Lost, Released, UnlockAnswered};
        matches!(notice, UnlockAnswered { .. } | Released { .. } | Expired { .. } | Lost { .. })
    };
    let lines: Vec<String> =
        notices.iter().filter(once).filter_map(|notice| serde_json::to_string(notice).ok()).collect();
    if lines.is_empty() {
        return;
    }
    let Some(file) = file(common_dir, session) else { return };
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    // A notice that cannot be saved is lost, but the same facts are in the history and the status.
    let _ = file.and_then(|mut file| file.write_all((lines.join("\n") + "\n").as_bytes()));
}

/// Takes the notices that were saved for this session.
pub fn take(common_dir: &Path, session: &str) -> Vec<Notice> {
    let Some(file) = file(common_dir, session) else { return Vec::new() };
    if fs::metadata(&file).is_ok_and(|metadata| metadata.len() > NOTICES_MAX) {
        let _ = fs::remove_file(&file);
    }
    // Renamed first: a notice that the heartbeat saves from now on goes into a new file, for the next command.
    let taken = file.with_extension(std::process::id().to_string());
    let text = match fs::rename(&file, &taken) {
        Ok(()) => fs::read_to_string(&taken).unwrap_or_default(),
        Err(_) => return Vec::new(),
    };
    let _ = fs::remove_file(&taken);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Those of the notices that this session has not just been shown. The server repeats a notice with every reply until
/// the session does something about it; a person needs to read it once a minute.
pub fn not_shown_lately(common_dir: &Path, session: &str, notices: Vec<Notice>, now: SystemTime) -> Vec<Notice> {
    let repeats = |notice: &Notice| matches!(notice, Notice::UnlockRequested { .. } | Notice::Paused { .. });
    let text = |notice: &Notice| serde_json::to_string(notice).unwrap_or_default();
    let repeated: Vec<String> = notices.iter().filter(|notice| repeats(notice)).map(text).collect();
    let Some(file) = file_of(common_dir, "shown", session).filter(|_| !repeated.is_empty()) else { return notices };
    let age = fs::metadata(&file).and_then(|about| about.modified()).ok().and_then(|at| now.duration_since(at).ok());
    let shown = match age {
        Some(age) if age < SHOWN_AGAIN => fs::read_to_string(&file).unwrap_or_default(),
        _ => String::new(),
    };
    let is_new = |notice: &Notice| !repeats(notice) || !shown.lines().any(|line| line == text(notice));
    let (new, known): (Vec<Notice>, Vec<Notice>) = notices.into_iter().partition(is_new);
    if known.len() < repeated.len() {
        // If it cannot be written, the notices are shown again.
        let _ = data_dir::write_private(&file, (repeated.join("\n") + "\n").as_bytes());
    }
    new
}

fn file(common_dir: &Path, session: &str) -> Option<PathBuf> {
    file_of(common_dir, "notices", session)
}

fn file_of(common_dir: &Path, what: &str, session: &str) -> Option<PathBuf> {
    // A valid session id has no slash; DIBS_SESSION may hold any text.
    let is_name = !session.contains('/');
    is_name.then(|| common_dir.join("dibs").join(format!("{what}-{session}")))
}

/// A notice as a sentence; none if there is nothing to tell.
pub fn sentence(notice: &Notice, cwd: &Cwd) -> Option<String> {
    let reserve_again = |file_path: &str| {
        let word = shell::word(&cwd.typed(file_path)).map(|word| format!(" {word}")).unwrap_or_default();
        format!("git dibs reserve{word}")
    };
    Some(match notice {
        Notice::UnlockRequested { request_id, file_path, requested_by, requested_by_name, reason, .. } => {
            let all_of = if describe::covers_several(file_path) { "all of " } else { "" };
            format!(
                "{} asks you to release {all_of}{}{}\nTo release {}: git dibs approve {id} — to keep it: git dibs reject {id}",
                describe::session(requested_by, requested_by_name.as_deref()),
                key(file_path, None),
                colon_reason(Some(reason)),
                if all_of.is_empty() { "it" } else { "all of it" },
                id = clean(request_id, 64),
            )
        }
        Notice::UnlockAnswered { file_path, status, responded_by, note, .. } => {
            let what = key(file_path, None);
            let who =
                responded_by.as_deref().map_or_else(|| "the holder".to_owned(), |who| describe::session(who, None));
            let note = colon_reason(note.as_deref());
            match status {
                UnlockStatus::Approved => format!("{who} released {what}, as you asked{note}"),
                UnlockStatus::Rejected => format!("{who} keeps {what}{note}"),
                UnlockStatus::Moot => {
                    format!("{what} became free before {who} answered; reserve it with: {}", reserve_again(file_path))
                }
                UnlockStatus::Withdrawn | UnlockStatus::Pending => return None,
            }
        }
        Notice::Released { file_path, why, by, reason, .. } => {
            let by = by.as_deref().map(|by| format!(" by {}", clean(by, 200))).unwrap_or_default();
            format!(
                "you no longer hold {} ({}{by}){}; reserve it again with: {}",
                key(file_path, None),
                clean(why, 40),
                colon_reason(reason.as_deref()),
                reserve_again(file_path),
            )
        }
        Notice::Expired { expired_count, expired_paths } => {
            format!("your time ran out; you no longer hold {}", some_keys(expired_paths, *expired_count))
        }
        Notice::Lost { released_count, released_paths, .. } => format!(
            "your session was silent for too long and starts anew; you no longer hold {}",
            some_keys(released_paths, *released_count)
        ),
        Notice::Paused { feature, reserved_by, reserved_by_name, reason, .. } => format!(
            "your feature {} is paused by {}{}",
            clean(feature, 200),
            describe::session(reserved_by, reserved_by_name.as_deref()),
            colon_reason(reason.as_deref()),
        ),
        Notice::More { unlock_requests: 0, .. } => return None,
        Notice::More { unlock_requests, .. } => {
            format!("{unlock_requests} more unlock requests wait for your answer; list them with: git dibs requests")
        }
        Notice::Unrecognized => return None,
    })
}

/// These keys, and how many more there are.
fn some_keys(paths: &[String], count: u64) -> String {
    let keys: Vec<String> = paths.iter().map(|path| key(path, None)).collect();
    match count.saturating_sub(keys.len() as u64) {
        0 => keys.join(", "),
        more if keys.is_empty() => format!("{more} keys"),
        more => format!("{} and {more} more", keys.join(", ")),
    }
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
    fn saved_notices_are_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        save(dir, "ana", &[released("no directory yet, so lost")]);
        fs::create_dir(dir.join("dibs")).unwrap();
        let pause = Notice::Paused {
            feature: "F".into(),
            reserved_by: "bo".into(),
            reserved_by_name: None,
            reason: None,
            expires_at: Time(0),
        };
        save(dir, "ana", &[released("one"), pause]);
        save(dir, "ana", &[released("two")]);
        assert_eq!(take(dir, "bo"), []);
        assert_eq!(take(dir, "ana"), [released("one"), released("two")]);
        assert_eq!(take(dir, "ana"), []);
    }

    #[test]
    fn a_notice_that_the_server_repeats_is_shown_once_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::create_dir(dir.join("dibs")).unwrap();
        let pause = |feature: &str| Notice::Paused {
            feature: feature.into(),
            reserved_by: "bo".into(),
            reserved_by_name: None,
            reason: None,
            expires_at: Time(0),
        };
        // The file is written at the real time, so the moments are after it.
        let now = SystemTime::now() + Duration::from_secs(10);
        let shown = |session, notices: &[Notice], at| not_shown_lately(dir, session, notices.to_vec(), at);
        assert_eq!(shown("ana", &[pause("F")], now), [pause("F")]);
        assert_eq!(shown("ana", &[pause("F"), released("one")], now), [released("one")], "what comes once is shown");
        assert_eq!(shown("bo", &[pause("F")], now), [pause("F")], "another session");
        assert_eq!(shown("ana", &[pause("F"), pause("G")], now), [pause("G")]);
        assert_eq!(shown("ana", &[pause("F"), pause("G")], now), []);
        assert_eq!(shown("ana", &[pause("F")], now + 2 * SHOWN_AGAIN), [pause("F")]);
    }

    #[test]
    fn a_notice_is_a_sentence_without_control_characters() {
        let cwd = Cwd::default();
        let text = sentence(&released("night\u{1b}[2J"), &cwd).unwrap();
        assert_eq!(
            text,
            "you no longer hold src/a.rs (overridden by ops): night\\x1b[2J; reserve it again with: git dibs reserve src/a.rs"
        );
        assert_eq!(sentence(&Notice::Unrecognized, &cwd), None);
    }
}
