//! The server as a process: configuration, start, stop, signals and logging; and upkeep of its files while it is off.
//!
//! This room wires the others together and holds no reservation rules. It prints nothing: `cli` does. Start at [`run`].
//!
//! * `config`: flags, environment variables, file and defaults, combined; `serve --check-config`.
//! * `repositories` finds what is served, `open` opens journal, desk and ledger, `listen` opens the sockets.
//! * `signals` says what each signal does; `reload` is the work done at SIGHUP; `shutdown` is how the server stops.
//! * `discovery` writes the files by which clients on this machine find the server.
//! * `contention_file` keeps the counts of refused and waiting requests over a restart, `ended_logins_file` which browsers
//!   have signed out.
//! * `cluster` makes the server a node of a cluster, which opens the repositories that it leads.
//! * `tls` reads the certificate with which the server speaks TLS.
//! * `idle` ends a server that is not used; `log_file` is the log of a server in the background.
//! * `repository_lock` refuses a second server for a repository; `deleted_files` notices when the files are gone.
//! * `upkeep`: `git dibs db`, `git dibs ledger` and `git dibs uninstall --all`, which need no running server.

mod cluster;
mod config;
mod contention_file;
mod deleted_files;
mod discovery;
mod ended_logins_file;
mod history;
mod idle;
mod key_files;
mod listen;
mod log_file;
mod logging;
mod open;
mod reload;
mod repositories;
mod repository_lock;
mod shutdown;
mod signals;
mod systemd;
mod tls;
mod tracked_files;
pub mod upkeep;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;

pub use config::{CommandLine, ConfigValue, Options, check_config};
pub use logging::LogFormat;

use crate::cluster::Cluster;
use crate::http::{App, HttpServer, Repository, runtime};
use crate::local::{LastServer, ServerRecord, data_dir, nothing_held};
use crate::token::Keyring;
use crate::wire::Time;
use cluster::RepositoryWork;
use config::ServerSettings;
use discovery::DiscoveryFiles;
use log_file::LogFile;
use open::Workers;
use reload::Reloader;
use repositories::ServedRepository;
use repository_lock::RepositoryLock;
use shutdown::Shutdown;

/// How often the other nodes of a cluster are told how far the ledger is behind.
const LEDGER_REPORT_EVERY: Duration = Duration::from_secs(5);

/// A server that accepts connections from now on.
pub struct Started<'a> {
    /// The process, its addresses and its repositories.
    pub record: &'a ServerRecord,
    /// The server's own directory.
    pub data: &'a Path,
}

