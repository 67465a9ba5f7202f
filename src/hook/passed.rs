//! A note from `pre-commit` to the `prepare-commit-msg` of the same commit: this index was judged and passed.
//!
//! Git runs both for an ordinary commit, but only the second for `--no-verify`, a cherry-pick or a revert. The note
//! saves asking twice. It holds for one git process and one index: the parent's process id, and the checksum that
//! ends every index file, so a formatter that changes the index in between makes it void. It is used once, and not
//! when it is older than [`VALID`], because process ids come round again.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::git::Repo;

use super::environment::Environment;

/// Other hooks may run for a while between the two.
const VALID: Duration = Duration::from_secs(300);

/// Under the git directory of a worktree.
const NOTE_FILE: &str = "dibs/passed";

/// Leaves the note. Where that is not possible the next hook simply asks again.
pub fn note(repo: &Repo, environment: &Environment) {
    let Some(text) = text(repo, environment) else { return };
    let file = repo.git_dir.join(NOTE_FILE);
    if std::fs::write(&file, &text).is_err()
        && let Some(dir) = file.parent()
        && std::fs::create_dir_all(dir).is_ok()
    {
        let _ = std::fs::write(&file, &text);
    }
}

/// Whether the note of this very commit is there; takes it away.
pub fn is_same(repo: &Repo, environment: &Environment) -> bool {
    let file = repo.git_dir.join(NOTE_FILE);
    let Ok(found) = std::fs::read(&file) else { return false };
    let written = std::fs::metadata(&file).and_then(|about| about.modified());
    let _ = std::fs::remove_file(&file);
    let fresh = written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < VALID));
    fresh && text(repo, environment).is_some_and(|text| text == found)
}

fn text(repo: &Repo, environment: &Environment) -> Option<Vec<u8>> {
    let checksum = index_checksum(&index_file(repo, environment))?;
    let mut text = format!("{} ", std::os::unix::process::parent_id()).into_bytes();
    text.extend(checksum);
    Some(text)
}

fn index_file(repo: &Repo, environment: &Environment) -> PathBuf {
    match environment.get("GIT_INDEX_FILE") {
        Some(file) => PathBuf::from(file),
        None => repo.git_dir.join("index"),
    }
}

/// The end of the checksum of an index file, SHA-1 or SHA-256. None with `index.skipHash`, which leaves zeros there.
fn index_checksum(file: &std::path::Path) -> Option<[u8; 20]> {
    let mut file = File::open(file).ok()?;
    file.seek(SeekFrom::End(-20)).ok()?;
    let mut checksum = [0; 20];
    file.read_exact(&mut checksum).ok()?;
    (checksum != [0; 20]).then_some(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_good_once_and_only_for_the_index_it_was_made_for() {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        let index = dir.path().join("some-index");
        let environment = Environment::from_pairs([("GIT_INDEX_FILE", index.to_str().unwrap())]);
        assert!(!is_same(&repo, &environment), "no note");
        note(&repo, &environment);
        assert!(!is_same(&repo, &environment), "no index, no note");

        std::fs::write(&index, b"DIRC....checksum-of-twenty-b").unwrap();
        note(&repo, &environment);
        assert!(is_same(&repo, &environment));
        assert!(!is_same(&repo, &environment), "used up");

        note(&repo, &environment);
        std::fs::write(&index, b"DIRC....checksum-of-twenty-X").unwrap();
        assert!(!is_same(&repo, &environment), "a formatter was here");

        note(&repo, &environment);
        let note = File::options().write(true).open(repo.git_dir.join(NOTE_FILE)).unwrap();
        note.set_modified(SystemTime::now() - VALID).unwrap();
        assert!(!is_same(&repo, &environment), "too old");

        std::fs::write(&index, [b"DIRC".as_slice(), &[0; 40]].concat()).unwrap();
        super::note(&repo, &environment);
        assert!(!is_same(&repo, &environment), "index.skipHash says nothing");
    }
}
