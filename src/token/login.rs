//! Browser logins: what the cookie of a signed-in browser says, signed by the server.
//!
//! A login is made from a token and has its rights, but it is no token: it is signed with another key, so it is never
//! accepted as a bearer token. The server keeps no list of logins. Their key depends on the keys that verify tokens, so
//! a changed secret or JWKS ends all of them. A keyring without a secret signs with random bytes of this process instead.

use aws_lc_rs::{constant_time, hmac};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use super::cache::{Digest, digest};
use super::claims::{Claims, Period, Scope};
use super::{BadToken, KeyringError};
use crate::engine::SessionId;
use crate::text::hex;

/// The `typ` of a login, so that it is not taken for a token by a person either.
const TYPE: &str = "dibs-login+jwt";

/// The longest login, in bytes. Browsers drop a cookie of more than 4096 bytes without a word.
const LOGIN_MAX: usize = 3900;

/// One login of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserLogin {
    /// Made for this login, so that it can be ended.
    pub id: String,
    /// The rights of the token. They expire with the login.
    pub claims: Claims,
    /// The SHA-256 of the secret that a request must send to change something; none if the login may only read.
    change_digest: Option<String>,
}

impl BrowserLogin {
    /// A login with these rights. A request needs this secret to change something.
    pub fn new(id: String, claims: Claims, change_secret: Option<&str>) -> BrowserLogin {
        BrowserLogin { id, claims, change_digest: change_secret.map(|secret| hex::encode(&digest(secret.as_bytes()))) }
    }

    /// Whether this is the secret that came with the login.
    pub fn allows_change(&self, secret: &[u8]) -> bool {
        let sent = hex::encode(&digest(secret));
        let is_same = |own: &String| constant_time::verify_slices_are_equal(own.as_bytes(), sent.as_bytes()).is_ok();
        self.change_digest.as_ref().is_some_and(is_same)
    }
}

/// The key of the logins of one generation of keys.
pub(super) struct LoginKey {
    /// What the cookie is called after.
    name: String,
    sign: EncodingKey,
    verify: DecodingKey,
}

