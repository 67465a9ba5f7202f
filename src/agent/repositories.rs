//! The repositories in which one session of an agent works.
//!
//! An edit may reach a file of another repository, or of a submodule. Each of them has a server and a session of its own,
//! and the last hook of the agent names only one directory. So each repository is noted in a file of the user, which is
//! named after a hash of the agent's own id. If the file cannot be written, the keeper of each repository ends its session
//! when the agent's process ends.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::state::{decoded, dir_name};
use crate::git::Place;
use crate::local::session_file::Handle;
use crate::local::{Environment, data_dir};

/// The most repositories of one session that are read.
const REPOSITORIES_MAX: usize = 100;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file that is older than this was left behind by an agent that was killed.
const LEFT_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most files that one call looks at.
const SWEPT_MAX: usize = 256;

/// Notes that the session works in the repository of this worktree.
pub fn note(environment: &Environment, root: &Handle, place: &Place) {
    let Some(dir) = directory(environment).filter(|dir| data_dir::make_private(dir).is_ok()) else { return };
    sweep(&dir);
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join(root.file_name()));
    // One short line, which is written at once: several hooks may do so.
    let _ = file.and_then(|mut file| file.write_all(format!("{}\n", dir_name(&place.top)).as_bytes()));
}

/// The repositories that were noted. They are forgotten.
pub fn take(environment: &Environment, root: &Handle) -> Vec<Place> {
    let Some(file) = directory(environment).map(|dir| dir.join(root.file_name())) else { return Vec::new() };
    let mut text = String::new();
    let read = fs::File::open(&file).and_then(|open| open.take(FILE_BYTES_MAX).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let _ = fs::remove_file(file);
    let mut places: Vec<Place> = Vec::new();
    for name in text.lines().take(REPOSITORIES_MAX) {
        let top = decoded(name).map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
        let place = top.filter(|top| top.is_absolute()).and_then(|top| Place::around(&top));
        places.extend(place.filter(|place| !places.contains(place)));
    }
    places
}

fn directory(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name: &str| environment.text(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("git-dibs/agents"))
}

fn sweep(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.take(SWEPT_MAX) {
        let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > LEFT_AGE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
