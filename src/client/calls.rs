//! Every call of the HTTP API, by its name.

use std::time::Duration;

use super::address::part;
use super::{Client, ClientError};
use crate::wire;
use crate::wire::limits::{PAGE_ITEMS_MAX, WAIT_SECONDS_MAX};

/// Which reservations to list; all of them by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReservationFilter {
    /// Only keys that start with this.
    pub prefix: Option<String>,
    /// Only those of this session.
    pub session: Option<String>,
}

impl ReservationFilter {
    fn query(&self, limit: usize) -> String {
        let mut query = format!("/api/reservations?limit={limit}");
        for (name, value) in [("prefix", &self.prefix), ("session", &self.session)] {
            if let Some(value) = value {
                query.push_str(&format!("&{name}={}", part(value)));
            }
        }
        query
    }
}

/// Which events of the history to list; all of them by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Only events about this key, or about a key that overlaps it.
    pub key: Option<String>,
    /// Whether `key` is percent-encoded.
    pub percent: bool,
    /// Only events of this session.
    pub session: Option<String>,
    pub since: Option<wire::Time>,
}

impl Client {
    /// Reserves one key, or several all at once, and waits for them as long as the request says.
    pub fn reserve(&mut self, session: &str, request: &wire::Reserve) -> Result<wire::ReserveReply, ClientError> {
        self.post_waiting(&reserve_path(session), request, waiting(request))
    }

    /// Releases one key or several.
    pub fn release(&mut self, session: &str, request: &wire::Release) -> Result<wire::Released, ClientError> {
        self.post(&own(session, "files/release"), request)
    }

    /// Releases everything that the session holds.
    pub fn release_all(&mut self, session: &str) -> Result<wire::ReleasedAll, ClientError> {
        self.post(&own(session, "files/release-all"), &wire::EmptyBody {})
    }

    /// Renews one key, or several.
    pub fn renew(&mut self, session: &str, request: &wire::Renew) -> Result<wire::RenewReply, ClientError> {
        self.post(&own(session, "files/renew"), request)
    }

    /// Asks which reservations are in the way of the session, or of a caller without one.
    pub fn check(&mut self, session: Option<&str>, request: &wire::Check) -> Result<wire::CheckReply, ClientError> {
        self.post(&check_path(session), request)
    }

    /// Whether anything is held, by the session or by others.
    pub fn held(&mut self, session: Option<&str>) -> Result<wire::Held, ClientError> {
        self.get(&held_path(session))
    }

    /// Announces what the session is about to push: at most [`PUSH_UPDATES_MAX`](wire::limits::PUSH_UPDATES_MAX) updates.
    pub fn announce_push(
        &mut self,
        session: &str,
        request: &wire::AnnouncePush,
    ) -> Result<wire::PushAnnounced, ClientError> {
        self.post(&announce_path(session), request)
    }

    /// Asks who announced a push, and checks what it changes for that session. An announcement is claimed only once, so
    /// a repeated call answers as for a caller without a session.
    pub fn claim_push(&mut self, request: &wire::ClaimPush) -> Result<wire::ClaimReply, ClientError> {
        self.post("/api/pushes/claim", request)
    }

    /// Allocates ports for the session, or renews those it has.
    pub fn allocate_ports(&mut self, session: &str, request: &wire::AllocatePorts) -> Result<wire::Ports, ClientError> {
        self.post(&own(session, "ports"), request)
    }

    /// Lists the ports of the session.
    pub fn ports(&mut self, session: &str) -> Result<wire::Ports, ClientError> {
        self.get(&own(session, "ports"))
    }

    /// Frees the ports of the session.
    pub fn free_ports(&mut self, session: &str) -> Result<wire::Released, ClientError> {
        self.delete(&own(session, "ports"), NO_BODY)
    }

    /// Asks for the first page of the locks that a Git LFS client sees. `path` is that of its verification.
    pub fn verify_locks(&mut self, path: &str) -> Result<wire::lfs::VerifiedLocks, ClientError> {
        self.post(path, &wire::EmptyBody {})
    }

    /// Lists what the session holds.
    pub fn reserved_files(&mut self, session: &str) -> Result<wire::ReservationList, ClientError> {
        self.get(&own(session, "reserved-files"))
    }

    /// Lists the reservations of the repository, from all pages.
    pub fn reservations(&mut self, filter: &ReservationFilter) -> Result<Vec<wire::Reservation>, ClientError> {
        self.pages(&filter.query(PAGE_ITEMS_MAX as usize), "reservations")
    }

