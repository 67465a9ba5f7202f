//! Where am I (repository, server, address), who am I (session, token), what did I type (paths).
//!
//! Nothing in here prints or knows command line flags' parser; nothing in here decides whether a change may go ahead.

pub mod data_dir;
