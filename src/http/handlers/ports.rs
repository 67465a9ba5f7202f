//! `…/ports`: a block of ports for a session.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tokio::net::TcpSocket;

use crate::engine::{
    Actor, AllocatePorts, Command, Engine, Few, Grant, KeyName, Outcome, PortGrant, ReservationId, SessionId, Text, Ttl,
};
use crate::http::app::Repository;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json};
use crate::http::ids::new_id;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::{out_of_range, reason_field, ttl};
use crate::http::submit::{ReadReply, read_state, submit};
use crate::wire::limits::PORTS_MAX;
use crate::wire::{self, Code};

/// How often another block is proposed because the last one is in use on this machine.
const PROPOSALS_MAX: usize = 256;

/// What the ports of a block are for, in order. Further ports are called `PORT_5` and so on.
const PORT_NAMES: [&str; 4] = ["DB_PORT", "REST_PORT", "REALTIME_PORT", "API_PORT"];

/// Allocate ports for a session.
///
/// No other session of this server has them. A session that asks again gets the same ports, for another full TTL; if it asks
/// for more than it has, it gets further ones.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/ports",
    operation_id = "allocatePorts",
    tag = "Ports",
    params(params::SessionAt),
    request_body = Option<wire::AllocatePorts>,
    responses((status = 200, description = "The ports of the session.", body = wire::Ports), refusals::AllocatePorts),
)]
pub async fn allocate(
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::AllocatePorts>,
) -> ApiResult<Json<wire::Ports>> {
    let (actor, session) = caller.act_for(&id)?;
    let (policy, bounds) = (caller.repo.policy().ports, caller.repo.policy().name_ttl);
    let count = count(body.count, policy.block)?;
    let ttl = ttl(body.ttl_seconds, bounds)?;
    let reason = reason_field("purpose", body.purpose.as_ref())?;
    let request = PortRequest { repo: caller.repo.clone(), actor, session, count, ttl, reason };
    // On a task of its own: if the client disconnects, the turn lasts until the ports are allocated all the same.
    let allocation = tokio::spawn(request.allocate());
    let reply = allocation.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    Ok(Json(reply))
}

struct PortRequest {
    repo: Arc<Repository>,
    actor: Actor,
    session: SessionId,
    count: usize,
    ttl: Ttl,
    reason: Option<Text>,
}

impl PortRequest {
    async fn allocate(self) -> ApiResult<wire::Ports> {
        let PortRequest { repo, actor, session, .. } = &self;
        let policy = repo.policy().ports;
        let turn = repo.port_pool.turn(&repo.name).await?;
        let mut notices = Vec::new();
        let (mut busy, mut checked) = (turn.taken.clone(), BTreeSet::new());
        for _ in 0..PROPOSALS_MAX {
            if policy.check && !self.check_proposal(&mut busy, &mut checked).await? {
                continue;
            }
            let ids = (0..self.count).map(|_| ReservationId(new_id())).collect();
            let (session, reason) = (session.clone(), self.reason.clone());
            let ask = AllocatePorts { session, ids, ttl: self.ttl, reason, range: policy.range(), busy: busy.clone() };
            let reply = submit(repo, actor.clone(), Command::AllocatePorts(ask)).await?;
            notices.extend(outcome::notices(reply.notices));
            let grants = match reply.outcome {
                Ok(Outcome::Granted(grants)) => grants,
                other => return Err(not_done(other, reply.now).with_notices(notices)),
            };
            // Another session was quicker, and this one got ports that were not checked.
            let is_new = |grant: &&Grant| policy.check && grant.renewals == 0 && !checked.contains(&number(grant));
            let in_use: Vec<&Grant> = grants.iter().filter(is_new).filter(|grant| !is_free(number(grant))).collect();
            if in_use.is_empty() {
                let state = read_ports(repo, Actor::Reader, &self.session).await?;
                return Ok(wire::Ports { notices, ..ports(&self.session, policy.seed, &state.value) });
            }
            busy.extend(in_use.iter().map(|grant| number(grant)));
            let keys: Few<KeyName> = in_use.into_iter().map(|grant| grant.key.clone().into()).collect();
            let release = Command::Release { session: self.session.clone(), keys };
            submit(repo, actor.clone(), release).await?;
        }
        let sentence =
            "too many ports of the range are in use on this machine; try again later, or configure another range";
        Err(ApiError::new(Code::Unavailable, sentence).retry_after(1).with_notices(notices))
    }

    /// Asks which ports would be allocated, and whether they are free on this machine. If one is not, it is added to
    /// `busy`.
    async fn check_proposal(&self, busy: &mut BTreeSet<u16>, checked: &mut BTreeSet<u16>) -> ApiResult<bool> {
        let (session, count, busy_now) = (self.session.clone(), self.count, busy.clone());
        let range = self.repo.policy().ports.range();
        let view = move |engine: &Engine, _| engine.propose_ports(&session, count, range, &busy_now);
        let proposed = read_state(&self.repo.desk, Actor::Reader, view).await?.value;
        let before = busy.len();
        for port in proposed {
            checked.insert(port);
            if !is_free(port) {
                busy.insert(port);
            }
        }
        Ok(busy.len() == before)
    }
}

