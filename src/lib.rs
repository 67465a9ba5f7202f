//! git-dibs.
pub mod client;
pub mod desk;
pub mod engine;
pub mod http;
pub mod journal;
pub mod key;
pub mod token;
pub mod wire;
