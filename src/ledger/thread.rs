//! The thread that follows the journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::repack::Repacker;
use super::writer::Writer;
use super::{LedgerError, LedgerStatus};
use crate::journal::JournalReader;

/// How often the journal is looked at. What happened in between becomes one commit.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a ledger that could not be written is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// A ledger that is being written.
pub struct Ledger {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Ledger {
    /// Begins to write the ledger at `path`. Whatever goes wrong with it is told in `status` and the log, and tried again.
    pub fn start(name: &str, path: PathBuf, journal: Box<dyn JournalReader>, status: Arc<LedgerStatus>) -> Ledger {
        let (stop, stopped) = channel();
        let run = move || {
            insist_little();
            LedgerThread { path, journal, status, writer: None, repacker: Repacker::default() }.run(&stopped);
        };
        let thread = std::thread::Builder::new().name(format!("ledger {name}")).spawn(run);
        Ledger { stop, thread: thread.expect("a thread can be started") }
    }

    /// Writes what is left, if that works, and ends.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct LedgerThread {
    path: PathBuf,
    journal: Box<dyn JournalReader>,
    status: Arc<LedgerStatus>,
    writer: Option<Writer>,
    repacker: Repacker,
}

impl LedgerThread {
    fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            let done = self.catch_up();
            let pause = if done.is_ok() { LOOK_EVERY } else { RETRY_AFTER };
            self.tell(done);
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        let done = self.catch_up();
        self.tell(done);
        self.repacker.finish();
    }

    fn catch_up(&mut self) -> Result<(), LedgerError> {
        self.status.set_head(self.journal.head()?);
        let mut writer = match self.writer.take() {
            // Whoever takes it away wants a new one.
            Some(writer) if is_there(writer.store().path()) => writer,
            _ => Writer::open(&self.path, self.journal.as_mut())?,
        };
        // A flush that fails has changed the writer, so it is only kept after one that worked.
        loop {
            let flushed = writer.flush(self.journal.as_mut())?;
            self.status.set_written(writer.seq());
            if flushed.events > 0 {
                self.repacker.consider(&self.path, writer.store().packs());
            }
            if !flushed.more {
                break;
            }
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Says what is wrong when that changes.
    fn tell(&self, done: Result<(), LedgerError>) {
        let sentence = done.err().map(|error| error.to_string());
        if !self.status.set_error(sentence.clone()) {
            return;
        }
        let ledger = self.path.display();
        match sentence {
            Some(error) => {
                tracing::warn!(%error, %ledger, "the ledger cannot be written; grants go on, and it catches up later")
            }
            None => tracing::info!(%ledger, "the ledger is being written"),
        }
    }
}

fn is_there(path: &Path) -> bool {
    path.join("HEAD").exists()
}

/// Grants come first: where the processor is short, the ledger falls behind and catches up later.
fn insist_little() {
    // SAFETY: plain numbers. On Linux zero means the calling thread alone; elsewhere it would slow everything down.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
    }
}
