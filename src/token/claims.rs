//! The claims of a token, read after its signature was verified.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::TokenError;
use crate::engine::{Owner, SessionId, Text};

/// How far the clocks of the issuer of a token and of this server may differ.
pub const LEEWAY_SECONDS: i64 = 30;

/// The latest time in a token, the end of the year 9999. A later time cannot be written in RFC 3339, and is most likely
/// milliseconds instead of seconds, which would make the token valid for 50,000 years.
pub const TIME_MAX: i64 = 253_402_300_799;

/// The longest display name and feature, in characters. They are part of every reply about the session.
pub const NAME_MAX: usize = 200;

/// The longest subject, issuer and repository name, in characters; OpenID Connect allows no longer subject either.
pub const IDENTITY_MAX: usize = 255;

/// What a token may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Scope {
    /// Act for the one session it names.
    #[default]
    Session,
    /// Act for every session it was the first to use.
    Worker,
    /// Read and check, never change anything.
    Read,
    /// Do anything.
    Admin,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Session => "session",
            Scope::Worker => "worker",
            Scope::Read => "read",
            Scope::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        match text {
            "session" => Ok(Scope::Session),
            "worker" => Ok(Scope::Worker),
            "read" => Ok(Scope::Read),
            "admin" => Ok(Scope::Admin),
            _ => Err(format!("{text:?} is not a scope; use session, worker, read or admin")),
        }
    }
}

/// For serde, whose derived code would also accept `{"admin": null}`.
impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Scope, String> {
        text.parse()
    }
}

/// The claims of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The session it acts for. Always set in scope `session`. In scope `worker` only if the token is bound to one session;
    /// otherwise it may act for any. Never set in the other scopes.
    pub session: Option<SessionId>,
    /// `sub`.
    pub subject: Text,
    /// `iss`.
    pub issuer: Option<Text>,
    pub scope: Scope,
    /// The only repository that it is for.
    pub repo: Option<Text>,
    /// A display name for the session.
    pub name: Option<Text>,
    /// The feature the session works on.
    pub feature: Option<Text>,
    /// In scope `worker`: what the id of every session that it acts for begins with.
    pub prefix: Option<Text>,
    /// `iat`, in milliseconds since 1970. It decides only whether the token may open an ended session again.
    pub issued_ms: Option<i64>,
    /// When it expires, in seconds since 1970, without the leeway.
    pub expires: i64,
}

impl Claims {
    /// The owner of a session that this token is the first to use; none for scopes `read` and `admin`.
    pub fn owner(&self) -> Option<Owner> {
        match self.scope {
            Scope::Session => Some(Owner::Itself),
            Scope::Worker => Some(Owner::Worker { iss: self.issuer.clone(), sub: self.subject.clone() }),
            Scope::Read | Scope::Admin => None,
        }
    }

    /// Whether the claims allow acting for this session. For a worker the engine may still refuse it, if the session has
    /// another owner.
    pub fn may_act_for(&self, session: &SessionId) -> bool {
        match self.scope {
            Scope::Session => self.session.as_ref() == Some(session),
            Scope::Worker => {
                self.session.as_ref().is_none_or(|own| own == session)
                    && self.prefix.as_ref().is_none_or(|prefix| session.as_str().starts_with(&**prefix))
            }
            Scope::Read => false,
            Scope::Admin => true,
        }
    }
}

/// The claims as JSON. An optional claim that is `null` counts as absent. A claim that appears twice makes the token
/// unreadable, because two readers could disagree about it.
#[derive(Serialize, Deserialize)]
pub(super) struct Payload {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// Must be text in scope `worker`. In others it has no meaning, and may be anything that another issuer puts there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<serde_json::Value>,
    /// The address and the id of the server that the token is for. Only clients read them: they send the token nowhere else.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub srv: Option<String>,
    /// Any number is accepted as a time, also a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<serde_json::Number>,
}

/// A time as whole seconds. Saturates.
fn seconds(number: &serde_json::Number) -> i64 {
    number.as_i64().unwrap_or_else(|| number.as_f64().map_or(i64::MAX, |seconds| seconds.floor() as i64))
}

