//! One check of a change: what it touches, what the server says about that, and the verdict.
//!
//! The order keeps the usual case short. What the change touches is read without a process if possible. If git must be
//! started to read it, the server is asked first whether anything is held at all. Git decides only where a path is held.

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::time::Instant;

use super::collect::{self, Collected, HookInput, Plan};
use super::excuse::Helpers;
use super::outage::{self, Outage};
use super::{Announcement, Moment, commits, passed};
use crate::git::changed::Change;
use crate::git::range::Update;
use crate::git::{self, Repo};
use crate::judge::{self, CheckError, CheckPolicy, Objections, Require, Standing, Unchecked, Verdict};
use crate::local::describe::NAME_MAX;
use crate::local::{ServerAccess, clock, session_file};
use crate::text::terminal;
use crate::wire;

/// A change that is about to happen.
pub struct ChangeCheck<'a> {
    pub repo: &'a Repo,
    pub input: HookInput<'a>,
    pub plan: &'a Plan,
    pub policy: &'a CheckPolicy,
    pub deadline: Instant,
}

/// What the server said about a change.
struct Answer {
    /// The changed paths; some may be listed that git would not list, unless git did.
    changes: Vec<Change>,
    /// The change as git lists it, if it was asked already.
    collected: OnceCell<Option<Collected>>,
    reply: wire::CheckReply,
    /// The session that makes the change.
    session: Option<String>,
}

impl ChangeCheck<'_> {
    /// Checks the change. `nearby` is what it touches, if that could be read without git. Also returns the push to announce.
    pub fn run(
        &self,
        nearby: Option<Vec<Change>>,
        access: Result<ServerAccess, CheckError>,
    ) -> (Verdict, Option<Announcement>) {
        let occasion = self.input.moment.occasion();
        let updates = collect::updates(self.input);
        let outage = Outage::recall(self.repo, access.as_ref().ok(), occasion.noun);
        let answer = access.map_err(Unchecked::Server).and_then(|mut access| {
            access.reply_limit = outage.is_known.then_some(outage::PROBE_TIME);
            let answer = self.ask(&mut access, nearby, &updates)?;
            Ok((access, answer))
        });
        let is_outage = matches!(answer, Err(Unchecked::Server(CheckError::Unreachable(_))));
        if !matches!(answer, Err(Unchecked::Paths(_))) {
            outage.note(is_outage);
        }
        let mut announcement = None;
        let verdict = match answer {
            Err(unchecked) => {
                let verdict = judge::verdict(&occasion, self.policy, Err(&unchecked));
                if is_outage { outage.without_repetition(verdict) } else { verdict }
            }
            Ok((access, answer)) => {
                let unseen = answer.as_ref().and_then(|_| self.discards_unseen(&updates));
                let verdict = answer.map_or(Verdict::Pass, |answer| self.verdict(&access, answer));
                let verdict = verdict.with_sentence(unseen.as_deref());
                let verdict = verdict.with_sentence(access.token_problem.as_deref());
                let announces = self.input.moment == Moment::PrePush && access.session.is_some();
                announcement = announces.then_some((access, updates));
                verdict
            }
        };
        let is_commit = matches!(self.input.moment, Moment::PreCommit | Moment::PreMergeCommit);
        if is_commit && !matches!(verdict, Verdict::Block(_)) {
            passed::note(self.repo);
        }
        (verdict, announcement)
    }

    /// Asks the server; `None` if nothing can be in the way.
    fn ask(
        &self,
        access: &mut ServerAccess,
        nearby: Option<Vec<Change>>,
        updates: &[Update],
    ) -> Result<Option<Answer>, Unchecked> {
        let (changes, collected) = match nearby {
            Some(changes) => (changes, OnceCell::new()),
            None => {
                match judge::ask_who_holds(access, self.deadline) {
                    Ok(held) if self.is_free(&held, access) => return Ok(None),
                    Err(error @ CheckError::Unreachable(_)) => return Err(Unchecked::Server(error)),
                    // An earlier version of the server does not know the question.
                    _ => {}
                }
                let collected = self.plan.collect(self.repo);
                let collected = collected.map_err(|error| Unchecked::Paths(error.to_string()))?;
                (collected.all_changes(), OnceCell::from(Some(collected)))
            }
        };
        if changes.is_empty() {
            return Ok(self.ask_about_pause(access));
        }
        let mut ask = || match self.input.moment {
            Moment::PreReceive => judge::ask_about_push(access, updates, &changes, self.deadline),
            _ => judge::ask_about(access, &changes, true, self.deadline).map(|reply| (reply, access.session.clone())),
        };
        let (mut reply, mut session) = ask().map_err(Unchecked::Server)?;
        // The session of a `git-dibs run` that was killed blocks no commit.
        if !reply.conflicts.is_empty() && !session_file::end_abandoned(self.repo).is_empty() {
            (reply, session) = ask().map_err(Unchecked::Server)?;
        }
        Ok(Some(Answer { changes, collected, reply, session }))
    }

    /// What is left to ask where no path counts, as in a merge or in the first push to an empty remote: whether the session
    /// is paused. It goes ahead if no server says so.
    fn ask_about_pause(&self, access: &mut ServerAccess) -> Option<Answer> {
        let session = access.session.clone()?;
        let reply = judge::ask_about(access, &[], false, self.deadline).ok().filter(|reply| reply.paused.is_some())?;
        Some(Answer { changes: Vec::new(), collected: OnceCell::new(), reply, session: Some(session) })
    }

    /// Whether nothing can speak against any change, and the server has nothing to remember about it.
    fn is_free(&self, held: &wire::Held, access: &ServerAccess) -> bool {
        let must_hold = self.policy.require.value == Require::Held && access.session.is_some();
        !held.own && !held.others && !held.paused && !must_hold
    }

    fn verdict(&self, access: &ServerAccess, answer: Answer) -> Verdict {
        let Answer { changes, collected, reply, session } = answer;
        let now = reply.server_time.unwrap_or_else(clock::now);
        let cut_short = reply.cut_short.clone();
        let committed = |contents: &[Change]| judge::committed_by_holder(access, contents, self.deadline);
        let helpers = Helpers { committed_by_holder: &committed, deadline: self.deadline };
        let notes = RefCell::default();
        let excused = |suspects: &[git::Path]| -> HashSet<git::Path> {
            // If git cannot tell whether a path counts, it does.
            let Some(collected) = collected.get_or_init(|| self.plan.collect(self.repo).ok()) else {
                return HashSet::new();
            };
            let listed: HashSet<git::Path> = collected.paths().into_iter().collect();
            let (suspects, unlisted): (Vec<_>, Vec<_>) =
                suspects.iter().cloned().partition(|path| listed.contains(path));
            let mut excused = collected.excused(self.repo, self.policy, &suspects, helpers).unwrap_or_default();
            excused.paths.extend(self.known_to_remote(collected, unlisted, helpers, &mut excused.notes));
            notes.replace(excused.notes);
            excused.paths
        };
        let objections = Objections::find(self.policy, &paths_of(&changes), session.as_deref(), reply, now, excused);
        let mut objections = objections;
        objections.notes.extend(notes.into_inner());
        if objections.standing == Standing::Person && !access.can_start_session() {
            objections.standing = Standing::Reader;
        }
        let mut occasion = self.input.moment.occasion();
        if !objections.conflicts.is_empty() {
            objections.commits = commits::of_paths(self.repo, self.input, &objections.conflicting_paths());
            // Git commits a merge as a whole.
            occasion.is_staged &= !self.repo.git_dir.join("MERGE_HEAD").exists();
        }
        let verdict = match cut_short.filter(|_| objections.is_empty()) {
            // None of what arrived counts, and the rest is not known.
            Some(why) => judge::verdict(&occasion, self.policy, Err(&Unchecked::Server(CheckError::Unreachable(why)))),
            None => judge::verdict(&occasion, self.policy, Ok(&objections)),
        };
        // With a conflict they are in its message.
        let notes = objections.notes.iter().filter(|_| objections.conflicts.is_empty());
        notes.fold(verdict, |verdict, note| verdict.with_sentence(Some(note.trim_end_matches('.'))))
    }
}

