//! From the engine's outcomes and refusals to replies and errors in JSON.

use crate::desk::SubmitError;
use crate::engine::{
    self, Conflict, Grant, LeftWhy, Notice, Outcome, Pause, Refusal, SessionId, SessionName, Timestamp, UnlockRequest,
    Why,
};
use crate::key::Key;
use crate::wire::{self, Code, Encoding, ErrorBody, Time};

use super::conflict_list::ConflictList;
use super::error::ApiError;
use super::event_json::why_over;

/// The largest `Retry-After`, in seconds. A holder may release long before its reservation expires.
const RETRY_AFTER_MAX: u64 = 60;

/// The sentence for a request that compares too much.
pub const TOO_MUCH_WORK: &str =
    "comparing the keys of this request with what is held takes too much work; name fewer or simpler patterns at once";

/// The error for a result that is not what the handler's command achieves.
pub fn not_done(result: Result<Outcome, Refusal>, now: Timestamp) -> ApiError {
    match result {
        Err(refused) => refusal(refused, now),
        Ok(outcome) => {
            // A mistake in a handler. The command was carried out, so no error may say that it was refused: the
            // connection is closed without a reply.
            tracing::error!(?outcome, "a command had an outcome that its handler does not expect");
            ApiError::from(SubmitError::OutcomeUnknown)
        }
    }
}

/// The error for a refusal.
pub fn refusal(refusal: Refusal, now: Timestamp) -> ApiError {
    match refusal {
        Refusal::Locked(conflicts) => blocked(Code::ResourceLocked, "File already reserved", &conflicts, now),
        Refusal::WaitOver { why: LeftWhy::TimedOut, conflicts } => {
            let sentence = "the wait timed out; another session still holds it";
            blocked(Code::LockAcquisitionFailed, sentence, &conflicts, now)
        }
        Refusal::WaitOver { why: LeftWhy::Ended, .. } => {
            ApiError::new(Code::SessionEnded, "the session ended while it waited")
        }
        Refusal::WaitOver { .. } => {
            let sentence = "the server is stopping, and the wait ended with it; try again in a moment";
            ApiError::new(Code::Unavailable, sentence).retry_after(1)
        }
        Refusal::Deadlock(cycle) => {
            let steps = cycle.iter().map(cycle_step);
            let names: Vec<&str> = cycle.iter().map(|step| step.session.as_str()).collect();
            let sentence = format!("deadlock: {} would wait for each other; release a key first", names.join(", "));
            let body = ErrorBody { cycle: Some(steps.collect()), ..ErrorBody::new(Code::PossibleDeadlock, sentence) };
            ApiError::from(body).retry_after(1)
        }
        Refusal::WrongVersion { key, version } => {
            let sentence = format!("{} is at version {version} now; read it again before changing it", quoted(&key));
            let body = ErrorBody { version: Some(version), ..ErrorBody::new(Code::VersionMismatch, sentence) };
            ApiError::from(ErrorBody { field: Some(key.shown()), ..body }).retry_after(1)
        }
        Refusal::Paused(pause) => paused(&pause),
        Refusal::NotHeld { key, holder, has_lapsed } => {
            let sentence = match &holder {
                Some(holder) => format!("{} is held by {}, not by this session", quoted(&key), session_label(holder)),
                None => format!("this session does not hold {}", quoted(&key)),
            };
            let reserved_by = holder.as_ref().map(|holder| holder.session.as_str().into());
            let reserved_by_name = holder.and_then(|holder| holder.name);
            let expired = has_lapsed.then(|| vec![key.shown()]);
            let body = ErrorBody::new(Code::LockNotHeld, sentence);
            ApiError::from(ErrorBody { reserved_by, reserved_by_name, expired, ..body })
        }
        Refusal::Lapsed { key } => {
            let sentence = format!("the reservation of {} has expired; reserve it again", quoted(&key));
            ApiError::new(Code::LockTimeout, sentence)
        }
        Refusal::SessionEnded { session, state } => {
            let state = end_state(state);
            let sentence = format!(
                "session {session} has ended ({}); its token is no longer valid. A token issued after the end opens it again",
                state.as_str()
            );
            let mut body = ErrorBody::new(Code::SessionEnded, sentence);
            body.more.insert("state".to_owned(), state.as_str().into());
            ApiError::from(body)
        }
        Refusal::NotOwner => {
            ApiError::new(Code::Forbidden, "this session belongs to another owner; use the token that opened it")
        }
        Refusal::UnknownSession(session) => {
            let sentence = format!("there is no session {session}");
            ApiError::new(Code::NotFound, sentence)
        }
        Refusal::UnknownReservation => ApiError::new(Code::NotFound, "there is no such reservation, or it has ended"),
        Refusal::NoOtherHolder(key) => {
            ApiError::new(Code::NotFound, format!("no other session holds {}; reserve it", quoted(&key)))
        }
        Refusal::UnknownRequest => ApiError::new(Code::NotFound, "there is no such unlock request"),
        Refusal::AnsweredBefore(request) => {
            let status = unlock_status(request.answer);
            let sentence = format!("this request is already {}; nothing was changed", status.as_str());
            let mut body = ErrorBody::new(Code::OperationNotPermitted, sentence);
            body.more.insert("status".to_owned(), status.as_str().into());
            ApiError::from(body)
        }
        Refusal::NotTheHolder(holder) => {
            let sentence = format!("only {} can answer this request", session_label(&holder));
            let reserved_by = Some(holder.session.as_str().into());
            let body = ErrorBody::new(Code::Forbidden, sentence);
            ApiError::from(ErrorBody { reserved_by, reserved_by_name: holder.name, ..body })
        }
        Refusal::NotTheSender(sender) => {
            let sentence = format!("only {} can withdraw this request, because it sent it", session_label(&sender));
            let mut body = ErrorBody::new(Code::Forbidden, sentence);
            body.more.insert("requestedBy".to_owned(), sender.session.as_str().into());
            ApiError::from(body)
        }
        Refusal::Uncompared(_) => {
            let sentence = "the patterns of this request overlap too many others to compare them at once; name fewer";
            ApiError::new(Code::QuotaExceeded, sentence).retry_after(1)
        }
        Refusal::TooMuchWork => ApiError::new(Code::InvalidRequest, TOO_MUCH_WORK),
        Refusal::TooMuchText { limit } => {
            let sentence = format!(
                "the keys of this request, and its reason with each of them, take more than {limit} bytes; \
                 name fewer keys, or give a shorter reason"
            );
            ApiError::new(Code::PayloadTooLarge, sentence)
        }
        Refusal::OverQuota { what, limit } => {
            let sentence = format!(
                "the limit of {limit} {what} is reached; release something, or ask an admin for a higher limit"
            );
            let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
            body.more.insert("limit".to_owned(), limit.into());
            ApiError::from(body).retry_after(1)
        }
    }
}

