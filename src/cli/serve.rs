//! `git-dibs serve`: puts the rooms together and runs until it is told to stop.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::config::{File, named_repo};
use super::past::Hindsight;
use super::{Exit, logging, place, talk};
use crate::client::ServerRecord;
use crate::desk::{Desk, SystemClock};
use crate::engine::{Policy, Text};
use crate::git::Repo;
use crate::http::{App, Courier, Gauge, Listener, Past, Repository, Server, TtlBounds, router};
use crate::journal::{Journal, SqliteJournal};
use crate::key::KeyRules;
use crate::ledger::{History, Kept, Ledger, Status};
use crate::token::{Keyring, KeyringConfig, Mint, Scope};
use crate::wire::Time;

/// Where a server listens if nobody says otherwise.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3427);

/// How often key files are looked at for rotation.
const KEYS_EVERY: Duration = Duration::from_secs(1);

/// How long the token counts that lets people on this machine look, and how often it is made anew.
const READ_TOKEN_SECONDS: i64 = 7 * 24 * 3600;
const READ_TOKEN_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The longest path a Unix socket can have.
const SOCKET_PATH_MAX: usize = 107;

/// Serves reservations until it gets SIGTERM or Ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// A repository to serve, as PATH or NAME=PATH; several may be given. The default is the one you are in.
    #[arg(long, value_name = "[NAME=]PATH")]
    repo: Vec<String>,
    /// The address to listen on. Without it, 127.0.0.1:3427, or any free port if that is taken.
    #[arg(long, value_name = "ADDRESS", env = "DIBS_LISTEN")]
    listen: Option<String>,
    /// The Unix socket to listen on. Without it, one in the data directory.
    #[arg(long, value_name = "PATH", env = "DIBS_SOCKET")]
    socket: Option<PathBuf>,
    /// The directory for journal, ledger, secret and socket. Without it, `dibs` in the repository's git directory.
    #[arg(long, value_name = "DIR", env = "DIBS_DATA")]
    data: Option<PathBuf>,
    /// A configuration file (TOML) with the same names.
    #[arg(long, value_name = "FILE", env = "DIBS_CONFIG")]
    config: Option<PathBuf>,
    /// Listen on an address other machines reach; something in front must speak TLS with them.
    #[arg(long)]
    behind_proxy: bool,
    /// A file with the secret that signs tokens (HS256). DIBS_JWT_SECRET may hold the secret itself.
    #[arg(long, value_name = "FILE", env = "DIBS_SECRET_FILE")]
    secret_file: Option<PathBuf>,
    /// A JWKS file with public keys that verify tokens (EdDSA, ES256, RS256); read again when it changes.
    #[arg(long, value_name = "FILE", env = "DIBS_JWKS")]
    jwks: Option<PathBuf>,
    /// The only token issuer (iss) to accept.
    #[arg(long, value_name = "NAME", env = "DIBS_ISSUER")]
    issuer: Option<String>,
    /// The audience (aud) tokens must be for.
    #[arg(long, value_name = "NAME", env = "DIBS_AUDIENCE")]
    audience: Option<String>,
    /// A session silent for so many seconds is lost, and everything it holds is released.
    #[arg(long, value_name = "SECONDS", env = "DIBS_SESSION_TIMEOUT")]
    session_timeout: Option<u64>,
    /// Log every decision to stderr, as json or as text. Without it, only trouble is logged, as text.
    #[arg(long, value_name = "FORMAT", env = "DIBS_LOG_FORMAT")]
    log: Option<logging::Format>,
    /// Write no ledger, the history in git.
    #[arg(long)]
    no_ledger: bool,
    /// Print where it listens as JSON.
    #[arg(long)]
    json: bool,
}

/// A ledger that is being written, and how far it is.
type Written = (Ledger, Arc<Status>);

/// A repository with everything decided.
struct Plan {
    name: Text,
    repo: Repo,
    /// Where its journal goes.
    dir: PathBuf,
}

