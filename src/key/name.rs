//! Names outside the file tree: the logical namespaces and resource URIs, each with its own form.

use std::borrow::Cow;

use super::path::{self, TEXT_MAX_BYTES};
use super::text::{compared_text, quoted};
use super::{BadKey, KeyRules};

/// All namespaces. Any other word before a `:` is refused.
pub const NAMESPACES: [&str; 7] = ["api", "db", "event", "flag", "env", "contract", "feature"];

/// The suffix of a flag that covers all flags below it.
const ALL_BELOW: &str = "/*";

/// What is wrong with a name, as the second half of a sentence.
type Reason = Cow<'static, str>;

/// Checks a logical key and normalizes its structure; `namespace` is the word before the first `:`.
pub(super) fn logical<'a>(text: &'a str, namespace: &str, rules: &KeyRules) -> Result<Cow<'a, str>, BadKey> {
    if text.len() > TEXT_MAX_BYTES {
        return Err(malformed(text, "it is longer than 4,096 bytes"));
    }
    if path::is_too_deep(text.as_bytes()) {
        return Err(malformed(text, path::TOO_DEEP));
    }
    let rest = &text[namespace.len() + 1..];
    let checked = match namespace {
        "api" => api(rest),
        "db" => db(rest),
        "event" => event(rest),
        "flag" => flag(rest),
        "env" => env(rest),
        "feature" => feature(rest, rules),
        _ => return contract(text, rest),
    };
    match checked {
        Ok(()) => Ok(Cow::Borrowed(text)),
        Err(reason) => Err(malformed(text, &reason)),
    }
}

/// Checks `<scheme>://<rest>` and makes the scheme lower case.
pub(super) fn uri<'a>(text: &'a str, scheme: &str) -> Result<Cow<'a, str>, BadKey> {
    let rest = &text[scheme.len() + "://".len()..];
    if text.len() > TEXT_MAX_BYTES {
        return Err(malformed(text, "it is longer than 4,096 bytes"));
    }
    if path::is_too_deep(text.as_bytes()) {
        return Err(malformed(text, path::TOO_DEEP));
    }
    if rest.is_empty() {
        return Err(malformed(text, "nothing follows the \"://\""));
    }
    if has_gap(rest) {
        return Err(malformed(
            text,
            "a resource URI has no white space and no control characters; encode them as %20 and the like",
        ));
    }
    if scheme.bytes().any(|b| b.is_ascii_uppercase()) {
        return Ok(Cow::Owned(format!("{}://{rest}", scheme.to_ascii_lowercase())));
    }
    Ok(Cow::Borrowed(text))
}

/// The form in which a logical key is compared: its text, but the path of a contract is compared like a path.
pub(super) fn compared_logical(text: &str, fold_case: bool) -> Cow<'_, str> {
    compared_text(text, fold_case && text.starts_with("contract:"))
}

/// The name below which a key covers everything: `flag:billing` for `flag:billing/*`.
pub(super) fn below(logical: &[u8]) -> Option<&[u8]> {
    if logical.starts_with(b"flag:") { logical.strip_suffix(ALL_BELOW.as_bytes()) } else { None }
}

fn api(rest: &str) -> Result<(), Reason> {
    let Some((method, path)) = rest.split_once(' ') else {
        return Err("write a method, one space and a path, like api:GET /v1/users".into());
    };
    if !is_made_of(method, |b| b.is_ascii_uppercase()) {
        if is_made_of(method, |b| b.is_ascii_alphabetic()) {
            let right = format!("api:{} {path}", method.to_ascii_uppercase());
            return Err(format!("the method is upper case: {}", quoted(&right)).into());
        }
        return Err("the method is one word of upper-case letters, like api:GET /v1/users".into());
    }
    if !path.starts_with('/') || has_gap(path) {
        return Err("after the method come one space and a path that starts with \"/\" and has no white space, like api:GET /v1/users".into());
    }
    Ok(())
}

fn db(rest: &str) -> Result<(), Reason> {
    let (first, others) = match rest.split_once(':') {
        None => (rest, None),
        Some((first, others)) => (first, Some(others)),
    };
    let others_hold = others.is_none_or(|others| others.split(':').all(|part| is_made_of(part, is_identifier)));
    if is_made_of(first, |b| is_identifier(b) || b == b'-') && others_hold {
        return Ok(());
    }
    Err("write one literal like db:migration-slot or lower-case identifiers like db:schema:users".into())
}

fn event(rest: &str) -> Result<(), Reason> {
    if rest.split('.').all(|part| is_made_of(part, |b| is_identifier(b) || b == b'-')) {
        return Ok(());
    }
    Err("write lower-case words with dots between them, like event:user.created".into())
}

fn flag(rest: &str) -> Result<(), Reason> {
    if rest == "*" {
        return Err("that would be every flag; name the part you mean, like flag:billing/*".into());
    }
    let named = rest.strip_suffix(ALL_BELOW).unwrap_or(rest);
    if named.split('/').all(|part| is_made_of(part, |b| is_identifier(b) || b == b'-' || b == b'.')) {
        return Ok(());
    }
    Err("write lower-case words with slashes between them and \"*\" only as the last, like flag:billing/new-invoice or flag:billing/*".into())
}

fn env(rest: &str) -> Result<(), Reason> {
    if is_made_of(rest, |b| b.is_ascii_digit()) {
        return Err("that is a port number; allocate ports instead of reserving them, or name what you share, like env:shared-fixtures".into());
    }
    if is_made_of(rest, is_word) {
        return Ok(());
    }
    Err("write one word of letters, digits, \"_\", \".\" and \"-\", like env:shared-fixtures".into())
}

fn feature(rest: &str, rules: &KeyRules) -> Result<(), Reason> {
    let Some((id, purpose)) = rest.split_once(':') else {
        return Err("write an id and a purpose, like feature:FEAT-123:pause".into());
    };
    if !is_made_of(id, is_word) {
        return Err("the id is made of letters, digits, \"_\", \".\" and \"-\", like feature:FEAT-123:pause".into());
    }
    if rules.purposes.iter().any(|allowed| allowed == purpose) {
        return Ok(());
    }
    Err(format!("there is no such purpose here; the purposes are {}", rules.purposes.join(", ")).into())
}

fn contract<'a>(text: &'a str, rest: &str) -> Result<Cow<'a, str>, BadKey> {
    if rest.ends_with('/') {
        return Err(malformed(text, "a contract is one file, like contract:openapi/v1.yaml"));
    }
    match path::strict(rest) {
        Ok(Cow::Borrowed(_)) => Ok(Cow::Borrowed(text)),
        Ok(Cow::Owned(folded)) => Ok(Cow::Owned(format!("contract:{folded}"))),
        Err(reason) => Err(malformed(text, &format!("a contract is a path in the repository, and {reason}"))),
    }
}

fn malformed(text: &str, reason: &str) -> BadKey {
    BadKey::Form(format!("{} is not a key: {reason}.", quoted(text)))
}

/// Whether the part is not empty and has only allowed bytes.
fn is_made_of(part: &str, allowed: impl Fn(u8) -> bool) -> bool {
    !part.is_empty() && part.bytes().all(allowed)
}

fn is_identifier(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

fn has_gap(text: &str) -> bool {
    text.chars().any(|c| c.is_whitespace() || c.is_control())
}
