//! Which commits are new to the other side, and what they change.
//!
//! Commits that the other side already has do not count. A branch that is moved to a commit that is not a descendant of
//! its old one also counts with what it loses.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use super::changed::{After, Change, Step, between};
use super::history::History;
use super::known_refs::KnownRefs;
use super::library::Library;
use super::nearby;
use super::remote::{self, Protected, REMOTE_LIMIT};
use super::{GitError, Oid, Path, Repo};

/// With more edges than this the net change is not computed, and every path counts.
const EDGES_MAX: usize = 5_000;

/// Commits that are about to become visible somewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// The newest commits of the range.
    pub tips: Vec<Oid>,
    /// Commits that are not part of the range, with all their ancestors. This repository may not have them.
    pub known: Vec<Oid>,
    /// The same, as refs.
    pub known_refs: Vec<KnownRefs>,
    /// Some of the commits of `known_refs`, on which the range is most likely based.
    pub near: Vec<Oid>,
    /// The remotes that may know more than their tracking refs tell.
    pub remotes: Vec<OsString>,
    /// Branches that exist on the other side: their commit there, and the one they are moved to.
    pub moved: Vec<(Oid, Oid)>,
    /// New branches: the commit of the main branch on the other side, as far as that is known, and their own.
    pub added: Vec<(Oid, Oid)>,
    /// The main branch of the protected repository, as far as it is known.
    pub main: Option<Oid>,
    /// The other side is none of the names of the protected repository.
    pub is_elsewhere: bool,
}

/// What a range changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeChanges {
    pub history: History,
    /// What branches lose that are not moved forward: the old commit of the branch, and what is different in the new one.
    pub lost: Vec<(Oid, Step)>,
}

impl RangeChanges {
    /// Every path with every content it gets, sorted, each once.
    pub fn changes(&self) -> Vec<Change> {
        let mut all = self.history.changes();
        all.extend(self.lost.iter().map(|(_, step)| Change { path: step.path.clone(), after: step.after.clone() }));
        all.sort_unstable();
        all.dedup();
        all
    }
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

    /// Whether it adds commits that matter: it is not a deletion, and not a ref for notes, for replacements of objects or
    /// for our own data.
    pub fn brings_work(&self) -> bool {
        let no_work = ["refs/dibs/", "refs/notes/", "refs/replace/"];
        !self.new.is_zero() && !no_work.iter().any(|prefix| self.name.starts_with(prefix))
    }

    fn is_branch(&self) -> bool {
        self.name.starts_with("refs/heads/")
    }
}

/// Refs whose commits were checked when they got there. Any other ref, such as `refs/pull/1/head` or `refs/stash`, may have
/// commits that were never checked.
const CHECKED: [KnownRefs; 2] = [KnownRefs::Branches, KnownRefs::Tags];
const CHECKED_PREFIXES: [&str; 2] = ["refs/heads/", "refs/tags/"];

/// Commits that are read to find those of a range between its tips and the commits it is most likely based on.
const VISITS_NEAR: usize = 100;
/// Commits that are read if the commits of all known refs are known. With more, the git program is faster.
const VISITS_MAX: usize = 300;

impl Range {
    /// What a push adds to a remote; `None` if it adds nothing, or if the remote is empty.
    pub fn of_push(repo: &Repo, remote: &OsStr, url: &OsStr, updates: &[Update]) -> Result<Option<Range>, GitError> {
        let Some(near) = Range::of_updates(updates) else { return Ok(None) };
        let near = near.with_main_branch(repo, remote, updates);
        let (mut range, own_tracking) = near.with_tracking_refs(repo, remote, url, updates)?;
        if range.known.is_empty() && !has_any(repo, &own_tracking)? {
            // Nothing was ever fetched from this remote: it is empty, or its branches are unknown.
            match remote::commits(repo, url, &range.tips, REMOTE_LIMIT) {
                Ok(commits) if commits.is_empty() => return Ok(None),
                Ok(commits) => range.known = commits,
                // The push will most likely fail for the same reason. If it does not, everything counts.
                Err(_) => {}
            }
        }
        Ok(Some(range))
    }

