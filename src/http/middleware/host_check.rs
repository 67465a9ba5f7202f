//! Refuses requests for a foreign `Host`, from a foreign `Origin`, and with a token in the URL.
//!
//! A web page can make a browser on this machine send requests to a server on this machine. The page cannot set
//! `Authorization`, because this server never allows that (CORS). What is refused here are the ways around it: with DNS
//! rebinding, a name of the attacker resolves to this machine, and the browser takes page and server for the same site.
//! So on a loopback address only names of this machine are accepted, and names that the configuration adds.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri, Version};

use crate::http::error::ApiError;
use crate::wire::Code;

/// Query parameters in which clients tend to send tokens.
const TOKEN_NAMES: [&str; 6] = ["token", "access_token", "id_token", "jwt", "bearer", "authorization"];

/// Which `Host` names a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCheck {
    /// For a loopback address: only names of this machine, and those of the configuration.
    Loopback,
    /// For a listener behind a proxy, for other machines, or on a Unix socket: any name.
    AnyName,
}

impl HostCheck {
    /// Whether a client may call the server by this name, which may have a port. `names` are those that the configuration adds.
    pub fn accepts(self, host: &str, names: &[String]) -> bool {
        self == HostCheck::AnyName || is_own_name(name_of(host), names)
    }

    /// Accepts or refuses a request. `names` are the host names that the configuration adds.
    pub fn check(self, version: Version, uri: &Uri, headers: &HeaderMap, names: &[String]) -> Result<(), ApiError> {
        let host = host(uri, headers)?;
        match host {
            Some(host) if !self.accepts(host, names) => {
                let sentence = "this server does not accept that Host name; use localhost or 127.0.0.1, or start the server with --host NAME";
                return Err(ApiError::new(Code::Forbidden, sentence));
            }
            None if version == Version::HTTP_11 => {
                return Err(ApiError::new(Code::InvalidRequest, "the request has no Host header"));
            }
            _ => {}
        }
        if headers.contains_key(ORIGIN) && !same_origin(headers, host, names) {
            let sentence = "this request comes from a web page of another site, which is not allowed";
            return Err(ApiError::new(Code::Forbidden, sentence));
        }
        match uri.query() {
            Some(query) if has_token(query) => {
                let sentence = "a token must not be in a URL, because URLs are logged; send it as \
                                Authorization: Bearer <token>, and replace this one if it is real";
                Err(ApiError::new(Code::Unauthenticated, sentence))
            }
            _ => Ok(()),
        }
    }
}

/// The host that the client addressed. Two different ones are refused.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<&'a str>, ApiError> {
    let ambiguous =
        || ApiError::new(Code::InvalidRequest, "the request has more than one Host, or one that is not text");
    let mut values = headers.get_all(HOST).iter();
    let named = values.next().map(|value| value.to_str().map_err(|_| ambiguous())).transpose()?;
    if values.next().is_some() {
        return Err(ambiguous());
    }
    match (uri.authority().map(|authority| authority.as_str()), named) {
        (Some(target), Some(named)) if !target.eq_ignore_ascii_case(named) => Err(ambiguous()),
        (target, named) => Ok(target.or(named)),
    }
}

/// The host without the port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn is_own_name(name: &str, names: &[String]) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || is_configured(name, names)
}

