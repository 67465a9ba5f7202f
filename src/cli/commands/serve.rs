//! `git-dibs serve`: the server's flags, and what it prints. Each flag has an environment variable, and the same name in
//! the configuration file.

use std::io;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::cli::background::{self, Started};
use crate::cli::commands::cluster::EtcdArgs;
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::local::ServerRecord;
use crate::serve::{self, CommandLine, ConfigValue, LogFormat, Options};

/// Serves reservations until it gets SIGTERM or Ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// Return when the server is ready, and leave it in the background. It logs to server.log in the data directory, and
    /// ends when it is not used; see --idle-timeout.
    #[arg(long, conflicts_with = "detached")]
    background: bool,
    /// This is the process in the background that --background or another command started.
    #[arg(long, hide = true)]
    detached: bool,
    /// A repository to serve, as PATH or NAME=PATH; may be given several times. The default is the repository you are in.
    #[arg(long, value_name = "[NAME=]PATH")]
    repo: Vec<String>,
    /// The address to listen on. The default is 127.0.0.1:3427, or any free port if that is taken.
    #[arg(long, value_name = "ADDRESS", env = "DIBS_LISTEN")]
    listen: Option<String>,
    /// The Unix socket to listen on. The default is dibs.sock in the data directory.
    #[arg(long, value_name = "PATH", env = "DIBS_SOCKET")]
    socket: Option<PathBuf>,
    /// The directory for journal, ledger, secret and socket. The default is `dibs` in the repository's git directory.
    #[arg(long, value_name = "DIR", env = "DIBS_DATA")]
    data: Option<PathBuf>,
    /// A configuration file (TOML). It has these names and more, and is read again at SIGHUP.
    #[arg(long, value_name = "FILE", env = "DIBS_CONFIG")]
    config: Option<PathBuf>,
    /// Print every error in the configuration and exit. Nothing is started or changed.
    #[arg(long)]
    check_config: bool,
    /// The certificate chain (PEM) with which the server speaks TLS on its address. It is read again at SIGHUP.
    #[arg(long, value_name = "FILE", env = "DIBS_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", env = "DIBS_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Allow an address that other machines can reach without TLS. A proxy in front of the server must speak TLS with them.
    #[arg(long, value_name = "BOOL", env = "DIBS_BEHIND_PROXY", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    behind_proxy: Option<bool>,
    /// The address that clients use. Tokens that the server makes for sessions name it, and clients send them nowhere else.
    #[arg(long, value_name = "URL", env = "DIBS_PUBLIC_URL")]
    public_url: Option<String>,
    /// A host name of this server, besides localhost; may be given several times. On 127.0.0.1 and ::1, requests for other
    /// host names are refused.
    #[arg(long, value_name = "NAME", env = "DIBS_HOST", value_delimiter = ',')]
    host: Vec<String>,
    /// A file with the secret that signs tokens (HS256). Instead, DIBS_JWT_SECRET can contain the secret itself.
    #[arg(long, value_name = "FILE", env = "DIBS_SECRET_FILE")]
    secret_file: Option<PathBuf>,
    /// A JWKS file with public keys that verify tokens (EdDSA, ES256, RS256). It is read again when it changes.
    #[arg(long, value_name = "FILE", env = "DIBS_JWKS")]
    jwks: Option<PathBuf>,
    /// The issuer (iss) that tokens must have.
    #[arg(long, value_name = "NAME", env = "DIBS_ISSUER")]
    issuer: Option<String>,
    /// The audience (aud) that tokens must have.
    #[arg(long, value_name = "NAME", env = "DIBS_AUDIENCE")]
    audience: Option<String>,
    /// End a session that sends nothing for this many seconds (default: 1800), and holds nothing any more.
    #[arg(long, value_name = "SECONDS", env = "DIBS_SESSION_TIMEOUT")]
    session_timeout: Option<u64>,
    /// End the server when no session lives, nothing is held and no request has come for this many seconds; 0 never ends
    /// it. The default is 0, or 3600 in the background.
    #[arg(long, value_name = "SECONDS", env = "DIBS_IDLE_TIMEOUT")]
    idle_timeout: Option<u64>,
    /// Be a node of a cluster on this etcd: etcd://HOST:2379,HOST:2379/PREFIX, or etcds:// for TLS.
    #[arg(long, value_name = "ADDRESS", env = "DIBS_CLUSTER")]
    cluster: Option<String>,
    /// The name of this node in its cluster.
    #[arg(long, value_name = "NAME", env = "DIBS_NODE")]
    node: Option<String>,
    /// The address at which the other nodes of the cluster reach this one.
    #[arg(long, value_name = "URL", env = "DIBS_ADVERTISE")]
    advertise: Option<String>,
    /// After how many seconds another node takes over from one that is gone. The default is 5.
    #[arg(long, value_name = "SECONDS", env = "DIBS_CLUSTER_LEASE")]
    cluster_lease: Option<u64>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Log every decision to stderr, in this format. Without it, only warnings and errors are logged, as text.
    #[arg(long, value_name = "FORMAT", env = "DIBS_LOG_FORMAT", value_parser = log_format())]
    log: Option<LogFormat>,
    /// How much is logged: error, warn, info, debug or trace. The default is warn, or info with --log.
    #[arg(long, value_name = "LEVEL", env = "DIBS_LOG")]
    log_level: Option<String>,
    /// Do not write the ledger, which is the history in git.
    #[arg(long, value_name = "BOOL", env = "DIBS_NO_LEDGER", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    no_ledger: Option<bool>,
    /// Print the server's addresses as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let (check_config, json) = (args.check_config, args.json);
    if args.background && !check_config {
        // With --repo, it may be about other repositories than the one around us.
        let repo = if args.repo.is_empty() { Repo::from_environment().ok() } else { None };
        match background::start(repo.as_ref().map(|repo| &*repo.common_dir))? {
            Started::New(record) => announce(&record, json)?,
            Started::Running(record) => {
                announce(&record, json)?;
                talk::say("it runs already; to start it with other settings, stop it first: git dibs stop");
            }
        }
        return Ok(Exit::Ok);
    }
    let detached = args.detached;
    if detached {
        background::close_inherited_files();
    }
    let command_line = args.command_line()?;
    if check_config {
        return report(&serve::check_config(&command_line));
    }
    serve::run(command_line, Box::new(io::stderr()), |started| {
        announce(started.record, json)?;
        if detached {
            background::leave_starter(started.data)?;
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}

fn report(errors: &[String]) -> Result<Exit> {
    if errors.is_empty() {
        talk::data("the configuration has no errors\n")?;
        return Ok(Exit::Ok);
    }
    talk::data(&errors.iter().map(|error| format!("{error}\n")).collect::<String>())?;
    Ok(Exit::Error)
}

/// Prints the names of the repositories and the addresses of the server.
fn announce(record: &ServerRecord, json: bool) -> Result<()> {
    if json {
        return Ok(talk::document(&serde_json::to_vec(record)?)?);
    }
    let socket = record.socket.as_ref().map(|path| path.display().to_string());
    let addresses: Vec<String> = record.url.clone().into_iter().chain(socket).collect();
    let names = record.repositories.join(", ");
    talk::data(&format!("git-dibs serves {names} at {}\n", addresses.join("\nand at ")))?;
    if record.socket.is_none() && record.url.is_some() {
        talk::say("there is no Unix socket, because its path would be too long; choose a shorter one with --socket");
    }
    Ok(())
}

impl Args {
    /// The flags, with paths that stay valid when the process leaves its directory.
    fn command_line(self) -> io::Result<CommandLine> {
        fn value<T>(flag: Option<T>) -> Option<ConfigValue<T>> {
            flag.map(ConfigValue::from_flag)
        }
        let detached = self.detached;
        let absolute = |file: Option<PathBuf>| -> io::Result<Option<PathBuf>> {
            file.map(|file| if detached { std::path::absolute(file) } else { Ok(file) }).transpose()
        };
        let options = Options {
            repo: self.repo.into_iter().map(ConfigValue::from_flag).collect(),
            listen: value(self.listen),
            socket: value(absolute(self.socket)?),
            data: value(absolute(self.data)?),
            behind_proxy: value(self.behind_proxy),
            tls_cert: value(absolute(self.tls_cert)?),
            tls_key: value(absolute(self.tls_key)?),
            public_url: value(self.public_url),
            host: self.host.into_iter().map(ConfigValue::from_flag).collect(),
            secret_file: value(absolute(self.secret_file)?),
            jwks: value(absolute(self.jwks)?),
            issuer: value(self.issuer),
            audience: value(self.audience),
            session_timeout: value(self.session_timeout),
            idle_timeout: value(self.idle_timeout),
            no_ledger: value(self.no_ledger),
            cluster: value(self.cluster),
            node: value(self.node),
            advertise: value(self.advertise),
            cluster_lease: value(self.cluster_lease),
            cluster_ca: value(absolute(self.etcd.cluster_ca)?),
            cluster_cert: value(absolute(self.etcd.cluster_cert)?),
            cluster_key: value(absolute(self.etcd.cluster_key)?),
            cluster_user: value(self.etcd.cluster_user),
            cluster_password_file: value(absolute(self.etcd.cluster_password_file)?),
            log: value(self.log),
            log_level: value(self.log_level),
        };
        Ok(CommandLine { config: absolute(self.config)?, options, in_background: self.detached })
    }
}

fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    let json = PossibleValue::new("json").help("One JSON object per line");
    let text = PossibleValue::new("text").help("One readable line per event");
    PossibleValuesParser::new([json, text]).map(|word| if word == "json" { LogFormat::Json } else { LogFormat::Text })
}