    /// Lists the oldest reservations of the repository, at most this many.
    pub fn oldest_reservations(
        &mut self,
        filter: &ReservationFilter,
        limit: usize,
    ) -> Result<wire::ReservationList, ClientError> {
        self.get(&filter.query(limit))
    }

    /// Takes a reservation away from its holder (admin).
    pub fn override_reservation(
        &mut self,
        reservation: &str,
        why: &wire::Override,
    ) -> Result<wire::Released, ClientError> {
        self.delete(&format!("/api/reservations/{}", part(reservation)), Some(why))
    }

    /// Creates a session and its token (admin).
    pub fn create_session(&mut self, request: &wire::CreateSession) -> Result<wire::SessionCreated, ClientError> {
        self.post("/api/sessions", request)
    }

    /// Lists the sessions of the repository, or those in one state, from all pages.
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

    /// Tells that the session is alive, which renews everything it holds.
    pub fn heartbeat(&mut self, session: &str) -> Result<wire::Heartbeat, ClientError> {
        self.post(&own(session, "heartbeat"), &wire::EmptyBody {})
    }

    /// Ends the session, which releases everything it holds.
    pub fn end(&mut self, session: &str, how: &wire::EndSession) -> Result<wire::Ended, ClientError> {
        self.post(&own(session, "end"), how)
    }

    /// Asks a holder to release a key.
    pub fn request_unlock(
        &mut self,
        session: &str,
        request: &wire::UnlockRequest,
    ) -> Result<wire::UnlockRequestInfo, ClientError> {
        self.post(&own(session, "unlock-requests"), request)
    }

    /// Lists the requests to the session and from it.
    pub fn unlock_requests(&mut self, session: &str) -> Result<wire::UnlockRequests, ClientError> {
        self.get(&own(session, "unlock-requests"))
    }

    /// Releases what another session asked for.
    pub fn approve_unlock(
        &mut self,
        session: &str,
        request: &str,
        how: &wire::Approve,
    ) -> Result<wire::UnlockRequestInfo, ClientError> {
        self.post(&own(session, &format!("unlock-requests/{}/approve", part(request))), how)
    }

    /// Keeps what another session asked for.
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

    /// Lists at most `most` events, the latest first.
    pub fn history(&mut self, filter: &HistoryFilter, most: usize) -> Result<wire::HistoryReply, ClientError> {
        let mut query = String::from("/api/history?");
        let since = filter.since.map(|since| since.to_string());
        let percent = filter.percent.then(|| "percent".to_owned());
        let parameters =
            [("path", &filter.key), ("session", &filter.session), ("since", &since), ("encoding", &percent)];
        for (name, value) in parameters {
            if let Some(value) = value {
                query.push_str(&format!("{name}={}&", part(value)));
            }
        }
        let mut all = wire::HistoryReply::default();
        let mut budget = self.list_budget();
        loop {
            let left = u32::try_from(most - all.events.len()).unwrap_or(PAGE_ITEMS_MAX).clamp(1, PAGE_ITEMS_MAX);
            let cursor = all.next_cursor.take().map_or_else(String::new, |cursor| format!("&cursor={}", part(&cursor)));
            let page: wire::HistoryReply = self.get(&format!("{query}limit={left}{cursor}"))?;
            budget.spend(self)?;
            all.events.extend(page.events);
            all.missing.extend(page.missing);
            all.notices.extend(page.notices);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.events.len() >= most {
                return Ok(all);
            }
        }
    }

    /// A code that signs a browser in, with the rights of this client's token.
    pub fn create_login_code(&mut self) -> Result<wire::LoginCode, ClientError> {
        self.post("/api/login/codes", &wire::EmptyBody {})
    }

    /// The server's statistics.
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

/// The path of a check for a session, or for a caller without one.
pub(super) fn check_path(session: Option<&str>) -> String {
    session.map_or_else(|| "/api/check-conflicts".to_owned(), |session| own(session, "files/check-conflicts"))
}

/// The path of the question whether anything is held.
pub(super) fn held_path(session: Option<&str>) -> String {
    let query = session.map_or_else(String::new, |session| format!("?session={}", part(session)));
    format!("/api/held{query}")
}

/// The path of a reserve.
pub(super) fn reserve_path(session: &str) -> String {
    own(session, "files/reserve")
}

/// The path of the announcement of a push.
pub(super) fn announce_path(session: &str) -> String {
    own(session, "pushes")
}

/// The path of a call for a session.
fn own(session: &str, rest: &str) -> String {
    format!("/api/sessions/{}/{rest}", part(session))
}

/// How long the server may keep a request in its queue.
fn waiting(request: &wire::Reserve) -> Duration {
    Duration::from_secs(
        request.wait_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0).min(WAIT_SECONDS_MAX.into()),
    )
}
