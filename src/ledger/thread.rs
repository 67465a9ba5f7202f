//! The ledger's thread: reads the journal twice a second and writes what is new. Under load it writes in the time that is left
//! over.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pack_check::PackCheck;
use super::repack::Repacker;
use super::writer::{FlushReport, Writer};
use super::{LedgerError, LedgerStatus};
use crate::journal::{JournalReader, RecordPage};
use crate::threads;

/// How often the journal is read. Everything in between becomes one commit.
const READ_EVERY: Duration = Duration::from_millis(500);

/// After much was written, the next read waits until the ledger has grown by this many bytes a second on average, but not
/// longer than this. A client could otherwise fill the disk: in a directory with very many entries, every change writes all
/// of them again.
const BYTES_PER_SECOND: usize = 2 << 20;
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// With so many records to write the server is busy, and the ledger only takes the time that no other thread of the machine
/// wants. After this time, and the flush that it is in by then, it goes on as an ordinary thread of low priority.
const BUSY_RECORDS: u64 = 4096;
const IDLE_TIME_MAX: Duration = Duration::from_secs(10);

/// How often a stopping server looks whether the thread has ended.
const STOP_POLL: Duration = Duration::from_millis(5);

/// How long to wait after an error.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// A handle to the thread that writes a ledger.
pub struct Ledger {
    stop: Sender<()>,
    /// When the thread has to end, once it is to end.
    stop_by: Arc<OnceLock<Instant>>,
    status: Arc<LedgerStatus>,
    thread: JoinHandle<()>,
}

impl Ledger {
    /// Starts the thread that writes the ledger at `path`. Errors go to `status` and the log, and the thread retries.
    pub fn start(name: &str, path: PathBuf, journal: Box<dyn JournalReader>, status: Arc<LedgerStatus>) -> Ledger {
        let (stop, stopped) = channel();
        let stop_by = Arc::<OnceLock<Instant>>::default();
        let mut ledger = LedgerThread {
            path,
            journal,
            status: status.clone(),
            stop_by: stop_by.clone(),
            writer: None,
            repacker: Repacker::default(),
            pack_check: PackCheck::default(),
        };
        let run = move || {
            // When the processors are busy, the ledger falls behind and catches up later.
            threads::go_last(19);
            ledger.run(&stopped);
        };
        let thread = std::thread::Builder::new().name(format!("ledger {name}")).spawn(run);
        Ledger { stop, stop_by, status, thread: thread.expect("a thread can be started") }
    }

    /// Writes what is left, as far as that is possible until `stop_by`. The journal keeps the rest, and the next start writes
    /// it. A thread that is in the middle of a flush then is left behind: a flush that is cut off changes nothing.
    pub fn stop(self, stop_by: Instant) {
        let _ = self.stop_by.set(stop_by);
        drop(self.stop);
        while !self.thread.is_finished() && Instant::now() < stop_by {
            std::thread::sleep(STOP_POLL);
        }
        let records = self.status.lag().records;
        if records > 0 {
            tracing::info!(records, "the ledger is not complete; the next start writes the rest from the journal");
        }
    }
}

struct LedgerThread {
    path: PathBuf,
    journal: Box<dyn JournalReader>,
    status: Arc<LedgerStatus>,
    stop_by: Arc<OnceLock<Instant>>,
    writer: Option<Writer>,
    repacker: Repacker,
    pack_check: PackCheck,
}

