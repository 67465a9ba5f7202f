//! From the reply of the API to the facts of a result.

use super::facts::{ConflictFact, CycleFact, Facts, RequestFact, ReservationFact, SENTENCE_MAX, ToolResult};
use super::{LISTED_MAX, ToolCall, ToolError, ToolReply, notices, words};
use crate::wire::{self, Code, Conflict, Encoding, ErrorBody, Notice, Time};

/// The result of a tool of this program's own.
pub fn result(call: &ToolCall, session: Option<&str>, reply: Result<ToolReply, ToolError>, now: Time) -> ToolResult {
    let facts = match reply {
        Ok(ToolReply::Reserved(reply)) => reserved(reply, now),
        Ok(ToolReply::Released(reply)) => released(reply.released_count, Vec::new(), &reply.notices),
        Ok(ToolReply::ReleasedAll(reply)) => released(reply.released_count, reply.released_paths, &reply.notices),
        Ok(ToolReply::Checked(reply)) => checked(call, reply, now),
        Ok(ToolReply::Listed { held, requests }) => listed(held, requests, session, now),
        Ok(ToolReply::Unlock(reply)) => unlock(call, reply),
        Ok(ToolReply::Ports(reply)) => ports(reply, now),
        Err(ToolError::Refused(body)) => refused(call, *body, now),
        Err(ToolError::Failed(sentence)) => Facts::error(None, words::clean(&sentence, SENTENCE_MAX)),
    };
    Facts { session: session.map(words::id), ..facts }.into()
}

fn reserved(reply: wire::ReserveReply, now: Time) -> Facts {
    let (reservations, notices) = match reply {
        wire::ReserveReply::One(mut one) => {
            let notices = std::mem::take(&mut one.notices);
            (vec![one], notices)
        }
        wire::ReserveReply::Many(many) => (many.reservations, many.notices),
    };
    let first_end = reservations.iter().map(|one| one.expires_at).min().unwrap_or(now);
    let left = words::duration(words::seconds_between(now, first_end));
    let what = words::count(reservations.len(), "path");
    let one = |one: &wire::Reserved| ReservationFact {
        path: words::key(&one.file_path, one.encoding),
        holder: None,
        holder_name: None,
        yours: None,
        mode: one.mode.as_str(),
        seconds_left: words::seconds_between(now, one.expires_at),
        expires_at: one.expires_at.to_string(),
        fence: one.fence,
        reason_quoted: None,
    };
    Facts {
        status: "reserved",
        summary: format!("You hold {what} for {left}."),
        more_reservations: reservations.len() > LISTED_MAX,
        reservations: reservations.iter().take(LISTED_MAX).map(one).collect(),
        next: Some("Release what you have finished. What you hold is renewed while you use these tools.".to_owned()),
        notices: notices::facts(&notices),
        ..Facts::default()
    }
}

fn ports(reply: wire::Ports, now: Time) -> Facts {
    let numbers: Vec<String> = reply.ports.iter().map(u16::to_string).collect();
    let left = reply.expires_at.map_or(0, |end| words::seconds_between(now, end));
    Facts {
        status: "allocated",
        summary: format!("You have the ports {} for {}.", numbers.join(", "), words::duration(left)),
        ports: reply.ports,
        env: reply.env,
        next: Some("Use no other ports. To keep them longer, call allocate_ports again.".to_owned()),
        notices: notices::facts(&reply.notices),
        ..Facts::default()
    }
}

fn released(count: u64, paths: Vec<String>, notices: &[Notice]) -> Facts {
    Facts {
        status: "released",
        summary: match count {
            0 => "You held none of it, so nothing changed.".to_owned(),
            n => format!("Released {}.", words::count(usize::try_from(n).unwrap_or(usize::MAX), "reservation")),
        },
        released_count: Some(count),
        released: paths.iter().take(LISTED_MAX).map(|path| words::key(path, None)).collect(),
        notices: notices::facts(notices),
        ..Facts::default()
    }
}

