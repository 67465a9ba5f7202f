//! Git 2.54 runs both the hook in its configuration and the one in a file. The first leaves a note, and the second leaves
//! at once.
//!
//! The note names the git process that runs both, by its id and its start time, so that a later process with the same id
//! is not taken for it. Where the system does not tell the start time, both check.

use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use super::Moment;
use crate::git::Repo;
use crate::local::data_dir::dibs_dir;
use crate::local::process::start_of;

/// Which hook of git runs this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The one in git's configuration, which git runs first.
    Configuration,
    /// A file in the hooks directory, or a hook manager.
    File,
}

impl Source {
    /// Recognises the shim by the directory it is in.
    pub fn of(next: Option<&Path>) -> Source {
        let dir = next.and_then(Path::parent);
        if dir.is_some_and(|dir| dir.ends_with("dibs/hooks")) { Source::Configuration } else { Source::File }
    }
}

/// Notes that this git process runs the hooks in its configuration.
pub fn note(repo: &Repo, moment: Moment) {
    if let Some(process) = process() {
        // If it cannot be written, both hooks check.
        let _ = std::fs::write(note_file(repo, moment), process);
    }
}

/// Whether the hook in the configuration has run for the same git process.
pub fn is_done(repo: &Repo, moment: Moment) -> bool {
    let Ok(noted) = std::fs::read_to_string(note_file(repo, moment)) else { return false };
    process().is_some_and(|process| process == noted)
}

/// The git process that started this program: its id and its start time.
fn process() -> Option<String> {
    let parent = parent_id();
    Some(format!("{parent} {}", start_of(parent).flatten()?))
}

fn note_file(repo: &Repo, moment: Moment) -> PathBuf {
    dibs_dir(repo).join(format!("checked-{moment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_valid_for_its_git_process_alone() {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        std::fs::create_dir(dibs_dir(&repo)).unwrap();
        assert!(!is_done(&repo, Moment::PreCommit));
        note(&repo, Moment::PreCommit);
        assert!(is_done(&repo, Moment::PreCommit));
        assert!(!is_done(&repo, Moment::PrePush));
        // The same process id at another time is another process.
        std::fs::write(note_file(&repo, Moment::PreCommit), format!("{} 1", parent_id())).unwrap();
        assert!(!is_done(&repo, Moment::PreCommit));
    }

    #[test]
    fn the_source_is_told_by_the_directory_of_the_shim() {
        let of = |next: &str| Source::of(Some(Path::new(next)));
        assert_eq!(of("/r/.git/dibs/hooks/pre-push.dibs-next"), Source::Configuration);
        assert_eq!(of(".git/hooks/pre-push.dibs-next"), Source::File);
        assert_eq!(Source::of(None), Source::File);
    }
}
