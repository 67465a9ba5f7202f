//! Keyrings out of real files: what is refused, what rotation does, and what the cache may not remember.

use std::fs;
use std::path::Path;

use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NOW, SECRET, claims, fixture, fixture_bytes, forge};
use crate::token::{Claims, Keyring, KeyringConfig, KeyringError, NewToken, TokenError, secret_file};

fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn with_jwks(path: &Path) -> KeyringConfig {
    KeyringConfig { jwks_file: Some(path.into()), ..KeyringConfig::default() }
}

/// The sample keys, as JSON to be spoiled.
fn jwks() -> Value {
    serde_json::from_slice(&fixture_bytes("jwks.json")).expect("JSON")
}

fn ed_token(pem: &str, kid: &str) -> String {
    let key = EncodingKey::from_ed_pem(&fixture_bytes(pem)).expect("a key");
    let header = json!({"alg": "EdDSA", "kid": kid}).to_string();
    forge(header.as_bytes(), claims(json!({})).to_string().as_bytes(), &key, Algorithm::EdDSA)
}

/// What a keyring says about a JWKS with this text, without the path.
fn complaint(text: &str) -> String {
    let dir = dir();
    let path = dir.path().join("jwks.json");
    fs::write(&path, text).expect("written");
    let error = Keyring::new(with_jwks(&path)).expect_err(text).to_string();
    error.replace(path.to_str().expect("text"), "FILE")
}

/// The same about the sample keys after a change.
fn spoiled(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut jwks = jwks();
    change(jwks["keys"].as_array_mut().expect("a list"));
    complaint(&jwks.to_string())
}

/// The kids of a JWKS that was accepted, tried with real tokens of the sample keys.
fn accepted(change: impl FnOnce(&mut Vec<Value>)) -> Vec<&'static str> {
    let mut jwks = jwks();
    change(jwks["keys"].as_array_mut().expect("a list"));
    let dir = dir();
    let path = dir.path().join("jwks.json");
    fs::write(&path, jwks.to_string()).expect("written");
    let keyring = Keyring::new(with_jwks(&path)).expect("a usable JWKS");
    let works = |name: &&str| {
        let token = String::from_utf8(fixture_bytes(name)).expect("text");
        match keyring.examine(token.trim_end(), NOW) {
            Ok(_) => true,
            Err(TokenError::UnknownKid) => false,
            Err(flaw) => panic!("{name}: {flaw}"),
        }
    };
    ["eddsa.jwt", "es256.jwt", "rs256.jwt"].into_iter().filter(works).collect()
}

