//! Fields that several requests have: keys, TTL, mode, reason.

use crate::engine::{Few, KeyName, Mode, ObjectId, Text, Ttl};
use crate::http::app::{App, Repository};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::key_policy::KeyPolicy;
use crate::http::pattern_work::{PatternWork, read_keys};
use crate::key::{Key, KeyRules, Kind};
use crate::wire::limits::{REASON_CHARS_MAX, TtlBounds};
use crate::wire::{self, Code, Encoding, ErrorBody, OneOrMany};

/// A key of a request. The error for a bad key quotes its text.
pub fn key(repo: &Repository, text: &str, percent: bool) -> ApiResult<Key> {
    parse_key(&repo.policy().rules, text, percent)
}

/// A key under these rules.
pub fn parse_key(rules: &KeyRules, text: &str, percent: bool) -> ApiResult<Key> {
    Ok(if percent { Key::parse_percent(text, rules)? } else { Key::parse(text, rules)? })
}

/// A key as the holder names what it holds: `src/[id].ts` may be a file name as well as a pattern.
pub fn named_key(repo: &Repository, text: &str, percent: bool) -> ApiResult<KeyName> {
    let key = key(repo, text, percent)?;
    let literal = match key.kind() {
        Kind::Glob => Key::literal(text.as_bytes(), &repo.policy().rules).ok(),
        _ => None,
    };
    Ok(KeyName { key, literal })
}

pub async fn named_keys(
    app: &App,
    caller: &Caller,
    texts: OneOrMany<'_>,
    encoding: Option<Encoding>,
) -> ApiResult<Few<KeyName>> {
    let mut work = PatternWork::of(caller, texts.iter())?;
    let read = |text: &str| named_key(&caller.repo, text, encoding == Some(Encoding::Percent));
    read_keys(app, &mut work, texts.iter(), read, |named| &named.key).await
}

/// Refuses a list of too many keys.
pub fn few_enough(field: &str, keys: usize, most: usize) -> ApiResult<()> {
    if keys <= most {
        return Ok(());
    }
    let what = format!("has {keys} keys, and {most} is the most for one request");
    Err(wire::BadBody::field(field, what).into())
}

/// An object id of a request.
pub fn object_id(field: &str, text: &str) -> ApiResult<ObjectId> {
    let bad = || wire::BadBody::field(field, "must be 40 or 64 hexadecimal digits").into();
    ObjectId::parse(text).ok_or_else(bad)
}

/// How long a request wants to hold its keys.
#[derive(Debug, Clone, Copy)]
pub struct HoldTime {
    ttl_seconds: Option<i64>,
    /// None if the reservation has a TTL of its own.
    idle_seconds: Option<Option<i64>>,
}

impl HoldTime {
    pub fn read(
        ttl_seconds: Option<i64>,
        while_session: Option<bool>,
        idle_seconds: Option<i64>,
    ) -> Result<HoldTime, wire::BadBody> {
        let while_session = while_session == Some(true);
        if while_session && ttl_seconds.is_some() {
            let what = "must not be sent together with whileSession, which has idleSeconds instead";
            return Err(wire::BadBody::field("ttlSeconds", what));
        }
        if !while_session && idle_seconds.is_some() {
            return Err(wire::BadBody::field("idleSeconds", "has a meaning only together with whileSession: true"));
        }
        Ok(HoldTime { ttl_seconds, idle_seconds: while_session.then_some(idle_seconds) })
    }

    /// Whether the request says anything about it.
    pub fn is_some(self) -> bool {
        self.ttl_seconds.is_some() || self.idle_seconds.is_some()
    }

    /// The TTL of a key under this policy.
    pub fn of(self, policy: &KeyPolicy, key: &Key) -> ApiResult<Ttl> {
        match self.idle_seconds {
            None => ttl(self.ttl_seconds, policy.bounds(key)),
            Some(seconds) => Ok(Ttl::WhileSession(in_bounds("idleSeconds", seconds, policy.idle)?)),
        }
    }
}

/// The TTL of a request, or the default.
pub fn ttl(seconds: Option<i64>, bounds: TtlBounds) -> ApiResult<Ttl> {
    in_bounds("ttlSeconds", seconds, bounds).map(Ttl::Plain)
}

fn in_bounds(field: &str, seconds: Option<i64>, bounds: TtlBounds) -> ApiResult<u32> {
    let Some(seconds) = seconds else { return Ok(bounds.default) };
    match u32::try_from(seconds) {
        Ok(seconds) if (bounds.min..=bounds.max).contains(&seconds) => Ok(seconds),
        _ => {
            let sentence = format!("{field} is {seconds}; it must be {} to {}", bounds.min, bounds.max);
            Err(out_of_range(Code::TtlOutOfRange, field, sentence, bounds.min.into(), bounds.max.into()))
        }
    }
}

/// The error for a number that is too small or too large.
pub fn out_of_range(code: Code, field: &str, sentence: String, min: i64, max: i64) -> ApiError {
    let body = ErrorBody::new(code, sentence);
    ApiError::from(ErrorBody { field: Some(field.to_owned()), min: Some(min), max: Some(max), ..body })
}

/// The reason in a request; an empty one is none.
pub fn reason(text: Option<&Text>) -> ApiResult<Option<Text>> {
    reason_field("reason", text)
}

/// The same in a field with another name.
pub fn reason_field(field: &str, text: Option<&Text>) -> ApiResult<Option<Text>> {
    match text {
        Some(text) if text.chars().count() > REASON_CHARS_MAX => {
            let what = format!("is longer than {REASON_CHARS_MAX} characters");
            Err(wire::BadBody::field(field, what).into())
        }
        Some(text) if text.trim().is_empty() => Ok(None),
        other => Ok(other.cloned()),
    }
}

pub fn mode(mode: Option<wire::Mode>) -> Mode {
    match mode.unwrap_or_default() {
        wire::Mode::Exclusive => Mode::Exclusive,
        wire::Mode::Shared | wire::Mode::Collaborative => Mode::Shared,
    }
}