    /// What a push changes, found without starting a process: at least what [`Range::of_push`] changes. `None` if that
    /// takes git.
    pub fn nearby_of_push(repo: &Repo, remote: &OsStr, url: &OsStr, updates: &[Update]) -> Option<Vec<Change>> {
        let mut range = Range::of_updates(updates)?.with_main_branch(repo, remote, updates);
        if range.known.is_empty() {
            range.near = range.added.iter().map(|(main, _)| main.clone()).collect();
        }
        // Without the other tracking refs: what they alone know is listed, so that a conflict there leads to the remote.
        if let Some(changes) = range.nearby(repo) {
            return Some(changes);
        }
        let (range, own_tracking) = range.with_tracking_refs(repo, remote, url, updates).ok()?;
        // If nothing is known about the remote, git asks it.
        let is_known = !range.known.is_empty() || !repo.library()?.commits_of(&own_tracking)?.is_empty();
        is_known.then(|| range.nearby(repo)).flatten()
    }

    /// The same range by what the remotes say now, instead of what their tracking refs tell. The error is a sentence.
    pub fn asked(&self, repo: &Repo, limit: Duration) -> Result<Range, String> {
        let start = Instant::now();
        let mut range = Range { known_refs: Vec::new(), remotes: Vec::new(), ..self.clone() };
        for address in &self.remotes {
            let left = limit.saturating_sub(start.elapsed());
            let commits = remote::commits(repo, address, &self.tips, left);
            range.known.extend(commits.map_err(|error| remote::no_answer(address, &error.to_string()))?);
        }
        Ok(range)
    }

    /// What updates of a remote's refs add, as far as the updates tell; `None` if they add nothing.
    fn of_updates(updates: &[Update]) -> Option<Range> {
        let working: Vec<&Update> = updates.iter().filter(|update| update.brings_work()).collect();
        if working.is_empty() {
            return None;
        }
        let tips = working.iter().map(|update| update.new.clone()).collect();
        let known = updates.iter().map(|update| update.old.clone()).filter(|old| !old.is_zero()).collect();
        let branches = working.iter().filter(|update| update.is_branch() && !update.old.is_zero());
        let moved = branches.map(|update| (update.old.clone(), update.new.clone())).collect();
        Some(Range { tips, known, moved, ..Range::default() })
    }

    /// The range without the commits that the protected repository had at the last fetch. Returns the tracking refs of the
    /// remote itself too.
    fn with_tracking_refs(
        self,
        repo: &Repo,
        remote: &OsStr,
        url: &OsStr,
        updates: &[Update],
    ) -> Result<(Range, Vec<KnownRefs>), GitError> {
        let protected = Protected::of_push(repo, remote, url, updates)?;
        let Protected { addresses: remotes, tracking: known_refs, own_tracking, names, is_elsewhere } = protected;
        let main = names.iter().find_map(|name| main_branch(repo, name.as_ref(), &[]));
        Ok((Range { known_refs, remotes, main, is_elsewhere, ..self }, own_tracking))
    }

    fn with_main_branch(mut self, repo: &Repo, remote: &OsStr, updates: &[Update]) -> Range {
        let is_added = |update: &&Update| update.brings_work() && update.is_branch() && update.old.is_zero();
        let added: Vec<&Update> = updates.iter().filter(is_added).collect();
        let main = if added.is_empty() { None } else { main_branch(repo, remote, updates) };
        self.added =
            main.into_iter().flat_map(|main| added.iter().map(move |new| (main.clone(), new.new.clone()))).collect();
        self
    }

    /// What a push adds to this repository, seen from `pre-receive`.
    pub fn of_receive(repo: &Repo, updates: &[Update]) -> Result<Option<Range>, GitError> {
        let working: Vec<&Update> = updates.iter().filter(|update| update.brings_work()).collect();
        let all_new = updates.iter().all(|update| update.old.is_zero());
        if working.is_empty() || (all_new && !has_refs(repo)?) {
            return Ok(None);
        }
        let tips = working.iter().map(|update| update.new.clone()).collect();
        let (known_refs, near) = (CHECKED.to_vec(), checked_before(repo, updates));
        let mut moved = Vec::new();
        for update in working.into_iter().filter(|update| update.is_branch() && !update.old.is_zero()) {
            if ref_commit(repo, &update.name)?.as_ref() == Some(&update.old) {
                moved.push((update.old.clone(), update.new.clone()));
            }
        }
        let main = repo.library().and_then(Library::head);
        Ok(Some(Range { tips, known_refs, near, moved, main, ..Range::default() }))
    }

