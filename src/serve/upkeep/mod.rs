//! Works on a server's files directly: the journal (`git dibs db`) and the ledger (`git dibs ledger`; `log` and `who`
//! when no server answers). No server needs to run.

pub mod data;
pub mod journal;
pub mod ledger;
