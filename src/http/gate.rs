//! Who is not even heard: web pages of other sites, names that are not ours, tokens in URLs.
//!
//! A web page can make the browser on this machine call a server on this machine. It cannot set `Authorization` without
//! the server's leave, which is never given; what is refused here are the ways around that. A name of the attacker's
//! that resolves to this machine makes the page and the server one site to the browser, so on a loopback address only
//! names that mean this machine count, and those the configuration adds.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri, Version};

use super::error::ApiError;
use crate::wire::Code;

/// Names in a query under which people send tokens.
const TOKEN_NAMES: [&str; 6] = ["token", "access_token", "id_token", "jwt", "bearer", "authorization"];

/// What stands at one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Only programs of this machine arrive here, and a browser may be made to: the name they call must be ours.
    Loopback,
    /// A proxy, or other machines, or a file's permissions decide who arrives here.
    Open,
}

impl Gate {
    /// Lets a request through, or says why not. `names` are those the configuration adds.
    pub fn check(self, version: Version, uri: &Uri, headers: &HeaderMap, names: &[String]) -> Result<(), ApiError> {
        let host = host(uri, headers)?;
        match (self, host) {
            (Gate::Loopback, Some(host)) if !is_ours(name_of(host), names) => {
                let sentence = "this server does not go by that name; call it localhost or 127.0.0.1, or start it with --host NAME";
                return Err(ApiError::new(Code::Forbidden, sentence));
            }
            (_, None) if version == Version::HTTP_11 => {
                return Err(ApiError::new(Code::InvalidRequest, "the request does not say for which Host it is"));
            }
            _ => {}
        }
        if headers.contains_key(ORIGIN) && !same_origin(headers, host, names) {
            let sentence = "this request comes from a web page of another site, and such are not answered";
            return Err(ApiError::new(Code::Forbidden, sentence));
        }
        match uri.query() {
            Some(query) if has_token(query) => {
                let sentence = "tokens do not belong into URLs, which are logged and remembered; \
                                send yours as Authorization: Bearer <token>, and replace it if this one counts";
                Err(ApiError::new(Code::Unauthenticated, sentence))
            }
            _ => Ok(()),
        }
    }
}

/// What the client believes to speak to. Two answers to that are none.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<&'a str>, ApiError> {
    let odd =
        || ApiError::new(Code::InvalidRequest, "the request is for more than one Host, or for none that can be read");
    let mut values = headers.get_all(HOST).iter();
    let named = values.next().map(|value| value.to_str().map_err(|_| odd())).transpose()?;
    if values.next().is_some() {
        return Err(odd());
    }
    match (uri.authority().map(|authority| authority.as_str()), named) {
        (Some(target), Some(named)) if !target.eq_ignore_ascii_case(named) => Err(odd()),
        (target, named) => Ok(target.or(named)),
    }
}

/// Without the port.
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

fn is_ours(name: &str, names: &[String]) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || is_named(name, names)
}

fn is_named(name: &str, names: &[String]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether the page came from this server: from where the request goes, or from a name of ours. The scheme does not
/// count, because a proxy may have spoken TLS with the browser.
fn same_origin(headers: &HeaderMap, host: Option<&str>, names: &[String]) -> bool {
    let mut values = headers.get_all(ORIGIN).iter();
    let (Some(Ok(origin)), None) = (values.next().map(|value| value.to_str()), values.next()) else { return false };
    let (authority, default) = match origin.split_once("://") {
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("http") => (authority, ":80"),
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("https") => (authority, ":443"),
        _ => return false,
    };
    let bare = |text: &str| text.strip_suffix(default).unwrap_or(text).to_ascii_lowercase();
    host.is_some_and(|host| bare(host) == bare(authority)) || is_named(name_of(authority), names)
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

    fn check(gate: Gate, target: &str, headers: &[(&str, &str)]) -> Option<Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let names = ["dibs.internal".to_owned()];
        gate.check(Version::HTTP_11, &target.parse().unwrap(), &map, &names).err().map(|refused| refused.code())
    }

    #[test]
    fn a_loopback_address_goes_by_its_own_names_only() {
        let named = |host: &str| check(Gate::Loopback, "/", &[("host", host)]);
        for ours in [
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
            assert_eq!(named(ours), None, "{ours}");
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
        assert_eq!(check(Gate::Open, "/", &[("host", "evil.example")]), None, "whoever is in front decides");
        for gate in [Gate::Loopback, Gate::Open] {
            assert_eq!(check(gate, "/", &[]), Some(Code::InvalidRequest), "no Host");
            let two = [("host", "localhost"), ("host", "localhost")];
            assert_eq!(check(gate, "/", &two), Some(Code::InvalidRequest));
            let absolute = "http://evil.example/";
            assert_eq!(check(gate, absolute, &[("host", "localhost")]), Some(Code::InvalidRequest));
        }
        assert_eq!(check(Gate::Loopback, "http://evil.example/", &[]), Some(Code::Forbidden));
        assert_eq!(check(Gate::Loopback, "http://localhost/", &[("host", "localhost")]), None);
    }

    #[test]
    fn pages_of_other_sites_are_not_heard() {
        let from = |host: &str, origin: &str| check(Gate::Open, "/", &[("host", host), ("origin", origin)]);
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
        assert_eq!(check(Gate::Open, "/", &two), Some(Code::Forbidden));
    }

    #[test]
    fn a_token_in_the_url_is_refused_however_it_is_written() {
        let ask = |target: &str| check(Gate::Open, target, &[("host", "localhost")]);
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
