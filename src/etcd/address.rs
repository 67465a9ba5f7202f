//! Where etcd is: `etcd://HOST:PORT,HOST:PORT/PREFIX`, with `etcds://` for TLS; and how this program signs in.

use std::fmt;
use std::str::FromStr;

/// The port of an endpoint without one.
const DEFAULT_PORT: u16 = 2379;

/// The most endpoints of one address.
const ENDPOINTS_MAX: usize = 16;

/// The endpoints of an etcd cluster, and the prefix of our keys in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// `HOST:PORT`, at least one.
    pub endpoints: Vec<String>,
    pub is_tls: bool,
    /// Without slashes at its ends, never empty.
    pub prefix: String,
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<EtcdAddress, String> {
        let bad = |why: &str| format!("{text:?} is not the address of an etcd: {why}");
        let (is_tls, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(bad("write etcd://HOST:2379,HOST:2379/PREFIX, or etcds:// for TLS")),
        };
        let (hosts, prefix) =
            rest.split_once('/').ok_or_else(|| bad("the prefix is missing, as in /dibs at the end"))?;
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() {
            return Err(bad("the prefix is missing, as in /dibs at the end"));
        }
        if !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b)) {
            return Err(bad("a prefix has letters, digits and - _ . / only"));
        }
        if hosts.contains('@') {
            return Err(bad("a user is given with cluster-user, and a password in a file"));
        }
        let endpoints =
            hosts.split(',').map(|host| endpoint(host).ok_or_else(|| bad("an endpoint is HOST or HOST:PORT")));
        let endpoints: Vec<String> = endpoints.collect::<Result<_, _>>()?;
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(bad(&format!("there are more than {ENDPOINTS_MAX} endpoints")));
        }
        Ok(EtcdAddress { endpoints, is_tls, prefix: prefix.to_owned() })
    }
}

impl EtcdAddress {
    /// The URL of an endpoint.
    pub(super) fn url(&self, endpoint: &str) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{endpoint}")
    }
}

impl fmt::Display for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}/{}", self.endpoints.join(","), self.prefix)
    }
}

fn endpoint(text: &str) -> Option<String> {
    let text = text.trim();
    let with_port = match text.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && (!name.contains(':') || name.ends_with(']')) => {
            port.parse::<u16>().ok().filter(|port| *port > 0)?;
            text.to_owned()
        }
        _ => format!("{text}:{DEFAULT_PORT}"),
    };
    let authority: http::uri::Authority = with_port.parse().ok()?;
    (!authority.host().is_empty() && !authority.as_str().contains('@')).then_some(with_port)
}

/// How this program signs in to etcd.
#[derive(Clone, Default)]
pub struct EtcdOptions {
    /// User and password.
    pub user: Option<(String, String)>,
    pub tls: EtcdTls,
}

/// PEM text. What is missing is not used; without authorities those of the system are.
#[derive(Clone, Default)]
pub struct EtcdTls {
    pub authorities: Option<Vec<u8>>,
    /// A certificate of this program and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}
