//! The settings that can be given with flags and environment variables. Each has the same name in the file.

use std::path::PathBuf;

use super::ConfigValue;
use crate::serve::LogFormat;

/// What a server is started with: its flags and environment variables.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// The configuration file.
    pub config: Option<PathBuf>,
    pub options: Options,
    /// Whether the server was started in the background. It logs to a file, and ends when it is not used.
    pub in_background: bool,
}

/// The settings that have a flag, as one source gives them. What it does not give is empty.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Repositories: `PATH` or `NAME=PATH`.
    pub repo: Vec<ConfigValue<String>>,
    pub listen: Option<ConfigValue<String>>,
    pub socket: Option<ConfigValue<PathBuf>>,
    pub data: Option<ConfigValue<PathBuf>>,
    pub behind_proxy: Option<ConfigValue<bool>>,
    pub tls_cert: Option<ConfigValue<PathBuf>>,
    pub tls_key: Option<ConfigValue<PathBuf>>,
    pub public_url: Option<ConfigValue<String>>,
    pub host: Vec<ConfigValue<String>>,
    pub secret_file: Option<ConfigValue<PathBuf>>,
    pub jwks: Option<ConfigValue<PathBuf>>,
    pub issuer: Option<ConfigValue<String>>,
    pub audience: Option<ConfigValue<String>>,
    pub session_timeout: Option<ConfigValue<u64>>,
    pub idle_timeout: Option<ConfigValue<u64>>,
    pub no_ledger: Option<ConfigValue<bool>>,
    pub cluster: Option<ConfigValue<String>>,
    pub node: Option<ConfigValue<String>>,
    pub advertise: Option<ConfigValue<String>>,
    pub cluster_lease: Option<ConfigValue<u64>>,
    pub cluster_ca: Option<ConfigValue<PathBuf>>,
    pub cluster_cert: Option<ConfigValue<PathBuf>>,
    pub cluster_key: Option<ConfigValue<PathBuf>>,
    pub cluster_user: Option<ConfigValue<String>>,
    pub cluster_password_file: Option<ConfigValue<PathBuf>>,
    pub log: Option<ConfigValue<LogFormat>>,
    pub log_level: Option<ConfigValue<String>>,
}

impl Options {
    /// These options, and those of `other` where these give nothing.
    pub fn or(self, other: Options) -> Options {
        Options {
            repo: if self.repo.is_empty() { other.repo } else { self.repo },
            listen: self.listen.or(other.listen),
            socket: self.socket.or(other.socket),
            data: self.data.or(other.data),
            behind_proxy: self.behind_proxy.or(other.behind_proxy),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            public_url: self.public_url.or(other.public_url),
            host: if self.host.is_empty() { other.host } else { self.host },
            secret_file: self.secret_file.or(other.secret_file),
            jwks: self.jwks.or(other.jwks),
            issuer: self.issuer.or(other.issuer),
            audience: self.audience.or(other.audience),
            session_timeout: self.session_timeout.or(other.session_timeout),
            idle_timeout: self.idle_timeout.or(other.idle_timeout),
            no_ledger: self.no_ledger.or(other.no_ledger),
            cluster: self.cluster.or(other.cluster),
            node: self.node.or(other.node),
            advertise: self.advertise.or(other.advertise),
            cluster_lease: self.cluster_lease.or(other.cluster_lease),
            cluster_ca: self.cluster_ca.or(other.cluster_ca),
            cluster_cert: self.cluster_cert.or(other.cluster_cert),
            cluster_key: self.cluster_key.or(other.cluster_key),
            cluster_user: self.cluster_user.or(other.cluster_user),
            cluster_password_file: self.cluster_password_file.or(other.cluster_password_file),
            log: self.log.or(other.log),
            log_level: self.log_level.or(other.log_level),
        }
    }
}
