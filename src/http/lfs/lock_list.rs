//! All locks of a repository at one moment, in the order of a list: first the paths that are reserved by name, in the order
//! of their grants, then the files that directories and patterns cover.

use hashbrown::{HashMap, HashSet};

use super::files::FileList;
use super::lock_id::LockId;
use crate::engine::{Grant, Mode, ReservationId, Seq, SessionId, SessionName, Text, Timestamp};
use crate::http::outcome::time;
use crate::key::{Claim, Kind};
use crate::wire::lfs::{Lock, LockOwner, Unlisted};

/// The most locks in a list. What is beyond is enforced by our own hooks only.
pub const LOCKS_MAX: usize = 100_000;

/// About the most memory that a list takes, in bytes.
const LIST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most files that are compared with patterns for one list: less than a second of work.
const COMPARED_FILES_MAX: usize = 5_000_000;

/// The locks of a repository after one record, with its patterns expanded at one commit.
pub struct LockList {
    pub head: Seq,
    /// The commit whose files the patterns cover. None where no pattern is held, and HEAD does not matter.
    pub commit: Option<Option<Text>>,
    locks: Vec<ListedLock>,
    /// Holders, by the number in their locks.
    sessions: Vec<SessionName>,
    /// The locks of each path that several sessions hold.
    several: HashMap<Text, Vec<usize>>,
    /// Reservations that are not in the list, or not with all of their files.
    unlisted: usize,
    bytes: usize,
}

struct ListedLock {
    reservation: ReservationId,
    fence: Seq,
    path: Text,
    since: Timestamp,
    session: usize,
    /// It is one of the files of a pattern.
    is_expanded: bool,
}

/// A place in the list: after the lock with this path of this grant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    is_expanded: bool,
    fence: Seq,
    path: String,
}

/// One page of the list.
#[derive(Default)]
pub struct LockPage {
    /// Each with whether it is the caller's own.
    pub locks: Vec<(bool, Lock)>,
    pub next: Option<Cursor>,
}

/// What the list is made of.
#[derive(Default)]
pub struct HeldPaths {
    /// In the order of the grants.
    pub literal: Vec<(SessionName, Grant)>,
    pub patterns: Vec<(SessionName, Grant)>,
    /// Those that no list has room for.
    beyond: usize,
}

impl HeldPaths {
    /// Adds reservations of paths and patterns. Other keys are no files.
    pub fn add(&mut self, found: Vec<(SessionName, Grant)>) {
        for held in found {
            let list = match held.1.key.kind() {
                Kind::Path => &mut self.literal,
                Kind::Glob => &mut self.patterns,
                Kind::Logical | Kind::Uri => continue,
            };
            match list.len() < LOCKS_MAX {
                true => list.push(held),
                false => self.beyond += 1,
            }
        }
    }
}

impl LockList {
    /// The list of what was held after record `head`. Patterns need the files that they cover.
    pub fn build(head: Seq, held: &HeldPaths, files: Option<&FileList>) -> LockList {
        let mut building = Building { unlisted: held.beyond, ..Building::default() };
        for (session, grant) in &held.literal {
            // Clients could neither read nor write another name.
            let is_listed = match std::str::from_utf8(grant.key.spelling()) {
                Ok(path) => building.add(session, grant, path.into(), false),
                Err(_) => false,
            };
            building.unlisted += usize::from(!is_listed);
        }
        let mut compared = 0;
        if !held.patterns.is_empty() {
            building.expand_from_here();
        }
        for (session, grant) in &held.patterns {
            let Claim::Glob(glob) = grant.key.claim() else { continue };
            let Some(files) = files else {
                building.unlisted += 1;
                continue;
            };
            let left = COMPARED_FILES_MAX - compared;
            let candidates: Vec<(&Text, bool)> = files.candidates(glob).take(left).collect();
            compared += candidates.len();
            let mut covered: Vec<&Text> =
                candidates.iter().filter(|(_, covers)| *covers).map(|(name, _)| *name).collect();
            covered.sort_unstable();
            let all_fit = covered.into_iter().all(|path| building.add(session, grant, path.clone(), true));
            building.unlisted += usize::from(!all_fit || candidates.len() == left || !files.is_complete());
        }
        let has_several = !held.patterns.is_empty() || held.literal.iter().any(|(_, grant)| grant.mode == Mode::Shared);
        let several = if has_several { several(&building.locks) } else { HashMap::new() };
        let Building { locks, sessions, unlisted, bytes, .. } = building;
        let commit = (!held.patterns.is_empty()).then(|| files.map(|files| files.commit().clone()));
        LockList { head, commit, locks, sessions, several, unlisted, bytes }
    }