/// `aud`: one name or several.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn includes(&self, name: &str) -> bool {
        match self {
            Audience::One(one) => one == name,
            Audience::Several(several) => several.iter().any(|one| one == name),
        }
    }
}

/// What the server requires of a token besides the signature.
#[derive(Debug, Clone, Default)]
pub(super) struct ClaimRequirements {
    pub issuer: Option<String>,
    pub audience: Option<String>,
}

/// When a token is valid, in seconds since 1970, without the leeway.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    pub not_before: i64,
    pub expires: i64,
}

impl Period {
    /// Valid from 30 s before its begin (inclusive) until 30 s after its end (exclusive).
    pub fn check(self, now: i64) -> Result<(), TokenError> {
        if now >= self.expires.saturating_add(LEEWAY_SECONDS) {
            return Err(TokenError::Expired);
        }
        if now < self.not_before.saturating_sub(LEEWAY_SECONDS) {
            return Err(TokenError::NotYet);
        }
        Ok(())
    }
}

impl Payload {
    /// Checks everything but the time, so that only a token that was valid is called expired.
    pub fn check(self, required: &ClaimRequirements) -> Result<(Claims, Period), TokenError> {
        if required.issuer.is_some() && required.issuer != self.iss {
            return Err(TokenError::Issuer);
        }
        if let Some(name) = &required.audience
            && !self.aud.as_ref().is_some_and(|aud| aud.includes(name))
        {
            return Err(TokenError::Audience);
        }

        let subject = self.sub.ok_or(TokenError::Subject).and_then(|sub| identity(sub, TokenError::Subject))?;
        let issuer = self.iss.map(|iss| identity(iss, TokenError::Issuer)).transpose()?;
        let repo = self.repo.map(|repo| identity(repo, TokenError::Repo)).transpose()?;
        let name = self.name.and_then(|name| label(name, TokenError::Name).transpose()).transpose()?;
        let feature = self.feature.and_then(|feature| label(feature, TokenError::Feature).transpose()).transpose()?;

        let scope = self.scope.unwrap_or_default();
        let prefix = self.prefix.filter(|_| scope == Scope::Worker).map(|prefix| match prefix.as_str() {
            Some(text) if SessionId::parse(text).is_some() => Ok(Text::from(text)),
            _ => Err(TokenError::Prefix),
        });
        let prefix = prefix.transpose()?;
        let session = match (scope, self.sid.as_deref()) {
            (Scope::Session, None) => Some(&*subject),
            (Scope::Session | Scope::Worker, sid) => sid,
            // `sid` has no meaning here: identity providers put one of their own into every token.
            (Scope::Read | Scope::Admin, _) => None,
        };
        let session = session.map(|id| SessionId::parse(id).ok_or(TokenError::Session)).transpose()?;

        let period = Period {
            not_before: self.nbf.as_ref().map_or(0, seconds),
            expires: self.exp.as_ref().map(seconds).ok_or(TokenError::Expiry)?,
        };
        if !(0..=TIME_MAX).contains(&period.expires) || !(0..=TIME_MAX).contains(&period.not_before) {
            return Err(TokenError::Expiry);
        }
        // The cast saturates.
        let issued_ms = self.iat.and_then(|iat| iat.as_f64()).map(|seconds| (seconds * 1000.0).round() as i64);
        let claims =
            Claims { session, subject, issuer, scope, repo, name, feature, prefix, issued_ms, expires: period.expires };
        Ok((claims, period))
    }
}

/// Text that identifies; it must not be empty.
fn identity(text: String, error: TokenError) -> Result<Text, TokenError> {
    if text.is_empty() || !is_showable(&text, IDENTITY_MAX) { Err(error) } else { Ok(text.into()) }
}

/// Text that is only shown; empty text is the same as none.
fn label(text: String, error: TokenError) -> Result<Option<Text>, TokenError> {
    if !is_showable(&text, NAME_MAX) {
        return Err(error);
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Without characters that break a line, control a terminal or change the direction of text: names are shown in logs and
/// by hooks.
fn is_showable(text: &str, max: usize) -> bool {
    let unsafe_to_show = |c: char| {
        c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    text.chars().nth(max).is_none() && !text.chars().any(unsafe_to_show)
}
