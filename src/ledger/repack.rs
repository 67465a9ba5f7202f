//! Repacks the ledger with the git program, which keeps it small and quick to read. Runs beside the flushes.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::git::{Git, GitError};
use crate::threads;

/// Repack at this many packs. Every pack slows each read of the ledger down a little.
const PACKS_MAX: usize = 32;

/// Up to this many packs, repacking only has the time that nothing else on the machine wants.
const PACKS_HURRY: usize = 8 * PACKS_MAX;

/// After repacking, wait this many times its duration before the next time. This limits the CPU time that
/// is taken from requests.
const PAUSE_FACTOR: u32 = 9;

/// The longest pause: a repack that only has idle processors may take minutes.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Repacks on another thread, one at a time.
#[derive(Default)]
pub struct Repacker {
    /// Returns how long it took.
    running: Option<JoinHandle<Duration>>,
    not_before: Option<Instant>,
}

impl Repacker {
    /// Starts if there are too many packs and it is not running.
    pub fn start_if_due(&mut self, path: &Path, packs: usize) {
        if packs < PACKS_MAX || self.running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        if let Some(took) = self.running.take().and_then(|thread| thread.join().ok()) {
            self.not_before = Some(Instant::now() + (took * PAUSE_FACTOR).min(PAUSE_MAX));
        }
        if self.not_before.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let path = path.to_owned();
        let work = move || {
            // Git inherits the priority. Where the processors were always busy, it has that of the flushes.
            if packs < PACKS_HURRY {
                threads::go_when_idle();
            }
            run(path)
        };
        let started = std::thread::Builder::new().name("ledger repack".to_owned()).spawn(work);
        self.running = started.ok();
    }

    /// Waits for a running repack, but not longer than this: git finishes it alone, and the ledger is complete without it.
    pub fn finish(&mut self, until: Instant) {
        while self.running.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn run(path: PathBuf) -> Duration {
    let begin = Instant::now();
    if let Err(error) = repack(&path) {
        // The ledger is complete, only larger and slower to read; the next flush tries again.
        tracing::warn!(%error, ledger = %path.display(), "could not repack the ledger");
        remove_unfinished(&path);
    }
    begin.elapsed()
}

/// Removes what a failed repack left behind. Git does not, and where there was no room, the rest would never fit.
fn remove_unfinished(path: &Path) {
    let files = std::fs::read_dir(path.join("objects/pack")).into_iter().flatten().flatten();
    let of_git = ["tmp_pack_", "tmp_idx_", "tmp_rev_", ".tmp-"];
    for file in files {
        let name = file.file_name();
        if of_git.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// Joins small packs, and writes the commit graph with changed paths, which makes `git log -- PATH` quick.
pub fn repack(path: &Path) -> Result<(), GitError> {
    // With a geometric progression of pack sizes, each object is only copied a few times.
    let settings = ["repack.writeBitmaps=false", "pack.threads=1"];
    git(path).with(settings).args(["repack", "--geometric=2", "-d", "-q"]).output()?;
    git(path).args(["commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress"]).output()?;
    Ok(())
}

/// The git program, for this ledger only.
pub fn git(path: &Path) -> Git {
    Git::elsewhere(path).env("GIT_DIR", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_repack_leaves_no_half_of_a_pack() {
        let dir = tempfile::tempdir().unwrap();
        let packs = dir.path().join("objects/pack");
        std::fs::create_dir_all(&packs).unwrap();
        for name in ["tmp_pack_x1", "tmp_idx_x2", ".tmp-77-pack-1.pack", "pack-1.pack", "pack-1.idx"] {
            std::fs::write(packs.join(name), "half").unwrap();
        }
        run(dir.path().to_owned());
        let mut left: Vec<_> = std::fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["pack-1.idx", "pack-1.pack"], "it is no repository, so git fails");
    }
}
