//! A line for every decision somebody asked for, where anybody wants to read them.
//!
//! Says who asked for what and what came of it, never with which token. Where nobody reads, all it costs is a glance.

use http::HeaderValue;

use crate::desk::{DECISIONS, Desk, Reply, logs_decisions, tame};
use crate::engine::{Actor, Answer, Command, Outcome, Refusal, SessionId, Text};
use crate::key::Key;

use super::event_json::why_left;

tokio::task_local! {
    /// The id of the request that is being answered; only there while decisions are logged.
    pub static REQUEST: HeaderValue;
}

/// What was asked, until it is known what came of it.
pub struct Line {
    repo: Text,
    call: &'static str,
    session: Option<SessionId>,
    /// The admin who asked.
    by: Option<Text>,
    /// The first key.
    key: Option<String>,
    /// How many there are, where there is more than one.
    keys: Option<u64>,
}

impl Line {
    /// Somebody asks; nothing where nobody will read it.
    pub fn begin(desk: &Desk, actor: &Actor, command: &Command) -> Option<Line> {
        if !logs_decisions() {
            return None;
        }
        let (call, session, key, count) = asked(command);
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

    /// It was decided.
    pub fn end(self, reply: &Reply) {
        let Line { repo, call, session, by, key, keys } = self;
        let (session, by) = (session.as_ref().map(SessionId::as_str), by.as_deref());
        let (seq, outcome) = (reply.seq.0, outcome(&reply.outcome));
        let request = REQUEST.try_with(HeaderValue::clone).ok();
        let request = request.as_ref().and_then(|id| id.to_str().ok());
        tracing::info!(target: DECISIONS, repo = &*repo, seq, session, by, call, key, keys, outcome, request, "decided");
    }
}

fn asked(command: &Command) -> (&'static str, Option<&SessionId>, Option<&Key>, usize) {
    match command {
        Command::Touch => ("touch", None, None, 0),
        Command::Create { session, .. } => ("create", Some(session), None, 0),
        Command::Reserve(ask) => {
            ("reserve", Some(&ask.session), ask.wants.first().map(|want| &want.key), ask.wants.len())
        }
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
                Answer::Approved => "approve",
                Answer::Rejected => "reject",
                Answer::Withdrawn | Answer::Moot => "withdraw",
            };
            (call, Some(session), None, 0)
        }
        Command::Tick => ("tick", None, None, 0),
        Command::Count => ("count", None, None, 0),
    }
}

fn outcome(result: &Result<Outcome, Refusal>) -> &'static str {
    match result {
        Ok(outcome) => match outcome {
            Outcome::Done | Outcome::Request(_) => "done",
            Outcome::Granted(_) => "granted",
            Outcome::Queued(_) => "queued",
            Outcome::Released(_) => "released",
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
            Refusal::OverQuota { .. } => "overQuota",
        },
    }
}
