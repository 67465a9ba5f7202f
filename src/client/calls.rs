//! Every call of the contract, by its name.

use std::time::Duration;

use super::address::part;
use super::{Client, ClientError};
use crate::wire;
use crate::wire::limits::{PAGE_ITEMS_MAX, WAIT_SECONDS_MAX};

/// Which reservations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Only keys that begin so.
    pub prefix: Option<String>,
    /// Only those of this session.
    pub session: Option<String>,
}

/// What to look back at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// Only what could be about this key.
    pub path: Option<String>,
    /// That key is percent-encoded.
    pub percent: bool,
    /// Only what this session did.
    pub session: Option<String>,
    /// Only what happened since.
    pub since: Option<wire::Time>,
}

impl Client {
    /// Reserves one key, or several all at once, and waits for them as long as the request says.
    pub fn reserve(&mut self, session: &str, ask: &wire::Reserve) -> Result<wire::ReserveReply, ClientError> {
        self.post_waiting(&own(session, "files/reserve"), ask, waiting(ask))
    }

    /// Lets go of one key or several.
    pub fn release(&mut self, session: &str, ask: &wire::Release) -> Result<wire::Released, ClientError> {
        self.post(&own(session, "files/release"), ask)
    }

    /// Lets go of everything.
    pub fn release_all(&mut self, session: &str) -> Result<wire::ReleasedAll, ClientError> {
        self.post(&own(session, "files/release-all"), &wire::EmptyBody {})
    }

    /// Renews one key, or several.
    pub fn renew(&mut self, session: &str, ask: &wire::Renew) -> Result<wire::RenewReply, ClientError> {
        self.post(&own(session, "files/renew"), ask)
    }

    /// Says what is in the way of the session, or of anybody where there is none.
    pub fn check(&mut self, session: Option<&str>, ask: &wire::Check) -> Result<wire::CheckReply, ClientError> {
        self.post(&checking(session), ask)
    }

    /// What the session holds.
    pub fn reserved_files(&mut self, session: &str) -> Result<wire::ReservationList, ClientError> {
        self.get(&own(session, "reserved-files"))
    }

    /// Everything held in the repository, however many pages that is.
    pub fn reservations(&mut self, which: &Held) -> Result<Vec<wire::Reservation>, ClientError> {
        let mut query = format!("/api/reservations?limit={PAGE_ITEMS_MAX}");
        for (name, value) in [("prefix", &which.prefix), ("session", &which.session)] {
            if let Some(value) = value {
                query.push_str(&format!("&{name}={}", part(value)));
            }
        }
        self.pages(&query, "reservations")
    }

    /// Takes a reservation away from its holder (admin).
    pub fn override_reservation(
        &mut self,
        reservation: &str,
        why: &wire::Override,
    ) -> Result<wire::Released, ClientError> {
        self.delete(&format!("/api/reservations/{}", part(reservation)), Some(why))
    }

    /// Makes a session and its token (admin).
    pub fn create_session(&mut self, ask: &wire::CreateSession) -> Result<wire::SessionCreated, ClientError> {
        self.post("/api/sessions", ask)
    }

    /// The sessions of the repository, or those in one state, however many pages that is.
    pub fn sessions(&mut self, state: Option<wire::SessionState>) -> Result<Vec<wire::SessionInfo>, ClientError> {
        let mut query = format!("/api/sessions?limit={PAGE_ITEMS_MAX}");
        if let Some(state) = state {
            query.push_str(&format!("&state={}", state.as_str()));
        }
        self.pages(&query, "sessions")
    }

    /// One session.
    pub fn session(&mut self, session: &str) -> Result<wire::SessionInfo, ClientError> {
        self.get(&format!("/api/sessions/{}", part(session)))
    }

    /// Says that the session is alive, which renews all it holds.
    pub fn heartbeat(&mut self, session: &str) -> Result<wire::Heartbeat, ClientError> {
        self.post(&own(session, "heartbeat"), &wire::EmptyBody {})
    }

