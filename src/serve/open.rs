//! Opens a repository: its journal, its desk, its ledger.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::Notify;

use super::config::{FixedSettings, ReloadableSettings, ServerSettings};
use super::contention_file::ContentionFile;
use super::history::RepositoryHistory;
use super::repositories::ServedRepository;
use super::shutdown::Shutdown;
use super::tracked_files::RepositoryFiles;
use super::upkeep;
use crate::desk::{Desk, SystemClock};
use crate::engine::Policy;
use crate::git::Repo;
use crate::http::{Gauge, Repository};
use crate::journal::{Journal, JournalError, JournalFiles, SqliteJournal};
use crate::ledger::{HistoryReader, Ledger, LedgerStatus, RetainingJournal};
use crate::local::data_dir;

/// How long the ledgers of a stopping server may write on. What is left then is written by the next start.
const LEDGER_STOP_TIME: Duration = Duration::from_secs(2);

/// The threads behind the open repositories.
#[derive(Default)]
pub struct Workers {
    desks: Vec<(Desk, JoinHandle<()>)>,
    ledgers: Vec<Ledger>,
    /// Where the counts of refused and waiting requests are kept.
    pub contention_files: Vec<ContentionFile>,
    /// The files of the journals.
    pub files: Vec<JournalFiles>,
    /// Notified when a desk finds that the files of its journal are gone.
    pub files_gone: Arc<Notify>,
}

impl Workers {
    /// Refuses new commands from now on.
    pub fn close(&self) {
        self.desks.iter().for_each(|(desk, _)| desk.close());
    }

    /// Ends the threads at once, because another node decides now.
    pub fn abandon(self) {
        for (desk, thread) in self.desks {
            desk.abandon();
            let _ = thread.join();
        }
        let stop_by = Instant::now() + LEDGER_STOP_TIME;
        self.ledgers.into_iter().for_each(|ledger| ledger.stop(stop_by));
    }

    /// Ends the threads. The ledgers come last, so that they contain the desks' last records.
    pub fn stop(self) {
        for (desk, thread) in self.desks {
            desk.stop();
            let _ = thread.join();
        }
        self.contention_files.iter().for_each(ContentionFile::save);
        let stop_by = Instant::now() + LEDGER_STOP_TIME;
        self.ledgers.into_iter().for_each(|ledger| ledger.stop(stop_by));
    }
}

/// Refuses a journal that other users can change, and reports one that they can read: it has every reason and name.
fn check_mode(journal: &Path) -> Result<()> {
    let Ok(found) = std::fs::metadata(journal) else { return Ok(()) };
    let mode = found.mode() & 0o7777;
    let shown = journal.display();
    if mode & 0o022 != 0 {
        bail!("other users can change the journal {shown} (mode {mode:04o}); run: chmod 600 {journal:?}");
    }
    if mode & 0o044 != 0 {
        tracing::warn!("other users can read the journal {shown} (mode {mode:04o}); run: chmod 600 {journal:?}");
    }
    Ok(())
}

/// Opens a repository and starts its threads. The server is shut down if its journal cannot be written any more.
pub fn open(
    served: &ServedRepository,
    settings: &ServerSettings,
    shutdown: Shutdown,
    workers: &mut Workers,
) -> Result<Repository> {
    data_dir::make_private(&served.dir)?;
    check_mode(&data_dir::journal(&served.dir))?;
    let path = data_dir::ledger(&served.dir);
    let mut journal = SqliteJournal::open(&data_dir::journal(&served.dir))?;
    let head = journal.head();
    upkeep::journal::continue_after_ledger(&mut journal, head, &path)?;
    workers.files.push(journal.files());
    let files_gone = workers.files_gone.clone();
    let on_failure = move |error: JournalError| match error {
        // The server goes on, and says to every client why it cannot decide.
        JournalError::Gone { .. } => files_gone.notify_one(),
        error => shutdown.fail(error.to_string()),
    };
    open_on(served, &settings.fixed, &settings.reloadable, Box::new(journal), on_failure, workers)
}

/// Starts the threads of a repository on its journal. `on_failure` is called if that cannot be written any more.
pub fn open_on(
    served: &ServedRepository,
    fixed: &FixedSettings,
    reloadable: &ReloadableSettings,
    mut journal: Box<dyn Journal>,
    on_failure: impl FnOnce(JournalError) + Send + 'static,
    workers: &mut Workers,
) -> Result<Repository> {
    let path = data_dir::ledger(&served.dir);
    let history_reader = journal.reader()?;
    let ledger = match fixed.no_ledger {
        true => None,
        false => {
            let status = Arc::<LedgerStatus>::default();
            let reader = journal.reader()?;
            journal = Box::new(RetainingJournal::new(journal, status.clone()));
            Some((status, reader))
        }
    };
    let fold_case = ignores_case(&served.repo)?;
    let policy = Policy { fold_case, ..reloadable.engine_policy.clone() };
    let opened = Desk::open(&served.name, journal, Box::new(SystemClock::new()), policy, on_failure);
    let (desk, thread) = opened.with_context(|| format!("cannot open the repository {}", served.name))?;

    let history = HistoryReader::new(history_reader, ledger.is_some().then(|| path.clone()));
    let status = ledger.as_ref().map(|(status, _)| status.clone());
    let mut repository = Repository::new(served.name.clone(), desk);
    let mut key_policy = reloadable.key_policy.clone();
    key_policy.ports.seed = path_number(&served.dir);
    repository.set_policy(key_policy.folded(fold_case));
    repository.history = Some(Arc::new(RepositoryHistory { history, status }));
    repository.tracked_files = Some(Arc::new(RepositoryFiles(served.repo.clone())));
    workers.desks.push((repository.desk.clone(), thread));
    workers.contention_files.push(ContentionFile::open(&served.dir, repository.desk.clone()));
    if let Some((status, reader)) = ledger {
        repository.gauges = ledger_lag(&repository, &status).into();
        workers.ledgers.push(Ledger::start(&served.name, path, reader, status));
    }
    Ok(repository)
}

/// A number that is different for almost every path, and always the same for one (FNV-1a).
fn path_number(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Two gauges: how far the ledger is behind, in records and in seconds.
fn ledger_lag(repository: &Repository, status: &Arc<LedgerStatus>) -> [Gauge; 2] {
    let (name, desk) = (repository.name.clone(), repository.desk.clone());
    let (of_records, of_time) = (status.clone(), status.clone());
    let records = move || desk.feed().head().count_since(of_records.last_written_seq()) as f64;
    let seconds = move || of_time.lag().time.as_secs_f64();
    [
        Gauge {
            name: "dibs_ledger_lag_records",
            help: "Records that are not in the ledger yet.",
            repo: name.clone(),
            read: Box::new(records),
        },
        Gauge {
            name: "dibs_ledger_lag_seconds",
            help: "For how long the ledger has been behind.",
            repo: name,
            read: Box::new(seconds),
        },
    ]
}

/// Whether the repository's file system ignores case. Git tested that when it created the repository.
fn ignores_case(repo: &Repo) -> Result<bool> {
    let value = repo.git().args(["config", "--type=bool", "--get", "core.ignorecase"]).answer()?;
    Ok(value.is_some_and(|value| value.trim_ascii() == b"true"))
}
