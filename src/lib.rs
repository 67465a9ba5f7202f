//! git-dibs.
pub mod desk;
pub mod engine;
pub mod journal;
pub mod key;
pub mod token;
pub mod wire;
