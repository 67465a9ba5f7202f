//! The start and the end of an agent's session.

use std::collections::HashSet;

use super::answer::Answer;
use super::call::{EDIT, HookCall};
use super::event::Event;
use super::look;
use super::preamble::{self, Edits};
use super::repositories;
use super::reserve::release;
use super::session::{AgentSession, Need, NoSession, handles};
use crate::client::{Client, Limits, ReservationFilter};
use crate::git::Place;
use crate::local::{Environment, clock, notices};
use crate::wire::{EndSession, EndState};

/// Opens the session, and tells the model what git-dibs is and who holds what.
pub fn session_start(event: &Event, environment: &Environment) -> Answer {
    let Some(place) = Place::around(&event.cwd) else { return Answer::Allow };
    let Ok(Some(call)) = HookCall::open(event.agent, environment, &place, EDIT) else { return Answer::Allow };
    match AgentSession::find_or_open(&call, event) {
        Ok(session) => {
            look::first_look(&call, &session);
            Answer::Context(preamble_for(&session))
        }
        Err(NoSession::Person(_)) => Answer::Allow,
        Err(NoSession::Unkept(_, error) | NoSession::Trouble(error)) => {
            // Nothing is about to change, so there is nothing to deny.
            call.unchecked(&error);
            Answer::Allow
        }
    }
}

/// Ends the session in every repository that it worked in.
pub fn session_end(event: &Event, environment: &Environment) -> Answer {
    let handles = handles(event);
    let Some(root) = handles.last().filter(|_| event.parent.is_none()) else { return Answer::Allow };
    let mut places: Vec<Place> = Place::around(&event.cwd).into_iter().collect();
    places.extend(repositories::take(environment, root));
    let mut known = HashSet::new();
    for place in places.iter().filter(|place| known.insert(&place.common_dir)) {
        end_in(place, event, environment);
    }
    Answer::Allow
}

/// Ends the session in one repository, which releases everything it holds there. A session that hooks did not open only
/// loses what they reserved.
fn end_in(place: &Place, event: &Event, environment: &Environment) {
    let Ok(Some(call)) = HookCall::open(event.agent, environment, place, EDIT) else { return };
    let Ok((_, Some(session))) = AgentSession::find(&call, &handles(event), Need::IfRunning) else { return };
    let Ok(mut client) = session.access.client(Limits::default()) else { return };
    if session.is_own {
        // If the server does not answer, the keeper tries again when the agent is gone.
        if client.end(&session.id, &EndSession { state: Some(EndState::Completed) }).is_ok() {
            session.forget(place);
            // No later command of this session could show them.
            session.access.inbox.take();
            notices::take(&place.common_dir, &session.id);
        }
    } else if let Some(state) = &session.state {
        let held = state.held().all();
        if held.is_empty() || release(&mut client, &session.id, &held).is_ok() {
            state.remove();
        }
    }
}

/// What the model of a session is told.
fn preamble_for(session: &AgentSession) -> String {
    let client = session.access.client(Limits::default());
    let list = |mut client: Client| client.oldest_reservations(&ReservationFilter::default(), preamble::LOOK_MAX).ok();
    let held = client.ok().and_then(list).unwrap_or_default();
    preamble::with_holders(Edits::ByHook, &held.reservations, Some(&session.id), clock::now())
}
