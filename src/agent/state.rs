//! What the hooks of one session keep between calls: which paths they reserved, when the agent was last active, and who
//! keeps the session alive.
//!
//! The files are in a directory of the session, private to its user. All of it can be lost: then paths stay reserved until
//! the session ends, and the next hook starts over.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::boot_clock;
use crate::client::Limits;
use crate::git::{self, Place};
use crate::local::agent_trouble::AGENTS_DIRECTORY;
use crate::local::data_dir;
use crate::text::percent;
use crate::wire::Notice;

/// The most paths of one session that are remembered. More than these stay reserved until the session ends.
const HELD_MAX: usize = 10_000;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What the names of the directories begin with.
const PREFIX: &str = "session-";

/// The file that says that the server did not answer, how long it counts, and how much time the server has then.
const OUTAGE: &str = "outage";
const OUTAGE_AGE: Duration = Duration::from_secs(15);
const OUTAGE_LIMIT: Duration = Duration::from_millis(200);

/// The file with what other sessions ask this one for.
const REQUESTS: &str = "requests";

/// What no process has used for this long was left behind.
const LEFT_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most directories that one sweep looks at.
const SWEPT_MAX: usize = 256;

/// The directory of a session.
#[derive(Debug, Clone)]
pub struct SessionState {
    dir: PathBuf,
}

/// The paths that hooks reserved, by the git directory of the worktree in which they are edited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPaths(pub BTreeMap<String, HeldInWorktree>);

/// The paths that are edited in one worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldInWorktree {
    /// The top of the worktree, percent-encoded.
    pub top: String,
    /// The index file when the paths were last compared with HEAD. A commit replaces the file.
    pub index: String,
    /// Some of the paths are committed and wait to be pushed.
    #[serde(default)]
    pub is_unpushed: bool,
    /// By the path, percent-encoded.
    pub paths: BTreeMap<String, HeldPath>,
}

/// A path that a hook reserved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPath {
    /// What HEAD had there when it was reserved: an object id, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// HEAD has had something else there since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_committed: bool,
}

impl SessionState {
    /// The state of a session; none if its id cannot name a directory.
    pub fn of(common_dir: &Path, session: &str) -> Option<SessionState> {
        let is_name = !session.is_empty() && !session.starts_with('.') && !session.contains('/');
        is_name.then(|| SessionState { dir: common_dir.join(AGENTS_DIRECTORY).join(format!("{PREFIX}{session}")) })
    }

    /// Whether hooks have acted for the session.
    pub fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    /// The directory, which is made if it does not exist.
    fn made(&self) -> Option<&Path> {
        data_dir::make_private(&self.dir).ok()?;
        Some(&self.dir)
    }

    /// Removes everything, because the session has ended.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Removes what sessions left behind that did not end in order.
    pub fn sweep(common_dir: &Path) {
        let entries = fs::read_dir(common_dir.join(AGENTS_DIRECTORY)).into_iter().flatten().flatten();
        let is_session = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        for entry in entries.filter(is_session).take(SWEPT_MAX) {
            let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            let state = SessionState { dir: entry.path() };
            if age.is_some_and(|age| age > LEFT_AGE) && state.idle() > LEFT_AGE && !state.has_keeper() {
                state.remove();
            }
        }
    }

    /// Notes that the agent is active.
    pub fn note_activity(&self) {
        let write = || -> std::io::Result<()> {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(self.dir.join("active"))?;
            std::os::unix::fs::FileExt::write_all_at(&file, &boot_clock::now().as_secs().to_be_bytes(), 0)
        };
        if write().is_err() && self.made().is_some() {
            let _ = write();
        }
    }

    /// How long ago the agent was active. Long ago, if that is not known.
    pub fn idle(&self) -> Duration {
        let bytes = fs::read(self.dir.join("active")).ok().and_then(|bytes| bytes.try_into().ok());
        let active = bytes.map(|bytes| Duration::from_secs(u64::from_be_bytes(bytes)));
        active.and_then(|active| boot_clock::now().checked_sub(active)).unwrap_or(Duration::MAX)
    }

    /// Notes that the server did not answer, so that the next hooks give it less time.
    pub fn note_outage(&self) {
        self.write(OUTAGE, &());
    }

