//! What the test binaries and the benches share.

pub mod dice;
pub mod document;
pub mod http;
pub mod mint;
pub mod world;
