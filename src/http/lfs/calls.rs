//! Creating, listing and verifying locks.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::holder::{Holder, renew};
use super::lock_id::LockId;
use super::lock_list::{Cursor, LockList, LockPage, owner_name};
use super::protocol::BasicUser;
use crate::engine::{
    Actor, Command, Conflict, Engine, Grant, Mode, Outcome, Refusal, ReservationId, Reserve, Seq, SessionId,
    SessionName, Ttl, Want,
};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::{Json, QueryParams};
use crate::http::ids::new_id;
use crate::http::outcome::{not_done, session_label, time};
use crate::http::request_fields::key;
use crate::http::submit::{read_state, submit_and_wait};
use crate::key::{Key, Kind};
use crate::wire::BadBody;
use crate::wire::lfs::{
    CreateLock, LfsError, Lock, LockList as LockListReply, LockOwner, LockReply, VerifiedLocks, VerifyLocks,
};

/// The most locks on one page. Clients name no limit, and read page after page: one page is one round trip.
const PAGE_LOCKS_MAX: usize = 10_000;

/// How often a lock is requested again because the one in its way was released before the reply could name it.
const CREATE_ROUNDS: usize = 3;

/// The ids of locks that cannot be named any more, or not yet. They are no ids of reservations, so no call finds them.
const WAITING_ID: &str = "waiting";
const ENDED_ID: &str = "ended";

/// `POST …/locks`. Locking again what the session holds renews it, and is refused, as the protocol says.
pub async fn create(caller: Caller, user: BasicUser, Json(body): Json<CreateLock>) -> ApiResult<Response> {
    let holder = Holder::of(&caller, &user)?;
    if body.path.contains(char::REPLACEMENT_CHARACTER) {
        let why = "is the name of a file that is not UTF-8, which Git LFS cannot send; lock it with git dibs reserve";
        return Err(BadBody::field("path", why).into());
    }
    let key = literal(&caller, &body.path)?;
    let ttl = {
        let policy = caller.repo.policy();
        policy.permit(&key, Mode::Exclusive)?;
        Ttl::Plain(policy.lfs.ttl_seconds)
    };
    holder.open(&caller).await?;
    let mut round = 1;
    loop {
        let id = ReservationId(new_id());
        let ask = Reserve {
            session: holder.session.clone(),
            wants: [Want { id, key: key.clone(), ttl }].into(),
            mode: Mode::Exclusive,
            reason: None,
            wait: None,
            if_version: None,
        };
        let (actor, session) = (holder.actor.clone(), holder.session.clone());
        let reply = submit_and_wait(&caller.repo, actor, session, Command::Reserve(ask)).await?;
        let blocker = match reply.outcome {
            Ok(Outcome::Granted(grants)) => {
                let grant = grants.first().expect("one key, one grant");
                return Ok(granted(&caller, &holder, grant, grant.id == id));
            }
            Err(Refusal::Locked(conflicts)) => conflicts.into_iter().next().expect("a refusal names a conflict"),
            other => return Err(not_done(other, reply.now)),
        };
        match blocking_lock(&caller, &blocker, &key).await? {
            Some(lock) => return Ok(conflict(&locked_by(&blocker, &key), lock)),
            None if round < CREATE_ROUNDS => round += 1,
            None => return Ok(conflict(&locked_by(&blocker, &key), conflict_lock(&blocker, &key, ENDED_ID))),
        }
    }
}

/// `GET …/locks`: all locks, or those with this path or this id.
pub async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    user: BasicUser,
    query: QueryParams,
) -> ApiResult<Response> {
    let session = renew(&caller, &user).await?;
    let (path, id) = (query.one("path").filter(|path| !path.is_empty()), query.one("id").filter(|id| !id.is_empty()));
    if path.is_some() || id.is_some() {
        let by_path = match path {
            Some(path) => find_by_path(&app, &caller, session.as_ref(), path).await?,
            None => None,
        };
        let lock = match (id, by_path) {
            (None, found) => found,
            (Some(id), Some(found)) => Some(found).filter(|found| found.id == id),
            (Some(_), None) if path.is_some() => None,
            (Some(id), None) => find_by_id(&app, &caller, id).await?,
        };
        return Ok(
            Json(LockListReply { locks: lock.into_iter().collect(), ..LockListReply::default() }).into_response()
        );
    }
    let limit =
        query.one("limit").map(|text| text.parse().map_err(|_| BadBody::field("limit", "must be a whole number")));
    let locks = app.lock_lists.current(&caller.repo).await?;
    let page = page(&locks, session.as_ref(), query.one("cursor"), limit.transpose()?)?;
    let next_cursor = page.next.map(|next| next.to_string());
    let found = page.locks.into_iter().map(|(_, lock)| lock).collect();
    Ok(Json(LockListReply { locks: found, next_cursor, unlisted: locks.unlisted() }).into_response())
}

/// `POST …/locks/verify`: what a client asks before every push.
pub async fn verify(
    State(app): State<Arc<App>>,
    caller: Caller,
    user: BasicUser,
    Json(body): Json<VerifyLocks>,
) -> ApiResult<Response> {
    let session = renew(&caller, &user).await?;
    let locks = app.lock_lists.current(&caller.repo).await?;
    let page = page(&locks, session.as_ref(), body.cursor.as_deref(), body.limit)?;
    let next_cursor = page.next.map(|next| next.to_string());
    let mut reply = VerifiedLocks { next_cursor, unlisted: locks.unlisted(), ..VerifiedLocks::default() };
    for (is_own, lock) in page.locks {
        if is_own { &mut reply.ours } else { &mut reply.theirs }.push(lock);
    }
    Ok(Json(reply).into_response())
}

