//! Git 2.54 runs both the hook in its configuration and the one in a file. The first leaves a note, and the second leaves
//! at once.
//!
//! The note is a file whose name has the git process that runs both: its id and its start time, so that a later process
//! with the same id is not taken for it, and git processes beside it do not matter. Where the system does not tell the
//! start time, both check.

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
    forget(repo, moment);
    if let Some(file) = note_file(repo, moment) {
        // If it cannot be written, both hooks check.
        let _ = std::fs::write(file, "");
    }
}

/// Whether the hook in the configuration has run for the same git process; removes its note.
pub fn is_done(repo: &Repo, moment: Moment) -> bool {
    note_file(repo, moment).is_some_and(|file| std::fs::remove_file(file).is_ok())
}

/// Removes the notes of git processes that have ended. Where there is no hook in a file, nothing else removes them.
fn forget(repo: &Repo, moment: Moment) {
    for entry in std::fs::read_dir(dibs_dir(repo)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(&prefix(moment)));
        if process.is_some_and(|process| !is_running(process)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether there is a process with this id and start time.
fn is_running(process: &str) -> bool {
    let mut numbers = process.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(start))) = (numbers.next(), numbers.next()) else { return false };
    u32::try_from(pid).is_ok_and(|pid| start_of(pid).flatten() == Some(start))
}

fn prefix(moment: Moment) -> String {
    format!("checked-{moment}-")
}

/// The note of the git process that started this program.
fn note_file(repo: &Repo, moment: Moment) -> Option<PathBuf> {
    let parent = parent_id();
    Some(dibs_dir(repo).join(format!("{}{parent}-{}", prefix(moment), start_of(parent).flatten()?)))
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
        assert!(!is_done(&repo, Moment::PrePush));
        // Another git process beside it, and earlier ones: of the same id, and of one that has ended.
        let of = |process: &str| dibs_dir(&repo).join(format!("checked-pre-commit-{process}"));
        let own = std::process::id();
        let beside = of(&format!("{own}-{}", start_of(own).flatten().unwrap()));
        for other in [&beside, &of(&format!("{}-1", parent_id())), &of("x")] {
            std::fs::write(other, "").unwrap();
        }
        assert!(is_done(&repo, Moment::PreCommit));
        assert!(!is_done(&repo, Moment::PreCommit), "used up");
        note(&repo, Moment::PreCommit);
        let left = std::fs::read_dir(dibs_dir(&repo)).unwrap().count();
        assert!(beside.exists() && left == 2, "nothing piles up: {left}");
    }

    #[test]
    fn the_source_is_told_by_the_directory_of_the_shim() {
        let of = |next: &str| Source::of(Some(Path::new(next)));
        assert_eq!(of("/r/.git/dibs/hooks/pre-push.dibs-next"), Source::Configuration);
        assert_eq!(of(".git/hooks/pre-push.dibs-next"), Source::File);
        assert_eq!(Source::of(None), Source::File);
    }
}
