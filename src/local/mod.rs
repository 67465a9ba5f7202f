//! Where am I (repository, server, address), who am I (session, token), what did I type (paths).
//!
//! Nothing in here prints, and nothing in here decides whether a change may go ahead.

pub mod data_dir;
mod discover;
mod environment;
mod names;

pub use discover::{
    Door, Flags, Found, READ_TOKEN_FILE, SERVER_FILE, ServerRecord, Surroundings, TOKEN_FILE, Undiscovered, discover,
};
pub use environment::Environment;
pub use names::{BadName, Cwd, Names, split_paths};
