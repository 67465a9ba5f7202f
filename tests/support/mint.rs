//! Tokens, made without the server's code.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// Now, in seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// These claims, with an `exp` an hour from now unless they have one. A claim that is `null` is left out.
pub fn claims(claims: Value) -> Value {
    let mut all = json!({ "exp": now() + 3600 });
    for (name, value) in claims.as_object().unwrap() {
        match value {
            Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all
}

/// Any header and payload with an HS256 signature.
pub fn signed(header: &str, payload: &str, secret: &[u8]) -> String {
    let message = format!("{}.{}", base64url(header.as_bytes()), base64url(payload.as_bytes()));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", base64url(signature.as_ref()))
}

/// A plain HS256 token.
pub fn hs256(claims: &Value, secret: &[u8]) -> String {
    signed(r#"{"alg":"HS256","typ":"JWT"}"#, &claims.to_string(), secret)
}

/// A token signed with one of the private keys in `fixtures/tokens`.
pub fn with_key(algorithm: Algorithm, kid: &str, pem: &[u8], claims: &Value) -> String {
    let key = match algorithm {
        Algorithm::EdDSA => EncodingKey::from_ed_pem(pem),
        Algorithm::ES256 => EncodingKey::from_ec_pem(pem),
        _ => EncodingKey::from_rsa_pem(pem),
    };
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    jsonwebtoken::encode(&header, claims, &key.unwrap()).unwrap()
}

pub fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(DIGITS[(number >> (18 - 6 * place)) as usize & 63] as char);
        }
    }
    text
}