/// One session in a cycle of sessions that would wait for each other.
pub fn cycle_step(step: &engine::CycleStep) -> wire::CycleStep {
    wire::CycleStep { session: step.session.as_str().into(), holds: step.holds.shown(), wants: step.wants.shown() }
}

/// The error for a request that other sessions block.
fn blocked(code: Code, sentence: &str, conflicts: &[Conflict], now: Timestamp) -> ApiError {
    let longest = conflicts.iter().map(|conflict| now.until(conflict.until)).max().unwrap_or_default();
    let seconds = longest.as_millis().div_ceil(1000).min(u128::from(RETRY_AFTER_MAX));
    let first = conflicts.first();
    let body = ErrorBody {
        reserved_by: first.map(|conflict| conflict.who.session.as_str().into()),
        reserved_by_name: first.and_then(|conflict| conflict.who.name.clone()),
        expires_at: first.map(|conflict| time(conflict.until)),
        conflicts: Some(ConflictList::all(conflicts)),
        reserved: Some(Vec::new()),
        ..ErrorBody::new(code, sentence)
    };
    ApiError::from(body).retry_after(u64::try_from(seconds).unwrap_or(RETRY_AFTER_MAX))
}

/// One conflict. `texts` has the keys as the request wrote them; without it, they are shown in canonical form.
pub fn conflict(conflict: &Conflict, texts: &[String]) -> wire::Conflict {
    let percent = conflict.key.is_percent() || conflict.asked.is_percent();
    wire::Conflict {
        file_path: texts.get(conflict.position).cloned().unwrap_or_else(|| conflict.asked.shown()),
        key: conflict.key.shown(),
        reserved_by: conflict.who.session.as_str().into(),
        reserved_by_name: conflict.who.name.clone(),
        mode: mode(conflict.mode),
        reason: conflict.reason.clone(),
        expires_at: time(conflict.until),
        held_by: wire::HeldBy { session_id: conflict.who.session.as_str().into(), reserved_at: time(conflict.since) },
        example: conflict.example.clone(),
        queue_length: Some(conflict.queue_length as u64),
        waiting: conflict.waiting,
        encoding: percent.then_some(Encoding::Percent),
        more_holders: (conflict.more_holders > 0).then_some(conflict.more_holders as u64),
    }
}