impl LedgerThread {
    fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            let result = self.catch_up();
            let pause = match &result {
                Ok(bytes) => pause_after(*bytes),
                Err(_) => RETRY_AFTER,
            };
            self.report(result);
            if self.stop_by.get().is_none() {
                self.check_packs();
            }
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        if self.has_time() {
            let result = self.catch_up();
            self.report(result);
        }
        if let Some(stop_by) = self.stop_by.get() {
            self.repacker.finish(*stop_by);
        }
    }

    /// Whether another flush may begin.
    fn has_time(&self) -> bool {
        self.stop_by.get().is_none_or(|stop_by| Instant::now() < *stop_by)
    }

    /// Writes everything that is new. Returns how many bytes that took.
    fn catch_up(&mut self) -> Result<usize, LedgerError> {
        let head = self.journal.head()?;
        self.status.set_head(head);
        let is_busy = self.writer.as_ref().is_some_and(|writer| head.count_since(writer.seq()) >= BUSY_RECORDS);
        if !is_busy || self.stop_by.get().is_some() {
            return Ok(self.write_new(None)?.bytes);
        }
        let idle = self.write_new(Some(Instant::now() + IDLE_TIME_MAX))?;
        let rest = if idle.more { self.write_new(None)?.bytes } else { 0 };
        Ok(idle.bytes + rest)
    }

    /// Writes what is new. With a time only until then or a stop, and at the idle priority.
    fn write_new(&mut self, idle_until: Option<Instant>) -> Result<FlushReport, LedgerError> {
        let mut writer = match self.writer.take() {
            // A ledger that was deleted is rebuilt.
            Some(writer) if exists(writer.store().path()) => writer,
            _ => Writer::open(&self.path, self.journal.as_mut())?,
        };
        let mut total = FlushReport { more: true, ..FlushReport::default() };
        // A failed flush leaves the writer in an unknown state, so it is only kept after success.
        let goes_on = |until: Instant| Instant::now() < until && self.stop_by.get().is_none();
        while total.more && self.has_time() && idle_until.is_none_or(goes_on) {
            let flush = match idle_until {
                Some(_) => {
                    let page = writer.read(self.journal.as_mut())?;
                    write_when_idle(&mut writer, page)?
                }
                None => writer.flush(self.journal.as_mut())?,
            };
            let (events, bytes) = (total.events + flush.events, total.bytes + flush.bytes);
            total = FlushReport { events, bytes, more: flush.more };
            self.status.set_written(writer.seq());
            if flush.events > 0 {
                self.repacker.start_if_due(&self.path, writer.store().packs());
            }
        }
        self.writer = Some(writer);
        Ok(total)
    }

    /// Looks for damage in what was written before, and logs it once.
    fn check_packs(&mut self) {
        let damage = self.pack_check.check(&self.path).err().map(|error| error.to_string());
        if self.status.set_damage(damage.clone())
            && let Some(error) = damage
        {
            tracing::warn!(%error, "a part of the ledger cannot be read any more; new events are still written to it");
        }
    }

    /// Updates the status, and logs an error once, when it changes.
    fn report<T>(&self, result: Result<T, LedgerError>) {
        let error = result.err().map(|error| (error.problem(), error.to_string()));
        if !self.status.set_error(error.clone()) {
            return;
        }
        let ledger = self.path.display();
        match error {
            Some((_, error)) => {
                tracing::warn!(%error, %ledger, "the ledger cannot be written; reservations still work, and the ledger catches up later")
            }
            None => tracing::info!(%ledger, "the ledger is being written"),
        }
    }
}

/// Writes a page at the idle priority, in a thread of its own: without privileges, a thread cannot leave this priority again.
/// The page was read before. That thread may be without a processor for seconds, so it must hold no lock of the journal.
fn write_when_idle(writer: &mut Writer, page: RecordPage) -> Result<FlushReport, LedgerError> {
    let mut page = Some(page);
    let mut write = || page.take().map_or_else(|| Ok(FlushReport::default()), |page| writer.write(page));
    let written = std::thread::scope(|scope| {
        let idle = || {
            threads::go_when_idle();
            write()
        };
        let thread = std::thread::Builder::new().name("idle ledger".into()).spawn_scoped(scope, idle).ok()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Without a thread it is written here.
    written.unwrap_or_else(write)
}

/// How long to wait after so many bytes were written.
fn pause_after(bytes: usize) -> Duration {
    let seconds = bytes as f64 / BYTES_PER_SECOND as f64;
    Duration::from_secs_f64(seconds).clamp(READ_EVERY, PAUSE_MAX)
}

fn exists(path: &Path) -> bool {
    path.join("HEAD").exists()
}
