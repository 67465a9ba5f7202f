//! Logins of browsers that have ended, shared by all nodes.
//!
//! Each is a key, bound to a lease that ends when the login would have expired. One more key changes with each of them, so
//! that a node that looks again and again reads only that one. A watch makes it look at once.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Shared;
use super::member::{find_all, wall_ms};
use super::names::Names;
use crate::boot_clock;
use crate::etcd::messages::{RangeRequest, TxnRequest};
use crate::etcd::{Etcd, EtcdError, after_prefix, delete, put, put_leased};

/// The most that are kept. Beyond it, the login that expires first is forgotten.
const ENDED_MAX: i64 = 10_000;

/// The most of which etcd does not know yet.
const UNKNOWN_MAX: usize = 10_000;

/// How long an unclear call is repeated. A browser waits for it.
const TIME_MAX: Duration = Duration::from_secs(4);

/// Makes a login that has ended known to all nodes. `expires` is in seconds since 1970. If etcd does not answer, that is done as
/// soon as it does.
pub(super) fn end(shared: &Shared, id: &str, expires: i64) -> Result<(), EtcdError> {
    let result = write(&shared.etcd, &shared.names, id, expires);
    let mut unknown = shared.unknown_logins.lock().unwrap_or_else(PoisonError::into_inner);
    if result.is_ok() {
        unknown.remove(id);
    } else if unknown.len() < UNKNOWN_MAX {
        unknown.insert(id.to_owned(), expires);
    }
    result
}

/// Ends again what etcd may not know.
fn end_unknown(shared: &Shared) {
    let unknown = shared.unknown_logins.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (id, expires) in unknown {
        if expires <= wall_ms() / 1000 {
            shared.unknown_logins.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        } else if end(shared, &id, expires).is_err() {
            return;
        }
    }
}

/// Waits until a login that has ended is known to etcd.
fn write(etcd: &Etcd, names: &Names, id: &str, expires: i64) -> Result<(), EtcdError> {
    let left = Duration::from_secs(expires.saturating_sub(wall_ms() / 1000).max(1).unsigned_abs());
    let start = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        match try_to_write(etcd, names, id, expires, left) {
            Err(error) if error.is_unclear() && start.elapsed() < TIME_MAX => {
                std::thread::sleep(pause);
                pause *= 2;
            }
            result => return result,
        }
    }
}

/// May be carried out twice.
fn try_to_write(etcd: &Etcd, names: &Names, id: &str, expires: i64, left: Duration) -> Result<(), EtcdError> {
    let all = names.ended_logins();
    let count = RangeRequest {
        key: all.clone().into(),
        range_end: after_prefix(all.as_bytes()),
        count_only: true,
        ..RangeRequest::default()
    };
    let mut success = Vec::new();
    if etcd.range(count)?.count >= ENDED_MAX {
        let first = read(etcd, names)?.into_iter().min_by_key(|(_, expires)| *expires);
        success
            .extend(first.filter(|(first, _)| first != id).map(|(first, _)| delete(&names.ended_login(&first), b"")));
    }
    let (lease, _) = etcd.grant_lease(left)?;
    success.push(put_leased(&names.ended_login(id), expires.to_string().as_bytes(), lease));
    success.push(put(&names.logins_changed(), id.as_bytes()));
    etcd.txn(TxnRequest { success, ..TxnRequest::default() }).map(drop)
}

/// The ids of the logins that have ended, and when they would have expired.
fn read(etcd: &Etcd, names: &Names) -> Result<Vec<(String, i64)>, EtcdError> {
    let all = names.ended_logins();
    let login = |key: &[u8], value: &[u8]| {
        let expires = std::str::from_utf8(value).ok()?.parse().ok()?;
        Some((names.repository_in(&all, key)?, expires))
    };
    Ok(find_all(etcd, &all)?.iter().filter_map(|found| login(&found.key, &found.value)).collect())
}

/// The thread that tells this node which logins have ended: `on` gets all of them, whenever there may be more than before.
pub(super) fn follow(shared: &Shared, on: &dyn Fn(Vec<(String, i64)>)) {
    let on_change = shared.logins.clone();
    let _watching = shared.etcd.watch(&shared.names.logins(), move || on_change.ring());
    let (mut heard, mut seen) = (0, None);
    while !shared.stopping.load(Ordering::SeqCst) {
        let known_until = boot_clock::now_ms() + i64::try_from(shared.lease_time.as_millis()).unwrap_or(i64::MAX);
        let pause = match look(shared, &mut seen) {
            Ok(ended) => {
                ended.into_iter().for_each(on);
                shared.view.set_logins_known_until(known_until);
                end_unknown(shared);
                shared.lease_time / 4
            }
            // Why is said by the thread of the lease.
            Err(_) => Duration::from_millis(200),
        };
        shared.logins.wait(&mut heard, pause);
    }
}

/// What has ended, if there may be more than at the last look. `seen` is when the key that says so was changed.
fn look(shared: &Shared, seen: &mut Option<i64>) -> Result<Option<Vec<(String, i64)>>, EtcdError> {
    let request = RangeRequest { key: shared.names.logins_changed().into(), ..RangeRequest::default() };
    let changed = shared.etcd.range(request)?.kvs.first().map_or(0, |found| found.mod_revision);
    if *seen == Some(changed) {
        return Ok(None);
    }
    let ended = read(&shared.etcd, &shared.names)?;
    *seen = Some(changed);
    Ok(Some(ended))
}
