//! Which changes of a held path do not count after all.
//!
//! Looked for only where a path is held by another session, because it may take git processes and a call to the remote:
//!
//! | not a violation | found by |
//! |---|---|
//! | a merge that has what git itself makes of its parents | `git merge-tree` |
//! | going back to what the protected repository has, or had where the branch began | the upstream, the range's edges |
//! | content that the holder has committed itself, unless it goes back to an earlier version | the server's memory |
//! | commits that the remote has, although no tracking ref tells it | `git fetch --negotiate-only` |
//! | the history of a library that is added or updated below a directory of its own | not based on this project's first commit |
//! | commits of another project, pushed to its own repository | the same |
//!
//! Undoing must stay possible, or a blocked push could never be repaired; undoing what the holder committed must not.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::git::changed::{self, Base, Change, Entry, Step};
use crate::git::history::{Commit, History, had_before};
use crate::git::known_refs::KnownRefs;
use crate::git::project;
use crate::git::range::Range;
use crate::git::remote::{self, REMOTE_LIMIT};
use crate::git::{GitError, Oid, Path, Repo};
use crate::judge::{ASK_TIME_MIN, CheckPolicy};

use super::collect::{ChangeKind, Collected};

/// A remote is not asked if less time than this is left.
const REMOTE_TIME_MIN: Duration = Duration::from_millis(200);

const NO_TIME: &str = "there was no time left";

/// How long a remote may take, so that the server still has its time; `None` if that is too short.
fn time_for_remote(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(ASK_TIME_MIN);
    Some(left.min(REMOTE_LIMIT)).filter(|left| *left >= REMOTE_TIME_MIN)
}

/// The paths that do not count, and what limits that finding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excused {
    pub paths: HashSet<Path>,
    /// Whole sentences for the message.
    pub notes: Vec<String>,
}

/// Whom else to ask.
#[derive(Clone, Copy)]
pub struct Helpers<'a> {
    /// Those of the contents that the holders of the paths have committed themselves.
    pub committed_by_holder: &'a dyn Fn(&[Change]) -> HashSet<Change>,
    /// When the verdict must be there.
    pub deadline: Instant,
}

impl Collected {
    /// The same push by what the remotes say now. A tracking ref may be of a branch that the remote has deleted, whose
    /// commits are not published any more. `None` if this is no push to a remote; the error is a sentence.
    pub fn asked(&self, repo: &Repo, deadline: Instant) -> Option<Result<Collected, String>> {
        let ChangeKind::Push(range, _) = &self.kind else { return None };
        let first = range.remotes.first()?;
        let Some(limit) = time_for_remote(deadline) else { return Some(Err(remote::no_answer(first, NO_TIME))) };
        Some(range.asked(repo, limit).and_then(|range| {
            let all = range.changes(repo).map_err(|error| error.to_string())?;
            Ok(Collected::new(all.changes(), ChangeKind::Push(range, all)))
        }))
    }

    /// Those of `paths` at which a push takes a branch back to an earlier version than the holder's, by commits that the
    /// other side has already. Another branch may have got them while the path was free.
    pub fn undone(&self, repo: &Repo, paths: &[Path], helpers: Helpers<'_>) -> Result<HashSet<Path>, GitError> {
        let ChangeKind::Push(range, _) = &self.kind else { return Ok(HashSet::new()) };
        let mut steps: Vec<(&Oid, Step)> = Vec::new();
        for (old, new) in range.moved.iter().filter(|(old, _)| repo.has(old)) {
            for path in paths {
                let (before, after) = (repo.entry(old, path)?, repo.entry(new, path)?);
                steps.push((old, Step { path: path.clone(), before, after }));
            }
        }
        steps.retain(|(_, step)| step.before != step.after);
        let content = |step: &Step, entry: &Option<Entry>| Change { path: step.path.clone(), after: entry.clone() };
        let question: Vec<Change> =
            steps.iter().flat_map(|(_, step)| [content(step, &step.before), content(step, &step.after)]).collect();
        if question.is_empty() {
            return Ok(HashSet::new());
        }
        let by_holder = (helpers.committed_by_holder)(&question);
        let is_undone = |(old, step): &(&Oid, Step)| {
            let undoes_holder = by_holder.contains(&content(step, &step.before));
            let is_hers = by_holder.contains(&content(step, &step.after));
            undoes_holder && !is_hers && had_before(repo, std::slice::from_ref(old), &step.path, step.after.as_ref())
        };
        Ok(steps.into_iter().filter(is_undone).map(|(_, step)| step.path).collect())
    }

    /// Those of `suspects` that do not count.
    pub fn excused(
        &self,
        repo: &Repo,
        policy: &CheckPolicy,
        suspects: &[Path],
        helpers: Helpers<'_>,
    ) -> Result<Excused, GitError> {
        if suspects.is_empty() {
            return Ok(Excused::default());
        }
        let inquiry = Inquiry { repo, suspects, helpers };
        match &self.kind {
            ChangeKind::Index(others) => inquiry.index(&self.changes, others),
            ChangeKind::Transaction(range, all) => {
                let bases = changed::bases(repo)?;
                inquiry.range(range, &all.history, &all.lost, &bases)
            }
            ChangeKind::Push(range, _) if policy.push_net.value => inquiry.put_back(range),
            ChangeKind::Push(range, all) => inquiry.range(range, &all.history, &all.lost, &[]),
            ChangeKind::Written(text, _) if policy.push_net.value => inquiry.put_back(&Range::parse(repo, text)?),
            ChangeKind::Written(text, history) => inquiry.range(&Range::parse(repo, text)?, history, &[], &[]),
        }
    }
}

