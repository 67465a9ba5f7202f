//! Which paths a set of commits changes by itself.
//!
//! A merge counts with the paths that differ from every parent: merging another branch changes nothing by itself, and cannot
//! hide a change. Commits that the other side already has do not count, nor do those below the edge of a shallow clone.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::changed::{After, between};
use super::repo::oids_in;
use super::{GitError, Oid, Path, Repo, split_nul};

/// How long a remote may take to list its branches.
pub const LS_REMOTE_LIMIT: Duration = Duration::from_secs(2);

/// With more edges than this the net change is not computed, and every path counts.
const EDGES_MAX: usize = 5_000;

/// Commits that are about to become visible somewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// The newest commits of the range.
    pub tips: Vec<Oid>,
    /// Commits that are not part of the range, with all their ancestors. This repository may not have them.
    pub known: Vec<Oid>,
    /// The same as options of `git log`, such as `--remotes=origin`.
    pub known_refs: Vec<OsString>,
}

/// A ref update, as git tells it to a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The ref on the receiving side.
    pub name: String,
    /// The old commit; zero if the ref is new.
    pub old: Oid,
    /// The new commit; zero if the ref is deleted.
    pub new: Oid,
}

impl Update {
    /// Reads the stdin of `pre-push`: `<local ref> <local oid> <remote ref> <remote oid>`.
    pub fn of_push(stdin: &[u8]) -> Vec<Update> {
        // From the right, because a local ref may be written `HEAD^{/two words}`.
        lines(stdin, |line| {
            let mut words = line.rsplitn(4, |&b| b == b' ');
            let (old, name, new) = (Oid::parse(words.next()?)?, words.next()?, Oid::parse(words.next()?)?);
            Some(Update { name: String::from_utf8_lossy(name).into_owned(), old, new })
        })
    }

    /// Reads the stdin of `pre-receive` and `reference-transaction`: `<old oid> <new oid> <ref>`.
    ///
    /// A line about a symbolic ref (`ref:…`) moves no commit and is ignored.
    pub fn of_receive(stdin: &[u8]) -> Vec<Update> {
        lines(stdin, |line| {
            let mut words = line.splitn(3, |&b| b == b' ');
            let (old, new) = (Oid::parse(words.next()?)?, Oid::parse(words.next()?)?);
            Some(Update { name: String::from_utf8_lossy(words.next()?).into_owned(), old, new })
        })
    }

    /// Whether it adds commits that matter: it is not a deletion, and not a ref for notes or for our own data.
    pub fn brings_work(&self) -> bool {
        let no_work = self.name.starts_with("refs/dibs/") || self.name.starts_with("refs/notes/");
        !self.new.is_zero() && !no_work
    }
}

/// Refs whose commits were never checked. A commit that only they have is still new.
const NEVER_CHECKED: [&str; 3] = ["--exclude=refs/dibs/*", "--exclude=refs/notes/*", "--exclude=refs/stash"];

impl Range {
    /// What a push adds to a remote; `None` if it adds nothing, or if the remote is empty.
    pub fn of_push(repo: &Repo, remote: &OsStr, url: &OsStr, updates: &[Update]) -> Result<Option<Range>, GitError> {
        let working: Vec<&Update> = updates.iter().filter(|update| update.brings_work()).collect();
        if working.is_empty() {
            return Ok(None);
        }
        // Without a name for the remote, a commit that any remote has is not new.
        let named = remote != url;
        let known_refs = vec![if named { joined(&["--remotes=".as_ref(), remote]) } else { "--remotes".into() }];
        let mut known: Vec<Oid> =
            updates.iter().map(|update| update.old.clone()).filter(|old| !old.is_zero()).collect();
        if known.is_empty() {
            let all = OsStr::new("refs/remotes/");
            let prefix = if named { joined(&[all, remote, "/".as_ref()]) } else { all.to_owned() };
            if !has_refs(repo, &prefix)? {
                // Nothing was ever fetched from this remote: it is empty, or its branches are unknown.
                match branches_of(repo, url) {
                    Ok(tips) if tips.is_empty() => return Ok(None),
                    Ok(tips) => known = tips,
                    // The push will most likely fail for the same reason. If it does not, everything counts.
                    Err(_) => {}
                }
            }
        }
        known.extend(repo.shallow());
        let tips = working.iter().map(|update| update.new.clone()).collect();
        Ok(Some(Range { tips, known, known_refs }))
    }

