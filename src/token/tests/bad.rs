//! Tokens that must be refused, each for its own reason: a token refused by accident proves nothing.

use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::{NOW, SECRET, claims, config, fixture_bytes, forge, hs256, keyring, secret_key};
use crate::token::{BadToken, Keyring, KeyringConfig, TOKEN_MAX, TokenError};

/// Every one is refused for the reason beside it, and says no more than it may.
#[track_caller]
fn refused(keyring: &Keyring, cases: Vec<(&str, String, TokenError)>) {
    for (name, token, flaw) in cases {
        assert_eq!(keyring.examine(&token, NOW), Err(flaw), "{name}");
        let outward = if flaw == TokenError::Expired { BadToken::Expired } else { BadToken::Invalid };
        assert_eq!(keyring.verify(&token, NOW), Err(outward), "{name}");
    }
}

/// Good claims under any header, signed with the secret.
fn headed(header: Value) -> String {
    forge(header.to_string().as_bytes(), good_payload().as_bytes(), &secret_key(), Algorithm::HS256)
}

/// Any payload under a good header, signed with the secret.
fn paid(payload: &str) -> String {
    forge(br#"{"alg":"HS256","typ":"JWT"}"#, payload.as_bytes(), &secret_key(), Algorithm::HS256)
}

fn changed(changes: Value) -> String {
    hs256(claims(changes))
}

fn good_payload() -> String {
    claims(json!({})).to_string()
}

fn ed_key(name: &str) -> EncodingKey {
    EncodingKey::from_ed_pem(&fixture_bytes(name)).expect("a key")
}

#[test]
fn these_tests_start_from_a_good_token() {
    let keyring = keyring();
    for token in [headed(json!({"alg": "HS256"})), paid(&good_payload()), changed(json!({}))] {
        assert!(keyring.verify(&token, NOW).is_ok());
    }
}

#[test]
fn text_that_is_no_token() {
    let good = changed(json!({}));
    let (message, signature) = good.rsplit_once('.').expect("dots");
    let (header, payload) = message.split_once('.').expect("dots");
    let padded = |part: &str| format!("{part}{}", "=".repeat((4 - part.len() % 4) % 4));
    refused(
        &keyring(),
        vec![
            ("nothing", String::new(), TokenError::Unreadable),
            ("a word", "token".into(), TokenError::Unreadable),
            ("two dots", "..".into(), TokenError::Unreadable),
            ("no signature part", message.into(), TokenError::Unreadable),
            ("an empty signature", format!("{message}."), TokenError::Signature),
            ("a fourth part", format!("{good}.x"), TokenError::Unreadable),
            ("a fifth part", format!("{good}.x.y"), TokenError::Unreadable),
            ("a leading dot", format!(".{good}"), TokenError::Unreadable),
            ("a trailing dot", format!("{good}."), TokenError::Unreadable),
            ("a leading space", format!(" {good}"), TokenError::Unreadable),
            ("a trailing line end", format!("{good}\n"), TokenError::Unreadable),
            ("the scheme in front", format!("Bearer {good}"), TokenError::Unreadable),
            ("a padded header", format!("{}==.{payload}.{signature}", header), TokenError::Unreadable),
            ("a padded signature", format!("{message}.{}", padded(signature)), TokenError::Unreadable),
            ("base64 of the other alphabet", format!("{header}.{payload}.+/{signature}"), TokenError::Unreadable),
            ("not ASCII", format!("{header}.{payload}.ü"), TokenError::Unreadable),
            ("a NUL", format!("{header}\0.{payload}.{signature}"), TokenError::Unreadable),
            (
                "a header that is not JSON",
                forge(b"HS256", good_payload().as_bytes(), &secret_key(), Algorithm::HS256),
                TokenError::Unreadable,
            ),
            ("a payload that is not JSON", paid("sub=sess_01abc"), TokenError::Unreadable),
            (
                "a payload that is not UTF-8",
                forge(br#"{"alg":"HS256"}"#, b"{\"sub\":\"\xff\"}", &secret_key(), Algorithm::HS256),
                TokenError::Unreadable,
            ),
            ("a payload that is a list", paid("[]"), TokenError::Unreadable),
            (
                "a payload that lists the claims in order",
                paid(&format!("[null, null, \"s\", null, null, null, null, null, null, null, {}]", NOW + 60)),
                TokenError::Unreadable,
            ),
            ("a payload that is text", paid("\"sess_01abc\""), TokenError::Unreadable),
            ("more behind the payload", paid(&format!("{} {{}}", good_payload())), TokenError::Unreadable),
            (
                "a claim named twice",
                paid(&good_payload().replace('{', r#"{"sub":"sess_02def","#)),
                TokenError::Unreadable,
            ),
            (
                "a header member named twice",
                forge(br#"{"alg":"HS256","alg":"HS256"}"#, good_payload().as_bytes(), &secret_key(), Algorithm::HS256),
                TokenError::Unreadable,
            ),
            (
                "deep JSON",
                paid(&format!(r#"{{"sub":"s","exp":{NOW},"sid":{}"#, "[".repeat(5000))),
                TokenError::Unreadable,
            ),
            ("longer than any token", changed(json!({"junk": "x".repeat(TOKEN_MAX)})), TokenError::TooLong),
        ],
    );
}

#[test]
fn the_longest_token_is_still_read() {
    let short = changed(json!({"junk": ""})).len();
    // Three bytes of JSON are four of base64, so one of the neighbouring lengths hits the limit or stays just below it.
    let room = (TOKEN_MAX - short) / 4 * 3;
    let token = changed(json!({"junk": "x".repeat(room)}));
    assert!(token.len() <= TOKEN_MAX && token.len() > TOKEN_MAX - 4, "{}", token.len());
    assert!(keyring().verify(&token, NOW).is_ok());
    assert_eq!(keyring().examine(&changed(json!({"junk": "x".repeat(room + 6)})), NOW), Err(TokenError::TooLong));
}

#[test]
fn algorithms_and_signatures() {
    let unsigned = |alg: &str| {
        let signed = headed(json!({"alg": alg}));
        format!("{}.", signed.rsplit_once('.').expect("dots").0)
    };
    let by = |header: &str, key: &EncodingKey, algorithm| {
        forge(header.as_bytes(), good_payload().as_bytes(), key, algorithm)
    };
    let jwks = fixture_bytes("jwks.json");
    let jwk = |kid: &str| {
        let jwks: Value = serde_json::from_slice(&jwks).expect("JSON");
        let keys = jwks["keys"].as_array().expect("keys").clone();
        keys.into_iter().find(|key| key["kid"] == kid).expect("the key").to_string()
    };
    let rsa = EncodingKey::from_rsa_pem(&fixture_bytes("rsa.pem")).expect("a key");
    let ec = EncodingKey::from_ec_pem(&fixture_bytes("p256.pem")).expect("a key");
    let as_secret =
        |bytes: &[u8]| by(r#"{"alg":"HS256","kid":"rsa"}"#, &EncodingKey::from_secret(bytes), Algorithm::HS256);
    refused(
        &keyring(),
        vec![
            ("alg none, unsigned", unsigned("none"), TokenError::Unreadable),
            ("alg None, unsigned", unsigned("None"), TokenError::Unreadable),
            ("alg nOnE, unsigned", unsigned("nOnE"), TokenError::Unreadable),
            ("alg NONE, signed", headed(json!({"alg": "NONE"})), TokenError::Unreadable),
            ("an empty alg", headed(json!({"alg": ""})), TokenError::Unreadable),
            ("alg in lower case", headed(json!({"alg": "hs256"})), TokenError::Unreadable),
            ("alg that is a list", headed(json!({"alg": ["HS256"]})), TokenError::Unreadable),
            ("no alg", headed(json!({"typ": "JWT"})), TokenError::Unreadable),
            ("HS256, unsigned", unsigned("HS256"), TokenError::Signature),
            (
                "another secret",
                by(r#"{"alg":"HS256"}"#, &EncodingKey::from_secret(b"another"), Algorithm::HS256),
                TokenError::Signature,
            ),
            (
                "an empty secret",
                by(r#"{"alg":"HS256"}"#, &EncodingKey::from_secret(b""), Algorithm::HS256),
                TokenError::Signature,
            ),
            (
                "the secret in a stronger hash",
                by(r#"{"alg":"HS512"}"#, &secret_key(), Algorithm::HS512),
                TokenError::Algorithm,
            ),
            ("the RSA public key in PEM as secret", as_secret(&fixture_bytes("rsa-public.pem")), TokenError::Algorithm),
            ("the RSA public JWK as secret", as_secret(jwk("rsa").as_bytes()), TokenError::Algorithm),
            (
                "the whole JWKS as secret, without kid",
                by(r#"{"alg":"HS256"}"#, &EncodingKey::from_secret(&jwks), Algorithm::HS256),
                TokenError::Signature,
            ),
            (
                "the right secret under the kid of a public key",
                by(r#"{"alg":"HS256","kid":"ed"}"#, &secret_key(), Algorithm::HS256),
                TokenError::Algorithm,
            ),
            (
                "the right key in another algorithm",
                by(r#"{"alg":"PS256","kid":"rsa"}"#, &rsa, Algorithm::PS256),
                TokenError::Algorithm,
            ),
            (
                "the right key under a stronger hash",
                by(r#"{"alg":"RS512","kid":"rsa"}"#, &rsa, Algorithm::RS512),
                TokenError::Algorithm,
            ),
            (
                "the right key under another kid",
                by(r#"{"alg":"RS256","kid":"ec"}"#, &rsa, Algorithm::RS256),
                TokenError::Algorithm,
            ),
            (
                "another algorithm's signature",
                by(r#"{"alg":"RS256","kid":"rsa"}"#, &ec, Algorithm::ES256),
                TokenError::Signature,
            ),
            (
                "another key of the same kind",
                by(r#"{"alg":"EdDSA","kid":"ed"}"#, &ed_key("ed25519-next.pem"), Algorithm::EdDSA),
                TokenError::Signature,
            ),
            (
                "a public key's token without kid",
                by(r#"{"alg":"EdDSA"}"#, &ed_key("ed25519.pem"), Algorithm::EdDSA),
                TokenError::Algorithm,
            ),
            (
                "an unknown kid",
                by(r#"{"alg":"EdDSA","kid":"ed-next"}"#, &ed_key("ed25519-next.pem"), Algorithm::EdDSA),
                TokenError::UnknownKid,
            ),
            ("an unknown kid on the secret", headed(json!({"alg": "HS256", "kid": "secret"})), TokenError::UnknownKid),
            ("an empty kid", headed(json!({"alg": "HS256", "kid": ""})), TokenError::UnknownKid),
            ("a kid that climbs", headed(json!({"alg": "HS256", "kid": "../../../dev/null"})), TokenError::UnknownKid),
            ("a kid that is a number", headed(json!({"alg": "HS256", "kid": 1})), TokenError::Unreadable),
        ],
    );
}

#[test]
fn headers_that_bring_their_own_key_are_not_believed() {
    let own: Value = serde_json::from_slice(&fixture_bytes("jwks-next.json")).expect("JSON");
    let own = &own["keys"][0];
    let by_own = |header: Value| {
        forge(header.to_string().as_bytes(), good_payload().as_bytes(), &ed_key("ed25519-next.pem"), Algorithm::EdDSA)
    };
    // Nothing listens there: a reader that fetched it would fail in another way than by the signature.
    let url = "http://127.0.0.1:9/jwks.json";
    refused(
        &keyring(),
        vec![
            ("jwk", by_own(json!({"alg": "EdDSA", "kid": "ed", "jwk": own})), TokenError::Signature),
            (
                "jwk and its own kid",
                by_own(json!({"alg": "EdDSA", "kid": "ed-next", "jwk": own})),
                TokenError::UnknownKid,
            ),
            ("jku", by_own(json!({"alg": "EdDSA", "kid": "ed", "jku": url})), TokenError::Signature),
            ("x5u", by_own(json!({"alg": "EdDSA", "kid": "ed", "x5u": url})), TokenError::Signature),
            ("x5c", by_own(json!({"alg": "EdDSA", "kid": "ed", "x5c": ["MIIB"]})), TokenError::Signature),
            ("crit", headed(json!({"alg": "HS256", "crit": ["exp"], "exp": NOW})), TokenError::Critical),
            ("crit with b64", headed(json!({"alg": "HS256", "crit": ["b64"], "b64": false})), TokenError::Critical),
            ("an empty crit", headed(json!({"alg": "HS256", "crit": []})), TokenError::Critical),
            ("crit that is text", headed(json!({"alg": "HS256", "crit": "b64"})), TokenError::Unreadable),
            ("the type of a proof of possession", headed(json!({"alg": "HS256", "typ": "dpop+jwt"})), TokenError::Type),
            ("the type of a logout token", headed(json!({"alg": "HS256", "typ": "logout+jwt"})), TokenError::Type),
            ("an empty type", headed(json!({"alg": "HS256", "typ": ""})), TokenError::Type),
            ("a type that is a number", headed(json!({"alg": "HS256", "typ": 1})), TokenError::Unreadable),
        ],
    );
    // Where the token is ours anyway, what it points to makes no difference.
    assert!(keyring().verify(&headed(json!({"alg": "HS256", "jku": url, "jwk": own})), NOW).is_ok());
}

#[test]
fn times() {
    refused(
        &keyring(),
        vec![
            ("no exp", changed(json!({"exp": null})), TokenError::Expiry),
            ("exp null", paid(r#"{"sub":"s","exp":null}"#), TokenError::Expiry),
            ("exp past", changed(json!({"exp": NOW - 31})), TokenError::Expired),
            ("exp past to the second", changed(json!({"exp": NOW - 30})), TokenError::Expired),
            ("exp zero", changed(json!({"exp": 0})), TokenError::Expired),
            ("exp as text", changed(json!({"exp": (NOW + 60).to_string()})), TokenError::Unreadable),
            ("exp past with a fraction", changed(json!({"exp": NOW as f64 - 30.5})), TokenError::Expired),
            ("exp with a large exponent", paid(r#"{"sub":"s","exp":1e15}"#), TokenError::Expiry),
            ("exp beyond any number", paid(r#"{"sub":"s","exp":1e999}"#), TokenError::Unreadable),
            ("exp true", changed(json!({"exp": true})), TokenError::Unreadable),
            ("exp in a list", changed(json!({"exp": [NOW + 60]})), TokenError::Unreadable),
            ("exp negative", changed(json!({"exp": -1})), TokenError::Expiry),
            ("exp the smallest number", changed(json!({"exp": i64::MIN})), TokenError::Expiry),
            ("exp the largest number", changed(json!({"exp": i64::MAX})), TokenError::Expiry),
            ("exp larger than that", changed(json!({"exp": u64::MAX})), TokenError::Expiry),
            ("exp in milliseconds", changed(json!({"exp": NOW * 1000})), TokenError::Expiry),
            ("exp after the year 9999", changed(json!({"exp": 253_402_300_800_i64})), TokenError::Expiry),
            ("nbf in the future", changed(json!({"nbf": NOW + 31})), TokenError::NotYet),
            ("nbf as text", changed(json!({"nbf": "0"})), TokenError::Unreadable),
            ("nbf negative", changed(json!({"nbf": -1})), TokenError::Expiry),
            ("nbf the largest number", changed(json!({"nbf": i64::MAX})), TokenError::Expiry),
            ("iat as text", changed(json!({"iat": "yesterday"})), TokenError::Unreadable),
        ],
    );
    assert!(keyring().verify(&changed(json!({"exp": 253_402_300_799_i64, "iat": NOW + 999})), NOW).is_ok());
}

#[test]
fn subjects_scopes_and_labels() {
    refused(
        &keyring(),
        vec![
            ("no sub", changed(json!({"sub": null})), TokenError::Subject),
            ("no sub but sid", changed(json!({"sub": null, "sid": "s"})), TokenError::Subject),
            ("an empty sub", changed(json!({"sub": ""})), TokenError::Subject),
            ("sub a number", changed(json!({"sub": 7})), TokenError::Unreadable),
            ("sub no session id", changed(json!({"sub": "sess 1"})), TokenError::Session),
            ("sub a path", changed(json!({"sub": "../x"})), TokenError::Session),
            ("sub longer than a session id", changed(json!({"sub": "s".repeat(129)})), TokenError::Session),
            ("sid no session id", changed(json!({"sid": "sess/1"})), TokenError::Session),
            ("an empty sid", changed(json!({"sid": ""})), TokenError::Session),
            ("sid a number", changed(json!({"sid": 1})), TokenError::Unreadable),
            ("a worker's sid no session id", changed(json!({"scope": "worker", "sid": "a b"})), TokenError::Session),
            ("a reader without sub", changed(json!({"scope": "read", "sub": null})), TokenError::Subject),
            (
                "an admin whose sub is too long",
                changed(json!({"scope": "admin", "sub": "a".repeat(256)})),
                TokenError::Subject,
            ),
            ("an unknown scope", changed(json!({"scope": "root"})), TokenError::Unreadable),
            ("an empty scope", changed(json!({"scope": ""})), TokenError::Unreadable),
            ("scope in upper case", changed(json!({"scope": "ADMIN"})), TokenError::Unreadable),
            ("several scopes", changed(json!({"scope": "read admin"})), TokenError::Unreadable),
            ("scope a list", changed(json!({"scope": ["admin"]})), TokenError::Unreadable),
            ("scope an object", changed(json!({"scope": {"admin": null}})), TokenError::Unreadable),
            ("scope a number", changed(json!({"scope": 3})), TokenError::Unreadable),
            ("repo a number", changed(json!({"repo": 1})), TokenError::Unreadable),
            ("repo a list", changed(json!({"repo": ["app"]})), TokenError::Unreadable),
            ("an empty repo", changed(json!({"repo": ""})), TokenError::Repo),
            ("name an object", changed(json!({"name": {}})), TokenError::Unreadable),
            ("a name too long", changed(json!({"name": "n".repeat(201)})), TokenError::Name),
            ("a name that drives the terminal", changed(json!({"name": "\u{1b}[2J"})), TokenError::Name),
            ("a name that turns text around", changed(json!({"name": "ana\u{202e}nimda"})), TokenError::Name),
            ("feature a number", changed(json!({"feature": 1})), TokenError::Unreadable),
            ("a feature too long", changed(json!({"feature": "f".repeat(201)})), TokenError::Feature),
            ("a feature of two lines", changed(json!({"feature": "a\nb"})), TokenError::Feature),
            ("iss a list", changed(json!({"iss": ["ci"]})), TokenError::Unreadable),
            ("an empty iss", changed(json!({"iss": ""})), TokenError::Issuer),
            ("aud a number", changed(json!({"aud": 1})), TokenError::Unreadable),
        ],
    );
}

#[test]
fn issuer_and_audience() {
    let config = KeyringConfig { issuer: Some("ci".into()), audience: Some("dibs".into()), ..config() };
    refused(
        &Keyring::new(config).expect("a keyring"),
        vec![
            ("no iss", changed(json!({"aud": "dibs"})), TokenError::Issuer),
            ("another iss", changed(json!({"iss": "evil", "aud": "dibs"})), TokenError::Issuer),
            ("iss in another case", changed(json!({"iss": "CI", "aud": "dibs"})), TokenError::Issuer),
            ("no aud", changed(json!({"iss": "ci"})), TokenError::Audience),
            ("another aud", changed(json!({"iss": "ci", "aud": "dib"})), TokenError::Audience),
            ("an empty list of aud", changed(json!({"iss": "ci", "aud": []})), TokenError::Audience),
            ("a list of other aud", changed(json!({"iss": "ci", "aud": ["a", "dibs2"]})), TokenError::Audience),
            (
                "a wrong iss is not called expired",
                changed(json!({"iss": "evil", "aud": "dibs", "exp": 1})),
                TokenError::Issuer,
            ),
        ],
    );
}

#[test]
fn a_good_token_with_any_letter_changed_or_missing_is_refused() {
    let keyring = keyring();
    for name in ["hs256.jwt", "eddsa.jwt", "es256.jwt", "rs256.jwt"] {
        let good = String::from_utf8(fixture_bytes(name)).expect("text");
        let good = good.trim_end();
        for at in 0..good.len() {
            let (before, rest) = good.split_at(at);
            assert!(keyring.verify(before, NOW).is_err(), "{name} cut at {at}");
            assert!(keyring.verify(&format!("{before}{}", &rest[1..]), NOW).is_err(), "{name} without {at}");
            // The neighbour in the alphabet differs in the lowest bit only: the one a careless decoder ignores.
            let other = if rest.starts_with('A') { 'B' } else { 'A' };
            let nearby = char::from(rest.as_bytes()[0] ^ 1);
            for letter in [other, nearby, '.', '='] {
                let changed = format!("{before}{letter}{}", &rest[1..]);
                assert!(changed == good || keyring.verify(&changed, NOW).is_err(), "{name} with {letter:?} at {at}");
            }
        }
        assert!(keyring.verify(good, NOW).is_ok(), "{name}");
    }
}

#[test]
fn refusals_say_only_this_much() {
    assert_eq!(BadToken::Expired.to_string(), "the token has expired");
    assert_eq!(BadToken::Invalid.to_string(), "the token is not valid");
}

#[test]
fn neither_tokens_nor_secrets_are_shown() {
    let keyring = keyring();
    let token = changed(json!({}));
    let claims = keyring.verify(&token, NOW).expect("a good token");
    let shown = format!("{keyring:?} {:?} {claims:?} {:?}", config(), keyring.verify(&format!("{token}x"), NOW));
    let secret_as_bytes = format!("{:?}", SECRET.as_bytes());
    for part in token.split('.').chain([SECRET, secret_as_bytes.trim_matches(['[', ']'])]) {
        assert!(!shown.contains(part), "{shown}");
    }
    assert!(shown.contains("hidden"), "{shown}");
}
