//! Tokens made by other programs, by hand and by ourselves.

mod bad;
mod files;
mod good;
mod secret;

use std::path::{Path, PathBuf};

use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};

use super::{Keyring, KeyringConfig};

/// The secret of every keyring in these tests, and of `hs256.jwt`.
const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

/// The time in every test that does not move it.
const NOW: i64 = 1_800_000_000;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokens").join(name)
}

fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).expect("the fixture is there")
}

/// A secret and three public keys.
fn config() -> KeyringConfig {
    KeyringConfig { secret: Some(SECRET.into()), jwks_file: Some(fixture("jwks.json")), ..KeyringConfig::default() }
}

fn keyring() -> Keyring {
    Keyring::new(config()).expect("the fixtures are good")
}

/// A token made of exactly these bytes, signed for real.
fn forge(header: &[u8], payload: &[u8], key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", base64url(header), base64url(payload));
    let signature = crypto::sign(message.as_bytes(), key, algorithm).expect("the key fits the algorithm");
    format!("{message}.{signature}")
}

/// A token with these claims, signed with the secret.
fn hs256(payload: Value) -> String {
    let header = json!({"alg": "HS256", "typ": "JWT"}).to_string();
    forge(header.as_bytes(), payload.to_string().as_bytes(), &secret_key(), Algorithm::HS256)
}

fn secret_key() -> EncodingKey {
    EncodingKey::from_secret(SECRET.as_bytes())
}

/// The claims of an ordinary session, with some replaced; `null` takes one away.
fn claims(changes: Value) -> Value {
    let mut claims = json!({"sub": "sess_01abc", "exp": NOW + 60});
    for (name, value) in changes.as_object().expect("changes are an object") {
        claims[name] = value.clone();
    }
    claims.as_object_mut().expect("claims are an object").retain(|_, value| !value.is_null());
    claims
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 4];
        three[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(three) as usize;
        for digit in 0..=chunk.len() {
            text.push(DIGITS[bits >> (18 - 6 * digit) & 63].into());
        }
    }
    text
}
