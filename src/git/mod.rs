//! Git, as the rest of us needs it: where a repository is, what it is set to, which paths a change touches.
//!
//! libgit2 finds and opens repositories; lists of changed paths come from the `git` program, which is faster there and
//! reads every format. Where libgit2 cannot open a repository the program is asked for that too, so no kind of
//! repository is left out. Nothing in here knows what a reservation is.
//!
//! Start at [`Repo::from_environment`]; [`changed`] and [`range`] hold the lists.

pub mod changed;
mod oid;
pub mod range;
mod repo;
mod run;
mod settings;
mod version;
mod worktrees;

pub use oid::Oid;
pub use repo::{Repo, trust_every_owner};
pub use run::{Git, GitError, LOCAL_VARIABLES, Running};
pub use settings::{Settings, SettingsCall};
pub use version::Version;
pub use worktrees::{Worktree, worktrees};

/// A path as git stores it: bytes, `/`-separated, relative to the top of the work tree.
pub type Path = Vec<u8>;

/// Takes `-z` output apart. Empty pieces are dropped: git's own separators between commits look like that.
pub(crate) fn split_nul(bytes: &[u8]) -> Vec<Path> {
    bytes.split(|&b| b == 0).filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
}