impl ChangeCheck<'_> {
    /// Those of `paths` that the remote has already. Git left them out because a tracking ref has the commits that change
    /// them, and a session holds them.
    fn known_to_remote(
        &self,
        collected: &Collected,
        mut paths: Vec<git::Path>,
        helpers: Helpers<'_>,
        notes: &mut Vec<String>,
    ) -> Vec<git::Path> {
        if paths.is_empty() {
            return paths;
        }
        match collected.asked(self.repo, self.deadline) {
            None => {}
            Some(Err(sentence)) => notes.push(sentence),
            Some(Ok(asked)) => {
                let listed: HashSet<git::Path> = asked.paths().into_iter().collect();
                let suspects: Vec<git::Path> = paths.iter().filter(|path| listed.contains(*path)).cloned().collect();
                let excused = asked.excused(self.repo, self.policy, &suspects, helpers).unwrap_or_default();
                paths.retain(|path| !listed.contains(path) || excused.paths.contains(path));
            }
        }
        // What the other side has on another branch may still take this branch back.
        let undone = collected.undone(self.repo, &paths, helpers).unwrap_or_default();
        paths.retain(|path| !undone.contains(path));
        paths
    }

    /// What a forced push discards that cannot be seen here, as a sentence without a full stop.
    fn discards_unseen(&self, updates: &[Update]) -> Option<String> {
        // Git leaves out a branch that is not moved forward, unless the push is forced.
        let is_unseen = |update: &&Update| update.brings_work() && !update.old.is_zero() && !self.repo.has(&update.old);
        let update = updates.iter().filter(|_| self.input.moment == Moment::PrePush).find(is_unseen)?;
        let name = terminal::clean(&update.name, NAME_MAX);
        Some(format!(
            "{name} has commits that were never fetched, so it was not checked what this forced push discards; \
             to see them first: git fetch"
        ))
    }
}

/// The paths of sorted changes, each once.
fn paths_of(changes: &[Change]) -> Vec<git::Path> {
    let mut paths: Vec<git::Path> = changes.iter().map(|change| change.path.clone()).collect();
    paths.dedup();
    paths
}