    /// What a push adds to this repository, seen from `pre-receive`.
    pub fn of_receive(repo: &Repo, updates: &[Update]) -> Result<Option<Range>, GitError> {
        let tips: Vec<Oid> = updates.iter().filter(|update| update.brings_work()).map(|u| u.new.clone()).collect();
        let all_new = updates.iter().all(|update| update.old.is_zero());
        if tips.is_empty() || (all_new && !has_refs(repo, "refs/heads/")?) {
            return Ok(None);
        }
        Ok(Some(Range { tips, known: repo.shallow(), known_refs: every_ref() }))
    }

    /// What a ref transaction makes visible: commits on branches (or a detached HEAD) that no ref had before.
    ///
    /// Fetched commits do not count, also if they were fetched by URL and only `FETCH_HEAD` names them.
    pub fn of_transaction(repo: &Repo, updates: &[Update]) -> Option<Range> {
        let local = |update: &&Update| update.name == "HEAD" || update.name.starts_with("refs/heads/");
        let moved = |update: &&Update| !update.new.is_zero() && update.new != update.old;
        let mut tips: Vec<Oid> = updates.iter().filter(local).filter(moved).map(|update| update.new.clone()).collect();
        tips.sort_unstable();
        tips.dedup();
        if tips.is_empty() {
            return None;
        }
        let fetched = updates.iter().filter(|update| update.name.starts_with("refs/remotes/")).filter(moved);
        let mut known: Vec<Oid> = fetched.map(|update| update.new.clone()).collect();
        known.extend(oids_in(&repo.git_dir.join("FETCH_HEAD")));
        known.extend(repo.shallow());
        Some(Range { tips, known, known_refs: every_ref() })
    }

    /// The range that text such as `A..B` means.
    pub fn parse(repo: &Repo, text: &str) -> Result<Range, GitError> {
        let listed = repo.git().args(["rev-parse", "--revs-only", "--end-of-options", text]).output()?;
        let mut range = Range { known: repo.shallow(), ..Range::default() };
        for line in listed.split(|&b| b == b'\n') {
            match line.strip_prefix(b"^") {
                Some(known) => range.known.extend(Oid::parse(known)),
                None => range.tips.extend(Oid::parse(line)),
            }
        }
        Ok(range)
    }

    /// Paths the commits change, sorted, each once.
    pub fn paths(&self, repo: &Repo) -> Result<Vec<Path>, GitError> {
        if self.tips.is_empty() {
            return Ok(Vec::new());
        }
        // The remote may have commits that this repository does not have; those are ignored.
        let known = [&["--not".into()], self.known_refs.as_slice()].concat();
        named_by_log(repo, &["--ignore-missing"], &known, self.input())
    }

    /// Those of `paths` that the range changed and changed back: in the end they are as the known commits have them.
    pub fn put_back(&self, repo: &Repo, paths: &[Path]) -> Result<HashSet<Path>, GitError> {
        let mut left: HashSet<&Path> = paths.iter().collect();
        let mut differing: HashSet<Path> = HashSet::new();
        for tip in &self.tips {
            let alone = Range { tips: vec![tip.clone()], ..self.clone() };
            let edges = alone.edges(repo)?;
            if edges.is_empty() {
                // There is no known commit below it, so nothing was changed back.
                return Ok(HashSet::new());
            }
            for edge in edges {
                differing.extend(between(repo, edge.as_str(), After::Commit(tip))?);
            }
        }
        left.retain(|path| differing.contains(*path));
        Ok(paths.iter().filter(|path| !left.contains(path)).cloned().collect())
    }

    /// The newest known commits on which the range is based.
    fn edges(&self, repo: &Repo) -> Result<Vec<Oid>, GitError> {
        let call = repo.git().args(["rev-list", "--ignore-missing", "--boundary", "--stdin", "--not"]);
        let listed = call.args(&self.known_refs).input(self.input()).output()?;
        let edges: Vec<&[u8]> = listed.split(|&b| b == b'\n').filter_map(|line| line.strip_prefix(b"-")).collect();
        let edges: Vec<Oid> = edges.into_iter().filter_map(Oid::parse).collect();
        if edges.len() < 2 {
            return Ok(edges);
        }
        if edges.len() > EDGES_MAX {
            return Ok(Vec::new());
        }
        let call = repo.git().args(["merge-base", "--independent"]).args(edges.iter().map(Oid::as_str));
        Ok(call.output()?.split(|&b| b == b'\n').filter_map(Oid::parse).collect())
    }

