//! Git LFS locking over the same desk, under `/lfs`: an LFS lock is an exclusive reservation of one path, and what sessions
//! hold through the API appears to LFS clients as locks. Directories and patterns appear as the tracked files they cover.
//!
//! The protocol has shapes, errors and traps of its own; `protocol` has what is true of every reply. It is not in the
//! published document, which describes our own API; `docs/lfs.md` describes it. Start at `calls`.

mod calls;
mod files;
mod holder;
mod list_cache;
mod lock_id;
mod lock_list;
mod objects;
mod policy;
pub mod protocol;
mod unlock;

use std::sync::Arc;

use axum::Router;
use axum::routing::{any, get, post};

use super::app::App;

pub use files::TrackedFiles;
pub use list_cache::LockLists;
pub use policy::{LfsForce, LfsPolicy};

/// Where a server with one repository serves the protocol, and where every server does for each of its repositories.
const BASES: [&str; 2] = ["/lfs", "/lfs/{repo}"];

/// What follows a base.
const LOCKS: &str = "/locks";
const VERIFY: &str = "/locks/verify";
const UNLOCK: &str = "/locks/{id}/unlock";
const OBJECTS: &str = "/objects/{*call}";

pub fn routes() -> Router<Arc<App>> {
    BASES.iter().fold(Router::new(), |router, base| {
        router
            .route(&format!("{base}{LOCKS}"), get(calls::list).post(calls::create))
            .route(&format!("{base}{VERIFY}"), post(calls::verify))
            .route(&format!("{base}{UNLOCK}"), post(unlock::unlock))
            .route(&format!("{base}{OBJECTS}"), any(objects::forward))
    })
}

/// The paths of these routes, for the counters of requests.
pub fn paths() -> Vec<String> {
    let of_base = |base: &&str| [LOCKS, VERIFY, UNLOCK, OBJECTS].map(|rest| format!("{base}{rest}"));
    BASES.iter().flat_map(of_base).collect()
}

/// The repository that the path of a request names, as the client wrote it. `route` is the route that was found for it.
pub fn repository_in_path<'a>(route: &str, path: &'a str) -> Option<&'a str> {
    route.strip_prefix(BASES[1])?;
    path.strip_prefix("/lfs/")?.split('/').next()
}
