//! One event as a line for people, for `log` and `watch`.

use std::collections::HashMap;

use crate::local::describe;
use crate::text::terminal::clean;
use crate::wire::{Encoding, Event, EventKind, Mode, UnlockStatus};

/// What a line says of an event, besides its time, number and verb.
#[derive(Default)]
struct Details<'a> {
    paths: &'a [String],
    encoding: Option<Encoding>,
    session: Option<&'a str>,
    shared: bool,
    /// How it ended.
    why: Option<&'a str>,
    /// The admin who overrode it.
    by: Option<&'a str>,
    reason: Option<&'a str>,
}

fn details<'a>(event: &'a EventKind, subjects: &'a Subjects) -> Details<'a> {
    use std::slice::from_ref;
    match event {
        EventKind::Opened { session_id, .. }
        | EventKind::Bound { session_id }
        | EventKind::Reopened { session_id, .. }
        | EventKind::ReleasedAll { session_id } => Details { session: Some(session_id), ..Details::default() },
        EventKind::Seated { session_id, waiter } => {
            let (paths, encoding) = subjects.of_wait(*waiter);
            Details { paths, encoding, session: Some(session_id), ..Details::default() }
        }
        EventKind::Ended { session_id, state } => {
            Details { session: Some(session_id), why: Some(state.as_str()), ..Details::default() }
        }
        EventKind::Reserved { file_path, session_id, mode, reason, encoding, .. }
        | EventKind::Amended { file_path, session_id, mode, reason, encoding, .. } => Details {
            paths: from_ref(file_path),
            encoding: *encoding,
            session: Some(session_id),
            shared: *mode == Mode::Shared,
            reason: reason.as_deref(),
            ..Details::default()
        },
        EventKind::Released { file_path, session_id, why, by, reason, encoding, .. } => Details {
            paths: from_ref(file_path),
            encoding: *encoding,
            session: Some(session_id),
            // The verb says it already.
            why: Some(&**why).filter(|why| *why != "released").map(why_released),
            by: by.as_deref(),
            reason: reason.as_deref(),
            ..Details::default()
        },
        EventKind::Queued { session_id, file_paths, mode, reason, encoding, .. } => Details {
            paths: file_paths,
            encoding: *encoding,
            session: Some(session_id),
            shared: *mode == Mode::Shared,
            reason: reason.as_deref(),
            ..Details::default()
        },
        EventKind::Left { session_id, waiter, why } => {
            let (paths, encoding) = subjects.of_wait(*waiter);
            Details { paths, encoding, session: Some(session_id), why: Some(why_left(why)), ..Details::default() }
        }
        EventKind::UnlockRequested { file_path, requested_by, reason, encoding, .. } => Details {
            paths: from_ref(file_path),
            encoding: *encoding,
            session: Some(requested_by),
            reason: Some(reason),
            ..Details::default()
        },
        EventKind::UnlockAnswered { request_id, responded_by, note, .. } => {
            let (paths, encoding) = subjects.of_request(request_id);
            let (session, reason) = (responded_by.as_deref(), note.as_deref());
            Details { paths, encoding, session, reason, ..Details::default() }
        }
        EventKind::Counted { .. }
        | EventKind::Committed { .. }
        | EventKind::Restored { .. }
        | EventKind::Unrecognized => Details::default(),
    }
}

/// What earlier events say that later ones only refer to.
#[derive(Default)]
pub struct Subjects {
    waits: HashMap<u64, KeyList>,
    requests: HashMap<String, KeyList>,
}

/// Keys as the API writes them, and their encoding.
type KeyList = (Vec<String>, Option<Encoding>);

