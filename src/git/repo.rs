//! Finding a repository, whatever its format.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::changed::Entry;
use super::library::Library;
use super::{Git, GitError, Oid};

/// One repository as one worktree sees it.
#[derive(Debug, Clone)]
pub struct Repo {
    /// The directory with this worktree's own HEAD and index.
    pub git_dir: PathBuf,
    /// The directory that all worktrees of the repository share.
    pub common_dir: PathBuf,
    /// The top of the work tree; none in a bare repository.
    pub work_dir: Option<PathBuf>,
    /// The directory to run git in, if it is not the repository that this process was started in.
    elsewhere: Option<PathBuf>,
    /// The repository in libgit2, if libgit2 could open it.
    library: Option<Library>,
}

/// Opens repositories of any owner from now on. Only for hooks: git itself has already decided to trust the repository.
pub fn trust_every_owner() {
    // SAFETY: changes a global of libgit2; a hook does it first thing, while there is one thread.
    let done = unsafe { git2::opts::set_verify_owner_validation(false) };
    // If it fails, opening falls back to the git program, which checks the owner itself.
    drop(done);
}

impl Repo {
    /// The repository of this process: from `GIT_DIR` and related variables, else from the current directory.
    pub fn from_environment() -> Result<Repo, GitError> {
        match git2::Repository::open_from_env() {
            Ok(found) => Ok(Repo::of(found, None)),
            Err(_) => Repo::by_program(Git::here, None),
        }
    }

    /// The repository that contains `dir`, whatever `GIT_DIR` says.
    pub fn at(dir: &Path) -> Result<Repo, GitError> {
        match git2::Repository::discover(dir) {
            Ok(found) => Ok(Repo::of(found, Some(dir))),
            Err(_) => Repo::by_program(|| Git::elsewhere(dir), Some(dir)),
        }
    }

    /// A call of the git program for this repository.
    pub fn git(&self) -> Git {
        match &self.elsewhere {
            None => Git::here(),
            Some(dir) => Git::elsewhere(dir),
        }
    }

    /// The commit that a revision names; none if there is no such commit.
    pub fn commit(&self, revision: &str) -> Result<Option<Oid>, GitError> {
        let wanted = format!("{revision}^{{commit}}");
        let found = self.git().args(["rev-parse", "--quiet", "--verify", "--end-of-options", &wanted]).answer()?;
        Ok(found.and_then(|text| Oid::parse(text.trim_ascii())))
    }

    /// The commit that HEAD names; none before the first commit.
    pub fn head(&self) -> Result<Option<Oid>, GitError> {
        match self.library().and_then(Library::head) {
            Some(head) => Ok(Some(head)),
            None => self.commit("HEAD"),
        }
    }

    /// Whether HEAD names a branch, which may have no commit yet.
    pub fn is_on_branch(&self) -> bool {
        match std::fs::read(self.git_dir.join("HEAD")) {
            // With reftable, the file is a placeholder.
            Ok(text) if !text.ends_with(b".invalid\n") => text.starts_with(b"ref:"),
            _ => matches!(self.git().args(["symbolic-ref", "--quiet", "HEAD"]).answer(), Ok(Some(_))),
        }
    }

