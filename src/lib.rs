//! git-dibs.
pub mod engine;
pub mod git;
pub mod hook;
pub mod journal;
pub mod key;
