//! `git-dibs serve`: puts the rooms together and runs until it is told to stop.
//!
//! In reading order: `args` are the flags, `settings` what they, the file and the defaults add up to, `check` what is
//! wrong with that; `plan` names the repositories, `open` opens them, `listen` the sockets; `reload` is for SIGHUP.

mod config;
mod discovery;
pub(crate) mod history;
mod listen;
mod logging;
mod open;
mod reload;
mod repositories;
mod systemd;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cli::serve::Args;
use crate::cli::{Exit, talk};
use crate::http::{App, Server, runtime};
use crate::ledger::Ledger;
use crate::local::ServerRecord;
use crate::local::data_dir;
use crate::token::Keyring;
use crate::wire::Time;
use config::Settings;
use discovery::Residents;
use listen::Listening;
use open::{ledger_lag, open};
use reload::Reload;
use repositories::{Plan, plan};

pub use logging::Format;

/// How often key files are looked at for rotation.
const KEYS_EVERY: Duration = Duration::from_secs(1);

/// How often the token is made anew that lets people on this machine look.
const READ_TOKEN_EVERY: Duration = Duration::from_secs(24 * 3600);

pub fn run(args: Args) -> Result<Exit> {
    // First of all, because whatever opens a file could otherwise get their numbers mixed up.
    let handed = listen::handed_over()?;
    let (settings, problems) = Settings::of(&args);
    if args.check_config {
        return config::report(&settings, problems);
    }
    if !problems.is_empty() {
        let lines: Vec<String> = problems.iter().map(|problem| settings.shown(problem)).collect();
        bail!("the configuration cannot be used\n{}", lines.join("\n"));
    }
    // Held until the end, so that the last lines are written.
    let log = logging::begin(settings.log, settings.live.log_level.as_deref())?;
    raise_open_files();
    let fixed = settings.fixed.clone();
    let data = fixed.data.as_ref().map(|told| told.value.clone());
    let repos: Vec<&str> = fixed.repo.iter().map(|told| &*told.value).collect();
    let plans = plan(&repos, data.as_deref())?;
    let home = data.unwrap_or_else(|| plans[0].dir.clone());
    data_dir::make_private(&home)?;
    let keys = settings.live.keyring(data_dir::secret(&home))?;
    let secret_file = keys.secret_file.clone();
    let keyring = Arc::new(Keyring::new(keys)?);

    let stop = watch::Sender::new(false);
    let failure: Arc<Mutex<Option<String>>> = Arc::default();
    let mut desks = Vec::new();
    let (mut ledgers, mut gauges) = (Vec::new(), Vec::new());
    let mut repositories = Vec::new();
    for plan in &plans {
        let (repository, thread, ledger) = open(plan, &settings, stop.clone(), failure.clone())?;
        desks.push((repository.desk.clone(), thread));
        if let Some((ledger, status)) = ledger {
            gauges.extend(ledger_lag(&repository, &status));
            ledgers.push(ledger);
        }
        repositories.push(repository);
    }
    let mut app = App::new(repositories, keyring.clone(), unix_seconds);
    app.gauges = gauges;
    // A session of one repository has no business to know what the others are called.
    app.open_metrics = !fixed.behind_proxy && plans.len() == 1;
    app.set_limits(settings.live.limits.clone());
    app.set_hosts(settings.live.hosts.clone());
    let app = Arc::new(app);

    let runtime = runtime().context("cannot start the runtime")?;
    let residents = runtime.block_on(async {
        let Listening { listeners, url, socket } = listen::listen(&fixed, &home, handed).await?;
        let (pid, started_at) = (std::process::id(), Time(unix_seconds() * 1000));
        let record = ServerRecord { pid, socket, url, started_at, repo: None, secret_file };
        let residents = Arc::new(Residents::new(&plans, record.clone(), keyring.clone()));
        residents.tell()?;
        announce(&plans, &record, args.json)?;
        tokio::spawn(watch_keys(keyring.clone(), residents.clone()));
        tokio::spawn(refresh_read_tokens(residents.clone()));
        tokio::spawn(stop_on_signal(stop.clone())?);
        let usual_secret = data_dir::secret(&home);
        let reload =
            Reload { args, settings, usual_secret, app: app.clone(), level: log.level(), residents: residents.clone() };
        tokio::spawn(reload.on_signal()?);
        let closing = || {
            systemd::notify(systemd::STOPPING);
            app.set_stopping();
            desks.iter().for_each(|(desk, _)| desk.close());
        };
        systemd::notify(systemd::READY);
        Server::of(&app, listeners).run(stop.subscribe(), closing).await;
        anyhow::Ok(residents)
    })?;
    for (desk, thread) in desks {
        desk.stop();
        let _ = thread.join();
    }
    // After the desks, so that the last of what they decided is in.
    ledgers.into_iter().for_each(Ledger::stop);
    residents.leave();
    match failure.lock().expect("nobody panics with it").take() {
        Some(sentence) => bail!(sentence),
        None => Ok(Exit::Ok),
    }
}

/// Says where the server is to whoever started it.
fn announce(plans: &[Plan], record: &ServerRecord, json: bool) -> Result<()> {
    if json {
        return Ok(talk::document(&serde_json::to_vec(record)?)?);
    }
    let names: Vec<&str> = plans.iter().map(|plan| &*plan.name).collect();
    let socket = record.socket.as_ref().map(|path| path.display().to_string());
    let ways: Vec<String> = record.url.clone().into_iter().chain(socket).collect();
    talk::data(&format!("git-dibs serves {} at {}\n", names.join(", "), ways.join("\nand at ")))?;
    if record.socket.is_none() && record.url.is_some() {
        talk::say("no Unix socket, because its path would be too long; name a shorter one with --socket");
    }
    Ok(())
}

async fn refresh_read_tokens(residents: Arc<Residents>) {
    loop {
        tokio::time::sleep(READ_TOKEN_EVERY).await;
        residents.try_tell();
    }
}

/// Follows changes of the key files. A broken file is told once, and the keys stay as they were.
async fn watch_keys(keyring: Arc<Keyring>, residents: Arc<Residents>) {
    let mut told = None;
    loop {
        tokio::time::sleep(KEYS_EVERY).await;
        match keyring.reload() {
            Ok(changed) => {
                if changed {
                    tracing::info!("the keys have changed and were read again");
                    // What was signed with the old secret does not count any more.
                    residents.try_tell();
                }
                told = None;
            }
            Err(error) => {
                let sentence = Some(error.to_string());
                if told != sentence {
                    tracing::warn!(%error, "the keys stay as they were");
                    told = sentence;
                }
            }
        }
    }
}

fn stop_on_signal(stop: watch::Sender<bool>) -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    })
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Every connection is an open file, and the usual limit is made for programs that have a few. A service manager's hard
/// limit stays.
fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write this one value, and it outlives them.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