impl Subjects {
    /// Remembers what the event is about, for events that refer to it.
    pub fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Queued { file_paths, encoding, .. } => {
                self.waits.insert(event.seq, (file_paths.clone(), *encoding));
            }
            EventKind::UnlockRequested { request_id, file_path, encoding, .. } => {
                self.requests.insert(request_id.clone(), (vec![file_path.clone()], *encoding));
            }
            _ => {}
        }
    }

    /// Forgets what no later event refers to.
    pub fn forget(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Seated { waiter, .. } | EventKind::Left { waiter, .. } => drop(self.waits.remove(waiter)),
            EventKind::UnlockAnswered { request_id, .. } => drop(self.requests.remove(request_id)),
            _ => {}
        }
    }

    /// What a wait is for; nothing if the event that tells it is not known.
    fn of_wait(&self, waiter: u64) -> (&[String], Option<Encoding>) {
        self.waits.get(&waiter).map(|(keys, encoding)| (&**keys, *encoding)).unwrap_or_default()
    }

    /// What an unlock request is about, in the same way.
    fn of_request(&self, id: &str) -> (&[String], Option<Encoding>) {
        self.requests.get(id).map(|(keys, encoding)| (&**keys, *encoding)).unwrap_or_default()
    }
}

/// The session that acted.
pub fn session<'a>(event: &'a EventKind, subjects: &'a Subjects) -> Option<&'a str> {
    details(event, subjects).session
}

/// The keys that an event is about, and their encoding.
pub fn keys<'a>(event: &'a EventKind, subjects: &'a Subjects) -> (&'a [String], Option<Encoding>) {
    let details = details(event, subjects);
    (details.paths, details.encoding)
}

/// What happened, so that the keys and "by" with the session can follow.
fn verb(event: &EventKind) -> &'static str {
    match event {
        EventKind::Opened { .. } => "session started",
        EventKind::Bound { .. } => "session first used",
        EventKind::Reopened { .. } => "session started again",
        EventKind::Ended { .. } => "session ended",
        EventKind::ReleasedAll { .. } => "released everything",
        EventKind::Amended { .. } => "changed the reservation of",
        EventKind::Queued { .. } => "waiting for",
        EventKind::Seated { .. } => "granted after waiting:",
        EventKind::Left { .. } => "stopped waiting for",
        EventKind::UnlockRequested { .. } => "asked to release",
        EventKind::UnlockAnswered { status, .. } => match status {
            UnlockStatus::Pending => "asked to release",
            UnlockStatus::Approved => "agreed to release",
            UnlockStatus::Rejected => "refused to release",
            UnlockStatus::Withdrawn => "withdrew the request for",
            UnlockStatus::Moot => "no longer had to release",
        },
        other => other.verb(),
    }
}

/// Why a reservation ended.
fn why_released(why: &str) -> &str {
    match why {
        "ended" => "with its session",
        "approved" => "as asked",
        "unheard" => "because the client had gone",
        other => other,
    }
}

/// Why a request stopped waiting.
fn why_left(why: &str) -> &str {
    match why {
        "timedOut" => "timed out",
        "gone" => "the client disconnected",
        "stopped" => "the server stopped",
        "ended" => "the session ended",
        "version" => "the version had changed",
        "paused" => "the feature was paused",
        "deadlock" => "it would have waited forever",
        other => other,
    }
}

/// One event on a line.
pub fn line(event: &Event, subjects: &Subjects) -> String {
    let when = event.at.to_string();
    // Marked as UTC, and in a form that --since accepts.
    let when = format!("{}Z", &when[..19]);
    let details = details(&event.kind, subjects);
    let paths = details.paths.iter().map(|path| format!(" {}", describe::key(path, details.encoding)));
    let mut what: String = paths.collect();
    if let EventKind::Restored { last_kept, .. } = event.kind {
        what.push_str(&format!(" the journal as it was after #{last_kept}"));
    }
    if let Some(session) = details.session {
        what.push_str(&format!(" by {}", describe::session(session, event.session_name.as_deref())));
    }
    if details.shared {
        what.push_str(", shared");
    }
    match (details.why, details.by) {
        (Some(why), Some(by)) => what.push_str(&format!(", {} by {}", clean(why, 40), clean(by, 200))),
        (Some(why), None) => what.push_str(&format!(", {}", clean(why, 40))),
        _ => {}
    }
    format!("{when}  #{} {}{what}{}\n", event.seq, verb(&event.kind), describe::colon_reason(details.reason))
}
