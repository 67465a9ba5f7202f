//! Tokens that must be accepted, and what is read out of them.

use serde_json::json;

use super::{NOW, claims, config, fixture_bytes, forge, hs256, keyring, secret_key};
use crate::engine::{Owner, SessionId};
use crate::token::{Claims, Keyring, KeyringConfig, NewToken, Scope, TokenError};
use jsonwebtoken::Algorithm;

fn read(payload: serde_json::Value) -> Claims {
    keyring().examine(&hs256(payload), NOW).expect("the token is good")
}

fn session(id: &str) -> SessionId {
    SessionId::parse(id).expect("a session id")
}

#[test]
fn tokens_made_by_openssl_are_understood_in_every_algorithm() {
    let keyring = keyring();
    for name in ["hs256.jwt", "eddsa.jwt", "es256.jwt", "rs256.jwt"] {
        let token = String::from_utf8(fixture_bytes(name)).expect("text");
        let claims = keyring.examine(token.trim_end(), NOW).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        assert_eq!(claims.session, Some(session("sess_01abc")), "{name}");
        assert_eq!(claims.name.as_deref(), Some("Ana"), "{name}");
        assert_eq!(claims.expires, 4_102_444_800, "{name}");
    }
}

#[test]
fn a_session_token_names_its_session() {
    let claims =
        read(claims(json!({"iat": 1.5, "nbf": NOW, "iss": "ci", "aud": ["x"], "repo": "app", "feature": "F-1"})));
    assert_eq!((claims.scope, claims.session.clone()), (Scope::Session, Some(session("sess_01abc"))));
    assert_eq!(
        (claims.issuer.as_deref(), claims.repo.as_deref(), claims.feature.as_deref()),
        (Some("ci"), Some("app"), Some("F-1"))
    );
    assert_eq!((claims.owner(), claims.issued_ms), (Some(Owner::Itself), Some(1500)));
    assert!(claims.may_act_for(&session("sess_01abc")));
    assert!(!claims.may_act_for(&session("sess_02def")));
}

#[test]
fn sid_is_the_session_instead_of_sub() {
    let claims = read(claims(json!({"sub": "ana@example.org", "sid": "sess_7"})));
    assert_eq!(claims.session, Some(session("sess_7")));
    assert_eq!(&*claims.subject, "ana@example.org");
    assert_eq!(claims.owner(), Some(Owner::Itself));
}

#[test]
fn a_worker_acts_for_any_session_or_for_the_one_it_is_bound_to() {
    let any = read(claims(json!({"sub": "pool 7", "scope": "worker", "iss": "ci"})));
    assert_eq!(any.session, None);
    assert_eq!(any.owner(), Some(Owner::Worker { iss: Some("ci".into()), sub: "pool 7".into() }));
    assert!(any.may_act_for(&session("a")));

    let bound = read(claims(json!({"sub": "pool 7", "scope": "worker", "sid": "a"})));
    assert_eq!(bound.session, Some(session("a")));
    assert!(bound.may_act_for(&session("a")));
    assert!(!bound.may_act_for(&session("b")));
}

#[test]
fn readers_and_admins_are_no_session() {
    for (scope, acts) in [("read", false), ("admin", true)] {
        let claims = read(claims(json!({"sub": "ana@example.org", "scope": scope, "sid": "not a session id"})));
        assert_eq!(claims.session, None);
        assert_eq!(claims.owner(), None);
        assert_eq!(claims.may_act_for(&session("a")), acts, "{scope}");
    }
}

#[test]
fn an_empty_name_or_feature_is_none() {
    let claims = read(claims(json!({"name": "", "feature": ""})));
    assert_eq!((claims.name, claims.feature), (None, None));
}

#[test]
fn names_may_be_long_in_bytes_but_not_in_characters() {
    let longest = "ü".repeat(200);
    assert_eq!(read(claims(json!({"name": longest}))).name.as_deref(), Some(&*longest));
}

