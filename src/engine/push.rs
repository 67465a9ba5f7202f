//! Announced pushes: a session says what it is about to push, and the server's git hook asks who announced it.
//!
//! The hook sees only ref names and object ids, not who pushes. An announcement is valid for a short time and for one
//! push. All of this is working memory: after a restart, the push is announced again by its next attempt.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::command::{Outcome, Pusher, RefUpdate, Refusal};
use super::ids::{SessionId, Timestamp};
use super::listening::ListeningTime;
use super::state::Engine;

/// How long an announcement is valid.
pub const ANNOUNCEMENT_TIME: Duration = Duration::from_secs(60);

/// Updates that one session may announce within [`ANNOUNCEMENT_TIME`].
pub const ANNOUNCED_PER_SESSION_MAX: usize = 10_000;

/// Updates that all sessions of a repository may announce within [`ANNOUNCEMENT_TIME`], and the bytes of the names in them.
const ANNOUNCED_MAX: usize = 50_000;
const ANNOUNCED_BYTES_MAX: usize = 8 << 20;

/// Working memory: see the module.
#[derive(Default)]
pub(super) struct AnnouncedPushes {
    /// The sessions that announced an update, with the number of the announcement. A later one has a higher number.
    by_update: HashMap<RefUpdate, SmallVec<[(SessionId, u64); 1]>>,
    /// Every announcement of the last minute, the oldest first. Those that were claimed or repeated are still in it, so
    /// that its length limits everything.
    recent: VecDeque<Announcement>,
    per_session: HashMap<SessionId, usize>,
    /// The bytes of the names in `recent`.
    bytes: usize,
    /// The number of the last announcement.
    last: u64,
}

struct Announcement {
    number: u64,
    until: ListeningTime,
    session: SessionId,
    update: RefUpdate,
}

impl AnnouncedPushes {
    fn announce(&mut self, until: ListeningTime, session: &SessionId, update: &RefUpdate) {
        self.last += 1;
        let sessions = self.by_update.entry(update.clone()).or_default();
        sessions.retain(|(other, _)| other != session);
        sessions.push((session.clone(), self.last));
        *self.per_session.entry(session.clone()).or_default() += 1;
        self.bytes += update.name.len();
        let (session, update) = (session.clone(), update.clone());
        self.recent.push_back(Announcement { number: self.last, until, session, update });
    }

    fn forget_expired(&mut self, now: ListeningTime) {
        while self.recent.front().is_some_and(|oldest| oldest.until <= now) {
            let Announcement { number, session, update, .. } = self.recent.pop_front().expect("not empty");
            self.bytes -= update.name.len();
            self.remove(&update, |(_, other)| *other == number);
            let count = self.per_session.get_mut(&session).expect("every announcement is counted");
            *count -= 1;
            if *count == 0 {
                self.per_session.remove(&session);
            }
        }
    }

    fn remove(&mut self, update: &RefUpdate, mut is_meant: impl FnMut(&(SessionId, u64)) -> bool) {
        if let Some(sessions) = self.by_update.get_mut(update) {
            sessions.retain(|one| !is_meant(one));
            if sessions.is_empty() {
                self.by_update.remove(update);
            }
        }
    }
}

impl Engine {
    pub(super) fn announce_push(
        &mut self,
        now: Timestamp,
        session: &SessionId,
        updates: &[RefUpdate],
    ) -> Result<Outcome, Refusal> {
        let now = self.listening(now);
        self.pushes.forget_expired(now);
        let own = self.pushes.per_session.get(session).copied().unwrap_or(0);
        if own + updates.len() > ANNOUNCED_PER_SESSION_MAX {
            let what = "announced ref updates of one session within a minute";
            return Err(Refusal::OverQuota { what, limit: ANNOUNCED_PER_SESSION_MAX });
        }
        if self.pushes.recent.len() + updates.len() > ANNOUNCED_MAX {
            let what = "announced ref updates of this repository within a minute";
            return Err(Refusal::OverQuota { what, limit: ANNOUNCED_MAX });
        }
        if self.pushes.bytes + updates.iter().map(|update| update.name.len()).sum::<usize>() > ANNOUNCED_BYTES_MAX {
            let what = "bytes of announced ref names of this repository within a minute";
            return Err(Refusal::OverQuota { what, limit: ANNOUNCED_BYTES_MAX });
        }
        let until = now.after(ANNOUNCEMENT_TIME);
        for update in updates {
            self.pushes.announce(until, session, update);
        }
        Ok(Outcome::Announced { until: self.real(until) })
    }

    /// Finds the live session that announced all of these updates; of several, the one that did so last.
    pub(super) fn claim_push(&mut self, now: Timestamp, updates: &[RefUpdate]) -> Outcome {
        self.pushes.forget_expired(self.listening(now));
        let updates: HashSet<&RefUpdate> = updates.iter().collect();
        // By session: how many of the updates it announced, and the last number.
        let mut announced: HashMap<&SessionId, (usize, u64)> = HashMap::new();
        for update in &updates {
            let Some(sessions) = self.pushes.by_update.get(*update) else { return Outcome::Claimed(None) };
            for (session, number) in sessions {
                let (count, last) = announced.entry(session).or_default();
                (*count, *last) = (*count + 1, (*last).max(*number));
            }
        }
        let is_alive = |id: &SessionId| self.session(id).is_some_and(|session| session.state.is_none());
        let all = announced.into_iter().filter(|(session, (count, _))| *count == updates.len() && is_alive(session));
        let Some(id) = all.max_by_key(|(_, (_, last))| *last).map(|(session, _)| session.clone()) else {
            return Outcome::Claimed(None);
        };
        for update in updates {
            self.pushes.remove(update, |(session, _)| *session == id);
        }
        let session = &self.sessions[self.slot(&id)];
        let (name, feature) = (session.name.clone(), session.feature.clone());
        Outcome::Claimed(Some(Pusher { session: id, name, feature }))
    }
}
