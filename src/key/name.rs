//! Names outside the file tree: the logical namespaces and resource URIs, each with its own form.

use std::borrow::Cow;

use super::path::{self, TEXT_MAX_BYTES};
use super::text::{compared_text, quoted};
use super::{BadKey, KeyRules};

/// All namespaces. Any other word before a `:` is refused.
pub const NAMESPACES: [&str; 7] = ["api", "db", "event", "flag", "env", "contract", "feature"];

/// The namespace of ports. They are allocated, not reserved.
pub const PORT: &str = "port";

/// The methods of HTTP.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

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
        "api" => return api(text, rest),
        "db" => db(rest, rules),
        "event" => event(rest),
        "flag" => flag(rest),
        "env" => env(rest),
        "feature" => feature(rest, rules),
        PORT => port(rest),
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

/// Checks the method and the path of a call, and folds the path.
fn api<'a>(text: &'a str, rest: &str) -> Result<Cow<'a, str>, BadKey> {
    let Some((method, path)) = rest.split_once(' ') else {
        return Err(malformed(text, "write a method, one space and a path, like api:GET /v1/users"));
    };
    if !METHODS.contains(&method) {
        let upper = method.to_ascii_uppercase();
        if METHODS.contains(&&*upper) {
            let right = format!("api:{upper} {path}");
            return Err(malformed(text, &format!("the method is upper case: {}", quoted(&right))));
        }
        return Err(malformed(text, &format!("the method is one of {}", METHODS.join(", "))));
    }
    if !path.starts_with('/') || has_gap(path) {
        return Err(malformed(
            text,
            "after the method come one space and a path that starts with \"/\" and has no white space, like api:GET /v1/users",
        ));
    }
    if path.split(['/', '?']).any(|part| part == "..") {
        return Err(malformed(text, "the path has a \"..\" component; write it without"));
    }
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut folded: String =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").flat_map(|part| ["/", part]).collect();
    if folded.is_empty() {
        folded.push('/');
    }
    if folded == path {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(format!("api:{method} {folded}{query}")))
}

/// A port, which only an allocation reserves.
fn port(rest: &str) -> Result<(), Reason> {
    match rest.parse::<u16>() {
        Ok(number) if number > 0 && number.to_string() == rest => Ok(()),
        _ => Err("write the number of a port, 1 to 65535, like port:20004".into()),
    }
}

/// A name in a namespace that the configuration adds.
pub(super) fn plain<'a>(text: &'a str, namespace: &str) -> Result<&'a str, BadKey> {
    let rest = &text[namespace.len() + 1..];
    if text.len() > TEXT_MAX_BYTES {
        return Err(malformed(text, "it is longer than 4,096 bytes"));
    }
    if path::is_too_deep(text.as_bytes()) {
        return Err(malformed(text, path::TOO_DEEP));
    }
    if rest.is_empty() || has_gap(rest) {
        return Err(malformed(text, "after the colon comes a name without white space and control characters"));
    }
    Ok(text)
}

/// The form of what follows `db:`, as the configuration writes it: `migration-slot`, or `schema:*`.
pub(super) fn db_form(rest: &str) -> String {
    match rest.split_once(':') {
        None => rest.to_owned(),
        Some((kind, _)) => format!("{kind}:*"),
    }
}

fn db(rest: &str, rules: &KeyRules) -> Result<(), Reason> {
    let (kind, name) = match rest.split_once(':') {
        None => (rest, None),
        Some((kind, name)) => (kind, Some(name)),
    };
    let is_name = name.is_none_or(|name| is_made_of(name, is_identifier));
    if !is_made_of(kind, |b| is_identifier(b) || b == b'-') || !is_name {
        return Err("write one literal like db:migration-slot or lower-case identifiers like db:schema:users".into());
    }
    if rules.db_forms.contains(&db_form(rest)) {
        return Ok(());
    }
    let forms: Vec<String> = rules.db_forms.iter().map(|form| format!("db:{}", form.replace('*', "NAME"))).collect();
    Err(format!("there is no such form here; the forms are {}", forms.join(", ")).into())
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
    if is_port(rest) {
        return Err("that is a port number; allocate ports instead of reserving them (git dibs ports), or name what you share, like env:shared-fixtures".into());
    }
    let is_part = |part: &str| is_made_of(part, is_word) && !matches!(part, "." | "..");
    if rest.split('/').all(is_part) {
        return Ok(());
    }
    Err("write words of letters, digits, \"_\", \".\" and \"-\" with slashes between them, like env:shared-fixtures or env:tmp/shared".into())
}

/// Whether a name stands for a port: `8080`, `port-8080`, `tcp/8080`, `8080/tcp`, `api.PORT_8080`.
fn is_port(name: &str) -> bool {
    let protocol = |part: &str| matches!(&*part.to_ascii_lowercase(), "tcp" | "udp");
    let name = name.rsplit_once('/').filter(|(_, last)| protocol(last)).map_or(name, |(number, _)| number);
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let before = name[..name.len() - digits].to_ascii_lowercase();
    let before = before.trim_end_matches(['-', '_', '.', '/']);
    let word = before.rsplit(['-', '_', '.', '/']).next().unwrap_or_default();
    digits > 0 && (before.is_empty() || matches!(word, "port" | "ports" | "tcp" | "udp"))
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
