//! Keeping the ledger small and quick to look through, with the git program and beside the flushes.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::git::{Git, GitError};

/// Packs there may be before they are put together. Each costs every look into the ledger a little.
const PACKS_MAX: usize = 32;

/// How many times as long as it took nothing is tidied: where packs come that fast, the processor is for requests.
const REST: u32 = 9;

/// How long a server that stops waits for it.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// Tidies on a thread of its own, one at a time.
#[derive(Default)]
pub struct Repacker {
    /// Answers how long it took.
    running: Option<JoinHandle<Duration>>,
    rests_until: Option<Instant>,
}

impl Repacker {
    /// Starts if there are too many packs and nothing is under way.
    pub fn consider(&mut self, path: &Path, packs: usize) {
        if packs < PACKS_MAX || self.running.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        if let Some(took) = self.running.take().and_then(|thread| thread.join().ok()) {
            self.rests_until = Some(Instant::now() + took * REST);
        }
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let path = path.to_owned();
        // A thread inherits how little its parent insists on the processor, and so does the program it starts.
        let started = std::thread::Builder::new().name("ledger tidy".to_owned()).spawn(move || run(path));
        self.running = started.ok();
    }

    /// Waits for what is under way, but not for long: what git began it finishes alone, and a ledger is whole without.
    pub fn finish(&mut self) {
        let begin = Instant::now();
        while self.running.as_ref().is_some_and(|thread| !thread.is_finished()) && begin.elapsed() < FINISH_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn run(path: PathBuf) -> Duration {
    let begin = Instant::now();
    if let Err(error) = repack(&path) {
        // The ledger is whole, only larger and slower to look through; the next flush tries again.
        tracing::warn!(%error, ledger = %path.display(), "could not put the ledger's packs together");
    }
    begin.elapsed()
}

/// Puts packs together where that is worth it, and notes for git which commits touch which paths.
pub fn repack(path: &Path) -> Result<(), GitError> {
    // Packs grow like powers of two, so each object is only moved a few times in its life.
    let settings = ["repack.writeBitmaps=false", "pack.threads=1"];
    git(path).with(&settings).args(["repack", "--geometric=2", "-d", "-q"]).output()?;
    git(path).args(["commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress"]).output()?;
    Ok(())
}

/// The git program for this ledger and no other repository.
pub fn git(path: &Path) -> Git {
    Git::elsewhere(path).env("GIT_DIR", path)
}