    /// What a ref transaction makes visible: commits on branches and tags (or a detached HEAD) that none of them had before.
    ///
    /// Commits fetched from a remote do not count, also if they were fetched by URL and only `FETCH_HEAD` names them.
    pub fn of_transaction(repo: &Repo, updates: &[Update]) -> Option<Range> {
        let local = |update: &&Update| update.name == "HEAD" || is_checked(update);
        let moved = |update: &&Update| !update.new.is_zero() && update.new != update.old;
        let mut tips: Vec<Oid> = updates.iter().filter(local).filter(moved).map(|update| update.new.clone()).collect();
        tips.sort_unstable();
        tips.dedup();
        if tips.is_empty() {
            return None;
        }
        let fetched = updates.iter().filter(|update| update.name.starts_with("refs/remotes/")).filter(moved);
        let mut known: Vec<Oid> = fetched.map(|update| update.new.clone()).collect();
        known.extend(remote::fetched_by_url(repo));
        known.extend(repo.shallow());
        let known_refs = [&CHECKED[..], &[KnownRefs::Remotes]].concat();
        Some(Range { tips, known, known_refs, near: checked_before(repo, updates), ..Range::default() })
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

    /// What the commits change.
    pub fn changes(&self, repo: &Repo) -> Result<RangeChanges, GitError> {
        if self.tips.is_empty() {
            return Ok(RangeChanges::default());
        }
        // The remote may have commits that this repository does not have; those are ignored.
        let history = History::read(repo, &["--ignore-missing"], &self.known_options(), self.input())?;
        let mut lost = Vec::new();
        for (old, new) in &self.moved {
            if repo.has(old) && !history.continues(old, new) && !repo.is_descendant(new, old)? {
                lost.extend(steps_lost(repo, old, new)?.into_iter().map(|step| (old.clone(), step)));
            }
        }
        Ok(RangeChanges { history, lost })
    }

    /// Every path with every content it gets, found without starting a process: at least what [`Range::changes`] lists.
    /// `None` if that takes git.
    pub fn nearby(&self, repo: &Repo) -> Option<Vec<Change>> {
        let near = [&self.known[..], &self.near].concat();
        let changes = |known: &[Oid], visits: usize| nearby::changes(repo, &self.tips, known, &self.moved, visits);
        let first = if near.is_empty() { None } else { changes(&near, VISITS_NEAR) };
        if first.is_some() || self.known_refs.is_empty() {
            return first;
        }
        let known = repo.library()?.commits_of(&self.known_refs)?;
        let mut all = changes(&[near, known].concat(), VISITS_MAX)?;
        all.extend(nearby::net(repo, self.ends())?);
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    /// What is different in the end: each branch, compared with its commit on the other side or with the main branch there.
    ///
    /// Most of it is what the commits of the range change. The rest was changed by commits that the other side is believed
    /// to have.
    pub fn net(&self, repo: &Repo) -> Result<Vec<Change>, GitError> {
        let mut all = Vec::new();
        for (old, new) in self.ends().filter(|(old, _)| repo.has(old)) {
            all.extend(between(repo, old.as_str(), After::Commit(new))?);
        }
        Ok(all)
    }

    fn ends(&self) -> impl Iterator<Item = &(Oid, Oid)> {
        self.moved.iter().chain(&self.added)
    }

    /// The commits of the range, without what they change.
    pub fn commits(&self, repo: &Repo) -> Result<HashSet<Oid>, GitError> {
        let call = repo.git().args(["rev-list", "--ignore-missing", "--stdin"]).args(self.known_options());
        let listed = call.input(self.input()).output()?;
        Ok(listed.split(|&b| b == b'\n').filter_map(Oid::parse).collect())
    }

    fn known_options(&self) -> Vec<OsString> {
        let refs = self.known_refs.iter().flat_map(KnownRefs::options);
        [OsString::from("--not")].into_iter().chain(refs).collect()
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
                let changes = between(repo, edge.as_str(), After::Commit(tip))?;
                differing.extend(changes.into_iter().map(|change| change.path));
            }
        }
        left.retain(|path| differing.contains(*path));
        Ok(paths.iter().filter(|path| !left.contains(path)).cloned().collect())
    }

