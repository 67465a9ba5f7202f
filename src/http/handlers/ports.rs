//! `…/ports`: a block of ports for a session.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::net::TcpSocket;

use crate::engine::{AllocatePorts, Command, Engine, Few, Grant, KeyName, Outcome, ReservationId, SessionId};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json};
use crate::http::ids::new_id;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::{out_of_range, reason, ttl};
use crate::http::submit::{read_state, submit};
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
    let reason = reason(body.purpose.as_ref())?;
    let mut notices = Vec::new();
    let (mut busy, mut checked) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..PROPOSALS_MAX {
        if policy.check && !check_proposal(&caller, &session, count, &mut busy, &mut checked).await? {
            continue;
        }
        let ids = (0..count).map(|_| ReservationId(new_id())).collect();
        let (range, reason, busy_now) = (policy.range(), reason.clone(), busy.clone());
        let ask = AllocatePorts { session: session.clone(), ids, ttl, reason, range, busy: busy_now };
        let reply = submit(&caller.repo, actor.clone(), Command::AllocatePorts(ask)).await?;
        notices.extend(outcome::notices(reply.notices));
        let grants = match reply.outcome {
            Ok(Outcome::Granted(grants)) => grants,
            other => return Err(not_done(other, reply.now).with_notices(notices)),
        };
        // Another session was quicker, and this one got ports that were not checked.
        let is_new = |grant: &&Grant| policy.check && grant.renewals == 0 && !checked.contains(&number(grant));
        let in_use: Vec<&Grant> = grants.iter().filter(is_new).filter(|grant| !is_free(number(grant))).collect();
        if in_use.is_empty() {
            let ports = wire::Ports { notices, ..ports(&session, &grants) };
            return Ok(Json(ports));
        }
        busy.extend(in_use.iter().map(|grant| number(grant)));
        let keys: Few<KeyName> = in_use.into_iter().map(|grant| grant.key.clone().into()).collect();
        submit(&caller.repo, actor.clone(), Command::Release { session: session.clone(), keys }).await?;
    }
    let sentence =
        "too many ports of the range are in use on this machine; try again later, or configure another range";
    Err(ApiError::new(Code::Unavailable, sentence).retry_after(1).with_notices(notices))
}

/// Asks which ports would be allocated, and whether they are free on this machine. If one is not, it is added to `busy`.
async fn check_proposal(
    caller: &Caller,
    session: &SessionId,
    count: usize,
    busy: &mut BTreeSet<u16>,
    checked: &mut BTreeSet<u16>,
) -> ApiResult<bool> {
    let (session, busy_now, range) = (session.clone(), busy.clone(), caller.repo.policy().ports.range());
    let view = move |engine: &Engine, _| engine.propose_ports(&session, count, range, &busy_now);
    let proposed = read_state(&caller.repo.desk, crate::engine::Actor::Reader, view).await?.value;
    let before = busy.len();
    for port in proposed {
        checked.insert(port);
        if !is_free(port) {
            busy.insert(port);
        }
    }
    Ok(busy.len() == before)
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
    let of = session.clone();
    let state = read_state(&caller.repo.desk, actor, move |engine: &Engine, _| engine.port_grants(&of)).await?;
    let notices = outcome::notices(state.notices);
    Ok(Json(wire::Ports { notices, ..ports(&session, &state.value) }))
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
    let of = session.clone();
    let state = read_state(&caller.repo.desk, actor.clone(), move |engine: &Engine, _| engine.port_grants(&of)).await?;
    let mut notices = outcome::notices(state.notices);
    let keys: Few<KeyName> = state.value.into_iter().map(|grant| grant.key.into()).collect();
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

/// The ports of a session, with lines for its environment.
fn ports(session: &SessionId, grants: &[Grant]) -> wire::Ports {
    let ports: Vec<u16> = grants.iter().map(number).collect();
    let mut env = BTreeMap::new();
    for (place, port) in ports.iter().enumerate() {
        let name = PORT_NAMES.get(place).map_or_else(|| format!("PORT_{}", place + 1), |name| (*name).to_owned());
        env.insert(name, port.to_string());
    }
    if let Some(first) = ports.first() {
        env.insert("COMPOSE_PROJECT_NAME".to_owned(), project_name(session, *first));
    }
    let expires_at = grants.iter().map(|grant| grant.expires).min().map(outcome::time);
    wire::Ports { ports, expires_at, env, notices: Vec::new() }
}

/// A name for a compose project that no other session has: only lower-case letters, digits, `-` and `_`.
fn project_name(session: &SessionId, first_port: u16) -> String {
    let word: String = session.as_str().chars().take(40).map(|c| if c == '.' { '-' } else { c }).collect();
    format!("dibs-{}-{first_port}", word.to_ascii_lowercase())
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
        let name = |id: &str| project_name(&SessionId::parse(id).unwrap(), 20_000);
        assert_eq!(name("Ana.B_c-1"), "dibs-ana-b_c-1-20000");
        assert!(name(&"x".repeat(128)).len() < 64);
    }
}