pub fn run(args: Args) -> Result<Exit> {
    let file = args.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    // Held until the end, so that the last lines are written.
    let _log = logging::begin(args.log.or(file.log));
    let data = args.data.clone().or_else(|| file.data.clone());
    let plans = plan(if args.repo.is_empty() { &file.repo } else { &args.repo }, data.as_deref())?;
    let home = data.unwrap_or_else(|| plans[0].dir.clone());
    place::make_private(&home)?;
    let (keyring, secret_file) = keyring(&args, &file, &home)?;
    let keyring = Arc::new(keyring);

    let stop = watch::Sender::new(false);
    let failure: Arc<Mutex<Option<String>>> = Arc::default();
    let mut desks = Vec::new();
    let (mut ledgers, mut gauges) = (Vec::new(), Vec::new());
    let mut repositories = Vec::new();
    for plan in &plans {
        let (repository, thread, ledger) = open(plan, &args, &file, stop.clone(), failure.clone())?;
        desks.push((repository.desk.clone(), thread));
        if let Some((ledger, status)) = ledger {
            gauges.extend(ledger_lag(&repository, &status));
            ledgers.push(ledger);
        }
        repositories.push(repository);
    }
    let mut app = App::new(repositories, keyring.clone(), unix_seconds);
    app.gauges = gauges;
    app.open_metrics = !args.behind_proxy && file.behind_proxy != Some(true);
    let app = Arc::new(app);

    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let (listeners, mut record) = listen(&args, &file, &home).await?;
        record.secret_file = secret_file;
        announce(&plans, &record, &keyring, args.json)?;
        tokio::spawn(watch_keys(keyring.clone()));
        tokio::spawn(refresh_read_tokens(keyring.clone(), plans.iter().map(read_token_of).collect()));
        tokio::spawn(stop_on_signal(stop.clone())?);
        let closing = || {
            app.set_stopping();
            desks.iter().for_each(|(desk, _)| desk.close());
        };
        Server::new(router(app.clone()), listeners).run(stop.subscribe(), closing).await;
        anyhow::Ok(())
    })?;
    for (desk, thread) in desks {
        desk.stop();
        let _ = thread.join();
    }
    // After the desks, so that the last of what they decided is in.
    ledgers.into_iter().for_each(Ledger::stop);
    for plan in &plans {
        let _ = std::fs::remove_file(place::dibs_dir(&plan.repo).join("server.json"));
    }
    match failure.lock().expect("nobody panics with it").take() {
        Some(sentence) => bail!(sentence),
        None => Ok(Exit::Ok),
    }
}

fn plan(repos: &[String], data: Option<&Path>) -> Result<Vec<Plan>> {
    let found = match repos {
        [] => {
            let repo =
                Repo::from_environment().context("no repository here; go into one, or name it with --repo PATH")?;
            vec![(None, repo)]
        }
        repos => {
            let find = |text: &String| {
                let (name, path) = named_repo(text);
                let repo = Repo::at(path).with_context(|| format!("--repo {text}: no repository there"))?;
                Ok((name.map(Text::from), repo))
            };
            repos.iter().map(find).collect::<Result<Vec<_>>>()?
        }
    };
    let several = found.len() > 1;
    let mut plans: Vec<Plan> = Vec::new();
    for (name, repo) in found {
        let name = name.unwrap_or_else(|| name_of(&repo));
        if plans.iter().any(|plan| plan.name == name) {
            bail!("two repositories are called {name}; give them names with --repo NAME=PATH");
        }
        if plans.iter().any(|plan| plan.repo.common_dir == repo.common_dir) {
            bail!("the repository {name} is given twice");
        }
        let dir = match data {
            Some(data) if several => data.join(&*name),
            Some(data) => data.to_owned(),
            None => place::dibs_dir(&repo),
        };
        plans.push(Plan { name, repo, dir });
    }
    Ok(plans)
}

/// What people call a repository: the directory its work tree is in, or its own without `.git`.
fn name_of(repo: &Repo) -> Text {
    let dir = match repo.common_dir.file_name() {
        Some(name) if name == ".git" => repo.common_dir.parent().unwrap_or(&repo.common_dir),
        _ => &repo.common_dir,
    };
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_suffix(".git").unwrap_or(&name).into()
}

