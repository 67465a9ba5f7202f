//! `GET /api/waits`: who waits for whom.

use std::collections::{BTreeMap, HashSet};

use crate::engine::{BlockedWait, Engine, Timestamp};
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::Json;
use crate::http::openapi::refusals;
use crate::http::outcome::{self, time};
use crate::http::submit::read_state;
use crate::wire::{self, BlockerKind, Text};

/// The waits that the reply lists, and those that are read at once.
const WAITS_MAX: usize = 1_000;
const READ_AT_ONCE: usize = 50;

/// The sessions that the reply lists as root blockers.
const ROOTS_MAX: usize = 100;

/// List the requests in the queue, with what blocks each of them.
#[utoipa::path(
    get,
    path = "/api/waits",
    operation_id = "listWaits",
    tag = "Monitoring and administration",
    responses((status = 200, description = "In the order of the queue.", body = wire::Waits), refusals::Look),
)]
pub async fn waits(caller: Caller) -> ApiResult<Json<wire::Waits>> {
    let (mut waits, mut notices): (Vec<BlockedWait>, _) = (Vec::new(), Vec::new());
    let total = loop {
        let after = waits.last().map(|wait| wait.waiter);
        let view =
            move |engine: &Engine, _: Timestamp| (engine.blocked_waits(after, READ_AT_ONCE), engine.numbers().waiters);
        let reply = read_state(&caller.repo.desk, caller.look(), view).await?;
        notices.extend(reply.notices);
        let (part, total) = reply.value;
        let is_last = part.len() < READ_AT_ONCE;
        waits.extend(part);
        if is_last || waits.len() >= WAITS_MAX {
            break total;
        }
    };
    let more_waits = total.saturating_sub(waits.len()) as u64;
    let roots = roots(&waits);
    let waits = waits.into_iter().map(wait).collect();
    Ok(Json(wire::Waits { waits, roots, more_waits, notices: outcome::notices(notices) }))
}

fn wait(wait: BlockedWait) -> wire::Wait {
    let blocked_by = wait.blockers.into_iter().map(|blocker| wire::WaitBlocker {
        session_id: blocker.who.session.as_str().into(),
        session_name: blocker.who.name,
        key: blocker.key.shown(),
        kind: if blocker.waits { BlockerKind::Waiter } else { BlockerKind::Holder },
    });
    wire::Wait {
        waiter: wait.waiter.0,
        session_id: wait.who.session.as_str().into(),
        session_name: wait.who.name,
        keys: wait.keys.iter().map(|(key, _)| key.shown()).collect(),
        reservation_ids: wait.keys.iter().map(|(_, id)| id.to_string()).collect(),
        since: time(wait.since),
        gives_up_at: time(wait.until),
        blocked_by: blocked_by.collect(),
    }
}

/// The sessions that block others and wait for none, the one with the longest wait behind it first.
fn roots(waits: &[BlockedWait]) -> Vec<wire::RootBlocker> {
    let waiting: HashSet<&str> = waits.iter().map(|wait| wait.who.session.as_str()).collect();
    let mut behind: BTreeMap<&str, Vec<&BlockedWait>> = BTreeMap::new();
    let mut names: BTreeMap<&str, Option<Text>> = BTreeMap::new();
    for wait in waits {
        for blocker in &wait.blockers {
            let id = blocker.who.session.as_str();
            behind.entry(id).or_default().push(wait);
            names.insert(id, blocker.who.name.clone());
        }
    }
    let root = |id: &&str| {
        let (mut found, mut next, mut since) = (HashSet::new(), vec![*id], Timestamp(i64::MAX));
        while let Some(session) = next.pop() {
            for wait in behind.get(session).into_iter().flatten() {
                since = since.min(wait.since);
                let waiter = wait.who.session.as_str();
                if found.insert(waiter) {
                    next.push(waiter);
                }
            }
        }
        let (session_id, session_name) = (Text::from(*id), names[id].clone());
        let (blocks, longest_wait_since) = (found.len() as u64, time(since));
        wire::RootBlocker { session_id, session_name, blocks, longest_wait_since }
    };
    let mut roots: Vec<_> = behind.keys().filter(|id| !waiting.contains(**id)).take(ROOTS_MAX).map(root).collect();
    roots.sort_by_key(|root| (root.longest_wait_since, std::cmp::Reverse(root.blocks)));
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ReservationId, SessionId, SessionName, WaitBlocker, WaiterId};
    use crate::key::Key;

    fn name(id: &str) -> SessionName {
        SessionName { session: SessionId::parse(id).unwrap(), name: None }
    }

    fn blocked(session: &str, since: i64, by: &[(&str, bool)]) -> BlockedWait {
        let key = || Key::recall("a", false).unwrap();
        let blockers = by.iter().map(|(id, waits)| WaitBlocker { who: name(id), key: key(), waits: *waits }).collect();
        let (since, until) = (Timestamp(since), Timestamp(since + 9));
        let keys = vec![(key(), ReservationId(uuid::Uuid::nil()))];
        BlockedWait { waiter: WaiterId::FIRST, who: name(session), keys, since, until, blockers }
    }

    #[test]
    fn roots_are_the_sessions_that_wait_for_none() {
        let waits = [
            blocked("cy", 5, &[("dee", false)]),
            blocked("eli", 3, &[("cy", true), ("dee", false)]),
            blocked("bo", 1, &[("ana", false)]),
        ];
        let found: Vec<_> =
            roots(&waits).iter().map(|r| (r.session_id.to_string(), r.blocks, r.longest_wait_since.0)).collect();
        assert_eq!(found, [("ana".to_owned(), 1, 1), ("dee".to_owned(), 2, 3)]);
    }
}
