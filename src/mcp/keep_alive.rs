//! Keeps what the connection reserved alive while the agent works.
//!
//! A model does not renew. So from the first reservation on, a heartbeat renews what the session holds, as long as the
//! connection is open and a tool was used in the last [`ACTIVE_MAX`]. Then the reservations run out by themselves: an agent
//! that stands idle blocks no other session. What a heartbeat's reply tells the session is kept for the next result.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::client::{Client, ClientError, Credential, Limits};
use crate::local::{ServerAccess, heartbeat};
use crate::wire::{Code, Notice};

/// How long after the last use of a tool the session is kept alive.
const ACTIVE_MAX: Duration = Duration::from_secs(15 * 60);

/// The most notices that are kept for the next result; the newest stay.
const NOTICES_MAX: usize = 50;

#[derive(Default)]
pub struct KeepAlive {
    state: Mutex<State>,
    /// Wakes the thread that sends the heartbeats.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    kept: Option<KeptSession>,
    notices: Vec<Notice>,
    is_stopped: bool,
}

/// The session to keep alive.
struct KeptSession {
    id: String,
    access: ServerAccess,
    credential: Option<Credential>,
    last_use: Instant,
    next_beat: Instant,
}

/// A heartbeat to send.
struct DueBeat {
    id: String,
    access: ServerAccess,
    credential: Option<Credential>,
}

impl KeepAlive {
    /// The session reserved something with a tool. The next heartbeat is due after `until_beat`.
    pub fn reserved(&self, id: &str, access: &ServerAccess, credential: Option<Credential>, until_beat: Duration) {
        let now = Instant::now();
        let mut state = self.lock();
        let due = state.kept.take().filter(|kept| kept.id == id).map_or(now + until_beat, |kept| kept.next_beat);
        let next_beat = due.min(now + until_beat);
        let access = access.clone();
        state.kept = Some(KeptSession { id: id.to_owned(), access, credential, last_use: now, next_beat });
        self.changed.notify_all();
    }

    /// A tool was used. Returns what heartbeats have told this session since.
    pub fn used(&self, session: Option<&str>) -> Vec<Notice> {
        let mut state = self.lock();
        match &mut state.kept {
            Some(kept) if Some(&*kept.id) == session => kept.last_use = Instant::now(),
            _ => return Vec::new(),
        }
        std::mem::take(&mut state.notices)
    }

    /// Ends [`KeepAlive::run`].
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Sends heartbeats until it is stopped.
    pub fn run(&self) {
        let mut client = None;
        while let Some(due) = self.wait() {
            let pause = self.beat(&due, &mut client);
            if let Some(kept) = self.lock().kept.as_mut().filter(|kept| kept.id == due.id) {
                kept.next_beat = Instant::now() + pause;
            }
        }
    }

    /// Waits until a heartbeat is due; none if the connection has ended.
    fn wait(&self) -> Option<DueBeat> {
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            let now = Instant::now();
            state.kept.take_if(|kept| now.duration_since(kept.last_use) > ACTIVE_MAX);
            let pause = match &state.kept {
                None => ACTIVE_MAX,
                Some(kept) if kept.next_beat > now => kept.next_beat - now,
                Some(kept) => {
                    let (id, access) = (kept.id.clone(), kept.access.clone());
                    return Some(DueBeat { id, access, credential: kept.credential.clone() });
                }
            };
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(|poison| poison.into_inner()).0;
        }
    }

    /// Sends one heartbeat. Returns the time until the next one.
    fn beat(&self, due: &DueBeat, client: &mut Option<(String, Client)>) -> Duration {
        if client.as_ref().is_none_or(|(id, _)| *id != due.id) {
            // A server that was stopped stays stopped until a tool needs it.
            let new = due.access.without_start().client_as(due.credential.clone(), Limits::default()).ok();
            *client = new.map(|new| (due.id.clone(), new));
        }
        let Some((_, connected)) = client else { return heartbeat::MAX };
        match connected.heartbeat(&due.id) {
            Ok(reply) => {
                self.tell(&due.id, reply.notices);
                heartbeat::until_next(reply.expires_at, connected.server_time())
            }
            Err(error) => {
                // The next call finds out what became of the session, and where the server is now.
                *client = None;
                if is_over(&error) {
                    self.lock().kept.take_if(|kept| kept.id == due.id);
                }
                heartbeat::MAX / 3
            }
        }
    }

    fn tell(&self, session: &str, notices: Vec<Notice>) {
        let mut state = self.lock();
        if state.kept.as_ref().is_some_and(|kept| kept.id == session) {
            // The server repeats some of them until the session acts.
            let new: Vec<Notice> = notices.into_iter().filter(|notice| !state.notices.contains(notice)).collect();
            state.notices.extend(new);
            let surplus = state.notices.len().saturating_sub(NOTICES_MAX);
            state.notices.drain(..surplus);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

fn is_over(error: &ClientError) -> bool {
    matches!(error.code(), Some(Code::SessionEnded | Code::Unauthenticated | Code::Forbidden))
}