/// What verifies tokens, and where its secret is, if that is in a file.
fn keyring(args: &Args, file: &File, home: &Path) -> Result<(Keyring, Option<PathBuf>)> {
    let secret = std::env::var("DIBS_JWT_SECRET").ok().filter(|secret| !secret.is_empty());
    let named = args.secret_file.clone().or_else(|| file.secret_file.clone());
    let secret_file = match (&secret, named) {
        (Some(_), Some(_)) => bail!("DIBS_JWT_SECRET and a secret file are both given; give only one of them"),
        (Some(_), None) => None,
        (None, named) => Some(std::path::absolute(named.unwrap_or_else(|| place::secret(home)))?),
    };
    let recorded = secret_file.clone();
    let config = KeyringConfig {
        secret: secret.map(String::into_bytes),
        secret_file,
        jwks_file: args.jwks.clone().or_else(|| file.jwks.clone()),
        issuer: args.issuer.clone().or_else(|| file.issuer.clone()),
        audience: args.audience.clone().or_else(|| file.audience.clone()),
    };
    Ok((Keyring::new(config)?, recorded))
}

fn open(
    plan: &Plan,
    args: &Args,
    file: &File,
    stop: watch::Sender<bool>,
    failure: Arc<Mutex<Option<String>>>,
) -> Result<(Repository, std::thread::JoinHandle<()>, Option<Written>)> {
    place::make_private(&plan.dir)?;
    let mut journal: Box<dyn Journal> = Box::new(SqliteJournal::open(&place::journal(&plan.dir))?);
    let hindsight = journal.reader()?;
    let written = match args.no_ledger || file.no_ledger == Some(true) {
        true => None,
        false => {
            let status = Arc::<Status>::default();
            let reader = journal.reader()?;
            journal = Box::new(Kept::new(journal, status.clone()));
            Some((status, reader))
        }
    };
    let fold_case = ignores_case(&plan.repo)?;
    let mut policy = Policy { fold_case, ..Policy::default() };
    if let Some(seconds) = args.session_timeout.or(file.session_timeout) {
        if seconds == 0 {
            bail!("the session timeout must be at least one second");
        }
        policy.session_timeout = Duration::from_secs(seconds);
    }
    let failed = move |error: crate::journal::JournalError| {
        *failure.lock().expect("nobody panics with it") = Some(error.to_string());
        stop.send_replace(true);
    };
    let opened = Desk::open(&plan.name, journal, Box::new(SystemClock::new()), policy, failed);
    let (desk, thread) = opened.with_context(|| format!("cannot open the repository {}", plan.name))?;
    let mut rules = KeyRules { fold_case, ..KeyRules::default() };
    rules.purposes.extend(file.purposes.iter().cloned());
    let file_ttl = file.file_ttl.map(|bounds| bounds.check("file-ttl")).transpose()?.unwrap_or(TtlBounds::FILES);
    let name_ttl = file.name_ttl.map(|bounds| bounds.check("name-ttl")).transpose()?.unwrap_or(TtlBounds::NAMES);
    let path = place::ledger(&plan.dir);
    let status = written.as_ref().map(|(status, _)| status.clone());
    let history = History::new(hindsight, written.is_some().then(|| path.clone()));
    let past: Option<Arc<dyn Past>> = Some(Arc::new(Hindsight { history, status }));
    let ledger = written.map(|(status, reader)| (Ledger::follow(&plan.name, path, reader, status.clone()), status));
    let (name, courier) = (plan.name.clone(), Courier::default());
    Ok((Repository { name, desk, rules, file_ttl, name_ttl, courier, past }, thread, ledger))
}

