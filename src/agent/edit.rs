//! Before an edit: every file of it is reserved, or it is denied.
//!
//! A file that hooks of this session have reserved before needs one short call, which also renews it: no repository is
//! opened and no setting is read. If anything is unusual, the long way finds out what.

use std::time::Instant;

use super::answer::Answer;
use super::call::{EDIT, HookCall};
use super::event::Event;
use super::reserve::{Refused, Reserved, request};
use super::session::{AgentSession, Need, find_server, handles};
use super::state::SessionState;
use super::target::targets;
use super::words;
use crate::client::{ClientError, QuickReply, quick_reserve};
use crate::git::{self, Place, Settings};
use crate::judge::{self, CheckError};
use crate::local::{Environment, agent_file, clock, notices};

/// Reserves the files of an edit.
pub fn before_edit(event: &Event, files: &[String], environment: &Environment) -> Answer {
    let mut answer = Answer::Allow;
    let mut done: Vec<Reserved> = Vec::new();
    for (place, paths) in targets(&event.cwd, files) {
        let outcome = match renew(&place, &paths, event, environment) {
            Renewal::Done => continue,
            Renewal::Unclear => reserve_in(&place, paths, event, environment),
            Renewal::TimedOut(error) => not_in_time(&place, event, environment, error),
        };
        match outcome {
            Ok(reserved) => done.extend(reserved),
            // The edit happens as a whole or not at all, and so do its reservations.
            Err(deny @ Answer::Deny(_)) => {
                done.into_iter().for_each(Reserved::undo);
                return deny;
            }
            Err(other) => answer = other,
        }
    }
    answer
}

/// How the short way went.
enum Renewal {
    /// Hooks of this session have reserved all paths before, and the server has just renewed them.
    Done,
    /// Anything else. The long way finds out.
    Unclear,
    /// The server did not answer. It is not asked again.
    TimedOut(CheckError),
}

/// The short way.
fn renew(place: &Place, paths: &[git::Path], event: &Event, environment: &Environment) -> Renewal {
    let handles = handles(event);
    // Settings may name another server. The local one needs none.
    let access = find_server(place, environment, &Settings::default(), &handles, Need::IfRunning);
    let Some(access) = access.ok().filter(|access| access.is_local) else { return Renewal::Unclear };
    let (Some(session), Some(credential)) = (&access.session, &access.credential) else { return Renewal::Unclear };
    let Some(state) = SessionState::of(&place.common_dir, session) else { return Renewal::Unclear };
    let is_own = || handles.iter().any(|handle| agent_file::leads_to(&place.common_dir, handle, credential.token()));
    if !state.held().covers(place, paths) || (!state.has_keeper() && is_own()) {
        return Renewal::Unclear;
    }
    let Some(call) = access.quick_call() else { return Renewal::Unclear };
    let limits = state.limits();
    let reply = quick_reserve(call, &request(paths, None), limits);
    notices::save(&place.common_dir, session, &access.inbox.take());
    match reply {
        QuickReply::Success(_) => {
            state.note_activity();
            Renewal::Done
        }
        QuickReply::TimedOut(_) => {
            state.note_outage();
            Renewal::TimedOut(ClientError::TimedOut { at: call.endpoint.to_string(), limit: limits.total }.into())
        }
        QuickReply::Unclear(_) => Renewal::Unclear,
    }
}

/// The answer if the server is there and does not reply.
fn not_in_time(
    place: &Place,
    event: &Event,
    environment: &Environment,
    error: CheckError,
) -> Result<Option<Reserved>, Answer> {
    match HookCall::open(event.agent, environment, place, EDIT)? {
        Some(call) => Err(call.unchecked(&error)),
        None => Ok(None),
    }
}

/// The long way. Returns what was reserved; nothing if the edit is not ours. An error has the answer.
fn reserve_in(
    place: &Place,
    mut paths: Vec<git::Path>,
    event: &Event,
    environment: &Environment,
) -> Result<Option<Reserved>, Answer> {
    let Some(call) = HookCall::open(event.agent, environment, place, EDIT)? else { return Ok(None) };
    paths.retain(|path| !call.repo.is_ignored(path));
    if paths.is_empty() {
        return Ok(None);
    }
    let open = || AgentSession::find_or_open(&call, event);
    let attempt = || Reserved::attempt(&call, open()?, &paths);
    let outcome = match attempt() {
        // The session has ended, or was another server's: the next one starts empty-handed.
        Err(Refused::Session(session, _)) if session.forget(place) => attempt(),
        outcome => outcome,
    };
    match outcome {
        Ok(reserved) => Ok(Some(reserved)),
        Err(Refused::Objection(sentence)) => Err(call.objection(sentence)),
        Err(Refused::NoSession(mut access, trouble)) => {
            let deadline = Instant::now() + judge::ASK_TIME_MIN;
            match judge::ask(&mut access, &judge::question(&paths), deadline) {
                Ok(reply) if reply.conflicts.is_empty() => {
                    trouble.map_or(Ok(None), |error| Err(call.unchecked(&error)))
                }
                Ok(reply) => {
                    let now = reply.server_time.unwrap_or_else(clock::now);
                    Err(call.objection(words::conflict(&reply.conflicts, now)))
                }
                Err(error) => Err(call.unchecked(&error)),
            }
        }
        Err(Refused::Session(_, error) | Refused::Trouble(error)) => Err(call.unchecked(&error)),
    }
}