#[test]
fn the_usual_types_of_token_are_accepted() {
    let keyring = keyring();
    for typ in [json!("JWT"), json!("jwt"), json!("at+jwt"), json!("application/at+JWT"), json!(null)] {
        let header = json!({"alg": "HS256", "typ": typ}).to_string();
        let token = forge(header.as_bytes(), claims(json!({})).to_string().as_bytes(), &secret_key(), Algorithm::HS256);
        assert!(keyring.verify(&token, NOW).is_ok(), "{typ}");
    }
}

#[test]
fn a_token_without_kid_may_use_the_only_public_key() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let jwks = String::from_utf8(fixture_bytes("jwks-next.json")).expect("text");
    std::fs::write(&file, jwks.replace(r#""kid": "ed-next","#, "")).expect("written");
    let config = KeyringConfig { jwks_file: Some(file.path().into()), ..KeyringConfig::default() };
    let keyring = Keyring::new(config).expect("one key needs no kid");

    let key = jsonwebtoken::EncodingKey::from_ed_pem(&fixture_bytes("ed25519-next.pem")).expect("a key");
    let payload = claims(json!({})).to_string();
    let token = |header: &str| forge(header.as_bytes(), payload.as_bytes(), &key, Algorithm::EdDSA);
    assert!(keyring.examine(&token(r#"{"alg":"EdDSA"}"#), NOW).is_ok());
    assert_eq!(keyring.examine(&token(r#"{"alg":"EdDSA","kid":"ed-next"}"#), NOW), Err(TokenError::UnknownKid));
    assert_eq!(keyring.examine(&hs256(claims(json!({}))), NOW), Err(TokenError::Algorithm));
}

#[test]
fn issuer_and_audience_are_accepted_where_configured() {
    let config = KeyringConfig { issuer: Some("ci".into()), audience: Some("dibs".into()), ..config() };
    let keyring = Keyring::new(config).expect("a keyring");
    for aud in [json!("dibs"), json!(["other", "dibs"])] {
        let token = hs256(claims(json!({"iss": "ci", "aud": aud})));
        assert!(keyring.verify(&token, NOW).is_ok(), "{aud}");
    }
}

#[test]
fn the_leeway_is_thirty_seconds_to_the_second() {
    let token = hs256(claims(json!({"nbf": NOW, "exp": NOW + 60})));
    let known = keyring();
    assert!(known.verify(&token, NOW).is_ok());
    let cases = [
        (NOW - 31, Err(TokenError::NotYet)),
        (NOW - 30, Ok(())),
        (NOW + 60 + 29, Ok(())),
        (NOW + 60 + 30, Err(TokenError::Expired)),
        (i64::MIN, Err(TokenError::NotYet)),
        (i64::MAX, Err(TokenError::Expired)),
    ];
    for (now, expected) in cases {
        assert_eq!(keyring().examine(&token, now).map(drop), expected, "verified at {now}");
        assert_eq!(known.examine(&token, now).map(drop), expected, "remembered at {now}");
    }
}

#[test]
fn signed_tokens_have_the_claims_they_were_signed_with() {
    let config = KeyringConfig { issuer: Some("ci".into()), audience: Some("dibs".into()), ..config() };
    let keyring = Keyring::new(config).expect("a keyring");
    for (scope, bound) in
        [(Scope::Session, None), (Scope::Worker, Some("s")), (Scope::Read, None), (Scope::Admin, None)]
    {
        let new = NewToken {
            subject: "sess_9".into(),
            session: bound.map(session),
            scope,
            repo: Some("app".into()),
            name: Some("Bo".into()),
            feature: Some("F-1".into()),
            prefix: Some("s".into()),
            url: Some("https://dibs.example".into()),
            issued: NOW,
            issued_millis: 123,
            expires: NOW + 60,
        };
        let token = keyring.sign(&new).expect("a token");
        let claims = keyring.verify(&token, NOW + 1).expect("our own token is good");
        let expected = Claims {
            session: if scope == Scope::Session { Some(session("sess_9")) } else { bound.map(session) },
            subject: "sess_9".into(),
            issuer: Some("ci".into()),
            scope,
            repo: new.repo,
            name: new.name,
            feature: new.feature,
            prefix: new.prefix.filter(|_| scope == Scope::Worker),
            issued_ms: Some(NOW * 1000 + 123),
            expires: NOW + 60,
        };
        assert_eq!(claims, expected);
    }
}

#[test]
fn a_worker_may_be_limited_to_ids_with_a_prefix() {
    let worker = |prefix| read(claims(json!({"sub": "host", "scope": "worker", "prefix": prefix})));
    let limited = worker("ana-");
    assert!(limited.may_act_for(&session("ana-1")) && limited.may_act_for(&session("ana-")));
    for other in ["ana", "ANA-1", "bo", "xana-1"] {
        assert!(!limited.may_act_for(&session(other)), "{other}");
    }
    for bad in [json!(""), json!("a b"), json!(7), json!(["ana-"])] {
        let token = hs256(claims(json!({"sub": "host", "scope": "worker", "prefix": bad})));
        assert_eq!(keyring().examine(&token, NOW), Err(TokenError::Prefix), "{bad}");
        // What another issuer means by it is not known.
        assert_eq!(read(claims(json!({"sub": "ana", "prefix": bad}))).prefix, None);
    }
    // A session of its own must also fit.
    let bound = read(claims(json!({"sub": "host", "scope": "worker", "sid": "bo", "prefix": "ana-"})));
    assert!(!bound.may_act_for(&session("bo")));
}

#[test]
fn tokens_name_the_server_by_an_id_that_only_its_secret_determines() {
    let named = |keyring: &Keyring| {
        let new = NewToken { subject: "s".into(), issued: NOW, expires: NOW + 60, ..NewToken::default() };
        let token = keyring.sign(&new).unwrap();
        let claims: serde_json::Value = jsonwebtoken::dangerous::insecure_decode_claims(token.as_bytes()).unwrap();
        claims["srv"].as_str().map(str::to_owned)
    };
    let (one, again) = (keyring(), keyring());
    let id = one.server_id();
    assert_eq!((named(&one), named(&again)), (id.clone(), id.clone()));
    let other = Keyring::new(KeyringConfig { secret: Some(vec![b'x'; 32]), ..KeyringConfig::default() }).unwrap();
    assert_ne!(other.server_id(), id);
    // Claims of the same names that another issuer uses do no harm.
    read(claims(json!({"sub": "ana", "url": 7, "srv": {"a": 1}})));
}

#[test]
fn no_token_is_signed_that_would_be_refused() {
    let good = NewToken { subject: "s".into(), issued: NOW, expires: NOW + 60, ..NewToken::default() };
    let cases = [
        (NewToken { subject: "a b".into(), ..good.clone() }, TokenError::Session),
        (NewToken { subject: "".into(), ..good.clone() }, TokenError::Subject),
        (NewToken { repo: Some("".into()), ..good.clone() }, TokenError::Repo),
        (NewToken { name: Some("a\nb".into()), ..good.clone() }, TokenError::Name),
        (NewToken { expires: NOW - 60, ..good.clone() }, TokenError::Expired),
        (NewToken { expires: NOW * 1000, ..good }, TokenError::Expiry),
    ];
    for (token, error) in cases {
        let refusal = keyring().sign(&token).expect_err("no such token");
        assert_eq!(refusal.to_string(), format!("cannot sign such a token: {error}"));
    }
}

#[test]
fn no_token_is_signed_without_a_secret() {
    let keyring = Keyring::new(KeyringConfig { secret: None, ..config() }).expect("public keys will do");
    let new = NewToken { subject: "s".into(), issued: NOW, expires: NOW + 60, ..NewToken::default() };
    let error = keyring.sign(&new).expect_err("nothing to sign with");
    assert_eq!(error.to_string(), "cannot sign a token: no secret is configured");
}