struct Inquiry<'a> {
    repo: &'a Repo,
    suspects: &'a [Path],
    helpers: Helpers<'a>,
}

impl Inquiry<'_> {
    fn index(&self, changes: &[Change], others: &[Oid]) -> Result<Excused, GitError> {
        let repo = self.repo;
        let mut steps = Vec::new();
        let mut excused = Excused::default();
        let beyond = match others {
            [other] => changed::beyond_automatic_merge(repo, other)?,
            _ => None,
        };
        let head = repo.head()?;
        for Change { path, after } in changes.iter().filter(|change| self.suspects.contains(&change.path)) {
            if beyond.as_ref().is_some_and(|all| !all.iter().any(|change| change.path == *path)) {
                excused.paths.insert(path.clone());
                continue;
            }
            let before = head.as_ref().map(|head| repo.entry(head, path)).transpose()?.flatten();
            steps.push(Step { path: path.clone(), before, after: after.clone() });
        }
        if steps.is_empty() {
            return Ok(excused);
        }
        let parents: Vec<Oid> = head.into_iter().chain(others.iter().cloned()).collect();
        let next = Commit { oid: None, parents: parents.clone(), steps };
        let mut history = History { commits: vec![next] };
        let mut bases = changed::bases(repo)?;
        if !others.is_empty() {
            // In a merge an earlier commit is no reference: going back to it is how a merge discards work.
            bases.retain(|base| base.is_tip);
            let range = Range { tips: parents.clone(), known_refs: vec![KnownRefs::Remotes], ..Range::default() };
            history.commits.extend(range.changes(repo)?.history.commits);
            let new: HashSet<&Oid> = history.commits.iter().filter_map(|commit| commit.oid.as_ref()).collect();
            let published = parents.iter().filter(|parent| !new.contains(parent));
            bases.extend(published.map(|commit| Base { commit: commit.clone(), is_tip: true }));
        }
        let evidence = self.evidence(&history, &[], bases, &parents)?;
        let next = &history.commits[0];
        for step in &next.steps {
            if evidence.excuses(0, next, step)? {
                excused.paths.insert(step.path.clone());
            }
        }
        Ok(excused)
    }

    fn put_back(&self, range: &Range) -> Result<Excused, GitError> {
        Ok(Excused { paths: range.put_back(self.repo, self.suspects)?, notes: Vec::new() })
    }

    fn range(
        &self,
        range: &Range,
        history: &History,
        lost: &[(Oid, Step)],
        undo: &[Base],
    ) -> Result<Excused, GitError> {
        let related = HashSet::new();
        let paths = self.excused_in(range, history, lost, undo, None, &related)?;
        let mut excused = Excused { paths, notes: Vec::new() };
        let all_excused = |paths: &HashSet<Path>| self.suspects.iter().all(|path| paths.contains(path));
        if all_excused(&excused.paths) {
            return Ok(excused);
        }
        let first = range.main.as_ref().and_then(|main| project::first_commit(self.repo, main));
        if let Some(first) = &first
            && range.is_elsewhere
            && project::are_foreign(self.repo, first, &range.tips)?
        {
            excused.paths.extend(self.suspects.iter().cloned());
            return Ok(excused);
        }
        let foreign = match &first {
            Some(first) => project::foreign_edges(self.repo, first, history)?,
            None => related,
        };
        let mut known = range.clone();
        for address in &range.remotes {
            let answer = match time_for_remote(self.helpers.deadline) {
                None => Err(NO_TIME.to_owned()),
                Some(limit) => {
                    remote::commits(self.repo, address, &range.tips, limit).map_err(|error| error.to_string())
                }
            };
            match answer {
                Ok(common) => known.known.extend(common),
                Err(error) => excused.notes.push(remote::no_answer(address, &error)),
            }
        }
        if self.repo.common_dir.join("objects/info/alternates").exists() && range.remotes.is_empty() {
            known.known_refs.push(KnownRefs::Alternates);
        }
        if known != *range || !foreign.is_empty() {
            let new = known.commits(self.repo)?;
            excused.paths.extend(self.excused_in(&known, history, lost, undo, Some(&new), &foreign)?);
        }
        Ok(excused)
    }

    /// The paths at which every change has an excuse. `new` are the commits that are new, if not all of the history are;
    /// `foreign` those commits of another project on which the history is based.
    fn excused_in(
        &self,
        range: &Range,
        history: &History,
        lost: &[(Oid, Step)],
        undo: &[Base],
        new: Option<&HashSet<Oid>>,
        foreign: &HashSet<Oid>,
    ) -> Result<HashSet<Path>, GitError> {
        let edges = range.edges(self.repo)?.into_iter();
        let old = range.moved.iter().map(|(old, _)| old.clone()).filter(|old| self.repo.has(old));
        let mut bases: Vec<Base> = edges.chain(old).map(|commit| Base { commit, is_tip: true }).collect();
        bases.extend_from_slice(undo);
        let mut evidence = self.evidence(history, lost, bases, &range.tips)?;
        evidence.unrelated = history.unrelated(foreign);
        let mut excused: HashSet<Path> = self.suspects.iter().cloned().collect();
        for (n, commit) in history.commits.iter().enumerate() {
            if commit.oid.as_ref().is_some_and(|oid| new.is_some_and(|new| !new.contains(oid))) {
                continue;
            }
            for step in &commit.steps {
                if excused.contains(&step.path) && !evidence.excuses(n, commit, step)? {
                    excused.remove(&step.path);
                }
            }
        }
        for (old, step) in lost {
            if !evidence.carries(step, std::slice::from_ref(old)) {
                excused.remove(&step.path);
            }
        }
        Ok(excused)
    }

    fn evidence<'a>(
        &'a self,
        history: &'a History,
        lost: &[(Oid, Step)],
        bases: Vec<Base>,
        tips: &'a [Oid],
    ) -> Result<Evidence<'a>, GitError> {
        let mut question: Vec<Change> = Vec::new();
        let mut ask = |path: &Path, after: Option<Entry>| question.push(Change { path: path.clone(), after });
        let is_suspect = |step: &&Step| self.suspects.contains(&step.path);
        for commit in &history.commits {
            for step in commit.steps.iter().filter(is_suspect) {
                ask(&step.path, step.before.clone());
                ask(&step.path, step.after.clone());
                // A merge may discard what any of its parents has.
                for parent in commit.parents.iter().filter(|_| commit.parents.len() > 1) {
                    ask(&step.path, self.repo.entry(parent, &step.path)?);
                }
            }
        }
        for step in lost.iter().map(|(_, step)| step).filter(is_suspect) {
            ask(&step.path, step.before.clone());
            ask(&step.path, step.after.clone());
        }
        question.sort_unstable();
        question.dedup();
        let by_holder = (self.helpers.committed_by_holder)(&question);
        Ok(Evidence { repo: self.repo, history, unrelated: vec![false; history.commits.len()], bases, tips, by_holder })
    }
}

