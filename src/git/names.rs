//! The names of all files of a commit.

use super::{GitError, Oid, Repo};

/// The names of the files of a commit, each with a NUL behind it: at most `bytes_max` bytes, where the last name may be
/// cut off. Submodules are files here, because a commit changes them like one.
pub fn file_names(repo: &Repo, commit: &Oid, bytes_max: usize) -> Result<Vec<u8>, GitError> {
    let call = repo.git().args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit.as_str()]);
    call.start()?.output_up_to(bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;

    #[test]
    fn names_are_raw_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| Git::elsewhere(dir.path()).args(args).output().unwrap();
        git(&["init", "--quiet"]);
        for name in ["a", "b c/\u{e4}\"", "b c/x\ny"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        git(&["add", "."]);
        git(&["-c", "user.name=Bo", "-c", "user.email=bo@example.com", "commit", "--quiet", "--message", "files"]);
        let repo = Repo::at(dir.path()).unwrap();
        let head = repo.head().unwrap().unwrap();
        let all = "a\0b c/x\ny\0b c/\u{e4}\"\0".as_bytes();
        assert_eq!(file_names(&repo, &head, 1000).unwrap(), all);
        assert_eq!(file_names(&repo, &head, 4).unwrap(), &all[..4]);
        assert!(file_names(&repo, &Oid::zero(), 1000).is_err());
    }
}
