//! Opens a repository: its journal, its desk, its ledger.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tokio::sync::watch;

use super::config::Settings;
use super::history::Hindsight;
use super::repositories::Plan;
use crate::desk::{Desk, SystemClock};
use crate::engine::Policy;
use crate::git::Repo;
use crate::http::{Gauge, Repository};
use crate::journal::{Journal, JournalError, SqliteJournal};
use crate::ledger::{History, Kept, Ledger, Status};
use crate::local::data_dir;

/// A ledger that is being written, and how far it is.
pub type Written = (Ledger, Arc<Status>);

/// Opens it. When its journal cannot be written any more, `failure` says why and `stop` is set.
pub fn open(
    plan: &Plan,
    settings: &Settings,
    stop: watch::Sender<bool>,
    failure: Arc<Mutex<Option<String>>>,
) -> Result<(Repository, JoinHandle<()>, Option<Written>)> {
    data_dir::make_private(&plan.dir)?;
    let mut journal: Box<dyn Journal> = Box::new(SqliteJournal::open(&data_dir::journal(&plan.dir))?);
    let hindsight = journal.reader()?;
    let written = match settings.fixed.no_ledger {
        true => None,
        false => {
            let status = Arc::<Status>::default();
            let reader = journal.reader()?;
            journal = Box::new(Kept::new(journal, status.clone()));
            Some((status, reader))
        }
    };
    let fold_case = ignores_case(&plan.repo)?;
    let policy = Policy { fold_case, ..settings.live.rules.clone() };
    let failed = move |error: JournalError| {
        *failure.lock().expect("nobody panics with it") = Some(error.to_string());
        stop.send_replace(true);
    };
    let opened = Desk::open(&plan.name, journal, Box::new(SystemClock::new()), policy, failed);
    let (desk, thread) = opened.with_context(|| format!("cannot open the repository {}", plan.name))?;
    let path = data_dir::ledger(&plan.dir);
    let status = written.as_ref().map(|(status, _)| status.clone());
    let history = History::new(hindsight, written.is_some().then(|| path.clone()));
    let ledger = written.map(|(status, reader)| (Ledger::follow(&plan.name, path, reader, status.clone()), status));
    let mut repository = Repository::new(plan.name.clone(), desk);
    repository.set_policy(settings.live.policy.clone().folded(fold_case));
    repository.past = Some(Arc::new(Hindsight { history, status }));
    Ok((repository, thread, ledger))
}

/// How far the ledger is behind, for whoever watches.
pub fn ledger_lag(repository: &Repository, status: &Arc<Status>) -> [Gauge; 2] {
    let (name, desk) = (repository.name.clone(), repository.desk.clone());
    let (of_records, of_time) = (status.clone(), status.clone());
    let records = move || desk.feed().head().0.saturating_sub(of_records.written().0) as f64;
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

/// Git found out when it made the repository.
fn ignores_case(repo: &Repo) -> Result<bool> {
    let said = repo.git().args(["config", "--type=bool", "--get", "core.ignorecase"]).answer()?;
    Ok(said.is_some_and(|said| said.trim_ascii() == b"true"))
}