    pub fn unlisted(&self) -> Unlisted {
        Unlisted { reservations: Some(self.unlisted).filter(|count| *count > 0) }
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// One page, as the session sees it: one lock for each path, its own if it has one.
    pub fn page(&self, session: Option<&SessionId>, after: Option<&Cursor>, limit: usize) -> LockPage {
        let own = self.own(session);
        let first = after.map_or(0, |after| self.locks.partition_point(|lock| lock.is_at_or_before(after)));
        let (mut page, mut last) = (LockPage::default(), None);
        for (place, lock) in self.locks.iter().enumerate().skip(first) {
            if self.chosen(lock, place, own) != place {
                continue;
            }
            if page.locks.len() == limit {
                page.next = last.map(ListedLock::cursor);
                return page;
            }
            page.locks.push((own == Some(lock.session), self.lock(lock)));
            last = Some(lock);
        }
        page
    }

    /// The lock of a file that a pattern covers.
    pub fn of_file(&self, session: Option<&SessionId>, path: &str) -> Option<Lock> {
        let own = self.own(session);
        let (place, lock) = self.locks.iter().enumerate().find(|(_, lock)| &*lock.path == path)?;
        Some(self.lock(&self.locks[self.chosen(lock, place, own)]))
    }

    pub fn by_id(&self, id: LockId) -> Option<Lock> {
        self.locks.iter().find(|lock| lock.fence == id.fence && lock.id() == id).map(|lock| self.lock(lock))
    }

    fn own(&self, session: Option<&SessionId>) -> Option<usize> {
        self.sessions.iter().position(|known| Some(&known.session) == session)
    }

    /// The place of the lock that stands for the path of this one.
    fn chosen(&self, lock: &ListedLock, place: usize, own: Option<usize>) -> usize {
        let Some(places) = self.several.get(&lock.path) else { return place };
        let of_caller = places.iter().find(|place| own == Some(self.locks[**place].session));
        *of_caller.unwrap_or(&places[0])
    }

    fn lock(&self, lock: &ListedLock) -> Lock {
        let name = owner_name(&self.sessions[lock.session]);
        let (id, path) = (lock.id().to_string(), lock.path.clone());
        Lock { id, path, locked_at: time(lock.since), owner: LockOwner { name } }
    }
}

impl ListedLock {
    fn id(&self) -> LockId {
        match self.is_expanded {
            true => LockId::of_file(self.reservation, self.fence, &self.path),
            false => LockId { reservation: self.reservation, fence: self.fence, file: None },
        }
    }

    fn cursor(&self) -> Cursor {
        // The fence alone finds a path that is reserved by name.
        let path = if self.is_expanded { self.path.to_string() } else { String::new() };
        Cursor { is_expanded: self.is_expanded, fence: self.fence, path }
    }

    fn is_at_or_before(&self, cursor: &Cursor) -> bool {
        let path = if self.is_expanded { &*self.path } else { "" };
        (self.is_expanded, self.fence, path) <= (cursor.is_expanded, cursor.fence, &*cursor.path)
    }
}

impl Cursor {
    /// Reads the text of a cursor. It names a place, not a lock, so that the lock may be gone by now.
    pub fn parse(text: &str) -> Option<Cursor> {
        let (is_expanded, rest) = match text.split_at_checked(1)? {
            ("n", rest) => (false, rest),
            ("p", rest) => (true, rest),
            _ => return None,
        };
        let (fence, path) = if is_expanded { rest.split_once('_')? } else { (rest, "") };
        Some(Cursor { is_expanded, fence: Seq(fence.parse().ok()?), path: path.to_owned() })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_expanded {
            false => write!(f, "n{}", self.fence.0),
            true => write!(f, "p{}_{}", self.fence.0, self.path),
        }
    }
}

/// The holder as LFS clients show it. It is never what decides whose a lock is.
pub fn owner_name(session: &SessionName) -> Text {
    match &session.name {
        Some(name) if !name.is_empty() => name.clone(),
        _ => session.session.as_str().into(),
    }
}

#[derive(Default)]
struct Building {
    locks: Vec<ListedLock>,
    sessions: Vec<SessionName>,
    numbers: HashMap<SessionId, usize>,
    /// Each path with its holder, once patterns are expanded: what a session holds twice is one lock, and takes one place.
    known: Option<HashSet<(usize, Text)>>,
    unlisted: usize,
    bytes: usize,
}

impl Building {
    /// Everything that is reserved by name has been added, and patterns follow.
    fn expand_from_here(&mut self) {
        self.known = Some(self.locks.iter().map(|lock| (lock.session, lock.path.clone())).collect());
    }

    /// Adds a lock; returns whether there was room.
    fn add(&mut self, session: &SessionName, grant: &Grant, path: Text, is_expanded: bool) -> bool {
        let number = *self.numbers.entry(session.session.clone()).or_insert_with(|| {
            self.sessions.push(session.clone());
            self.sessions.len() - 1
        });
        if self.known.as_ref().is_some_and(|known| known.contains(&(number, path.clone()))) {
            return true;
        }
        let bytes = size_of::<ListedLock>() + 16 + path.len();
        if self.locks.len() == LOCKS_MAX || self.bytes + bytes > LIST_BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        if let Some(known) = &mut self.known {
            known.insert((number, path.clone()));
        }
        let (reservation, fence, since) = (grant.id, grant.fence, grant.since);
        self.locks.push(ListedLock { reservation, fence, path, since, session: number, is_expanded });
        true
    }
}

/// The places of the locks of each path that has more than one.
fn several(locks: &[ListedLock]) -> HashMap<Text, Vec<usize>> {
    let mut places: HashMap<&Text, Vec<usize>> = HashMap::with_capacity(locks.len());
    for (place, lock) in locks.iter().enumerate() {
        places.entry(&lock.path).or_default().push(place);
    }
    places.into_iter().filter(|(_, places)| places.len() > 1).map(|(path, places)| (path.clone(), places)).collect()
}
