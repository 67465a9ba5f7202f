//! Which process is meant: an id alone would also fit a later process, so its start time belongs to it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The most processes above this one that are looked at.
const ANCESTORS_MAX: usize = 16;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// When it started, in the kernel's clock ticks since boot; none where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
}

impl ProcessIdentity {
    /// The process that has this id now; none if there is none.
    pub fn of(pid: u32) -> Option<ProcessIdentity> {
        start_of(pid).map(|started| ProcessIdentity { pid, started })
    }

    /// The processes above this one, the nearest first, with their names. At most `ANCESTORS_MAX`.
    pub fn ancestors() -> impl Iterator<Item = (ProcessIdentity, String)> {
        let mut pid = std::os::unix::process::parent_id();
        std::iter::from_fn(move || {
            let (name, parent) = name_and_parent(pid)?;
            let found = (ProcessIdentity::of(pid)?, name);
            pid = parent;
            Some(found)
        })
        .take(ANCESTORS_MAX)
    }

    /// The directory it works in; none where the system does not tell.
    pub fn directory(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()
    }

    pub fn is_running(&self) -> bool {
        match (start_of(self.pid), self.started) {
            (Some(Some(now)), Some(then)) => now == then,
            (found, _) => found.is_some(),
        }
    }
}

/// The name of a process and its parent.
#[cfg(target_os = "linux")]
fn name_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    Some((name, after.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// Where the system does not tell, only the parent is known, and not its name.
#[cfg(not(target_os = "linux"))]
fn name_and_parent(pid: u32) -> Option<(String, u32)> {
    (pid > 1).then(|| (String::new(), 0))
}

/// When a running process started, in the kernel's clock ticks since boot, as far as the system tells; none if there is no
/// such process.
pub fn start_of(pid: u32) -> Option<Option<u64>> {
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name of the program is in parentheses and may contain anything.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        // A zombie has ended; only its parent has not noticed yet.
        if matches!(fields.next(), Some("Z" | "X")) {
            return None;
        }
        return Some(fields.nth(18).and_then(|ticks| ticks.parse().ok()));
    }
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: takes plain numbers; signal 0 is only a test.
    let exists =
        unsafe { libc::kill(pid, 0) } == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    exists.then_some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_processes_above_this_one_are_found() {
        let all: Vec<_> = ProcessIdentity::ancestors().collect();
        assert_eq!(all[0].0.pid, std::os::unix::process::parent_id());
        assert!(all.iter().all(|(process, name)| process.is_running() && !name.is_empty()), "{all:?}");
    }

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        let own = ProcessIdentity::of(std::process::id()).expect("this process runs");
        assert!(own.is_running());
        assert!(ProcessIdentity { started: None, ..own }.is_running());
        if let Some(ticks) = own.started {
            let earlier = ProcessIdentity { started: Some(ticks + 1), ..own };
            assert!(!earlier.is_running(), "another process had this id before");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!ProcessIdentity { pid: child.id(), started: Some(1) }.is_running());
    }
}