fn is_configured(name: &str, names: &[String]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether the page came from this server: its origin is the addressed host, or a configured name. The scheme is
/// ignored, because a proxy may terminate TLS.
fn same_origin(headers: &HeaderMap, host: Option<&str>, names: &[String]) -> bool {
    let mut values = headers.get_all(ORIGIN).iter();
    let (Some(Ok(origin)), None) = (values.next().map(|value| value.to_str()), values.next()) else { return false };
    let (authority, default) = match origin.split_once("://") {
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("http") => (authority, ":80"),
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("https") => (authority, ":443"),
        _ => return false,
    };
    let bare = |text: &str| text.strip_suffix(default).unwrap_or(text).to_ascii_lowercase();
    host.is_some_and(|host| bare(host) == bare(authority)) || is_configured(name_of(authority), names)
}

fn has_token(query: &str) -> bool {
    let plain = |name: &str| TOKEN_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name));
    query.split('&').any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        plain(name)
            || (name.contains('%')
                && crate::text::percent::decode(name).is_some_and(|name| plain(&String::from_utf8_lossy(&name))))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(host_check: HostCheck, target: &str, headers: &[(&str, &str)]) -> Option<Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let names = ["dibs.internal".to_owned()];
        host_check.check(Version::HTTP_11, &target.parse().unwrap(), &map, &names).err().map(|refused| refused.code())
    }

    #[test]
    fn a_loopback_listener_accepts_only_names_of_this_machine() {
        let named = |host: &str| check(HostCheck::Loopback, "/", &[("host", host)]);
        for own in [
            "localhost",
            "LocalHost:3427",
            "127.0.0.1",
            "127.0.0.1:3427",
            "127.1.2.3",
            "[::1]",
            "[::1]:3427",
            "dibs.internal",
            "DIBS.internal:80",
        ] {
            assert_eq!(named(own), None, "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:3427",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:3427",
            "localhost.",
            "",
            ":3427",
            "[::2]:3427",
            "localhost@evil.example",
            "0.0.0.0:3427",
            "[::1]x",
            "::1:3427:x",
        ] {
            assert_eq!(named(foreign), Some(Code::Forbidden), "{foreign}");
        }
        assert_eq!(check(HostCheck::AnyName, "/", &[("host", "evil.example")]), None, "a proxy checks the name");
        for host_check in [HostCheck::Loopback, HostCheck::AnyName] {
            assert_eq!(check(host_check, "/", &[]), Some(Code::InvalidRequest), "no Host");
            let two = [("host", "localhost"), ("host", "localhost")];
            assert_eq!(check(host_check, "/", &two), Some(Code::InvalidRequest));
            let absolute = "http://evil.example/";
            assert_eq!(check(host_check, absolute, &[("host", "localhost")]), Some(Code::InvalidRequest));
        }
        assert_eq!(check(HostCheck::Loopback, "http://evil.example/", &[]), Some(Code::Forbidden));
        assert_eq!(check(HostCheck::Loopback, "http://localhost/", &[("host", "localhost")]), None);
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let from = |host: &str, origin: &str| check(HostCheck::AnyName, "/", &[("host", host), ("origin", origin)]);
        for (host, origin) in [
            ("localhost:3427", "http://localhost:3427"),
            ("Localhost:3427", "http://localhost:3427"),
            ("dibs.example", "https://dibs.example"),
            ("dibs.example:443", "https://dibs.example"),
            ("dibs.example:80", "http://dibs.example"),
            ("127.0.0.1:3427", "https://dibs.internal"),
        ] {
            assert_eq!(from(host, origin), None, "{origin} to {host}");
        }
        for (host, origin) in [
            ("localhost:3427", "http://localhost:8080"),
            ("localhost:3427", "http://127.0.0.1:3427"),
            ("localhost:3427", "null"),
            ("localhost:3427", ""),
            ("localhost:3427", "localhost:3427"),
            ("localhost:3427", "ftp://localhost:3427"),
            ("localhost", "http://localhost.evil.example"),
            ("localhost:3427", "http://evil.example/localhost:3427"),
            ("localhost:3427", "http://evil.example#localhost:3427"),
        ] {
            assert_eq!(from(host, origin), Some(Code::Forbidden), "{origin} to {host}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")];
        assert_eq!(check(HostCheck::AnyName, "/", &two), Some(Code::Forbidden));
    }

    #[test]
    fn a_token_in_the_url_is_refused_in_every_spelling() {
        let ask = |target: &str| check(HostCheck::AnyName, target, &[("host", "localhost")]);
        for target in
            ["/?token=x", "/a?b=c&access_token=x", "/?Token", "/?%74oken=x", "/?repo=a&JWT=", "/?authorization=x"]
        {
            assert_eq!(ask(target), Some(Code::Unauthenticated), "{target}");
        }
        for target in ["/", "/?path=token", "/?tokens=1", "/?a=%74oken", "/?x%", "/?"] {
            assert_eq!(ask(target), None, "{target}");
        }
    }
}