#[test]
fn a_jwks_that_is_none_is_refused_with_a_sentence() {
    assert_eq!(
        complaint("secret text"),
        "the JWKS file FILE is not JSON (expected value at line 1 column 1); fix the file"
    );
    let shape = r#"the JWKS file FILE has no list "keys"; it should look like {"keys": [{"kty": …, "kid": …}]}"#;
    for text in ["[]", "{}", "7", r#"{"keys": {}}"#, r#"{"kty": "OKP"}"#] {
        assert_eq!(complaint(text), shape);
    }
    let empty = "the JWKS file FILE has no key that verifies EdDSA (Ed25519), ES256 or RS256; add one";
    assert_eq!(complaint(r#"{"keys": []}"#), empty);
    assert_eq!(complaint(r#"{"keys": [{"kty": "EC", "crv": "P-384", "kid": "a", "x": "", "y": ""}]}"#), empty);
    assert!(
        complaint(&" ".repeat(300_000)).ends_with("it is larger than 262144 bytes; check the path and its permissions")
    );

    let missing = Keyring::new(with_jwks(Path::new("/nowhere/jwks.json"))).expect_err("no file").to_string();
    assert!(missing.starts_with("cannot read the JWKS file /nowhere/jwks.json: No such file"), "{missing}");
    assert!(Keyring::new(with_jwks(Path::new("/"))).is_err());
}

#[test]
fn keys_that_do_not_belong_there_refuse_the_file_and_are_named() {
    let key = |why: &str| format!("the JWKS file FILE is not usable: key {why}");
    let cases = [
        (
            spoiled(|keys| keys.push(json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0"}))),
            r#""s" is a symmetric key (oct), which belongs in a secret file; remove it"#,
        ),
        (
            spoiled(|keys| keys[0]["d"] = json!("c2VjcmV0")),
            r#""ed" has private parts (d); publish only the public key, and replace this one"#,
        ),
        (
            spoiled(|keys| keys[2]["qi"] = json!("c2VjcmV0")),
            r#""rsa" has private parts (qi); publish only the public key, and replace this one"#,
        ),
        (
            spoiled(|keys| keys.push(json!({"kty": "RSA", "kid": "e", "use": "enc", "d": "AQAB"}))),
            r#""e" has private parts (d); publish only the public key, and replace this one"#,
        ),
        (spoiled(|keys| keys[1]["kid"] = json!("ed")), r#""ed" is there twice; give each its own kid"#),
        (spoiled(|keys| keys[1]["kid"] = json!("")), r#""" has a kid that is empty or longer than 255 bytes"#),
        (spoiled(|keys| keys[1]["kid"] = json!(7)), "number 2 has the member kid, which is not text"),
        (
            spoiled(|keys| keys[0]["alg"] = json!("RS256")),
            r#""ed" says alg "RS256", but its kty (OKP) is one for EdDSA"#,
        ),
        (spoiled(|keys| keys[0]["alg"] = json!("none")), r#""ed" says alg "none", but its kty (OKP) is one for EdDSA"#),
        (
            spoiled(|keys| keys[1]["alg"] = json!("ES384")),
            r#""ec" says alg "ES384", but its kty (EC) is one for ES256"#,
        ),
        (
            spoiled(|keys| keys[2]["alg"] = json!("HS256")),
            r#""rsa" says alg "HS256", but its kty (RSA) is one for RS256"#,
        ),
        (spoiled(|keys| keys[2]["alg"] = json!(256)), r#""rsa" has the member alg, which is not text"#),
        (spoiled(|keys| keys[0]["kty"] = json!(null)), r#""ed" has the member kty, which is not text"#),
        (spoiled(|keys| keys[0] = json!({"kid": "a"})), r#""a" has no kty"#),
        (spoiled(|keys| keys[0] = json!("key")), "number 1 is not a JSON object"),
        (spoiled(|keys| keys[0]["x"] = json!("AAAA")), r#""ed" is not a valid public key for EdDSA"#),
        (spoiled(|keys| keys[0]["x"] = json!("not base64!")), r#""ed" is not a valid public key for EdDSA"#),
        (spoiled(|keys| keys[0]["x"] = json!(null)), r#""ed" is not a valid public key for EdDSA"#),
        (spoiled(|keys| keys[1]["y"] = keys[1]["x"].clone()), r#""ec" is not a valid public key for ES256"#),
        (spoiled(|keys| keys[1]["y"] = json!("")), r#""ec" is not a valid public key for ES256"#),
        (spoiled(|keys| keys[2]["n"] = json!("x".repeat(171))), r#""rsa" is not a valid public key for RS256"#),
        (spoiled(|keys| keys[2]["e"] = json!("")), r#""rsa" is not a valid public key for RS256"#),
        (spoiled(|keys| keys[2]["e"] = json!("AQ")), r#""rsa" is not a valid public key for RS256"#),
    ];
    for (said, why) in cases {
        assert_eq!(said, key(why));
    }
    let without_kid = spoiled(|keys| drop(keys[1].as_object_mut().expect("a key").remove("kid")));
    assert_eq!(without_kid, "the JWKS file FILE has several keys, and one of them has no kid; give each its own kid");
}

#[test]
fn keys_for_other_purposes_are_passed_over() {
    let all = ["eddsa.jwt", "es256.jwt", "rs256.jwt"];
    assert_eq!(accepted(|_| ()), all);
    assert_eq!(accepted(|keys| keys[0]["use"] = json!("enc")), all[1..]);
    assert_eq!(accepted(|keys| keys[0]["key_ops"] = json!(["encrypt"])), all[1..]);
    assert_eq!(accepted(|keys| keys[0]["key_ops"] = json!(["verify"])), all);
    assert_eq!(accepted(|keys| keys[1]["alg"] = json!("ECDH-ES+A128KW")), ["eddsa.jwt", "rs256.jwt"]);
    assert_eq!(accepted(|keys| keys[2]["alg"] = json!("PS256")), all[..2]);
    assert_eq!(accepted(|keys| keys[2]["alg"] = json!("RSA-OAEP-256")), all[..2]);
    assert_eq!(accepted(|keys| drop(keys[2].as_object_mut().expect("a key").remove("alg"))), all);
    // A key we pass over needs no kid and may share one.
    assert_eq!(accepted(|keys| keys.push(json!({"kty": "EC", "crv": "P-521"}))), all);
    assert_eq!(accepted(|keys| keys.push(json!({"kty": "RSA", "use": "enc", "kid": "ed"}))), all);
    assert_eq!(accepted(|keys| keys.push(json!({"kty": "AKP", "alg": "ML-DSA-44", "kid": "new"}))), all);
}

#[test]
fn rotation_swaps_the_keys_and_forgets_what_the_old_ones_verified() {
    let dir = dir();
    let path = dir.path().join("jwks.json");
    fs::copy(fixture("jwks.json"), &path).expect("copied");
    let keyring = Keyring::new(with_jwks(&path)).expect("a keyring");
    let old = ed_token("ed25519.pem", "ed");
    let new = ed_token("ed25519-next.pem", "ed-next");

    assert!(keyring.verify(&old, NOW).is_ok());
    assert_eq!(keyring.examine(&new, NOW), Err(TokenError::UnknownKid));
    assert_eq!(keyring.reload(), Ok(false));

    fs::copy(fixture("jwks-next.json"), &path).expect("copied");
    assert!(keyring.verify(&old, NOW).is_ok(), "nothing changes before the reload");
    assert_eq!(keyring.reload(), Ok(true));
    assert_eq!(keyring.examine(&old, NOW), Err(TokenError::UnknownKid));
    assert!(keyring.verify(&new, NOW).is_ok());
    assert_eq!(keyring.reload(), Ok(false));
}

#[test]
fn a_new_key_under_an_old_kid_forgets_what_the_old_one_verified() {
    let dir = dir();
    let path = dir.path().join("jwks.json");
    let mut jwks: Value = serde_json::from_slice(&fixture_bytes("jwks-next.json")).expect("JSON");
    jwks["keys"][0]["kid"] = json!("ed");
    fs::copy(fixture("jwks.json"), &path).expect("copied");
    let keyring = Keyring::new(with_jwks(&path)).expect("a keyring");
    let old = ed_token("ed25519.pem", "ed");
    assert!(keyring.verify(&old, NOW).is_ok());

    fs::write(&path, jwks.to_string()).expect("written");
    assert_eq!(keyring.reload(), Ok(true));
    assert_eq!(keyring.examine(&old, NOW), Err(TokenError::Signature));
}

#[test]
fn a_rewrite_of_the_same_length_and_time_is_noticed() {
    let dir = dir();
    let path = dir.path().join("jwks.json");
    fs::copy(fixture("jwks-next.json"), &path).expect("copied");
    let before = fs::metadata(&path).expect("a file");
    let keyring = Keyring::new(with_jwks(&path)).expect("a keyring");
    let text = fs::read_to_string(&path).expect("text").replace("ed-next", "ed-last");
    fs::write(&path, text).expect("written");
    let file = fs::File::options().write(true).open(&path).expect("a file");
    file.set_modified(before.modified().expect("a time")).expect("set back");

    assert_eq!(keyring.reload(), Ok(true));
    assert!(keyring.verify(&ed_token("ed25519-next.pem", "ed-last"), NOW).is_ok());
}

#[test]
fn a_broken_file_changes_nothing_until_it_is_repaired() {
    let dir = dir();
    let path = dir.path().join("jwks.json");
    fs::copy(fixture("jwks.json"), &path).expect("copied");
    let keyring = Keyring::new(with_jwks(&path)).expect("a keyring");
    let token = ed_token("ed25519.pem", "ed");

    let half = &fixture_bytes("jwks.json")[..200];
    let breaks: [&dyn Fn(); 3] = [
        &|| fs::write(&path, half).expect("written"),
        &|| fs::write(&path, r#"{"keys": [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}]}"#).expect("written"),
        &|| fs::remove_file(&path).expect("removed"),
    ];
    for break_it in breaks {
        break_it();
        let KeyringError(sentence) = keyring.reload().expect_err("a broken file");
        assert!(sentence.contains(path.to_str().expect("text")), "{sentence}");
        assert!(!sentence.contains("c2VjcmV0"), "{sentence}");
        assert!(keyring.verify(&token, NOW).is_ok(), "{sentence}");
    }
    fs::copy(fixture("jwks.json"), &path).expect("copied");
    assert_eq!(keyring.reload(), Ok(false));
}

#[test]
fn a_new_secret_replaces_the_old_one() {
    let dir = dir();
    let path = dir.path().join("secret");
    let config = KeyringConfig { secret_file: Some(path.clone()), ..KeyringConfig::default() };
    let keyring = Keyring::new(config).expect("a keyring");
    let new = NewToken { subject: "s".into(), issued: NOW, expires: NOW + 60, ..NewToken::default() };
    let old = keyring.sign(&new).expect("a token");
    assert!(keyring.verify(&old, NOW).is_ok());
    assert_eq!(keyring.reload(), Ok(false));

    // Nothing is made up during a reload: a lost file is a mistake, not a wish for a new secret.
    fs::remove_file(&path).expect("removed");
    assert!(keyring.reload().is_err());
    assert!(!path.exists());
    assert!(keyring.verify(&old, NOW).is_ok());

    secret_file(&path).expect("a new secret");
    assert_eq!(keyring.reload(), Ok(true));
    assert_eq!(keyring.examine(&old, NOW), Err(TokenError::Signature));
    assert!(keyring.verify(&keyring.sign(&new).expect("a token"), NOW).is_ok());
}

#[test]
fn a_keyring_needs_something_to_verify_with_and_only_one_secret() {
    let said = |config: KeyringConfig| Keyring::new(config).expect_err("no keyring").to_string();
    assert_eq!(
        said(KeyringConfig::default()),
        "there is nothing to verify tokens with; configure a secret or a JWKS file"
    );
    let short = KeyringConfig { secret: Some(b"hunter2".to_vec()), ..KeyringConfig::default() };
    assert_eq!(said(short), "the secret has 7 bytes and needs at least 32; make one with: openssl rand -hex 32");
    let both = KeyringConfig {
        secret: Some(SECRET.into()),
        secret_file: Some("/nowhere/secret".into()),
        ..KeyringConfig::default()
    };
    assert_eq!(said(both), "both a secret and a secret file are configured; configure only one of them");
}

#[test]
fn remembered_tokens_are_many_and_each_stays_itself() {
    let keyring = super::keyring();
    let tokens: Vec<(String, String)> = (0..3000)
        .map(|n| {
            let id = format!("sess_{n}");
            let new =
                NewToken { subject: id.as_str().into(), issued: NOW, expires: NOW + 60 + n, ..NewToken::default() };
            (keyring.sign(&new).expect("a token"), id)
        })
        .collect();
    for _ in 0..3 {
        for (token, id) in &tokens {
            let Claims { subject, .. } = keyring.verify(token, NOW).expect("a good token");
            assert_eq!(&*subject, id);
        }
    }
    let late = NOW + 60 + 1500;
    let alive = tokens.iter().filter(|(token, _)| keyring.verify(token, late).is_ok()).count();
    // Those that end later than 30 s before this moment.
    assert_eq!(alive, 3000 - 1471);
}
