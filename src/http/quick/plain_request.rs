//! Recognises a request that is complete and has nothing unusual: one line, a few known headers, a short JSON body.
//!
//! This is no parser of HTTP. Whatever is not exactly as expected is left to hyper, also what is wrong: a header that is not in
//! the list, a header that occurs twice, an escape in the path, a byte that is no printable ASCII.

/// How the first line begins and ends, and how its path begins before the id of the session.
const METHOD: &str = "POST ";
const PATH_START: &str = "/api/sessions/";
const LINE_END: &str = " HTTP/1.1";

/// Headers that change nothing about such a request.
const IGNORED_HEADERS: [&[u8]; 4] = [b"accept", b"accept-encoding", b"accept-language", b"user-agent"];

/// A request for a session, as it was received.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlainRequest<'a> {
    pub path: &'a str,
    pub session: &'a str,
    /// The path after the id of the session, such as `files/reserve`.
    pub call: &'a str,
    pub host: &'a str,
    pub token: &'a str,
    /// The header that the nodes of a cluster sign.
    pub hop: Option<&'a str>,
    /// What another node wants to recognise the reply by.
    pub tag: Option<&'a str>,
    /// The `X-Request-Id` of the client.
    pub request_id: Option<&'a str>,
    pub body: &'a [u8],
}

/// Why bytes do not begin with a complete plain request.
#[derive(Debug, PartialEq, Eq)]
pub enum NotPlain {
    /// So far they are one; more bytes decide.
    Incomplete,
    Other,
}