    /// Ends the session, which releases all it holds.
    pub fn end(&mut self, session: &str, how: &wire::EndSession) -> Result<wire::Ended, ClientError> {
        self.post(&own(session, "end"), how)
    }

    /// Asks a holder to let go.
    pub fn request_unlock(
        &mut self,
        session: &str,
        ask: &wire::UnlockRequest,
    ) -> Result<wire::UnlockRequestInfo, ClientError> {
        self.post(&own(session, "unlock-requests"), ask)
    }

    /// What the session was asked for, and what it asked for.
    pub fn unlock_requests(&mut self, session: &str) -> Result<wire::UnlockRequests, ClientError> {
        self.get(&own(session, "unlock-requests"))
    }

    /// Lets go of what somebody asked for.
    pub fn approve_unlock(
        &mut self,
        session: &str,
        request: &str,
        how: &wire::Approve,
    ) -> Result<wire::UnlockRequestInfo, ClientError> {
        self.post(&own(session, &format!("unlock-requests/{}/approve", part(request))), how)
    }

    /// Keeps what somebody asked for.
    pub fn reject_unlock(
        &mut self,
        session: &str,
        request: &str,
        how: &wire::Reject,
    ) -> Result<wire::UnlockRequestInfo, ClientError> {
        self.post(&own(session, &format!("unlock-requests/{}/reject", part(request))), how)
    }

    /// Takes the session's own request back.
    pub fn withdraw_unlock(&mut self, session: &str, request: &str) -> Result<wire::UnlockRequestInfo, ClientError> {
        self.delete(&own(session, &format!("unlock-requests/{}", part(request))), NO_BODY)
    }

    /// What happened, the latest first, at most so many events.
    pub fn history(&mut self, which: &Past, most: usize) -> Result<wire::HistoryReply, ClientError> {
        let mut query = String::from("/api/history?");
        let since = which.since.map(|since| since.to_string());
        let percent = which.percent.then(|| "percent".to_owned());
        let asked = [("path", &which.path), ("session", &which.session), ("since", &since), ("encoding", &percent)];
        for (name, value) in asked {
            if let Some(value) = value {
                query.push_str(&format!("{name}={}&", part(value)));
            }
        }
        let mut all = wire::HistoryReply::default();
        loop {
            let left = u32::try_from(most - all.events.len()).unwrap_or(PAGE_ITEMS_MAX).clamp(1, PAGE_ITEMS_MAX);
            let cursor = all.next_cursor.take().map_or_else(String::new, |cursor| format!("&cursor={}", part(&cursor)));
            let page: wire::HistoryReply = self.get(&format!("{query}limit={left}{cursor}"))?;
            all.events.extend(page.events);
            all.missing.extend(page.missing);
            all.notices.extend(page.notices);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.events.len() >= most {
                return Ok(all);
            }
        }
    }

    /// The server's figures.
    pub fn stats(&mut self) -> Result<wire::Stats, ClientError> {
        self.get("/api/stats")
    }

    /// Whether the server is alive; needs no token.
    pub fn health(&mut self) -> Result<wire::Health, ClientError> {
        self.get("/healthz")
    }
}

/// No body at all.
const NO_BODY: Option<&wire::Override> = None;

/// Where to ask what is in the way of a session, or of anybody.
pub(super) fn checking(session: Option<&str>) -> String {
    session.map_or_else(|| "/api/check-conflicts".to_owned(), |session| own(session, "files/check-conflicts"))
}

/// A path below a session.
fn own(session: &str, rest: &str) -> String {
    format!("/api/sessions/{}/{rest}", part(session))
}

/// How long the server may keep a request in its queue.
fn waiting(ask: &wire::Reserve) -> Duration {
    Duration::from_secs(
        ask.wait_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0).min(WAIT_SECONDS_MAX.into()),
    )
}