    /// What a commit has at a path.
    pub fn entry(&self, commit: &Oid, path: &super::Path) -> Result<Option<Entry>, GitError> {
        if let Some(entry) = self.library().and_then(|library| library.entry(commit, path)) {
            return Ok(entry);
        }
        let call = self.git().args(["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit.as_str(), "--"]);
        let listed = call.arg(std::ffi::OsStr::from_bytes(path)).output()?;
        // `MODE TYPE OID<tab>PATH`; a directory is not a file.
        let mut words = listed.split(|&b| b == b' ' || b == b'\t');
        let mut word = || words.next();
        let (mode, kind, oid) = (word(), word(), word());
        let mode = mode.and_then(|mode| u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8).ok());
        let entry = mode.zip(oid.and_then(Oid::parse)).filter(|_| kind != Some(b"tree"));
        Ok(entry.map(|(mode, oid)| Entry { mode, oid }))
    }

    /// Whether git ignores this path: a rule says so, and the path is not tracked. If git cannot tell, it does not.
    pub fn is_ignored(&self, path: &super::Path) -> bool {
        if self.library().and_then(|library| library.is_ignored(path)) == Some(false) {
            return false;
        }
        // The program also looks into the index, which takes longer the more files there are.
        let Some(top) = &self.work_dir else { return false };
        let call = self.git().args(["check-ignore", "-q", "--"]).arg(top.join(std::ffi::OsStr::from_bytes(path)));
        matches!(call.answer(), Ok(Some(_)))
    }

    /// Whether the repository has this object.
    pub fn has(&self, oid: &Oid) -> bool {
        let library = self.library().and_then(|library| library.has(oid));
        library.unwrap_or_else(|| self.git().args(["cat-file", "-e", oid.as_str()]).output().is_ok())
    }

    /// Whether `new` is `old` or one of its descendants.
    pub fn is_descendant(&self, new: &Oid, old: &Oid) -> Result<bool, GitError> {
        if let Some(known) = self.library().and_then(|library| library.is_descendant(new, old)) {
            return Ok(known);
        }
        let call = self.git().args(["merge-base", "--is-ancestor", old.as_str(), new.as_str()]);
        Ok(call.answer()?.is_some())
    }

    /// Commits at the edge of a shallow clone: their parents are missing here.
    pub fn shallow(&self) -> Vec<Oid> {
        // While git receives a shallow push, it keeps the new list in a separate file.
        let file = std::env::var_os("GIT_SHALLOW_FILE").filter(|file| self.elsewhere.is_none() && !file.is_empty());
        let file = file.map_or_else(|| self.common_dir.join("shallow"), PathBuf::from);
        oids_in(&file)
    }

    /// The index file: `GIT_INDEX_FILE`, else the worktree's own.
    pub fn index_file(&self) -> PathBuf {
        let named = std::env::var_os("GIT_INDEX_FILE").filter(|file| self.elsewhere.is_none() && !file.is_empty());
        named.map_or_else(|| self.git_dir.join("index"), PathBuf::from)
    }

    /// Whether the repository's own file has this setting, without starting git; none if only git can tell.
    pub fn has_local_setting(&self, name: &str) -> Option<bool> {
        self.library()?.has_local_setting(name)
    }

    /// The repository in libgit2; none if libgit2 could not open it.
    pub(super) fn library(&self) -> Option<&Library> {
        self.library.as_ref()
    }

    fn of(found: git2::Repository, elsewhere: Option<&Path>) -> Repo {
        Repo {
            git_dir: found.path().to_owned(),
            common_dir: found.commondir().to_owned(),
            work_dir: found.workdir().map(Path::to_owned),
            elsewhere: elsewhere.map(Path::to_owned),
            library: Some(Library::new(found)),
        }
    }

    fn by_program(git: impl Fn() -> Git, elsewhere: Option<&Path>) -> Result<Repo, GitError> {
        let absolute = ["rev-parse", "--path-format=absolute"];
        // One call for each, because a path may contain a line feed.
        let ask = |question: &str| -> Result<PathBuf, GitError> {
            let mut answer = git().args(absolute).arg(question).output()?;
            answer.pop_if(|last| *last == b'\n');
            Ok(PathBuf::from(OsString::from_vec(answer)))
        };
        Ok(Repo {
            git_dir: ask("--git-dir")?,
            common_dir: ask("--git-common-dir")?,
            // Fails in a bare repository, which has no work tree.
            work_dir: ask("--show-toplevel").ok(),
            elsewhere: elsewhere.map(Path::to_owned),
            library: None,
        })
    }
}

/// The object ids that begin the lines of a small file git keeps, such as `MERGE_HEAD`; none where there is no file.
pub(crate) fn oids_in(file: &Path) -> Vec<Oid> {
    let Ok(text) = std::fs::read(file) else { return Vec::new() };
    let first_word = |line: &[u8]| {
        let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        Oid::parse(&line[..end])
    };
    text.split(|&b| b == b'\n').filter_map(first_word).collect()
}
