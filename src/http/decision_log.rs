//! The decision log: one line for every command of a client, if that log is switched on.
//!
//! A line has the caller, the command and its outcome, never the token. If the log is off, the cost is one check.

use http::HeaderValue;

use crate::desk::{DECISIONS, Desk, Reply, logs_decisions, tame};
use crate::engine::{Actor, Command, Outcome, Refusal, SessionId, Text, UnlockAnswer};
use crate::key::Key;

use super::event_json::why_left;

tokio::task_local! {
    /// The id of the current request; set only while decisions are logged.
    pub static REQUEST: HeaderValue;
}

/// A line of the log whose outcome is not known yet.
pub struct Line {
    repo: Text,
    call: &'static str,
    session: Option<SessionId>,
    /// The admin, if the caller is one.
    by: Option<Text>,
    /// The first key.
    key: Option<String>,
    /// The number of keys, if there is more than one.
    keys: Option<u64>,
}

impl Line {
    /// A command arrives. None if the log is off.
    pub fn begin(desk: &Desk, actor: &Actor, command: &Command) -> Option<Line> {
        if !logs_decisions() {
            return None;
        }
        let (call, session, key, count) = describe(command);
        let own = match actor {
            Actor::Session(intro) => Some(&intro.id),
            _ => None,
        };
        let by = match actor {
            Actor::Admin(name) => Some(tame(name).into()),
            _ => None,
        };
        Some(Line {
            repo: desk.name().clone(),
            call,
            session: session.or(own).cloned(),
            by,
            key: key.map(|key| tame(&key.shown())),
            keys: (count > 1).then_some(count as u64),
        })
    }

    /// The command was decided: writes the line.
    pub fn end(self, reply: &Reply) {
        let Line { repo, call, session, by, key, keys } = self;
        let (session, by) = (session.as_ref().map(SessionId::as_str), by.as_deref());
        let (seq, outcome) = (reply.seq.0, outcome(&reply.outcome));
        let request = REQUEST.try_with(HeaderValue::clone).ok();
        let request = request.as_ref().and_then(|id| id.to_str().ok());
        tracing::info!(target: DECISIONS, repo = &*repo, seq, session, by, call, key, keys, outcome, request, "decided");
    }
}

/// The name of the command, its session, its first key, and the number of keys.
fn describe(command: &Command) -> (&'static str, Option<&SessionId>, Option<&Key>, usize) {
    match command {
        Command::Touch => ("touch", None, None, 0),
        Command::Create { session, .. } => ("create", Some(session), None, 0),
        Command::Reserve(ask) => {
            ("reserve", Some(&ask.session), ask.wants.first().map(|want| &want.key), ask.wants.len())
        }
        Command::AllocatePorts(ask) => ("allocate-ports", Some(&ask.session), None, ask.ids.len()),
        Command::Release { session, keys } => {
            ("release", Some(session), keys.first().map(|named| &named.key), keys.len())
        }
        Command::ReleaseAll { session } => ("release-all", Some(session), None, 0),
        Command::Renew { session, keys, .. } => {
            ("renew", Some(session), keys.first().map(|named| &named.key), keys.len())
        }
        Command::Heartbeat { session } => ("heartbeat", Some(session), None, 0),
        Command::End { session, .. } => ("end", Some(session), None, 0),
        Command::Override { .. } => ("override", None, None, 0),
        Command::Unheard { session, .. } => ("unheard", Some(session), None, 0),
        Command::Leave { .. } => ("leave", None, None, 0),
        Command::Ask { session, key, .. } => ("request", Some(session), Some(&key.key), 1),
        Command::Respond { session, answer, .. } => {
            let call = match answer {
                UnlockAnswer::Approved => "approve",
                UnlockAnswer::Rejected => "reject",
                UnlockAnswer::Withdrawn | UnlockAnswer::Moot => "withdraw",
            };
            (call, Some(session), None, 0)
        }
        Command::RecordCommit { session, contents } => {
            ("record-commit", Some(session), contents.first().map(|content| &content.key), contents.len())
        }
        Command::AnnouncePush { session, .. } => ("announce-push", Some(session), None, 0),
        Command::ClaimPush { .. } => ("claim-push", None, None, 0),
        Command::Tick => ("tick", None, None, 0),
        Command::Sweep => ("sweep", None, None, 0),
        Command::Count => ("count", None, None, 0),
    }
}

fn outcome(result: &Result<Outcome, Refusal>) -> &'static str {
    match result {
        Ok(outcome) => match outcome {
            Outcome::Done | Outcome::Owned(_) | Outcome::Request(_) | Outcome::Asked(_) => "done",
            Outcome::Announced { .. } => "announced",
            Outcome::Claimed(Some(_)) => "claimed",
            Outcome::Claimed(None) => "notAnnounced",
            Outcome::Granted(_) => "granted",
            Outcome::Queued(_) => "queued",
            Outcome::Released { .. } | Outcome::ReleasedLate { .. } => "released",
            Outcome::Alive { .. } => "alive",
            Outcome::Ended { .. } => "ended",
        },
        Err(refusal) => match refusal {
            Refusal::Locked(_) => "refused",
            Refusal::WaitOver { why, .. } => why_left(*why),
            Refusal::Deadlock(_) => "deadlock",
            Refusal::WrongVersion { .. } => "wrongVersion",
            Refusal::Paused(_) => "paused",
            Refusal::NotHeld { .. } => "notHeld",
            Refusal::Lapsed { .. } => "lapsed",
            Refusal::SessionEnded { .. } => "sessionEnded",
            Refusal::NotOwner => "notYours",
            Refusal::UnknownSession(_) => "noSession",
            Refusal::UnknownReservation => "noReservation",
            Refusal::NoOtherHolder(_) => "nobodyHolds",
            Refusal::UnknownRequest => "noRequest",
            Refusal::AnsweredBefore(_) => "answeredBefore",
            Refusal::NotTheHolder(_) => "notTheHolder",
            Refusal::NotTheSender(_) => "notTheSender",
            Refusal::Uncompared(_) => "uncompared",
            Refusal::TooMuchWork => "tooMuchWork",
            Refusal::TooMuchText { .. } => "tooMuchText",
            Refusal::OverQuota { .. } => "overQuota",
        },
    }
}
