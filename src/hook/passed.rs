//! A note from `pre-commit` to the `prepare-commit-msg` of the same commit: this index was checked and passed.
//!
//! Git runs both hooks for an ordinary commit, but only the second for `--no-verify`, a cherry-pick or a revert. The note
//! avoids a second check. It is a hard link to the index file that passed, named after the git process that runs both
//! hooks: its number, and when it started, because numbers are used again. Where a system does not tell that, there is no
//! note. Git never changes an index file in place but replaces it, so while link and index are the same file, nothing has
//! changed; if a formatter adds to the index in between, the note is void. The shim of `prepare-commit-msg` compares the
//! two itself, so that this program is not even started. It cannot remove the note; the next `pre-commit` does.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use crate::git::Repo;
use crate::local::process::start_of;

/// Under the git directory of a worktree.
const NOTES_DIR: &str = "dibs";
const NOTE: &str = "passed-";

/// Leaves the note. If that fails, the next hook checks again.
pub fn note(repo: &Repo) {
    forget(repo);
    let Some(note) = note_file(repo, parent_id()) else { return };
    let index = repo.index_file();
    if std::fs::hard_link(&index, &note).is_err() && std::fs::create_dir_all(repo.git_dir.join(NOTES_DIR)).is_ok() {
        let _ = std::fs::hard_link(&index, &note);
    }
}

/// Whether there is a note for this commit and this index; removes the note.
pub fn is_same(repo: &Repo) -> bool {
    let identity = |file: &Path| std::fs::metadata(file).ok().map(|about| (about.dev(), about.ino()));
    let Some(note) = note_file(repo, parent_id()) else { return false };
    let passed = identity(&note);
    let _ = std::fs::remove_file(note);
    passed.is_some() && passed == identity(&repo.index_file())
}

/// Removes the notes of earlier commits.
fn forget(repo: &Repo) {
    for entry in std::fs::read_dir(repo.git_dir.join(NOTES_DIR)).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(NOTE.as_bytes()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn note_file(repo: &Repo, process: u32) -> Option<PathBuf> {
    Some(repo.git_dir.join(NOTES_DIR).join(format!("{NOTE}{process}-{}", start_of(process).flatten()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_valid_once_and_only_for_its_index() {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        let index = repo.index_file();
        assert!(!is_same(&repo), "no note");
        note(&repo);
        assert!(!is_same(&repo), "no index, no note");

        std::fs::write(&index, "one").unwrap();
        note(&repo);
        assert!(is_same(&repo));
        assert!(!is_same(&repo), "used up");

        note(&repo);
        // As git does it: a new file in the place of the old one, even if it has the same text.
        std::fs::write(dir.path().join("new"), "one").unwrap();
        std::fs::rename(dir.path().join("new"), &index).unwrap();
        assert!(!is_same(&repo), "a formatter was here");

        std::fs::write(repo.git_dir.join("dibs/passed-1"), "of another process").unwrap();
        assert!(!is_same(&repo));
        let earlier = repo.git_dir.join(format!("dibs/passed-{}-1", parent_id()));
        std::fs::hard_link(&index, &earlier).unwrap();
        assert!(!is_same(&repo), "of an earlier process with the same number");
        note(&repo);
        assert!(!repo.git_dir.join("dibs/passed-1").exists(), "nothing piles up");
    }
}