/// A path of a request, which is never a pattern.
fn literal(caller: &Caller, path: &str) -> ApiResult<Key> {
    key(&caller.repo, &format!("file:{path}"), false)
}

fn granted(caller: &Caller, holder: &Holder, grant: &Grant, is_new: bool) -> Response {
    let owner = SessionName { session: holder.session.clone(), name: caller.claims.name.clone() };
    let lock = lock(&owner, grant);
    match is_new {
        true => (StatusCode::CREATED, Json(LockReply { lock })).into_response(),
        // Clients look for these words.
        false => {
            conflict(&format!("lock already created: you hold \"{}\" until {}", lock.path, time(grant.expires)), lock)
        }
    }
}

fn conflict(message: &str, lock: Lock) -> Response {
    let error = LfsError { message: message.to_owned(), request_id: None, lock: Some(lock) };
    (StatusCode::CONFLICT, Json(error)).into_response()
}

fn locked_by(blocker: &Conflict, key: &Key) -> String {
    // The path as git names it: `shown` marks one that looks like a pattern, and Rust's quotes escape accents and scripts.
    let path = String::from_utf8_lossy(key.spelling());
    let (who, until) = (session_label(&blocker.who), time(blocker.until));
    let through = match blocker.key == *key {
        true => String::new(),
        false => format!(" through \"{}\"", blocker.key.shown()),
    };
    match blocker.waiting {
        true => format!("{who} is ahead in the queue for \"{path}\"{through}"),
        false => format!("\"{path}\" is locked by {who}{through} until {until}"),
    }
}

/// The lock that is in the way; none if it has been released since.
async fn blocking_lock(caller: &Caller, blocker: &Conflict, key: &Key) -> ApiResult<Option<Lock>> {
    if blocker.waiting {
        return Ok(Some(conflict_lock(blocker, key, WAITING_ID)));
    }
    let (held, who) = (blocker.key.clone(), blocker.who.session.clone());
    let read = move |engine: &Engine, _| engine.holders(&held).find(|(session, _)| session.session == who);
    let found = read_state(&caller.repo.desk, Actor::Reader, read).await?.value;
    Ok(found.map(|(owner, grant)| match grant.key.kind() {
        Kind::Path => lock(&owner, &grant),
        _ => {
            let path = String::from_utf8_lossy(key.spelling());
            conflict_lock(blocker, key, &LockId::of_file(grant.id, grant.fence, &path).to_string())
        }
    }))
}

fn conflict_lock(blocker: &Conflict, key: &Key, id: &str) -> Lock {
    let path = String::from_utf8_lossy(key.spelling()).into();
    Lock {
        id: id.to_owned(),
        path,
        locked_at: time(blocker.since),
        owner: LockOwner { name: owner_name(&blocker.who) },
    }
}

/// The lock of a path that is reserved by name.
pub fn lock(owner: &SessionName, grant: &Grant) -> Lock {
    let path = String::from_utf8_lossy(grant.key.spelling()).into();
    let owner = LockOwner { name: owner_name(owner) };
    Lock { id: LockId::of(grant).to_string(), path, locked_at: time(grant.since), owner }
}

fn page(
    locks: &LockList,
    session: Option<&SessionId>,
    cursor: Option<&str>,
    limit: Option<i64>,
) -> ApiResult<LockPage> {
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let bad = || BadBody::field("cursor", "is not one that an earlier page returned");
    let after = cursor.filter(|cursor| !cursor.is_empty()).map(|cursor| Cursor::parse(cursor).ok_or_else(bad));
    Ok(locks.page(session, after.transpose()?.as_ref(), limit.unwrap_or(PAGE_LOCKS_MAX).min(PAGE_LOCKS_MAX)))
}

/// The lock with this path: of the caller, if several sessions share it. A path that cannot be reserved has none.
async fn find_by_path(app: &App, caller: &Caller, session: Option<&SessionId>, path: &str) -> ApiResult<Option<Lock>> {
    let Ok(key) = literal(caller, path) else { return Ok(None) };
    let (wanted, own) = (key.clone(), session.cloned());
    let read = move |engine: &Engine, _| {
        let is_own = |(holder, _): &(SessionName, Grant)| Some(&holder.session) == own.as_ref();
        engine.holders(&wanted).find(is_own).or_else(|| engine.holders(&wanted).next())
    };
    if let Some((owner, grant)) = read_state(&caller.repo.desk, Actor::Reader, read).await?.value {
        return Ok(Some(lock(&owner, &grant)));
    }
    let locks = app.lock_lists.current(&caller.repo).await?;
    Ok(locks.of_file(session, &String::from_utf8_lossy(key.spelling())))
}

async fn find_by_id(app: &App, caller: &Caller, id: &str) -> ApiResult<Option<Lock>> {
    let Some(id) = LockId::parse(id) else { return Ok(None) };
    if id.file.is_some() {
        return Ok(app.lock_lists.current(&caller.repo).await?.by_id(id));
    }
    let found = reservation(caller, Actor::Reader, id).await?;
    Ok(found.filter(|(_, grant)| grant.key.kind() == Kind::Path).map(|(owner, grant)| lock(&owner, &grant)))
}

/// The reservation of a lock in this repository, if it is still held.
pub async fn reservation(caller: &Caller, actor: Actor, id: LockId) -> ApiResult<Option<(SessionName, Grant)>> {
    let before = Seq(id.fence.0.saturating_sub(1));
    let read = move |engine: &Engine, _| engine.scan_reservations(before, None, 1, |_| true).found;
    let found = read_state(&caller.repo.desk, actor, read).await?.value;
    Ok(found.into_iter().find(|(_, grant)| grant.fence == id.fence && grant.id == id.reservation))
}
