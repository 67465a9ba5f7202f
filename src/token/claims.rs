//! What a token says, once its signature is known to be good.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Flaw;
use crate::engine::{Owner, SessionId, Text};

/// How far the clocks of whoever made a token and of this server may be apart.
pub const LEEWAY_SECONDS: i64 = 30;

/// The latest time a token may name, the end of the year 9999: what is later cannot be written in RFC 3339, and is
/// most likely milliseconds where seconds are meant, a token that would live for 50,000 years.
pub const TIME_MAX: i64 = 253_402_300_799;

/// The longest display name and feature, in characters: they are shown in every answer about the session.
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
    /// Look and check, never change.
    Read,
    /// Anything.
    Admin,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        match text {
            "session" => Ok(Scope::Session),
            "worker" => Ok(Scope::Worker),
            "read" => Ok(Scope::Read),
            "admin" => Ok(Scope::Admin),
            _ => Err(format!("there is no scope {text:?}; take session, worker, read or admin")),
        }
    }
}

/// For serde, which left to itself would read a scope out of `{"admin": null}` too.
impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Scope, String> {
        text.parse()
    }
}

/// What a good token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The session it acts for: always there in scope `session`; in scope `worker` only where the token is bound to
    /// one (without, it may act for any); never in the other scopes.
    pub session: Option<SessionId>,
    /// Whom it was made for (`sub`).
    pub subject: Text,
    /// Who made it (`iss`).
    pub issuer: Option<Text>,
    /// What it may do.
    pub scope: Scope,
    /// The only repository it is for.
    pub repo: Option<Text>,
    /// A display name for the session.
    pub name: Option<Text>,
    /// The feature the session works on.
    pub feature: Option<Text>,
    /// When it ends, in seconds since 1970, without the leeway.
    pub expires: i64,
}

impl Claims {
    /// Whose a session becomes when this token is the first to use it; nobody's for scopes that are no session.
    pub fn owner(&self) -> Option<Owner> {
        match self.scope {
            Scope::Session => Some(Owner::Itself),
            Scope::Worker => Some(Owner::Worker { iss: self.issuer.clone(), sub: self.subject.clone() }),
            Scope::Read | Scope::Admin => None,
        }
    }

    /// Whether the token's own words allow acting for this session. A worker's claim can still fail later, on a
    /// session that belongs to somebody else.
    pub fn may_act_for(&self, session: &SessionId) -> bool {
        match self.scope {
            Scope::Session => self.session.as_ref() == Some(session),
            Scope::Worker => self.session.as_ref().is_none_or(|own| own == session),
            Scope::Read => false,
            Scope::Admin => true,
        }
    }
}

/// The claims as they travel. An optional claim that is `null` counts as absent; one named twice makes the token
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
    /// Says nothing about whether the token is good; any number will do, fractions too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
}

/// For whom a token is: one name or several.
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

/// What the server insists on beyond a good signature.
#[derive(Debug, Clone, Default)]
pub(super) struct Demands {
    pub issuer: Option<String>,
    pub audience: Option<String>,
}

/// When a token is good, in seconds since 1970, without the leeway.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    pub not_before: i64,
    pub expires: i64,
}

impl Period {
    /// Good from 30 s before its beginning (inclusive) until 30 s after its end (exclusive).
    pub fn check(self, now: i64) -> Result<(), Flaw> {
        if now >= self.expires.saturating_add(LEEWAY_SECONDS) {
            return Err(Flaw::Expired);
        }
        if now < self.not_before.saturating_sub(LEEWAY_SECONDS) {
            return Err(Flaw::NotYet);
        }
        Ok(())
    }
}

impl Payload {
    /// Checks everything but the time, so that "expired" is only ever said of a token that was good.
    pub fn check(self, demands: &Demands) -> Result<(Claims, Period), Flaw> {
        if demands.issuer.is_some() && demands.issuer != self.iss {
            return Err(Flaw::Issuer);
        }
        if let Some(name) = &demands.audience
            && !self.aud.as_ref().is_some_and(|aud| aud.includes(name))
        {
            return Err(Flaw::Audience);
        }

        let subject = self.sub.ok_or(Flaw::Subject).and_then(|sub| identity(sub, Flaw::Subject))?;
        let issuer = self.iss.map(|iss| identity(iss, Flaw::Issuer)).transpose()?;
        let repo = self.repo.map(|repo| identity(repo, Flaw::Repo)).transpose()?;
        let name = self.name.and_then(|name| label(name, Flaw::Name).transpose()).transpose()?;
        let feature = self.feature.and_then(|feature| label(feature, Flaw::Feature).transpose()).transpose()?;

        let scope = self.scope.unwrap_or_default();
        let session = match (scope, self.sid.as_deref()) {
            (Scope::Session, None) => Some(&*subject),
            (Scope::Session | Scope::Worker, sid) => sid,
            // Here `sid` is no business of ours: identity providers put one of their own into every token.
            (Scope::Read | Scope::Admin, _) => None,
        };
        let session = session.map(|id| SessionId::parse(id).ok_or(Flaw::Session)).transpose()?;

        let period = Period { not_before: self.nbf.unwrap_or(0), expires: self.exp.ok_or(Flaw::Expiry)? };
        if !(0..=TIME_MAX).contains(&period.expires) || !(0..=TIME_MAX).contains(&period.not_before) {
            return Err(Flaw::Expiry);
        }
        let claims = Claims { session, subject, issuer, scope, repo, name, feature, expires: period.expires };
        Ok((claims, period))
    }
}

/// Text that identifies: something must be there.
fn identity(text: String, flaw: Flaw) -> Result<Text, Flaw> {
    if text.is_empty() || !showable(&text, IDENTITY_MAX) { Err(flaw) } else { Ok(text.into()) }
}

/// Text that is only shown: empty is the same as none.
fn label(text: String, flaw: Flaw) -> Result<Option<Text>, Flaw> {
    if !showable(&text, NAME_MAX) {
        return Err(flaw);
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Nothing that could break a line, drive a terminal or turn the text around it: names end up in logs and hooks.
fn showable(text: &str, max: usize) -> bool {
    let unsafe_to_show = |c: char| {
        c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    text.chars().nth(max).is_none() && !text.chars().any(unsafe_to_show)
}