    fn input(&self) -> Vec<u8> {
        let mut input = Vec::new();
        for tip in &self.tips {
            input.extend_from_slice(format!("{tip}\n").as_bytes());
        }
        for known in &self.known {
            input.extend_from_slice(format!("^{known}\n").as_bytes());
        }
        input
    }
}

/// Paths changed by the commits of `A..B`, or of any other range that `git log` accepts; for checks outside of hooks.
pub fn written(repo: &Repo, range: &str) -> Result<Vec<Path>, GitError> {
    // An empty line would mean HEAD, and an option could mean anything.
    if range.is_empty() || range.starts_with('-') || range.contains('\n') {
        return Err(GitError::Odd { call: "log".to_owned(), what: format!("{range:?} is not a range of commits") });
    }
    let mut input = format!("{range}\n").into_bytes();
    for edge in repo.shallow() {
        input.extend_from_slice(format!("^{edge}\n").as_bytes());
    }
    named_by_log(repo, &[], &[], input)
}

/// `git log` over the revisions in `input`; `before` and `after` are options that must stand before or after those.
fn named_by_log(repo: &Repo, before: &[&str], after: &[OsString], input: Vec<u8>) -> Result<Vec<Path>, GitError> {
    // The user's settings for `git log` must not change which paths are listed.
    let plain = ["diff.orderFile=/dev/null", "diff.relative=false", "log.showSignature=false", "log.follow=false"];
    let call = repo.git().with(&plain).arg("log").args(before).arg("--stdin").args(after);
    let call =
        call.args(["-z", "--format=", "--name-only", "--root", "-c", "--no-renames", "--ignore-submodules=none"]);
    let mut paths = split_nul(&call.arg("--").input(input).output()?);
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}

fn every_ref() -> Vec<OsString> {
    NEVER_CHECKED.iter().copied().chain(["--all"]).map(OsString::from).collect()
}

fn joined(pieces: &[&OsStr]) -> OsString {
    pieces.iter().copied().collect()
}

fn has_refs(repo: &Repo, prefix: impl AsRef<OsStr>) -> Result<bool, GitError> {
    Ok(!repo.git().args(["for-each-ref", "--count=1", "--format=x"]).arg(prefix).output()?.is_empty())
}

fn branches_of(repo: &Repo, url: &OsStr) -> Result<Vec<Oid>, GitError> {
    let listed = repo.git().args(["ls-remote", "--heads", "--"]).arg(url).output_within(LS_REMOTE_LIMIT)?;
    let tips = listed.split(|&b| b == b'\n').filter_map(|line| line.split(|&b| b == b'\t').next());
    Ok(tips.filter_map(Oid::parse).collect())
}

fn lines(stdin: &[u8], read: impl Fn(&[u8]) -> Option<Update>) -> Vec<Update> {
    stdin.split(|&b| b == b'\n').filter(|line| !line.is_empty()).filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    #[test]
    fn push_lines_are_read_from_the_right() {
        let stdin = format!("HEAD^{{/two words}} {A} refs/heads/x {B}\n(delete) {ZERO} refs/heads/y {A}\n\nnonsense\n");
        let updates = Update::of_push(stdin.as_bytes());
        assert_eq!(updates.len(), 2);
        assert_eq!((updates[0].name.as_str(), updates[0].new.as_str()), ("refs/heads/x", A));
        assert_eq!(updates[0].old.as_str(), B);
        assert!(updates[1].new.is_zero() && !updates[1].brings_work());
    }

    #[test]
    fn received_lines_without_commits_are_dropped() {
        let stdin = format!("{A} {B} refs/heads/x\nref:refs/heads/x {B} HEAD\n{A} {B} refs/notes/commits\n");
        let updates = Update::of_receive(stdin.as_bytes());
        let names: Vec<&str> = updates.iter().map(|update| update.name.as_str()).collect();
        assert_eq!(names, ["refs/heads/x", "refs/notes/commits"]);
        assert!(!updates[1].brings_work());
    }
}