impl<'a> PlainRequest<'a> {
    /// The request, if the bytes are one plain request and nothing else.
    pub fn read(bytes: &'a [u8]) -> Option<PlainRequest<'a>> {
        let (request, rest) = PlainRequest::read_first(bytes).ok()?;
        rest.is_empty().then_some(request)
    }

    /// The request that the bytes begin with, and the bytes after it.
    pub fn read_first(bytes: &'a [u8]) -> Result<(PlainRequest<'a>, &'a [u8]), NotPlain> {
        let (line, rest) = line(bytes)?;
        let path = line.strip_prefix(METHOD).and_then(|line| line.strip_suffix(LINE_END)).ok_or(NotPlain::Other)?;
        let (session, call) =
            path.strip_prefix(PATH_START).and_then(|path| path.split_once('/')).ok_or(NotPlain::Other)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
        if !path.bytes().all(is_plain) {
            return Err(NotPlain::Other);
        }
        let request = PlainRequest { path, session, call, ..PlainRequest::default() };
        let (request, length, rest) = request.with_headers(rest)?;
        match rest.split_at_checked(length) {
            Some((body, rest)) => Ok((PlainRequest { body, ..request }, rest)),
            None => Err(NotPlain::Incomplete),
        }
    }

    /// Whether it can neither wait in a queue nor be long work. Text with escapes could hide that it does.
    pub fn is_answered_at_once(&self) -> bool {
        const WAIT: &[u8] = b"waitSeconds";
        let is_plain = |byte: &u8| !b"\\*?[".contains(byte);
        self.body.iter().all(is_plain) && !self.body.windows(WAIT.len()).any(|text| text == WAIT)
    }

    /// Reads the headers. Also returns the length of the body, and what follows them.
    fn with_headers(mut self, mut rest: &'a [u8]) -> Result<(PlainRequest<'a>, usize, &'a [u8]), NotPlain> {
        let (mut host, mut token, mut length, mut is_json, mut is_kept) = (None, None, None, None, None);
        let mut is_ignored = [false; IGNORED_HEADERS.len()];
        loop {
            let (header, after) = line(rest)?;
            rest = after;
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').ok_or(NotPlain::Other)?;
            let value = value.trim_matches(' ');
            let is = |known: &[u8]| name.as_bytes().eq_ignore_ascii_case(known);
            let is_repeated = if is(b"host") {
                host.replace(value).is_some()
            } else if is(b"authorization") {
                token.replace(bearer(value).ok_or(NotPlain::Other)?).is_some()
            } else if is(b"content-length") {
                length.replace(number(value).ok_or(NotPlain::Other)?).is_some()
            } else if is(b"content-type") {
                is_json.replace(has_value(value, "application/json")?).is_some()
            } else if is(b"connection") {
                is_kept.replace(has_value(value, "keep-alive")?).is_some()
            } else if is(b"x-request-id") {
                self.request_id.replace(value).is_some()
            } else if is(b"dibs-hop") {
                self.hop.replace(value).is_some()
            } else if is(b"dibs-tag") {
                self.tag.replace(value).is_some()
            } else {
                let known = IGNORED_HEADERS.iter().position(|known| is(known)).ok_or(NotPlain::Other)?;
                std::mem::replace(&mut is_ignored[known], true)
            };
            if is_repeated {
                return Err(NotPlain::Other);
            }
        }
        let (Some(()), Some(host), Some(token), Some(length)) = (is_json, host, token, length) else {
            return Err(NotPlain::Other);
        };
        Ok((PlainRequest { host, token, ..self }, length, rest))
    }
}

/// The path and the signature of a request that another node has tagged. Both headers are its first ones.
pub fn path_and_hop(bytes: &[u8]) -> Option<(&str, &str)> {
    let (first, rest) = line(bytes).ok()?;
    let (tag, rest) = line(rest).ok()?;
    let (hop, _) = line(rest).ok()?;
    let path = first.strip_prefix(METHOD)?.strip_suffix(LINE_END)?;
    tag.strip_prefix("dibs-tag: ")?;
    Some((path, hop.strip_prefix("dibs-hop: ")?))
}

/// The first line without its end, and what follows it. A line is printable ASCII.
fn line(bytes: &[u8]) -> Result<(&str, &[u8]), NotPlain> {
    let end = bytes.iter().position(|byte| !(b' '..=b'~').contains(byte)).ok_or(NotPlain::Incomplete)?;
    let (line, rest) = bytes.split_at(end);
    match rest.strip_prefix(b"\r\n") {
        Some(rest) => Ok((std::str::from_utf8(line).map_err(|_| NotPlain::Other)?, rest)),
        None if rest == b"\r" => Err(NotPlain::Incomplete),
        None => Err(NotPlain::Other),
    }
}

fn has_value(value: &str, expected: &str) -> Result<(), NotPlain> {
    if value.eq_ignore_ascii_case(expected) { Ok(()) } else { Err(NotPlain::Other) }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

/// A length of a few digits.
fn number(value: &str) -> Option<usize> {
    let is_plain = (1..=5).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| value.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /api/sessions/ana/files/reserve HTTP/1.1\r\nHost: localhost:1\r\nAuthorization: Bearer t.o.k\r\n\
                        Content-Type: application/json\r\nContent-Length: 2\r\n";

    fn is_plain(text: &str) -> bool {
        PlainRequest::read(text.as_bytes()).is_some()
    }

    #[test]
    fn a_plain_request_is_read() {
        let text = format!("{HEAD}X-Request-ID: r1\r\nuser-agent: x\r\nconnection: Keep-Alive\r\n\r\n{{}}");
        let (session, call, host, token) = ("ana", "files/reserve", "localhost:1", "t.o.k");
        let path = "/api/sessions/ana/files/reserve";
        let read = PlainRequest {
            path,
            session,
            call,
            host,
            token,
            request_id: Some("r1"),
            body: b"{}",
            ..PlainRequest::default()
        };
        assert_eq!(PlainRequest::read(text.as_bytes()), Some(read));
    }

    #[test]
    fn whatever_is_unusual_is_left_to_hyper() {
        let plain = format!("{HEAD}\r\n{{}}");
        assert!(is_plain(&plain));
        for end in 0..plain.len() {
            assert_eq!(PlainRequest::read_first(&plain.as_bytes()[..end]).err(), Some(NotPlain::Incomplete));
        }
        for (from, to) in [
            ("POST ", "GET "),
            ("POST ", " POST "),
            ("POST ", "\r\nPOST "),
            (" HTTP/1.1", " HTTP/1.0"),
            (" HTTP/1.1", " HTTP/1.1 "),
            (" HTTP/1.1", "?repo=x HTTP/1.1"),
            ("/ana/", "/an%61/"),
            ("/ana/", "/an a/"),
            ("/ana/files/reserve", ""),
            ("/api/", "http://localhost:1/api/"),
            ("\r\nHost", "\nHost"),
            ("\r\nHost", "\r\n Host"),
            ("\r\nHost", "\r\r\nHost"),
            ("Host:", "Host :"),
            ("Host: localhost:1\r\n", ""),
            ("localhost:1", "local\thost"),
            ("localhost:1", "localhöst"),
            ("Bearer ", "Basic "),
            ("Authorization", "Cookie"),
            ("Authorization: Bearer t.o.k\r\n", ""),
            ("application/json", "application/json; charset=utf-8"),
            ("application/json", "text/plain"),
            ("Content-Type: application/json\r\n", ""),
            ("Length: 2", "Length: 1"),
            ("Length: 2", "Length: 3"),
            ("Length: 2", "Length: +2"),
            ("Length: 2", "Length: 2, 2"),
            ("Length: 2", "Length: 000002"),
            ("Content-Length: 2\r\n", ""),
            ("Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n"),
        ] {
            let changed = plain.replacen(from, to, 1);
            assert_ne!(changed, plain);
            assert!(!is_plain(&changed), "{from:?} as {to:?}");
        }
        for header in [
            "Host: localhost:1",
            "Content-Length: 2",
            "Authorization: Bearer t.o.k",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Upgrade: h2c",
            "Connection: close",
            "Connection: keep-alive, host",
            "Origin: http://localhost:1",
            "Cookie: a=b",
            "X-Unknown: a",
            "X-Forwarded-For: 1.2.3.4",
            "no colon",
            "",
        ] {
            let changed = plain.replacen("\r\n\r\n", &format!("\r\n{header}\r\n\r\n"), 1);
            assert!(!is_plain(&changed), "{header:?}");
        }
        let twice = plain.replacen("\r\n\r\n", "\r\nAccept: a\r\nAccept: b\r\n\r\n", 1);
        assert!(!is_plain(&twice), "hyper limits the number of headers");
        assert!(!is_plain(&format!("{plain}{plain}")), "two requests");
    }

    #[test]
    fn a_request_that_may_wait_or_has_a_pattern_is_recognised() {
        let is_quick =
            |body: &str| PlainRequest { body: body.as_bytes(), ..PlainRequest::default() }.is_answered_at_once();
        assert!(is_quick("{}") && is_quick(r#"{"filePath":"src/a.rs","ttlSeconds":60}"#));
        for body in [
            r#"{"filePath":"a","waitSeconds":60}"#,
            r#"{"filePath":"a","\u0077aitSeconds":60}"#,
            r#"{"filePath":"src/*.rs"}"#,
            r#"{"filePaths":["a","b"]}"#,
        ] {
            assert!(!is_quick(body), "{body}");
        }
    }

    #[test]
    fn requests_that_follow_each_other_are_read_one_by_one() {
        let plain = format!("{HEAD}\r\n{{}}");
        let twice = format!("{plain}{plain}POST");
        let (first, rest) = PlainRequest::read_first(twice.as_bytes()).unwrap();
        let (second, rest) = PlainRequest::read_first(rest).unwrap();
        assert_eq!((first, PlainRequest::read_first(rest).err()), (second, Some(NotPlain::Incomplete)));
        assert_eq!(PlainRequest::read_first(b"GET /\r\n").err(), Some(NotPlain::Other));
    }
}
