//! Notices as sentences for a model. They come with the result of the session's next call.

use super::facts::{NoticeFact, who};
use super::words;
use crate::wire::{Notice, UnlockStatus};

/// What a session should know.
pub fn facts(notices: &[Notice]) -> Vec<NoticeFact> {
    notices.iter().filter_map(fact).collect()
}

fn fact(notice: &Notice) -> Option<NoticeFact> {
    let key = |text: &str| words::key(text, None);
    let quoted = |label: &str, text: Option<&str>| {
        words::theirs(text).map_or_else(String::new, |text| format!("; {label}: \"{text}\""))
    };
    let session = |id: &str, name: Option<&str>| who(&words::id(id), name.map(words::name).as_deref());
    let (kind, summary) = match notice {
        Notice::UnlockRequested { request_id, file_path, requested_by, requested_by_name, reason, .. } => {
            let summary = format!(
                "{} asks you to release {}{}. Answer with answer_unlock, request_id {}.",
                session(requested_by, requested_by_name.as_deref()),
                key(file_path),
                quoted("reason in their words", Some(reason)),
                words::name(request_id),
            );
            let request_id = Some(words::name(request_id));
            return Some(NoticeFact { kind: "unlock_requested", summary, request_id });
        }
        Notice::UnlockAnswered { file_path, status, responded_by, note, .. } => {
            let by = responded_by.as_deref().map_or_else(|| "the holder".to_owned(), |by| session(by, None));
            let (what, note) = (key(file_path), quoted("note in their words", note.as_deref()));
            let summary = match status {
                UnlockStatus::Approved => format!("{by} released {what}, as you asked{note}. Reserve it now."),
                UnlockStatus::Rejected => format!("{by} keeps {what}{note}. Work on something else, or wait for it."),
                UnlockStatus::Moot => format!("{what} became free before {by} answered. Reserve it now."),
                UnlockStatus::Withdrawn | UnlockStatus::Pending => return None,
            };
            ("unlock_answered", summary)
        }
        Notice::Released { file_path, why, by, reason, .. } => {
            let by = by.as_deref().map(|by| format!(" by {}", words::name(by))).unwrap_or_default();
            let reason = quoted("reason in their words", reason.as_deref());
            let (what, why) = (key(file_path), words::name(why));
            (
                "released",
                format!("You no longer hold {what} ({why}{by}){reason}. Reserve it again before you change it."),
            )
        }
        Notice::Expired { expired_count, expired_paths } => {
            let what = some_keys(expired_paths, *expired_count);
            ("expired", format!("Your time ran out: you no longer hold {what}. Reserve again before you change it."))
        }
        Notice::Lost { released_count, released_paths, .. } => {
            let what = some_keys(released_paths, *released_count);
            ("lost", format!("Your session was silent for too long and starts anew: you no longer hold {what}."))
        }
        Notice::Paused { feature, reserved_by, reserved_by_name, reason, .. } => {
            let by = session(reserved_by, reserved_by_name.as_deref());
            let reason = quoted("reason in their words", reason.as_deref());
            ("paused", format!("Your feature {} is paused by {by}{reason}. Stop and wait.", words::name(feature)))
        }
        Notice::More { unlock_requests: 0, .. } | Notice::Unrecognized => return None,
        Notice::More { unlock_requests, .. } => {
            ("more", format!("{unlock_requests} more unlock requests wait for your answer; status lists them."))
        }
    };
    Some(NoticeFact { kind, summary, request_id: None })
}

/// These keys, and how many more there are.
fn some_keys(paths: &[String], count: u64) -> String {
    let keys: Vec<String> = paths.iter().map(|path| words::key(path, None)).collect();
    match count.saturating_sub(keys.len() as u64) {
        0 => keys.join(", "),
        more if keys.is_empty() => format!("{more} keys"),
        more => format!("{} and {more} more", keys.join(", ")),
    }
}