fn checked(call: &ToolCall, reply: wire::CheckReply, now: Time) -> Facts {
    let now = reply.server_time.unwrap_or(now);
    let encoding = call.encoding();
    let shown = |paths: &[String]| paths.iter().take(LISTED_MAX).map(|path| words::key(path, encoding)).collect();
    let paths = paths_in(&reply.conflicts);
    let mut facts = Facts {
        status: if paths == 0 { "clear" } else { "conflict" },
        summary: match paths {
            0 => "No other session is in the way. A check reserves nothing: reserve before you change it.".to_owned(),
            n => format!("Another session holds {} of {}.", n, words::count(n + reply.clear.len(), "path")),
        },
        clear: shown(&reply.clear),
        more_clear: reply.clear.len().saturating_sub(LISTED_MAX),
        yours: shown(&reply.held),
        notices: notices::facts(&reply.notices),
        ..Facts::default()
    };
    if let Some(pause) = &reply.paused {
        facts.status = "paused";
        facts.summary = pause_sentence(&pause.feature, Some(&pause.reserved_by), pause.reason.as_deref());
        facts.next = Some("Stop, and wait until the pause is over.".to_owned());
    }
    with_conflicts(call, facts, &reply.conflicts, now)
}

fn listed(held: wire::ReservationList, requests: wire::UnlockRequests, session: Option<&str>, now: Time) -> Facts {
    let one = |one: &wire::Reservation| {
        let yours = session == Some(&*one.session_id);
        ReservationFact {
            path: words::key(&one.file_path, one.encoding),
            holder: Some(words::id(&one.session_id)),
            holder_name: one.session_name.as_deref().map(words::name),
            yours: Some(yours),
            mode: one.mode.as_str(),
            seconds_left: words::seconds_between(now, one.expires_at),
            expires_at: one.expires_at.to_string(),
            fence: one.fence,
            reason_quoted: words::theirs(one.reason.as_deref()).filter(|_| !yours),
        }
    };
    let pending = |list: &[wire::UnlockRequestInfo]| {
        let open = list.iter().filter(|one| one.status == wire::UnlockStatus::Pending);
        open.take(LISTED_MAX).map(request_fact).collect::<Vec<_>>()
    };
    let more = held.next_cursor.is_some() || held.reservations.len() > LISTED_MAX;
    let summary = match held.reservations.len() {
        0 => "Nothing is reserved.".to_owned(),
        n => format!(
            "{}{}.",
            words::count(n.min(LISTED_MAX), "reservation"),
            if more { " are listed; there are more" } else { "" }
        ),
    };
    let told: Vec<Notice> = held.notices.iter().chain(&requests.notices).cloned().collect();
    let mut notices = notices::facts(&told);
    // Two calls were made, and what the server repeats comes with both.
    notices.dedup();
    Facts {
        status: "listed",
        summary,
        reservations: held.reservations.iter().take(LISTED_MAX).map(one).collect(),
        more_reservations: more,
        requests_to_you: pending(&requests.incoming),
        requests_by_you: pending(&requests.outgoing),
        notices,
        ..Facts::default()
    }
}

fn unlock(call: &ToolCall, reply: wire::UnlockRequestInfo) -> Facts {
    let path = words::key(&reply.file_path, reply.encoding);
    let asked = matches!(call, ToolCall::RequestUnlock(_));
    let (summary, next) = match (asked, reply.status) {
        (true, _) => (
            match reply.others.len() {
                0 => format!("The holder of {path} is asked to release it."),
                n => format!("All {} holders of {path} are asked to release it.", n + 1),
            },
            Some("The answer comes as a notice with a later result. Meanwhile work on something else.".to_owned()),
        ),
        (false, wire::UnlockStatus::Approved) => (format!("You no longer hold {path}: do not change it."), None),
        (false, _) => (format!("You keep {path}."), None),
    };
    Facts {
        status: if asked { "requested" } else { reply.status.as_str() },
        summary,
        next,
        notices: notices::facts(&reply.notices),
        request: Some(request_fact(&reply)),
        ..Facts::default()
    }
}