/// Runs a server until it gets SIGTERM or SIGINT, until it was not used for the configured time, or until a journal cannot
/// be written any more, which is an error. It logs to `log_to`, in the background to a file of its own, and calls `on_start`
/// once, as soon as it accepts connections.
pub fn run(
    command_line: CommandLine,
    log_to: Box<dyn Write + Send>,
    on_start: impl FnOnce(&Started<'_>) -> Result<()>,
) -> Result<()> {
    // First of all: the sockets are known only by their numbers, and opening any file could take one of these.
    let inherited = systemd::inherited_sockets()?;
    let (settings, problems) = ServerSettings::load(&command_line);
    if !problems.is_empty() {
        let lines: Vec<String> = problems.iter().map(|problem| settings.describe(problem)).collect();
        bail!("the server does not start, because its configuration has errors\n{}", lines.join("\n"));
    }
    raise_open_file_limit();

    let fixed = settings.fixed.clone();
    let served = repositories::find(&fixed)?;
    let home = repositories::home(&fixed, &served);
    // A server that may not listen where it is told to leaves no journal behind.
    listen::check_flags(&fixed, &home, &inherited)?;
    // Before anything is written, and until the end.
    let _locks = served.iter().map(|served| RepositoryLock::take(&served.repo)).collect::<Result<Vec<_>>>()?;
    data_dir::make_private(&home)?;
    let log_to = match fixed.in_background {
        true => Box::new(open_log_file(&home)?),
        false => log_to,
    };
    // Kept until the end, because dropping it writes the last lines.
    let log = logging::start(settings.fixed.log, settings.reloadable.log_level.as_deref(), log_to)?;
    let default_secret_file = data_dir::secret(&home);
    if fixed.cluster.is_some() {
        cluster::check_keys(&settings.reloadable)?;
    }
    let keys = settings.reloadable.keyring(default_secret_file.clone())?;
    let secret_file = keys.secret_file.clone();
    let keyring = Arc::new(Keyring::new(keys)?);

    let tls = tls::load(&settings.reloadable)?.map(|config| Arc::new(ArcSwap::from(config)));

    let has_own_settings = settings.are_own() || !inherited.is_empty();
    let last_port = LastServer::read(&data_dir::dibs_dir(&served[0].repo)).port;
    let shutdown = Shutdown::new();
    let mut workers = Workers::default();
    let node = match &fixed.cluster {
        Some(settings) => Some(cluster::join(settings, &served, keyring.server_id(), shutdown.clone())?),
        None => None,
    };
    let app = Arc::new(open_app(&served, &settings, &keyring, &shutdown, &mut workers, node.as_ref())?);
    let current = Arc::new(ArcSwap::from_pointee(settings.reloadable.clone()));
    ended_logins_file::keep(&app, &home);
    if let Some(node) = &node {
        cluster::share_logins(node, &app)?;
    }
    let (journals, files_gone) = (workers.files.clone(), workers.files_gone.clone());

    let runtime = runtime().context("cannot start the server's threads")?;
    let (discovery, unused) = runtime.block_on(async {
        let sockets = listen::listen(&fixed, last_port, tls.clone(), &home, inherited).await?;
        let (pid, started_at) = (std::process::id(), Time(unix_seconds() * 1000));
        let (url, socket) = (sockets.url, sockets.unix_path);
        let record = ServerRecord {
            pid,
            socket,
            url,
            started_at,
            repo: None,
            secret_file,
            id: keyring.server_id(),
            public_url: settings.reloadable.public_url.as_ref().map(|url| url.value.clone()),
            repositories: served.iter().map(|repository| repository.name.to_string()).collect(),
            background: fixed.in_background,
        };
        let discovery = Arc::new(DiscoveryFiles::new(&served, &home, record.clone(), keyring.clone()));
        discovery.write()?;
        discovery.remember(has_own_settings)?;
        on_start(&Started { record: &record, data: &home })?;

        tokio::spawn(contention_file::save_regularly(workers.contention_files.clone()));
        tokio::spawn(key_files::watch(keyring.clone(), discovery.clone()));
        tokio::spawn(discovery::renew_read_tokens(discovery.clone()));
        tokio::spawn(deleted_files::watch(journals, files_gone, discovery.clone(), app.clone()));
        if let Some(timeout) = fixed.idle_timeout {
            tokio::spawn(idle::watch(app.clone(), timeout, shutdown.clone()));
        }
        let reloader = Reloader {
            command_line,
            settings,
            default_secret_file,
            app: app.clone(),
            log_level: log.level(),
            discovery: discovery.clone(),
            tls,
            current: current.clone(),
        };
        signals::handle_reload(reloader)?;
        signals::handle_stop(shutdown.clone())?;
        systemd::notify(systemd::READY);
        if let Some(node) = &node {
            for served in &served {
                let (served, fixed) = (served.clone(), fixed.clone());
                let (reloadable, app) = (current.clone(), app.clone());
                node.run(served.name.clone(), Box::new(RepositoryWork { served, fixed, reloadable, app }))?;
            }
            tokio::spawn(report_ledgers(node.reporter(), app.clone()));
            tokio::spawn(cluster::probe_nodes(node.view(), app.clone()));
        }
        let on_stop = || {
            systemd::notify(systemd::STOPPING);
            app.set_stopping();
            workers.close();
            // What it leads is decided by others from now on.
            node.iter().for_each(Cluster::hand_over);
        };
        HttpServer::of(&app, sockets.listeners).run(shutdown.subscribe(), on_stop).await;
        let unused = if fixed.in_background { unused(&served, &app).await } else { Vec::new() };
        anyhow::Ok((discovery, unused))
    })?;
    workers.stop();
    node.iter().for_each(Cluster::leave);
    // Nothing is decided any more, and no other server can start before this process has ended.
    for repository in unused.into_iter().filter(|_| shutdown.result().is_ok()) {
        if let Err(error) = nothing_held::tell(&repository.dir, Time(unix_seconds() * 1000)) {
            tracing::warn!("{error:#}; the next check starts a server");
        }
    }
    discovery.remove();
    shutdown.result()
}

/// The repositories in which nothing is held, and whose journal is in their own directory. There is no request any more.
async fn unused<'a>(served: &'a [ServedRepository], app: &App) -> Vec<&'a ServedRepository> {
    let mut unused = Vec::new();
    for repository in served.iter().filter(|served| served.dir == data_dir::dibs_dir(&served.repo)) {
        let Some(open) = app.repositories.get(&repository.name) else { continue };
        if idle::is_unused(&open).await {
            unused.push(repository);
        }
    }
    unused
}

fn open_log_file(home: &Path) -> Result<LogFile> {
    let path = data_dir::log(home);
    LogFile::open(&path).with_context(|| format!("cannot open the log {}", path.display()))
}

/// Opens every repository and puts them behind one HTTP application.
fn open_app(
    served: &[ServedRepository],
    settings: &ServerSettings,
    keyring: &Arc<Keyring>,
    shutdown: &Shutdown,
    workers: &mut Workers,
    node: Option<&Cluster>,
) -> Result<App> {
    let names = served.iter().map(|repository| repository.name.clone()).collect();
    let mut app = App::closed(names, keyring.clone(), unix_seconds);
    match node {
        // Each is opened when this node leads it.
        Some(node) => app.set_forwarder(cluster::forwarder(node)),
        None => {
            for repository in served {
                app.open(open::open(repository, settings, shutdown.clone(), workers)?);
            }
        }
    }
    app.serves_tls = settings.fixed.behind_proxy || settings.fixed.speaks_tls;
    // With several repositories, a session of one of them must not learn the names of the others. With a proxy or TLS, other
    // machines can ask.
    app.open_metrics = !app.serves_tls && served.len() == 1;
    app.set_limits(settings.reloadable.limits.clone());
    app.set_hosts(settings.reloadable.hosts.clone());
    app.set_public_url(settings.reloadable.public_url.as_ref().map(|url| url.value.as_str().into()));
    Ok(app)
}

/// Tells the cluster how far the ledgers of this node are behind.
async fn report_ledgers(report: impl Fn(u64), app: Arc<App>) {
    loop {
        tokio::time::sleep(LEDGER_REPORT_EVERY).await;
        let behind = |repo: Arc<Repository>| Some(repo.history.as_ref()?.ledger()?.records_behind);
        report(app.repositories.open().filter_map(behind).max().unwrap_or_default());
    }
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Raises the soft limit of open files to the hard limit. Every connection is an open file, and the usual soft limit is
/// too low for a server.
fn raise_open_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write this one value, and it outlives them.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