fn paused(pause: &Pause) -> ApiError {
    let why = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let sentence =
        format!("feature {} is paused by {}{why}; wait until the pause ends", pause.feature, session_label(&pause.by));
    ApiError::from(ErrorBody {
        reserved_by: Some(pause.by.session.as_str().into()),
        reserved_by_name: pause.by.name.clone(),
        reason: pause.reason.clone(),
        expires_at: Some(time(pause.until)),
        ..ErrorBody::new(Code::FeaturePaused, sentence)
    })
}

/// A pause, in the reply to a check.
pub fn pause(pause: Pause) -> wire::Paused {
    wire::Paused {
        feature: pause.feature,
        reserved_by: pause.by.session.as_str().into(),
        reserved_by_name: pause.by.name,
        reason: pause.reason,
        expires_at: time(pause.until),
    }
}

/// A grant, as its holder sees it.
pub fn reserved(session: &SessionId, grant: &Grant) -> wire::Reserved {
    wire::Reserved {
        reservation_id: grant.id.to_string(),
        file_path: grant.key.shown(),
        session_id: session.as_str().into(),
        mode: mode(grant.mode),
        reason: grant.reason.clone(),
        reserved_at: time(grant.since),
        expires_at: time(grant.expires),
        ttl_seconds: grant.ttl.seconds().into(),
        while_session: grant.ttl.is_while_session(),
        fence: grant.fence.0,
        version: grant.version,
        encoding: encoding(&grant.key),
        notices: Vec::new(),
    }
}

/// A renewed reservation.
pub fn renewed(session: &SessionId, grant: &Grant) -> wire::Renewed {
    wire::Renewed {
        reservation_id: grant.id.to_string(),
        file_path: grant.key.shown(),
        session_id: session.as_str().into(),
        expires_at: time(grant.expires),
        ttl_seconds: grant.ttl.seconds().into(),
        while_session: grant.ttl.is_while_session(),
        fence: grant.fence.0,
        version: grant.version,
        encoding: encoding(&grant.key),
        notices: Vec::new(),
    }
}

/// A reservation in a list.
pub fn reservation_info(holder: &SessionName, grant: &Grant) -> wire::Reservation {
    wire::Reservation {
        reservation_id: grant.id.to_string(),
        file_path: grant.key.shown(),
        session_id: holder.session.as_str().into(),
        session_name: holder.name.clone(),
        mode: mode(grant.mode),
        reason: grant.reason.clone(),
        reserved_at: time(grant.since),
        expires_at: time(grant.expires),
        ttl_seconds: grant.ttl.seconds().into(),
        while_session: grant.ttl.is_while_session(),
        fence: grant.fence.0,
        version: grant.version,
        encoding: encoding(&grant.key),
    }
}

/// An unlock request, as both sessions see it.
pub fn unlock_request(request: UnlockRequest) -> wire::UnlockRequestInfo {
    wire::UnlockRequestInfo {
        id: request.id.to_string(),
        reservation_id: request.reservation.to_string(),
        file_path: request.key.shown(),
        reserved_by: Some(request.holder.as_str().into()),
        reserved_by_name: request.holder_name,
        requested_by: request.by.as_str().into(),
        requested_by_name: request.by_name,
        reason: request.reason,
        requested_at: time(request.at),
        status: unlock_status(request.answer),
        responded_at: request.answered_at.map(time),
        responded_by: request.answered_by.map(|session| session.as_str().into()).or(request.answered_by_admin),
        note: request.note,
        handed_over: request.handed_over,
        encoding: encoding(&request.key),
        others: Vec::new(),
        notices: Vec::new(),
    }
}