/// List the ports of a session.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/ports",
    operation_id = "listPorts",
    tag = "Ports",
    params(params::SessionAt),
    responses((status = 200, description = "The ports of the session, which may be none.", body = wire::Ports), refusals::LookAtOne),
)]
pub async fn list(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::Ports>> {
    let (actor, session) = caller.look_for(&id)?;
    let state = read_ports(&caller.repo, actor, &session).await?;
    let notices = outcome::notices(state.notices);
    Ok(Json(wire::Ports { notices, ..ports(&session, caller.repo.policy().ports.seed, &state.value) }))
}

/// Free the ports of a session.
#[utoipa::path(
    delete,
    path = "/api/sessions/{id}/ports",
    operation_id = "freePorts",
    tag = "Ports",
    params(params::SessionAt),
    responses((status = 200, description = "The session has no ports any more.", body = wire::Released), refusals::FreePorts),
)]
pub async fn free(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::Released>> {
    let (actor, session) = caller.act_for(&id)?;
    let state = read_ports(&caller.repo, actor.clone(), &session).await?;
    let mut notices = outcome::notices(state.notices);
    let keys: Few<KeyName> = state.value.into_iter().map(|port| port.grant.key.into()).collect();
    let reply = submit(&caller.repo, actor, Command::Release { session, keys }).await?;
    notices.extend(outcome::notices(reply.notices));
    match reply.outcome {
        Ok(Outcome::Released { keys, .. } | Outcome::ReleasedLate { released: keys, .. }) => {
            let released_count = keys.len() as u64;
            Ok(Json(wire::Released {
                ok: true,
                released: released_count > 0,
                released_count,
                code: None,
                expired: Vec::new(),
                notices,
            }))
        }
        other => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

fn count(asked: Option<i64>, block: u16) -> ApiResult<usize> {
    match u16::try_from(asked.unwrap_or(block.into())) {
        Ok(count) if (1..=PORTS_MAX).contains(&count) => Ok(count.into()),
        _ => {
            let sentence = format!("count is {}; it must be 1 to {PORTS_MAX}", asked.unwrap_or_default());
            Err(out_of_range(Code::InvalidRequest, "count", sentence, 1, PORTS_MAX.into()))
        }
    }
}

async fn read_ports(repo: &Repository, actor: Actor, session: &SessionId) -> ApiResult<ReadReply<Vec<PortGrant>>> {
    let session = session.clone();
    read_state(&repo.desk, actor, move |engine: &Engine, _| engine.port_grants(&session)).await
}

/// The ports of a session, with lines for its environment.
fn ports(session: &SessionId, seed: u64, held: &[PortGrant]) -> wire::Ports {
    let mut env = BTreeMap::new();
    for PortGrant { port, rank, .. } in held {
        let name = PORT_NAMES.get(usize::from(*rank)).map_or_else(|| format!("PORT_{}", rank + 1), ToString::to_string);
        env.insert(name, port.to_string());
    }
    if !held.is_empty() {
        env.insert("COMPOSE_PROJECT_NAME".to_owned(), project_name(session, seed));
    }
    let first = held.iter().map(|port| &port.grant).min_by_key(|grant| grant.expires);
    wire::Ports {
        ports: held.iter().map(|held| held.port).collect(),
        expires_at: first.map(|grant| outcome::time(grant.expires)),
        ttl_seconds: first.map(|grant| grant.ttl.seconds().into()),
        version: held.iter().map(|held| held.grant.version).sum(),
        env,
        notices: Vec::new(),
    }
}

/// A name for a compose project that no other session has: only lower-case letters, digits, `-` and `_`. It stays the
/// same whatever ports the session has. The number distinguishes ids that differ only after 40 characters or in case,
/// and sessions of other repositories.
fn project_name(session: &SessionId, seed: u64) -> String {
    let word: String = session.as_str().chars().take(40).map(|c| if c == '.' { '-' } else { c }).collect();
    let number =
        session.as_str().bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("dibs-{}-{:08x}", word.to_ascii_lowercase(), (number >> 32) as u32)
}

fn number(grant: &Grant) -> u16 {
    let shown = grant.key.shown();
    shown.rsplit(':').next().and_then(|number| number.parse().ok()).expect("a port has a number")
}

/// Whether a server on this machine could use the port. Nothing listens on it while that is found out.
fn is_free(port: u16) -> bool {
    let can_bind = |address: IpAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let Ok(socket) = socket else { return true };
        // Connections that have just been closed do not block a port.
        let _ = socket.set_reuseaddr(true);
        let is_in_use = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        !socket.bind((address, port).into()).is_err_and(is_in_use)
    };
    can_bind(Ipv4Addr::UNSPECIFIED.into()) && can_bind(Ipv6Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_with_a_listener_is_not_free() {
        for address in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listener = std::net::TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(!is_free(port), "{address}");
            drop(listener);
            assert!(is_free(port), "{address}");
        }
    }

    #[test]
    fn a_project_name_is_one_that_compose_accepts() {
        let name = |id: &str| project_name(&SessionId::parse(id).unwrap(), 7);
        assert!(name("Ana.B_c-1").starts_with("dibs-ana-b_c-1-"));
        assert!(name(&"x".repeat(128)).len() < 64);
        assert_ne!(name("a.b"), name("a-b"));
        assert_ne!(name(&"x".repeat(128)), name(&"x".repeat(127)));
        let ana = SessionId::parse("ana").unwrap();
        assert_ne!(project_name(&ana, 7), project_name(&ana, 8), "of another repository");
    }
}
