//! Results, records and notices as text, for scenarios.

use git_dibs::engine::{
    Conflict, EndState, Grant, LeftWhy, Mode, Notice, Outcome, Pause, Refusal, Timestamp, Ttl, UnlockAnswer,
    UnlockRequest, Why,
};
use git_dibs::key::Key;
use uuid::Uuid;

/// A result. `requests` are the unlock requests in the order of their creation, so that the first is `r1`.
pub fn result_words(result: &Result<Outcome, Refusal>, requests: &[Uuid]) -> String {
    match result {
        Ok(outcome) => outcome_words(outcome, requests),
        Err(refusal) => refusal_words(refusal, requests),
    }
}

fn outcome_words(outcome: &Outcome, requests: &[Uuid]) -> String {
    match outcome {
        Outcome::Done | Outcome::Owned(_) => String::new(),
        Outcome::Granted(grants) => {
            let list: Vec<_> = grants.iter().map(|grant| grant_words(grant, false)).collect();
            format!("granted {}", list.join(" and "))
        }
        Outcome::Queued(seq) => format!("queued {seq}"),
        Outcome::Released { keys, .. } => format!("released {}", list(keys)),
        Outcome::ReleasedLate { released, lapsed } => format!("released {}, lapsed {}", list(released), list(lapsed)),
        Outcome::Alive { renewed, expires } => format!("alive until {} with {renewed}", moment(*expires)),
        Outcome::Ended { state, released, .. } => {
            format!("ended ({}), released {}", state_word(*state), list(released))
        }
        Outcome::Announced { until } => format!("announced until {}", moment(*until)),
        Outcome::Claimed(None) => "nobody announced it".to_owned(),
        Outcome::Claimed(Some(pusher)) => format!("announced by {}", pusher.session),
        Outcome::Request(request) => request_words(request, requests),
        Outcome::Asked(all) => {
            all.iter().map(|request| request_words(request, requests)).collect::<Vec<_>>().join(" and ")
        }
    }
}

fn request_words(request: &UnlockRequest, requests: &[Uuid]) -> String {
    let name = request_name(request.id, requests);
    let (answer, key) = (answer_word(request.answer), request.key.shown());
    format!("{name} {answer} ({} asks {} for {key}: {})", request.by, request.holder, request.reason)
}

fn refusal_words(refusal: &Refusal, requests: &[Uuid]) -> String {
    match refusal {
        Refusal::Locked(conflicts) => format!("refused: {}", conflicts_words(conflicts)),
        Refusal::WaitOver { conflicts, .. } => conflicts_words(conflicts),
        Refusal::Deadlock(cycle) => {
            let steps = cycle
                .iter()
                .map(|step| format!("{} holds {} wants {}", step.session, step.holds.shown(), step.wants.shown()));
            format!("deadlock: {}", steps.collect::<Vec<_>>().join("; "))
        }
        Refusal::WrongVersion { key, version } => format!("wrong version: {} is at v{version}", key.shown()),
        Refusal::Paused(pause) => pause_words(pause),
        Refusal::NotHeld { key, holder: None, .. } => format!("not held: {}", key.shown()),
        Refusal::NotHeld { key, holder: Some(person), has_lapsed } => {
            let lapsed = if *has_lapsed { ", lapsed" } else { "" };
            format!("not held: {} is {}'s{lapsed}", key.shown(), person.session)
        }
        Refusal::Lapsed { key } => format!("lapsed: {}", key.shown()),
        Refusal::SessionEnded { session, state } => format!("{session} has ended ({})", state_word(*state)),
        Refusal::NotOwner => "not the owner".to_owned(),
        Refusal::UnknownSession(session) => format!("no session {session}"),
        Refusal::UnknownReservation => "no such reservation".to_owned(),
        Refusal::NoOtherHolder(key) => format!("no other session holds {}", key.shown()),
        Refusal::UnknownRequest => "no such request".to_owned(),
        Refusal::AnsweredBefore(request) => {
            format!("{} is {} already", request_name(request.id, requests), answer_word(request.answer))
        }
        Refusal::NotTheHolder(person) => format!("only {} can answer", person.session),
        Refusal::NotTheSender(person) => format!("only {} can withdraw", person.session),
        Refusal::Uncompared(pairs) => format!("{} pairs of patterns are not compared yet", pairs.len()),
        Refusal::TooMuchWork => "too much work".to_owned(),
        Refusal::TooMuchText { limit } => format!("too much text: more than {limit}"),
        Refusal::OverQuota { what, limit } => format!("over quota: {limit} {what}"),
    }
}