/// How far the ledger is behind, for whoever watches.
fn ledger_lag(repository: &Repository, status: &Arc<Status>) -> [Gauge; 2] {
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

async fn listen(args: &Args, file: &File, home: &Path) -> Result<(Vec<Listener>, ServerRecord)> {
    let mut listeners = Vec::new();
    let asked = args.listen.clone().or_else(|| file.listen.clone());
    let tcp = match &asked {
        None => match TcpListener::bind(LISTEN).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                TcpListener::bind((LISTEN.ip(), 0)).await.context("cannot listen on any port of 127.0.0.1")?
            }
            bound => bound.with_context(|| format!("cannot listen on {LISTEN}"))?,
        },
        Some(text) => {
            let addresses = tokio::net::lookup_host(text).await;
            let addresses: Vec<_> =
                addresses.with_context(|| format!("{text} is not an address to listen on"))?.collect();
            let local = addresses.iter().all(|address| address.ip().is_loopback());
            if !local && !args.behind_proxy && file.behind_proxy != Some(true) {
                bail!(
                    "{text} can be reached from other machines, and git-dibs does not speak TLS; \
                     put a proxy in front that does and say --behind-proxy, or listen on 127.0.0.1"
                );
            }
            TcpListener::bind(&*addresses).await.with_context(|| format!("cannot listen on {text}"))?
        }
    };
    let address = tcp.local_addr().context("cannot tell the address it listens on")?;
    listeners.push(Listener::Tcp(tcp));

    let named = args.socket.clone().or_else(|| file.socket.clone());
    let path = std::path::absolute(named.clone().unwrap_or_else(|| place::socket(home)))?;
    let socket = if path.as_os_str().len() <= SOCKET_PATH_MAX {
        // The journal is ours by now, so a socket file in its place was left behind by a server that is gone.
        if std::os::unix::net::UnixStream::connect(&path).is_err() {
            let _ = std::fs::remove_file(&path);
        }
        let socket = UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .with_context(|| format!("cannot restrict {}", path.display()))?;
        listeners.push(Listener::Unix(socket, path.clone()));
        Some(path)
    } else if named.is_some() {
        bail!("{} is too long for a socket; {SOCKET_PATH_MAX} bytes is the most", path.display());
    } else {
        None
    };
    let record = ServerRecord {
        pid: std::process::id(),
        socket,
        url: Some(format!("http://{address}")),
        started_at: Time(unix_seconds() * 1000),
        repo: None,
        secret_file: None,
    };
    Ok((listeners, record))
}

/// Says where the server is: to people and scripts, and in each repository for its hooks and commands.
fn announce(plans: &[Plan], record: &ServerRecord, keyring: &Keyring, json: bool) -> Result<()> {
    let bytes = serde_json::to_vec(record)?;
    for plan in plans {
        let dir = place::dibs_dir(&plan.repo);
        let record = ServerRecord { repo: Some(plan.name.to_string()), ..record.clone() };
        place::make_private(&dir)?;
        place::write_private(&dir.join("server.json"), &serde_json::to_vec(&record)?)?;
        write_read_token(keyring, &read_token_of(plan))?;
    }
    if json {
        return Ok(talk::document(&bytes)?);
    }
    let names: Vec<&str> = plans.iter().map(|plan| &*plan.name).collect();
    let url = record.url.as_deref().unwrap_or_default();
    talk::data(&format!("git-dibs serves {} at {url}\n", names.join(", ")))?;
    match &record.socket {
        Some(path) => talk::data(&format!("and at {}\n", path.display()))?,
        None => talk::say("no Unix socket, because its path would be too long; name a shorter one with --socket"),
    }
    Ok(())
}

fn read_token_of(plan: &Plan) -> (Text, PathBuf) {
    (plan.name.clone(), place::dibs_dir(&plan.repo).join("read-token"))
}

/// Whoever can read the repository's git directory may see who holds what.
fn write_read_token(keyring: &Keyring, (repo, path): &(Text, PathBuf)) -> Result<()> {
    let now = unix_seconds();
    let minted = keyring.mint(&Mint {
        subject: "local".into(),
        scope: Scope::Read,
        repo: Some(repo.clone()),
        issued: now,
        expires: now + READ_TOKEN_SECONDS,
        ..Mint::default()
    })?;
    place::write_private(path, minted.as_bytes())
}

async fn refresh_read_tokens(keyring: Arc<Keyring>, files: Vec<(Text, PathBuf)>) {
    loop {
        tokio::time::sleep(READ_TOKEN_EVERY).await;
        for file in &files {
            if let Err(error) = write_read_token(&keyring, file) {
                tracing::warn!(error = format!("{error:#}"), "could not renew the token for people on this machine");
            }
        }
    }
}

/// Follows changes of the key files. A broken file is told once, and the keys stay as they were.
async fn watch_keys(keyring: Arc<Keyring>) {
    let mut told = None;
    loop {
        tokio::time::sleep(KEYS_EVERY).await;
        match keyring.reload() {
            Ok(changed) => {
                if changed {
                    tracing::info!("the keys have changed and were read again");
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
