//! The bytes of a reply, as hyper would write them.

use std::cell::Cell;

use axum::response::Response;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;

use crate::http::app::App;

/// A date in a header, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
type DateText = [u8; 29];

thread_local! {
    /// The last date that was written, and its second since 1970.
    static DATE: Cell<(i64, DateText)> = const { Cell::new((i64::MIN, [0; 29])) };
}

/// A successful reply with this JSON.
pub fn json_response(json: &[u8], request_id: &str, app: &App) -> Vec<u8> {
    let mut reply = Vec::with_capacity(256 + json.len());
    reply.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
    finish(reply, json, request_id, app)
}

/// Any other reply whose body is complete.
pub async fn bytes_of(response: Response, request_id: &str, app: &App) -> Vec<u8> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut reply = Vec::with_capacity(512 + body.len());
    let reason = parts.status.canonical_reason().unwrap_or_default();
    reply.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", parts.status.as_str()).as_bytes());
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH) {
        reply.extend_from_slice(name.as_str().as_bytes());
        reply.extend_from_slice(b": ");
        reply.extend_from_slice(value.as_bytes());
        reply.extend_from_slice(b"\r\n");
    }
    finish(reply, &body, request_id, app)
}

fn finish(reply: Vec<u8>, body: &[u8], request_id: &str, app: &App) -> Vec<u8> {
    // The request may have waited, so this is another second than that of its token.
    with_common_headers(reply, body, request_id, (app.wall_clock)(), app.is_stopping())
}

/// Adds the headers that every reply has, and the body.
fn with_common_headers(mut reply: Vec<u8>, body: &[u8], request_id: &str, now: i64, is_last: bool) -> Vec<u8> {
    reply.extend_from_slice(b"x-request-id: ");
    reply.extend_from_slice(request_id.as_bytes());
    if is_last {
        reply.extend_from_slice(b"\r\nconnection: close");
    }
    reply.extend_from_slice(b"\r\ncontent-length: ");
    push_number(&mut reply, body.len());
    reply.extend_from_slice(b"\r\ndate: ");
    reply.extend_from_slice(&date(now));
    reply.extend_from_slice(b"\r\n\r\n");
    reply.extend_from_slice(body);
    reply
}

fn push_number(text: &mut Vec<u8>, number: usize) {
    let mut digits = [0; 20];
    let (mut rest, mut at) = (number, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// The date of this second since 1970.
fn date(now: i64) -> DateText {
    let (second, text) = DATE.get();
    if second == now {
        return text;
    }
    let moment = jiff::Timestamp::from_second(now).unwrap_or(jiff::Timestamp::MAX);
    let written = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment);
    let text = written.ok().and_then(|text| text.into_bytes().try_into().ok()).expect("a date has 29 characters");
    DATE.set((now, text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_has_the_common_headers() {
        let text = |is_last| {
            let bytes = with_common_headers(b"HTTP/1.1 200 OK\r\n".to_vec(), b"{\"a\":1}", "r1", 784_111_777, is_last);
            String::from_utf8(bytes).unwrap()
        };
        let end = "content-length: 7\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n{\"a\":1}";
        assert_eq!(text(false), format!("HTTP/1.1 200 OK\r\nx-request-id: r1\r\n{end}"));
        assert_eq!(text(true), format!("HTTP/1.1 200 OK\r\nx-request-id: r1\r\nconnection: close\r\n{end}"));
    }

    #[test]
    fn numbers_have_all_their_digits() {
        for number in [0, 7, 10, 99, 100, 12_345, usize::MAX] {
            let mut text = Vec::new();
            push_number(&mut text, number);
            assert_eq!(text, number.to_string().as_bytes());
        }
    }
}
