//! Git, as the rest of us needs it: where a repository is, what it is set to, which paths a change touches.
//!
//! libgit2 finds and opens repositories. What is in the index against a commit is read by `walk`, lists of what commits
//! change come from the `git` program: libgit2's own comparison is many times slower than either. Whatever kind of
//! repository libgit2 or the walk do not read is asked of the program too, so none is left out. Nothing in here knows what
//! a reservation is.
//!
//! Start at [`Repo::from_environment`]; [`changed`] and [`range`] hold the lists.

pub mod changed;
mod index;
mod library;
mod oid;
pub mod range;
mod repo;
mod run;
mod settings;
mod version;
mod walk;
mod worktrees;

pub use oid::Oid;
pub use repo::{Repo, trust_every_owner};
pub use run::{Git, GitError, LOCAL_VARIABLES, Running};
pub use settings::{Settings, SettingsCall};
pub use version::Version;
pub use walk::index_against_tree;
pub use worktrees::{Worktree, worktrees};

/// A path as git stores it: bytes, `/`-separated, relative to the top of the work tree.
pub type Path = Vec<u8>;

/// Takes `-z` output apart. Empty pieces are dropped: git's own separators between commits look like that.
pub(crate) fn split_nul(bytes: &[u8]) -> Vec<Path> {
    bytes.split(|&b| b == 0).filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
}