impl LoginKey {
    /// `secret` is the keyring's, or random bytes; `fingerprint` is that of all keys.
    pub fn new(secret: &[u8], fingerprint: &Digest) -> LoginKey {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derive = |purpose: &[u8]| hmac::sign(&key, &[purpose, fingerprint].concat());
        let bytes = derive(b"git-dibs browser logins");
        LoginKey {
            name: hex::encode(&derive(b"git-dibs cookie name").as_ref()[..6]),
            sign: EncodingKey::from_secret(bytes.as_ref()),
            verify: DecodingKey::from_secret(bytes.as_ref()),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn sign(&self, login: &BrowserLogin) -> Result<String, KeyringError> {
        let header = Header { typ: Some(TYPE.to_owned()), ..Header::new(Algorithm::HS256) };
        let text = jsonwebtoken::encode(&header, &Payload::of(login), &self.sign)
            .map_err(|_| KeyringError("cannot sign a login with this secret; configure another one".to_owned()))?;
        if text.len() > LOGIN_MAX {
            let sentence = "the names in this token are too long for a browser's cookie; use a token with shorter ones";
            return Err(KeyringError(sentence.to_owned()));
        }
        Ok(text)
    }

    pub fn verify(&self, text: &str, now: i64) -> Result<BrowserLogin, BadToken> {
        if text.len() > LOGIN_MAX {
            return Err(BadToken::Invalid);
        }
        let mut only_signature = Validation::new(Algorithm::HS256);
        only_signature.required_spec_claims.clear();
        only_signature.validate_exp = false;
        only_signature.validate_nbf = false;
        only_signature.validate_aud = false;
        let payload = jsonwebtoken::decode::<Payload>(text, &self.verify, &only_signature);
        let login = payload.map_err(|_| BadToken::Invalid)?.claims.into_login()?;
        Period { not_before: 0, expires: login.claims.expires }.check(now)?;
        Ok(login)
    }
}

/// A login as JSON: the claims of its token, whose names are those of tokens.
#[derive(Serialize, Deserialize)]
struct Payload {
    jti: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chg: Option<String>,
    sub: String,
    scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iat: Option<i64>,
    exp: i64,
}

impl Payload {
    fn of(login: &BrowserLogin) -> Payload {
        let claims = &login.claims;
        let text = |text: &Option<crate::engine::Text>| text.as_deref().map(str::to_owned);
        Payload {
            jti: login.id.clone(),
            chg: login.change_digest.clone(),
            sub: claims.subject.to_string(),
            scope: claims.scope,
            sid: claims.session.as_ref().map(SessionId::to_string),
            iss: text(&claims.issuer),
            repo: text(&claims.repo),
            name: text(&claims.name),
            feature: text(&claims.feature),
            prefix: text(&claims.prefix),
            iat: claims.issued_ms,
            exp: claims.expires,
        }
    }

    fn into_login(self) -> Result<BrowserLogin, BadToken> {
        let session = self.sid.map(|id| SessionId::parse(&id).ok_or(BadToken::Invalid)).transpose()?;
        let claims = Claims {
            session,
            subject: self.sub.into(),
            issuer: self.iss.map(Into::into),
            scope: self.scope,
            repo: self.repo.map(Into::into),
            name: self.name.map(Into::into),
            feature: self.feature.map(Into::into),
            prefix: self.prefix.map(Into::into),
            issued_ms: self.iat,
            expires: self.exp,
        };
        Ok(BrowserLogin { id: self.jti, claims, change_digest: self.chg })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            session: SessionId::parse("ana"),
            subject: "host".into(),
            issuer: Some("idp".into()),
            scope: Scope::Worker,
            repo: Some("app".into()),
            name: Some("Ana \u{1f512} <b>".into()),
            feature: None,
            prefix: Some("an".into()),
            issued_ms: Some(1_000_250),
            expires: 2_000,
        }
    }

    #[test]
    fn a_login_is_read_back_as_it_was_made() {
        let key = LoginKey::new(&[1; 32], &[2; 32]);
        let login = BrowserLogin::new("l1".to_owned(), claims(), Some("change"));
        let text = key.sign(&login).unwrap();
        assert_eq!(key.verify(&text, 1_999), Ok(login.clone()));
        assert_eq!(key.verify(&text, 2_000 + 30), Err(BadToken::Expired));
        assert!(login.allows_change(b"change") && !login.allows_change(b"chang") && !login.allows_change(b""));
        let reader = BrowserLogin::new("l2".to_owned(), claims(), None);
        assert!(!reader.allows_change(b""));
        assert!(!text.contains("change"), "the secret is not part of the cookie");
    }

    #[test]
    fn another_secret_or_other_public_keys_end_all_logins() {
        let key = LoginKey::new(&[1; 32], &[2; 32]);
        let text = key.sign(&BrowserLogin::new("l1".to_owned(), claims(), None)).unwrap();
        for other in [LoginKey::new(&[3; 32], &[2; 32]), LoginKey::new(&[1; 32], &[3; 32])] {
            assert_eq!(other.verify(&text, 0), Err(BadToken::Invalid));
            assert_ne!(other.name(), key.name());
        }
        for bad in ["", ".", "a.b.c", &text[1..], &text[..text.len() - 1], &"x".repeat(LOGIN_MAX + 1)] {
            assert_eq!(key.verify(bad, 0), Err(BadToken::Invalid), "{bad}");
        }
    }

    #[test]
    fn a_login_that_no_browser_would_keep_is_not_made() {
        let key = LoginKey::new(&[1; 32], &[2; 32]);
        let long = Claims { name: Some("\u{1f512}".repeat(200).into()), subject: "s".repeat(255).into(), ..claims() };
        assert!(key.sign(&BrowserLogin::new("l1".to_owned(), long.clone(), Some("x"))).is_ok());
        let too_long =
            Claims { issuer: Some("\u{1f512}".repeat(255).into()), repo: Some("\u{1f512}".repeat(255).into()), ..long };
        assert!(key.sign(&BrowserLogin::new("l1".to_owned(), too_long, Some("x"))).is_err());
    }
}