pub fn grant_words(grant: &Grant, key: bool) -> String {
    let key = if key { format!(" {}", grant.key.shown()) } else { String::new() };
    let mode = if grant.mode == Mode::Shared { " shared" } else { "" };
    let version = if grant.version > 0 { format!(" v{}", grant.version) } else { String::new() };
    format!("{}{key}{mode}{version} until {}", grant.fence, moment(grant.expires))
}

pub fn conflict_words(conflict: &Conflict) -> String {
    let verb = if conflict.waiting { "waits for" } else { "holds" };
    let example = conflict.example.as_ref().map(|path| format!(" (as in {path})")).unwrap_or_default();
    format!("{} {verb} {}{example}", conflict.who.session, conflict.key.shown())
}

fn conflicts_words(conflicts: &[Conflict]) -> String {
    let mut list: Vec<_> = conflicts.iter().map(conflict_words).collect();
    list.sort();
    list.join("; ")
}

pub fn pause_words(pause: &Pause) -> String {
    format!("{} is paused by {} ({})", pause.feature, pause.by.session, pause.reason.as_deref().unwrap_or("no reason"))
}

pub fn notice_words(notice: &Notice, requests: &[Uuid]) -> String {
    match notice {
        Notice::UnlockRequested(request) => {
            format!("{}: {} asks for {}", request_name(request.id, requests), request.by, request.key.shown())
        }
        Notice::UnlockAnswered(request) => {
            format!("{} was {}", request_name(request.id, requests), answer_word(request.answer))
        }
        Notice::ReleasedEarly { key, why, .. } => format!("lost {} ({})", key.shown(), why_word(why)),
        Notice::Expired { count, keys } => format!("{count} expired: {}", list(keys)),
        Notice::Lost { at, count, keys } => {
            format!("lost at {}, with {count}: {}", moment(*at), list(keys))
        }
        Notice::Paused(pause) => pause_words(pause),
        Notice::More { notices, unlock_requests } => format!("{notices} more, and {unlock_requests} more requests"),
    }
}

pub fn request_name(id: Uuid, requests: &[Uuid]) -> String {
    requests.iter().position(|other| *other == id).map_or("r?".to_owned(), |at| format!("r{}", at + 1))
}

pub fn ttl_words(ttl: Ttl) -> String {
    match ttl {
        Ttl::Plain(seconds) => format!("ttl {seconds}s"),
        Ttl::WhileSession(seconds) => format!("idle {seconds}s"),
    }
}

pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

pub fn state_word(state: EndState) -> &'static str {
    match state {
        EndState::Completed => "completed",
        EndState::Failed => "failed",
        EndState::Stopped => "stopped",
        EndState::Lost => "lost",
    }
}

pub fn why_word(why: &Why) -> String {
    match why {
        Why::Released => "released".to_owned(),
        Why::Expired => "expired".to_owned(),
        Why::Ended => "ended".to_owned(),
        Why::Overridden { by, reason } => format!("overridden by {by}: {reason}"),
        Why::Approved { .. } => "approved".to_owned(),
        Why::Unheard => "unheard".to_owned(),
    }
}

pub fn left_word(why: LeftWhy) -> &'static str {
    match why {
        LeftWhy::TimedOut => "timed out",
        LeftWhy::Gone => "gone",
        LeftWhy::Stopped => "stopped",
        LeftWhy::Ended => "ended",
        LeftWhy::Version => "version",
        LeftWhy::Paused => "paused",
        LeftWhy::Deadlock => "deadlock",
    }
}

pub fn answer_word(answer: Option<UnlockAnswer>) -> &'static str {
    match answer {
        None => "pending",
        Some(UnlockAnswer::Approved) => "approved",
        Some(UnlockAnswer::Rejected) => "rejected",
        Some(UnlockAnswer::Withdrawn) => "withdrawn",
        Some(UnlockAnswer::Moot) => "moot",
    }
}

fn list(keys: &[Key]) -> String {
    let keys: Vec<_> = keys.iter().map(Key::shown).collect();
    if keys.is_empty() { "nothing".to_owned() } else { keys.join(" and ") }
}

fn moment(time: Timestamp) -> String {
    format!("{}s", time.0 as f64 / 1000.0)
}
