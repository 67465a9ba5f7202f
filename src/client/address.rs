//! The address of a server, and how a part of a URL is written.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The ports of URLs without one.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// An address, and who may be listening there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub address: Address,
    /// Only a file of the repository names the address. A token from outside of the repository is sent there only if the
    /// server runs on this machine, as this user or as root.
    pub own_server_only: bool,
}

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// HTTP over TCP.
    Tcp {
        /// A name or an IP address; an IPv6 address has no brackets here.
        host: String,
        port: u16,
        /// The path before `/api`, without a slash at its end; usually empty.
        prefix: String,
        /// Whether it is HTTPS.
        tls: bool,
    },
}

impl Endpoint {
    /// Reads an address that the user or a token names.
    pub fn parse(text: &str) -> Result<Endpoint, &'static str> {
        Address::parse(text).map(Endpoint::from)
    }

    /// An address that only a file of the repository names.
    pub fn of_repository(address: Address) -> Endpoint {
        Endpoint { address, own_server_only: true }
    }
}

/// Whether these are several nodes of a cluster, and not the socket and the port of one server.
pub fn are_nodes(endpoints: &[Endpoint]) -> bool {
    endpoints.iter().filter(|endpoint| matches!(endpoint.address, Address::Tcp { .. })).count() > 1
}

/// All addresses as one text, as `DIBS_URL` has them.
pub fn joined(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

impl From<Address> for Endpoint {
    fn from(address: Address) -> Endpoint {
        Endpoint { address, own_server_only: false }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl Address {
    /// Reads `http://host:port/prefix`, the same with `https`, or `unix:/path`. The error completes the sentence "… is not
    /// an address: ".
    pub fn parse(text: &str) -> Result<Address, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(Address::Unix(path)) } else { Err("unix: needs an absolute path") };
        }
        let (rest, tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err("it should begin with http://, https:// or unix:"),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if path.contains(['?', '#']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("after the port, only a path is allowed (no query)");
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or("the port should follow a colon")?)),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        // The host goes into a header, so only the characters of a host name are allowed; a password is not.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
        if host.is_empty() || !host.bytes().all(plain) {
            return Err("the host is missing, or is not a host name or IP address");
        }
        let port = match port {
            Some(digits) => digits.parse().map_err(|_| "the port is not a number up to 65535")?,
            None if tls => HTTPS_PORT,
            None => HTTP_PORT,
        };
        let (host, prefix) = (host.to_ascii_lowercase(), path.trim_end_matches('/').to_owned());
        Ok(Address::Tcp { host, port, prefix, tls })
    }

    /// Whether it is a socket, or names this machine. Another machine is never behind it.
    pub fn is_on_this_machine(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
        }
    }

    /// The address of the dashboard that signs a browser in with this code, and what else it should know. The code is in the fragment, which browsers
    /// send to no server.
    pub fn login_url(&self, code: &str, more: &[(&str, Option<&str>)]) -> String {
        let mut url = format!("{self}/#code={}", part(code));
        for (name, value) in more {
            url.extend(value.map(|value| format!("&{name}={}", part(value))));
        }
        url
    }

    pub fn is_tls(&self) -> bool {
        matches!(self, Address::Tcp { tls: true, .. })
    }

    /// The `Host` header.
    pub(super) fn authority(&self) -> String {
        match self {
            Address::Unix(_) => "localhost".to_owned(),
            Address::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Address::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// The path before `/api`.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Address::Unix(_) => "",
            Address::Tcp { prefix, .. } => prefix,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { prefix, tls, .. } => {
                write!(f, "{}://{}{prefix}", if *tls { "https" } else { "http" }, self.authority())
            }
        }
    }
}

/// Encodes text as one segment of a path, or one value of a query.
pub fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, &RESERVED).to_string()
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, prefix: &str) -> Result<Address, &'static str> {
        Ok(Address::Tcp { host: host.to_owned(), port, prefix: prefix.to_owned(), tls: false })
    }

    #[test]
    fn reads_addresses_and_shows_them_again() {
        assert_eq!(Address::parse("http://127.0.0.1:3427"), tcp("127.0.0.1", 3427, ""));
        assert_eq!(Address::parse("http://127.0.0.1:3427/"), tcp("127.0.0.1", 3427, ""));
        assert_eq!(Address::parse("http://dibs.example"), tcp("dibs.example", 80, ""));
        assert_eq!(Address::parse("http://Dibs.Example/team/a/"), tcp("dibs.example", 80, "/team/a"));
        assert_eq!(Address::parse("http://[::1]:3427"), tcp("::1", 3427, ""));
        assert_eq!(Address::parse("http://[::1]"), tcp("::1", 80, ""));
        assert_eq!(Address::parse("unix:/run/dibs.sock"), Ok(Address::Unix("/run/dibs.sock".into())));
        assert_eq!(Address::parse("https://dibs.example"), Address::parse("https://dibs.example:443/"));
        assert!(Address::parse("https://dibs.example").unwrap().is_tls());
        for text in
            ["http://[::1]:3427", "http://dibs.example:80/team", "https://dibs.example:443", "unix:/run/dibs.sock"]
        {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn only_loopback_addresses_and_sockets_are_certainly_this_machine() {
        for text in ["unix:/x", "http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]", "https://LocalHost:1"] {
            assert!(Address::parse(text).unwrap().is_on_this_machine(), "{text}");
        }
        for text in ["http://0.0.0.0:1", "http://10.0.0.1", "http://127.0.0.1.example", "http://localhost.example"] {
            assert!(!Address::parse(text).unwrap().is_on_this_machine(), "{text}");
        }
    }

    #[test]
    fn refuses_a_bad_address() {
        for text in [
            "",
            "127.0.0.1:3427",
            "http://",
            "https://",
            "http://:3427",
            "http:///api",
            "http://a:b",
            "http://a:99999",
            "http://a:",
            "http://user:secret@a",
            "https://user:secret@a",
            "http://a b",
            "http://a/x?y",
            "http://a/x y",
            "http://a\r\nx",
            "http://[::1",
            "http://[::1]3427",
            "unix:dibs.sock",
            "ftp://a",
        ] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_part_cannot_change_the_rest_of_a_url() {
        assert_eq!(part("sess_01.a-b"), "sess_01.a-b");
        assert_eq!(part("a/../b?c=d&e#f g%2e"), "a%2F..%2Fb%3Fc%3Dd%26e%23f%20g%252e");
        assert_eq!(part("ä\r\n"), "%C3%A4%0D%0A");
    }
}
