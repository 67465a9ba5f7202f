//! The address of a server, and how a part of a URL is written.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The port of a URL without one.
const HTTP_PORT: u16 = 80;

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// Plain HTTP over TCP.
    Tcp {
        /// A name or an IP address; an IPv6 address has no brackets here.
        host: String,
        port: u16,
        /// The path before `/api`, without a slash at its end; usually empty.
        prefix: String,
    },
}

impl Endpoint {
    /// Reads `http://host:port/prefix` or `unix:/path`. The error completes the sentence "… is not an address: ".
    pub fn parse(text: &str) -> Result<Endpoint, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(Endpoint::Unix(path)) } else { Err("unix: needs an absolute path") };
        }
        if text.starts_with("https://") {
            return Err("git-dibs uses plain HTTP only; give the http:// address behind the proxy");
        }
        let rest = text.strip_prefix("http://").ok_or("it should begin with http:// or unix:")?;
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
            None => HTTP_PORT,
        };
        Ok(Endpoint::Tcp { host: host.to_owned(), port, prefix: path.trim_end_matches('/').to_owned() })
    }

    /// The `Host` header.
    pub(super) fn authority(&self) -> String {
        match self {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// The path before `/api`.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Endpoint::Unix(_) => "",
            Endpoint::Tcp { prefix, .. } => prefix,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { prefix, .. } => write!(f, "http://{}{prefix}", self.authority()),
        }
    }
}

/// Encodes text as one segment of a path, or one value of a query.
pub(super) fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, &RESERVED).to_string()
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, prefix: &str) -> Result<Endpoint, &'static str> {
        Ok(Endpoint::Tcp { host: host.to_owned(), port, prefix: prefix.to_owned() })
    }

    #[test]
    fn reads_addresses_and_shows_them_again() {
        assert_eq!(Endpoint::parse("http://127.0.0.1:3427"), tcp("127.0.0.1", 3427, ""));
        assert_eq!(Endpoint::parse("http://127.0.0.1:3427/"), tcp("127.0.0.1", 3427, ""));
        assert_eq!(Endpoint::parse("http://dibs.example"), tcp("dibs.example", 80, ""));
        assert_eq!(Endpoint::parse("http://dibs.example/team/a/"), tcp("dibs.example", 80, "/team/a"));
        assert_eq!(Endpoint::parse("http://[::1]:3427"), tcp("::1", 3427, ""));
        assert_eq!(Endpoint::parse("http://[::1]"), tcp("::1", 80, ""));
        assert_eq!(Endpoint::parse("unix:/run/dibs.sock"), Ok(Endpoint::Unix("/run/dibs.sock".into())));
        for text in ["http://[::1]:3427", "http://dibs.example:80/team", "unix:/run/dibs.sock"] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_a_bad_address() {
        for text in [
            "",
            "127.0.0.1:3427",
            "http://",
            "http://:3427",
            "http:///api",
            "http://a:b",
            "http://a:99999",
            "http://a:",
            "http://user:secret@a",
            "http://a b",
            "http://a/x?y",
            "http://a/x y",
            "http://a\r\nx",
            "http://[::1",
            "http://[::1]3427",
            "https://a",
            "unix:dibs.sock",
            "ftp://a",
        ] {
            assert!(Endpoint::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_part_cannot_change_the_rest_of_a_url() {
        assert_eq!(part("sess_01.a-b"), "sess_01.a-b");
        assert_eq!(part("a/../b?c=d&e#f g%2e"), "a%2F..%2Fb%3Fc%3Dd%26e%23f%20g%252e");
        assert_eq!(part("ä\r\n"), "%C3%A4%0D%0A");
    }
}