/// What is known about the changes of the suspicious paths.
struct Evidence<'a> {
    repo: &'a Repo,
    history: &'a History,
    /// For each commit of the history, whether it has no ancestor that others know.
    unrelated: Vec<bool>,
    bases: Vec<Base>,
    tips: &'a [Oid],
    /// Contents that the holder committed.
    by_holder: HashSet<Change>,
}

impl Evidence<'_> {
    /// Whether one change of one commit has an excuse.
    fn excuses(&self, n: usize, commit: &Commit, step: &Step) -> Result<bool, GitError> {
        if self.carries(step, &commit.parents) {
            return Ok(true);
        }
        if self.unrelated[n] && self.ends_as_before(&step.path)? {
            return Ok(true);
        }
        let (mut at_tip, mut at_base) = (false, false);
        for base in &self.bases {
            if self.repo.entry(&base.commit, &step.path)? == step.after {
                at_tip |= base.is_tip;
                at_base = true;
            }
        }
        if !at_base || !self.drops_only_new_work(commit, step)? {
            return Ok(false);
        }
        let undoes_holder = self.is_by_holder(&step.path, step.before.as_ref());
        Ok(!undoes_holder || (at_tip && !self.goes_back(step, &commit.parents)))
    }

    /// Whether it brings what the holder itself committed, and not an earlier version.
    fn carries(&self, step: &Step, parents: &[Oid]) -> bool {
        self.is_by_holder(&step.path, step.after.as_ref()) && !self.goes_back(step, parents)
    }

    fn is_by_holder(&self, path: &Path, after: Option<&Entry>) -> bool {
        self.by_holder.contains(&Change { path: path.clone(), after: after.cloned() })
    }

    fn goes_back(&self, step: &Step, parents: &[Oid]) -> bool {
        had_before(self.repo, parents, &step.path, step.after.as_ref())
    }

    /// Whether every tip has at the path what a known commit has.
    fn ends_as_before(&self, path: &Path) -> Result<bool, GitError> {
        for tip in self.tips {
            let end = self.repo.entry(tip, path)?;
            let mut same = false;
            for base in &self.bases {
                same |= self.repo.entry(&base.commit, path)? == end;
            }
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a merge that has one side's version discards only changes that no remote has and the holder did not make.
    fn drops_only_new_work(&self, commit: &Commit, step: &Step) -> Result<bool, GitError> {
        if commit.parents.len() < 2 {
            return Ok(true);
        }
        for parent in &commit.parents {
            let theirs = self.repo.entry(parent, &step.path)?;
            let is_new = || self.history.changes_below(parent, &step.path);
            if theirs != step.after && (self.is_by_holder(&step.path, theirs.as_ref()) || !is_new()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