/// The notices for a session.
pub fn notices(notices: Vec<Notice>) -> Vec<wire::Notice> {
    notices.into_iter().map(notice).collect()
}

fn notice(notice: Notice) -> wire::Notice {
    match notice {
        Notice::UnlockRequested(request) => wire::Notice::UnlockRequested {
            request_id: request.id.to_string(),
            reservation_id: request.reservation.to_string(),
            file_path: request.key.shown(),
            requested_by: request.by.as_str().into(),
            requested_by_name: request.by_name,
            reason: request.reason,
            requested_at: time(request.at),
        },
        Notice::UnlockAnswered(request) => wire::Notice::UnlockAnswered {
            request_id: request.id.to_string(),
            file_path: request.key.shown(),
            status: unlock_status(request.answer),
            responded_by: request.answered_by.map(|session| session.as_str().into()).or(request.answered_by_admin),
            note: request.note,
        },
        Notice::ReleasedEarly { id, key, at, why } => {
            let word = why_over(&why);
            let (by, reason) = match why {
                Why::Overridden { by, reason } => (Some(by), Some(reason)),
                _ => (None, None),
            };
            let (reservation_id, file_path) = (id.to_string(), key.shown());
            wire::Notice::Released { reservation_id, file_path, why: word.into(), by, reason, at: time(at) }
        }
        Notice::Expired { count, keys } => {
            wire::Notice::Expired { expired_count: count, expired_paths: keys.iter().map(Key::shown).collect() }
        }
        Notice::Lost { at, count, keys } => wire::Notice::Lost {
            lost_at: time(at),
            released_count: count,
            released_paths: keys.iter().map(Key::shown).collect(),
        },
        Notice::Paused(pause) => wire::Notice::Paused {
            feature: pause.feature,
            reserved_by: pause.by.session.as_str().into(),
            reserved_by_name: pause.by.name,
            reason: pause.reason,
            expires_at: time(pause.until),
        },
        Notice::More { notices, unlock_requests } => {
            wire::Notice::More { notices: notices as u64, unlock_requests: unlock_requests as u64 }
        }
    }
}

pub fn time(at: Timestamp) -> Time {
    Time(at.0)
}

pub fn end_state(state: engine::EndState) -> wire::SessionState {
    match state {
        engine::EndState::Completed => wire::SessionState::Completed,
        engine::EndState::Failed => wire::SessionState::Failed,
        engine::EndState::Stopped => wire::SessionState::Stopped,
        engine::EndState::Lost => wire::SessionState::Lost,
    }
}

pub fn unlock_status(answer: Option<engine::UnlockAnswer>) -> wire::UnlockStatus {
    match answer {
        None => wire::UnlockStatus::Pending,
        Some(engine::UnlockAnswer::Approved) => wire::UnlockStatus::Approved,
        Some(engine::UnlockAnswer::Rejected) => wire::UnlockStatus::Rejected,
        Some(engine::UnlockAnswer::Withdrawn) => wire::UnlockStatus::Withdrawn,
        Some(engine::UnlockAnswer::Moot) => wire::UnlockStatus::Moot,
    }
}

pub fn mode(mode: engine::Mode) -> wire::Mode {
    match mode {
        engine::Mode::Exclusive => wire::Mode::Exclusive,
        engine::Mode::Shared => wire::Mode::Shared,
    }
}

/// Set when the key is percent-encoded.
pub fn encoding(key: &Key) -> Option<Encoding> {
    key.is_percent().then_some(Encoding::Percent)
}

/// A key in a sentence: quoted and with control characters escaped, so that it cannot change the rest of the text.
fn quoted(key: &Key) -> String {
    format!("{:?}", key.shown())
}

/// A session in a sentence: its name, if it has one, and its id.
pub fn session_label(session: &SessionName) -> String {
    match &session.name {
        Some(name) => format!("{name} ({})", session.session),
        None => session.session.to_string(),
    }
}
