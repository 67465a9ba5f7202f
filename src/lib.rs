//! git-dibs.
pub mod client;
pub mod engine;
pub mod journal;
pub mod key;
pub mod token;
pub mod wire;