    /// The newest known commits on which the range is based.
    pub fn edges(&self, repo: &Repo) -> Result<Vec<Oid>, GitError> {
        let call = repo.git().args(["rev-list", "--ignore-missing", "--boundary", "--stdin"]);
        let listed = call.args(self.known_options()).input(self.input()).output()?;
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

/// What the commits of `A..B` change, or of any other range that `git log` accepts; for checks outside of hooks.
pub fn written(repo: &Repo, range: &str) -> Result<History, GitError> {
    // An empty line would mean HEAD, and an option could mean anything.
    if range.is_empty() || range.starts_with('-') || range.contains('\n') {
        return Err(GitError::Odd { call: "log".to_owned(), what: format!("{range:?} is not a range of commits") });
    }
    let mut input = format!("{range}\n").into_bytes();
    for edge in repo.shallow() {
        input.extend_from_slice(format!("^{edge}\n").as_bytes());
    }
    History::read(repo, &[], &[], input)
}

/// What a branch loses that is moved from `old` to `new`: paths that `old` changed since both parted, and that are not the
/// same in `new`.
fn steps_lost(repo: &Repo, old: &Oid, new: &Oid) -> Result<Vec<Step>, GitError> {
    let parted = repo.git().args(["merge-base", old.as_str(), new.as_str()]).answer()?;
    let different = between(repo, old.as_str(), After::Commit(new))?;
    let changed: Option<HashSet<Path>> = match parted.and_then(|oid| Oid::parse(oid.trim_ascii())) {
        Some(base) => {
            let changes = between(repo, base.as_str(), After::Commit(old))?;
            Some(changes.into_iter().map(|change| change.path).collect())
        }
        // Nothing in common: everything that is different is lost.
        None => None,
    };
    let lost = different.into_iter().filter(|change| changed.as_ref().is_none_or(|all| all.contains(&change.path)));
    lost.map(|Change { path, after }| Ok(Step { before: repo.entry(old, &path)?, path, after })).collect()
}

/// The commit of the branch that a remote's other branches usually start from, as its tracking ref tells.
fn main_branch(repo: &Repo, remote: &OsStr, updates: &[Update]) -> Option<Oid> {
    let (library, remote) = (repo.library()?, remote.to_str()?);
    let find = |branch: &str| {
        // The remote has just told that it does not have this one.
        let is_gone = updates.iter().any(|update| update.name.strip_prefix("refs/heads/") == Some(branch));
        library.commit_of(&format!("refs/remotes/{remote}/{branch}")).filter(|_| !is_gone)
    };
    ["main", "master", "HEAD"].into_iter().find_map(find)
}

/// Whether there is any of these refs.
fn has_any(repo: &Repo, refs: &[KnownRefs]) -> Result<bool, GitError> {
    let call = repo.git().args(["rev-parse", "--revs-only"]).args(refs.iter().flat_map(KnownRefs::options));
    Ok(!refs.is_empty() && !call.output()?.is_empty())
}

/// Whether the commits of the ref were checked when they got there.
fn is_checked(update: &Update) -> bool {
    CHECKED_PREFIXES.iter().any(|prefix| update.name.starts_with(prefix))
}

/// The commit that a ref of this repository has now. What a push says about it may be wrong, and is verified only after the
/// hook.
fn ref_commit(repo: &Repo, name: &str) -> Result<Option<Oid>, GitError> {
    match repo.library() {
        Some(library) => Ok(library.commit_of(name)),
        None => repo.commit(name),
    }
}

/// What the branches and tags among the updated refs have now.
fn checked_before(repo: &Repo, updates: &[Update]) -> Vec<Oid> {
    let Some(library) = repo.library() else { return Vec::new() };
    let checked = updates.iter().filter(|update| is_checked(update) && !update.old.is_zero());
    checked.filter_map(|update| library.commit_of(&update.name)).collect()
}

/// Whether the repository has any ref but our own.
fn has_refs(repo: &Repo) -> Result<bool, GitError> {
    if let Some(names) = repo.library().and_then(|library| library.refs("refs/")) {
        return Ok(names.iter().any(|name| !name.starts_with("refs/dibs/")));
    }
    let listed = repo.git().args(["for-each-ref", "--count=2", "--format=%(refname)"]).output()?;
    Ok(listed.split(|&b| b == b'\n').any(|name| !name.is_empty() && !name.starts_with(b"refs/dibs/")))
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
