//! Where am I (repository, server, address), who am I (session, token), what did I type (paths).
//!
//! | question | file |
//! |---|---|
//! | which repository, which settings | [`workspace`](Workspace) |
//! | which server | `server.rs` |
//! | which token, which session | `identity.rs` |
//! | may this token be sent to this server | `destination.rs` |
//! | which session, if the environment lost its token | [`session_file`] |
//! | the session file of an agent's session, its process, what its hooks could not read | [`agent_file`], [`agent_process`], [`agent_trouble`] |
//! | server, token and session in one call | [`discover()`] |
//! | an admin's token, for the owner of a local server | [`admin`] |
//! | no server runs: start one, or know that nothing is held | [`autostart`], [`nothing_held`] |
//! | what a typed path or key means | `names.rs` |
//! | which session the worktree is bound to, what a session should know | [`worktree`], [`notices`] |
//!
//! Nothing in here prints or parses flags, and nothing in here decides whether a change may go ahead.

pub mod admin;
pub mod agent_file;
pub mod agent_process;
pub mod agent_trouble;
pub mod autostart;
pub mod clock;
pub mod data_dir;
pub mod describe;
mod destination;
mod discover;
mod environment;
pub mod heartbeat;
mod identity;
mod last_server;
pub mod lfs;
mod names;
pub mod nothing_held;
pub mod notices;
pub mod process;
mod server;
pub mod server_lock;
pub mod session;
pub mod session_file;
mod workspace;
pub mod worktree;

pub use discover::{DiscoverError, Flags, Lookup, ServerAccess, discover};
pub use environment::Environment;
pub use identity::{PersonTokens, READ_TOKEN_FILE, Side, TOKEN_FILE, repair};
pub use last_server::LastServer;
pub use names::{BadName, Cwd, Names, split_paths};
pub use server::{SERVER_FILE, ServerRecord};
pub use workspace::Workspace;