/// A refusal. Conflicts, waits that timed out, cycles and pauses are normal results; the others are errors.
fn refused(call: &ToolCall, body: ErrorBody, now: Time) -> Facts {
    let notices = notices_in(&body);
    let conflicts = body.conflicts.clone().unwrap_or_default();
    let ask = "Work on something else meanwhile, call wait for it, or ask the holder with request_unlock.";
    let facts = match body.code {
        Code::ResourceLocked => Facts {
            status: "conflict",
            summary: format!(
                "Nothing was reserved: another session holds {}.",
                words::count(paths_in(&conflicts), "path")
            ),
            next: Some(ask.to_owned()),
            ..Facts::default()
        },
        Code::LockAcquisitionFailed => Facts {
            status: "timed_out",
            summary: format!("Nothing was reserved within {} s.", call.wait_seconds()),
            next: Some("Call wait again, work on something else, or ask the holder with request_unlock.".to_owned()),
            ..Facts::default()
        },
        Code::PossibleDeadlock => Facts {
            status: "deadlock",
            summary: "Nothing was reserved: this wait would never end, because the sessions wait for each other."
                .to_owned(),
            cycle: body.cycle.iter().flatten().take(LISTED_MAX).map(cycle_fact).collect(),
            next: Some("Release a path that you hold, or ask for the one you want with request_unlock.".to_owned()),
            ..Facts::default()
        },
        Code::FeaturePaused => Facts {
            status: "paused",
            summary: {
                let feature = body.more.get("feature").and_then(|feature| feature.as_str()).unwrap_or_default();
                pause_sentence(feature, body.reserved_by.as_deref(), body.reason.as_deref())
            },
            next: Some("Stop, and wait until the pause is over.".to_owned()),
            ..Facts::default()
        },
        code => Facts::error(Some(code.as_str()), words::clean(&body.error, SENTENCE_MAX)),
    };
    with_conflicts(call, Facts { notices: notices::facts(&notices), ..facts }, &conflicts, now)
}

/// The notices in a refusal.
pub fn notices_in(body: &ErrorBody) -> Vec<Notice> {
    let notices = body.more.get("notices").cloned().unwrap_or_default();
    serde_json::from_value(notices).unwrap_or_default()
}

fn pause_sentence(feature: &str, by: Option<&str>, reason: Option<&str>) -> String {
    let by = by.map(|by| format!(" by {}", words::id(by))).unwrap_or_default();
    let reason =
        words::theirs(reason).map(|reason| format!("; reason in their words: \"{reason}\"")).unwrap_or_default();
    format!("Your feature \"{}\" is paused{by}{reason}.", words::name(feature))
}

fn with_conflicts(call: &ToolCall, facts: Facts, conflicts: &[Conflict], now: Time) -> Facts {
    let encoding = call.encoding();
    Facts {
        conflicts: conflicts.iter().take(LISTED_MAX).map(|one| conflict_fact(one, encoding, now)).collect(),
        more_conflicts: conflicts.len().saturating_sub(LISTED_MAX),
        ..facts
    }
}

/// `encoding` is how the request wrote its paths.
pub fn conflict_fact(one: &Conflict, encoding: Option<Encoding>, now: Time) -> ConflictFact {
    let path = words::key(&one.file_path, encoding.or(one.encoding));
    let held_as = words::key(&one.key, one.encoding);
    ConflictFact {
        held_as: (held_as != path).then_some(held_as),
        path,
        holder: words::id(&one.reserved_by),
        holder_name: one.reserved_by_name.as_deref().map(words::name),
        mode: one.mode.as_str(),
        waiting: one.waiting,
        seconds_left: words::seconds_between(now, one.expires_at),
        expires_at: one.expires_at.to_string(),
        queue_length: one.queue_length.filter(|n| *n > 0),
        example: one.example.as_deref().map(|example| words::key(example, one.encoding)),
        reason_quoted: words::theirs(one.reason.as_deref()),
    }
}

fn cycle_fact(step: &wire::CycleStep) -> CycleFact {
    let (holds, wants) = (words::key(&step.holds, None), words::key(&step.wants, None));
    CycleFact { session: words::id(&step.session), holds, wants }
}

fn request_fact(one: &wire::UnlockRequestInfo) -> RequestFact {
    RequestFact {
        request_id: words::name(&one.id),
        path: words::key(&one.file_path, one.encoding),
        status: one.status.as_str(),
        holder: one.reserved_by.as_deref().map(words::id),
        holder_name: one.reserved_by_name.as_deref().map(words::name),
        requested_by: words::id(&one.requested_by),
        requested_by_name: one.requested_by_name.as_deref().map(words::name),
        reason_quoted: words::theirs(Some(&one.reason)),
        note_quoted: words::theirs(one.note.as_deref()),
    }
}

/// How many different paths of the request are in conflict.
fn paths_in(conflicts: &[Conflict]) -> usize {
    let mut paths: Vec<&str> = conflicts.iter().map(|one| &*one.file_path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.len()
}
