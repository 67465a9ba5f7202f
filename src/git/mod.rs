//! Git for the other rooms: where a repository is, its settings, and which paths a change touches.
//!
//! libgit2 finds and opens repositories. `walk` compares the index with a commit, `nearby` reads a few commits, and the
//! `git` program lists what many commits change: libgit2's own comparison is many times slower than any of these. If
//! libgit2 or `walk` cannot read a repository, the program is used instead, so every kind of repository works. Nothing in
//! here knows what a reservation is.
//!
//! Start at [`Repo::from_environment`]; [`changed`] lists what an index changes, [`range`] and [`history`] what commits
//! change, [`remote`] what another repository has.

pub mod changed;
pub mod history;
mod index;
pub mod known_refs;
mod library;
mod merge_drivers;
mod names;
mod nearby;
mod oid;
mod place;
pub mod project;
pub mod range;
pub mod remote;
mod repo;
mod run;
mod settings;
mod status;
mod version;
mod walk;
mod worktrees;

pub use names::file_names;
pub use oid::Oid;
pub use place::Place;
pub use repo::{Repo, trust_every_owner};
pub use run::{Git, GitError, LOCAL_VARIABLES, Running};
pub use settings::{SetBy, Settings, SettingsCall};
pub use status::{StatusEntry, Untracked, status, status_of, status_typed};
pub use version::Version;
pub use walk::index_against_tree;
pub use worktrees::{Worktree, worktrees};

/// A path as git stores it: bytes, `/`-separated, relative to the top of the work tree.
pub type Path = Vec<u8>;

/// Splits `-z` output at NUL bytes. Empty pieces are git's separators between commits, and are dropped.
pub(crate) fn split_nul(bytes: &[u8]) -> Vec<Path> {
    bytes.split(|&b| b == 0).filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
}