    /// How long the server may take: less if it did not answer a moment ago, so that a frozen server costs one wait and
    /// not one for each edit.
    pub fn limits(&self) -> Limits {
        let noted = fs::metadata(self.dir.join(OUTAGE)).and_then(|about| about.modified());
        let is_recent = noted.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < OUTAGE_AGE));
        match is_recent {
            true => Limits { total: OUTAGE_LIMIT, ..Limits::default() },
            false => Limits::default(),
        }
    }

    /// Keeps what the server repeats until the session has acted on it: requests of other sessions, and a pause.
    pub fn note_requests(&self, notices: &[Notice]) {
        let is_repeated = |notice: &&Notice| matches!(notice, Notice::UnlockRequested { .. } | Notice::Paused { .. });
        let repeated: Vec<&Notice> = notices.iter().filter(is_repeated).collect();
        if !repeated.is_empty() || self.dir.join(REQUESTS).exists() {
            self.write(REQUESTS, &repeated);
        }
    }

    /// What [`note_requests`](Self::note_requests) kept last.
    pub fn requests(&self) -> Vec<Notice> {
        self.read(REQUESTS)
    }

    /// The present time by the clock of files, which is coarser than the system's: what was written before is not later,
    /// and what is written from now on is.
    pub fn file_time(&self) -> u64 {
        self.write("time", &());
        fs::metadata(self.dir.join("time")).map_or(u64::MAX, |about| changed_at(&about))
    }

    /// The lock of the process that keeps the session alive; none if another process has it.
    pub fn lock_keeper(&self) -> Option<File> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.made()?.join("keeper"));
        let file = file.ok()?;
        file.try_lock().is_ok().then_some(file)
    }

    /// Whether a process keeps the session alive.
    pub fn has_keeper(&self) -> bool {
        let file = File::open(self.dir.join("keeper"));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The paths that hooks of this session reserved.
    pub fn held(&self) -> HeldPaths {
        self.read("held")
    }

    /// Changes the list of paths, one process at a time.
    pub fn change_held<T>(&self, change: impl FnOnce(&mut HeldPaths) -> T) -> Option<T> {
        let _lock = self.lock()?;
        let mut held = self.held();
        let before = held.clone();
        let result = change(&mut held);
        if held != before {
            self.write("held", &held);
        }
        Some(result)
    }

    pub(super) fn read<T: Default + for<'de> Deserialize<'de>>(&self, name: &str) -> T {
        let mut bytes = Vec::new();
        let read = File::open(self.dir.join(name)).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        read.ok().and_then(|_| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Replaces a file as a whole: readers see the old or the new text.
    pub(super) fn write(&self, name: &str, value: &impl Serialize) {
        let write = || -> Option<()> {
            let dir = self.made()?;
            let new = dir.join(format!("{name}.{}", std::process::id()));
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).ok()?;
            file.write_all(&serde_json::to_vec(value).ok()?).ok()?;
            fs::rename(&new, dir.join(name)).ok()
        };
        write();
    }

    fn lock(&self) -> Option<File> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.made()?.join("lock"));
        let file = file.ok()?;
        file.lock().ok()?;
        Some(file)
    }
}

impl HeldPaths {
    /// Adds paths that were just reserved, each with what HEAD has there.
    pub fn add(&mut self, place: &Place, paths: impl IntoIterator<Item = (git::Path, Option<String>)>) {
        let count: usize = self.0.values().map(|worktree| worktree.paths.len()).sum();
        let worktree = self.0.entry(dir_name(&place.git_dir)).or_default();
        if worktree.paths.is_empty() {
            worktree.top = dir_name(&place.top);
            worktree.index = index_stamp(&place.git_dir);
        }
        let new =
            paths.into_iter().map(|(path, base)| (percent::encode(&path), HeldPath { base, is_committed: false }));
        worktree.paths.extend(new.take(HELD_MAX.saturating_sub(count)));
    }

    /// Forgets paths of a worktree.
    pub fn remove(&mut self, git_dir: &Path, paths: &[git::Path]) {
        if let Some(worktree) = self.0.get_mut(&dir_name(git_dir)) {
            paths.iter().for_each(|path| drop(worktree.paths.remove(&percent::encode(path))));
        }
        self.0.retain(|_, worktree| !worktree.paths.is_empty());
    }

    /// Whether hooks reserved this path.
    pub fn knows(&self, git_dir: &Path, path: &git::Path) -> bool {
        self.0.get(&dir_name(git_dir)).is_some_and(|worktree| worktree.paths.contains_key(&percent::encode(path)))
    }

    /// Whether nothing was committed in the worktree since its paths were last compared with HEAD.
    pub fn is_current(&self, place: &Place) -> bool {
        let worktree = self.0.get(&dir_name(&place.git_dir));
        worktree.is_none_or(|worktree| worktree.index == index_stamp(&place.git_dir))
    }

    /// Whether hooks reserved all of these paths, and nothing was committed in the worktree since.
    pub fn covers(&self, place: &Place, paths: &[git::Path]) -> bool {
        paths.iter().all(|path| self.knows(&place.git_dir, path)) && self.is_current(place)
    }

    /// Every path, once.
    pub fn all(&self) -> Vec<git::Path> {
        let mut all: Vec<git::Path> =
            self.0.values().flat_map(|worktree| worktree.paths.keys().filter_map(|name| decoded(name))).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Identifies the content of the index file. Git replaces the file whenever it changes.
pub fn index_stamp(git_dir: &Path) -> String {
    match fs::metadata(git_dir.join("index")) {
        Ok(about) => format!("{}.{}.{}.{}", about.ino(), about.mtime(), about.mtime_nsec(), about.size()),
        Err(_) => String::new(),
    }
}

/// When a file was last changed or put in its place, in nanoseconds since 1970.
pub fn changed_at(about: &fs::Metadata) -> u64 {
    about.ctime().cast_unsigned() * 1_000_000_000 + about.ctime_nsec().cast_unsigned()
}

/// A directory as a name in the file.
pub fn dir_name(dir: &Path) -> String {
    percent::encode(dir.as_os_str().as_bytes())
}

/// The bytes of a name in the file.
pub fn decoded(name: &str) -> Option<Vec<u8>> {
    percent::decode(name).map(std::borrow::Cow::into_owned)
}
