//! What speaks against a change: reservations of other sessions, paths that had to be reserved and are not, a pause.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::policy::{CheckPolicy, Require};
use crate::git::Path;
use crate::text::percent;
use crate::wire::{self, Conflict, Paused, Time};

/// What speaks against a change. Empty if it may go ahead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objections {
    /// Reservations of other sessions. A path appears once for each holder.
    pub conflicts: Vec<Conflict>,
    /// Paths that the session had to reserve (`dibs.require=held`) and did not.
    pub unreserved: Vec<Path>,
    /// The pause of the session's feature.
    pub paused: Option<Paused>,
    /// Paths with a conflict that do not count, because the change only undoes an earlier one, or only carries what the
    /// holder or the protected repository has.
    pub excused: HashSet<Path>,
    /// Which commit changes a path in conflict and whose commit that is, as a phrase; at a push.
    pub commits: HashMap<Path, String>,
    /// What limits these findings, in whole sentences.
    pub notes: Vec<String>,
    /// Who asks: the advice depends on it.
    pub standing: Standing,
    /// The server's clock, for the time left.
    pub now: Time,
}

/// What a caller can do about a reservation of another session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// A session, which can ask and wait.
    Session,
    /// A person who can start a session.
    #[default]
    Person,
    /// A person whose token can only look.
    Reader,
}

impl Objections {
    /// Finds the objections in the server's reply. If only a part of the reply arrived and there are none, nothing is known.
    ///
    /// `excused` is asked which of the suspicious paths do not count. It is called only if there are suspicious paths.
    pub fn find(
        policy: &CheckPolicy,
        paths: &[Path],
        session: Option<&str>,
        reply: wire::CheckReply,
        now: Time,
        excused: impl FnOnce(&[Path]) -> HashSet<Path>,
    ) -> Objections {
        let has_session = session.is_some();
        let in_conflict: HashSet<Path> = reply.conflicts.iter().map(|conflict| path_of(&conflict.file_path)).collect();
        // A person without a session holds nothing, so `dibs.require` does not apply.
        let must_hold = policy.require.value == Require::Held && has_session && reply.cut_short.is_none();
        let mut unreserved = match must_hold {
            true => not_held(paths, &reply.held),
            false => Vec::new(),
        };
        let mut suspects: Vec<Path> = unreserved.iter().chain(&in_conflict).cloned().collect();
        suspects.sort_unstable();
        suspects.dedup();
        let excused = if suspects.is_empty() { HashSet::new() } else { excused(&suspects) };
        let mut conflicts = reply.conflicts;
        conflicts.retain(|conflict| !excused.contains(&path_of(&conflict.file_path)));
        unreserved.retain(|path| !excused.contains(path) && !in_conflict.contains(path));
        let note = |why: &String| format!("This may not be all, because the reply of the server is incomplete: {why}");
        let (commits, notes) = (HashMap::new(), reply.cut_short.iter().map(note).collect());
        let standing = if has_session { Standing::Session } else { Standing::Person };
        Objections { conflicts, unreserved, paused: reply.paused, excused, commits, notes, standing, now }
    }

    /// Whether the change may go ahead.
    pub fn is_empty(&self) -> bool {
        self.conflicts.is_empty() && self.unreserved.is_empty() && self.paused.is_none()
    }

    /// The paths in conflict, each once, in the order of the reply.
    pub fn conflicting_paths(&self) -> Vec<Path> {
        let mut known = HashSet::new();
        let paths = self.conflicts.iter().map(|conflict| path_of(&conflict.file_path));
        paths.filter(|path| known.insert(path.clone())).collect()
    }
}

fn not_held(paths: &[Path], held: &[String]) -> Vec<Path> {
    let held: HashSet<Path> = held.iter().map(|name| path_of(name)).collect();
    paths.iter().filter(|path| !held.contains(*path)).cloned().collect()
}

/// The path in git's bytes, from a name as [`question`](super::question) wrote it.
pub fn path_of(text: &str) -> Path {
    let name = text.strip_prefix("file:").unwrap_or(text);
    percent::decode(name).map_or_else(|| name.as_bytes().to_vec(), Cow::into_owned)
}
