//! Works on a server's files directly: the journal (`git dibs db`) and the ledger (`git dibs ledger`; `log` and `who`
//! when no server answers). No server needs to run.

pub mod cluster;
pub mod data;
pub mod journal;
pub mod ledger;

/// The wall clock, for records that are written while no desk runs.
fn unix_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
