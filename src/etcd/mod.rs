//! A client of etcd: ranges, transactions, leases, watches. It knows nothing of records or nodes.
//!
//! Calls block, because their callers are plain threads; the connections live on a small runtime of the client's own, so
//! never call from a task of another runtime. A client stays with one endpoint until that fails, then takes the next one.
//! Start at [`Etcd::new`]; where etcd is and how to sign in is in [`EtcdAddress`] and [`EtcdOptions`], errors are in
//! [`EtcdError`], the messages in [`messages`].

mod address;
mod client;
mod error;
pub mod messages;
mod request;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub use address::{EtcdAddress, EtcdOptions, EtcdTls};
pub use client::{Etcd, MemberStatus, Watching};
pub use error::EtcdError;
pub use request::{after_prefix, create_is, delete, get, is_absent, mod_is, put, put_leased, range, value_is};
pub use store::KeyValueStore;
