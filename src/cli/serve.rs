//! The flags of `serve`. Each has a variable, and the same name in the configuration file.

use std::path::PathBuf;

use crate::serve::Format;

/// Serves reservations until it gets SIGTERM or Ctrl-C.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// A repository to serve, as PATH or NAME=PATH; several may be given. The default is the one you are in.
    #[arg(long, value_name = "[NAME=]PATH")]
    pub repo: Vec<String>,
    /// The address to listen on. Without it, 127.0.0.1:3427, or any free port if that is taken.
    #[arg(long, value_name = "ADDRESS", env = "DIBS_LISTEN")]
    pub listen: Option<String>,
    /// The Unix socket to listen on. Without it, one in the data directory.
    #[arg(long, value_name = "PATH", env = "DIBS_SOCKET")]
    pub socket: Option<PathBuf>,
    /// The directory for journal, ledger, secret and socket. Without it, `dibs` in the repository's git directory.
    #[arg(long, value_name = "DIR", env = "DIBS_DATA")]
    pub data: Option<PathBuf>,
    /// A configuration file (TOML) with the same names, and more; read again on SIGHUP.
    #[arg(long, value_name = "FILE", env = "DIBS_CONFIG")]
    pub config: Option<PathBuf>,
    /// Report everything that is wrong with the configuration, and do nothing else.
    #[arg(long)]
    pub check_config: bool,
    /// Listen on an address other machines reach; something in front must speak TLS with them.
    #[arg(long, value_name = "BOOL", env = "DIBS_BEHIND_PROXY", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub behind_proxy: Option<bool>,
    /// A name this server goes by, besides localhost; several may be given. Requests that call it otherwise are refused
    /// on addresses of this machine alone.
    #[arg(long, value_name = "NAME", env = "DIBS_HOST", value_delimiter = ',')]
    pub host: Vec<String>,
    /// A file with the secret that signs tokens (HS256). DIBS_JWT_SECRET may hold the secret itself.
    #[arg(long, value_name = "FILE", env = "DIBS_SECRET_FILE")]
    pub secret_file: Option<PathBuf>,
    /// A JWKS file with public keys that verify tokens (EdDSA, ES256, RS256); read again when it changes.
    #[arg(long, value_name = "FILE", env = "DIBS_JWKS")]
    pub jwks: Option<PathBuf>,
    /// The only token issuer (iss) to accept.
    #[arg(long, value_name = "NAME", env = "DIBS_ISSUER")]
    pub issuer: Option<String>,
    /// The audience (aud) tokens must be for.
    #[arg(long, value_name = "NAME", env = "DIBS_AUDIENCE")]
    pub audience: Option<String>,
    /// A session silent for so many seconds is lost, and everything it holds is released.
    #[arg(long, value_name = "SECONDS", env = "DIBS_SESSION_TIMEOUT")]
    pub session_timeout: Option<u64>,
    /// Log every decision to stderr, as json or as text. Without it, only trouble is logged, as text.
    #[arg(long, value_name = "FORMAT", env = "DIBS_LOG_FORMAT")]
    pub log: Option<Format>,
    /// How much is logged: error, warn, info, debug or trace. Without it, warn, or info with --log.
    #[arg(long, value_name = "LEVEL", env = "DIBS_LOG")]
    pub log_level: Option<String>,
    /// Write no ledger, the history in git.
    #[arg(long, value_name = "BOOL", env = "DIBS_NO_LEDGER", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_ledger: Option<bool>,
    /// Print where it listens as JSON.
    #[arg(long)]
    pub json: bool,
}
