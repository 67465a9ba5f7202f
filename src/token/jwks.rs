//! Reads a JWKS: the public keys of the issuers of tokens.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::signature::{self, ParsedPublicKey, RsaPublicKeyComponents};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::{Map, Value};

use super::KeyringError;

/// The largest JWKS file, in bytes: some hundreds of keys.
pub const JWKS_MAX: u64 = 256 * 1024;

/// The longest `kid`, in bytes. It is part of error sentences.
const KID_MAX: usize = 255;

/// Members that only a private key has, in any kind of key.
const PRIVATE: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// The key for the tokens of one `kid`, with the only algorithm that it accepts.
pub(super) struct Verifier {
    pub kid: Option<String>,
    pub algorithm: Algorithm,
    pub key: DecodingKey,
}

/// The bytes of a JWKS file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, KeyringError> {
    let failed = |why: &dyn std::fmt::Display| {
        KeyringError(format!("cannot read the JWKS file {}: {why}; check the path and its permissions", path.display()))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| failed(&e))?;
    file.take(JWKS_MAX + 1).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    if bytes.len() as u64 > JWKS_MAX {
        return Err(failed(&format_args!("it is larger than {JWKS_MAX} bytes")));
    }
    Ok(bytes)
}

/// Every usable key of a JWKS. Keys for encryption and of unknown kinds are ignored, as RFC 7517 requires. A key that must
/// not be in such a file, or that contradicts itself, makes the whole file invalid.
pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Vec<Verifier>, KeyringError> {
    let error = |why: String| KeyringError(format!("the JWKS file {} {why}", path.display()));
    // The error of the JSON parser has a line and a column, but no text of the file: it may be the wrong file.
    let json: Value = serde_json::from_slice(bytes).map_err(|e| error(format!("is not JSON ({e}); fix the file")))?;
    let Some(keys) = json.get("keys").and_then(Value::as_array) else {
        return Err(error(r#"has no list "keys"; it should look like {"keys": [{"kty": …, "kid": …}]}"#.to_owned()));
    };

    let mut verifiers: Vec<Verifier> = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let name = match key.get("kid").and_then(Value::as_str) {
            Some(kid) if kid.len() <= KID_MAX => format!("{kid:?}"),
            _ => format!("number {}", index + 1),
        };
        let key_error = |why: String| error(format!("is not usable: key {name} {why}"));
        let Some(verifier) = verifier(key).map_err(key_error)? else { continue };
        if verifier.kid.is_some() && verifiers.iter().any(|other| other.kid == verifier.kid) {
            return Err(key_error("is there twice; give each its own kid".to_owned()));
        }
        verifiers.push(verifier);
    }
    if verifiers.len() > 1 && verifiers.iter().any(|verifier| verifier.kid.is_none()) {
        return Err(error("has several keys, and one of them has no kid; give each its own kid".to_owned()));
    }
    if verifiers.is_empty() {
        return Err(error("has no key that verifies EdDSA (Ed25519), ES256 or RS256; add one".to_owned()));
    }
    Ok(verifiers)
}

/// One key; none if it is to be ignored; or what is wrong with it.
fn verifier(key: &Value) -> Result<Option<Verifier>, String> {
    let key = key.as_object().ok_or("is not a JSON object")?;
    let kty = text(key, "kty")?.ok_or("has no kty")?;
    if kty == "oct" {
        return Err("is a symmetric key (oct), which belongs in a secret file; remove it".to_owned());
    }
    if let Some(member) = PRIVATE.iter().find(|member| key.contains_key(**member)) {
        return Err(format!("has private parts ({member}); publish only the public key, and replace this one"));
    }
    let kid = text(key, "kid")?;
    if kid.is_some_and(|kid| kid.is_empty() || kid.len() > KID_MAX) {
        return Err(format!("has a kid that is empty or longer than {KID_MAX} bytes"));
    }

    let encrypts = text(key, "use")?.is_some_and(|usage| usage != "sig");
    let verifies = key.get("key_ops").and_then(Value::as_array).is_none_or(|ops| ops.iter().any(|op| op == "verify"));
    if encrypts || !verifies {
        return Ok(None);
    }

    // `others` are algorithms for the same kind of key that are not supported.
    let crv = text(key, "crv")?;
    let (algorithm, names, others): (_, &[&str], &[&str]) = match (kty, crv) {
        ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, &["EdDSA", "Ed25519"], &[]),
        ("EC", Some("P-256")) => (Algorithm::ES256, &["ES256"], &["ECDH-ES"]),
        ("RSA", _) => (Algorithm::RS256, &["RS256"], &["RS384", "RS512", "PS", "RSA"]),
        _ => return Ok(None),
    };
    if let Some(alg) = text(key, "alg")?
        && !names.contains(&alg)
    {
        if others.iter().any(|other| alg.starts_with(other)) {
            return Ok(None);
        }
        return Err(format!("says alg {alg:?}, but its kty ({kty}) is one for {}", names[0]));
    }
    let key = public_key(key, algorithm).ok_or_else(|| format!("is not a valid public key for {}", names[0]))?;
    Ok(Some(Verifier { kid: kid.map(str::to_owned), algorithm, key }))
}

/// A member that must be text.
fn text<'a>(key: &'a Map<String, Value>, member: &str) -> Result<Option<&'a str>, String> {
    match key.get(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("has the member {member}, which is not text")),
    }
}

/// The key itself. It is parsed here, so that a broken key is found at the start and not with the first token.
fn public_key(key: &Map<String, Value>, algorithm: Algorithm) -> Option<DecodingKey> {
    let part = |member| key.get(member)?.as_str();
    let key = match algorithm {
        Algorithm::EdDSA => DecodingKey::from_ed_components(part("x")?),
        Algorithm::ES256 => DecodingKey::from_ec_components(part("x")?, part("y")?),
        _ => DecodingKey::from_rsa_components(part("n")?, part("e")?),
    };
    let key = key.ok()?;
    let sound = match (key.kind(), algorithm) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, _) => {
            let parsed = RsaPublicKeyComponents { n, e }.to_parsed_public_key(&signature::RSA_PKCS1_2048_8192_SHA256);
            // The parser accepts an exponent of 1, with which anyone could sign.
            let exponent_is_one = e.iter().rev().skip(1).all(|byte| *byte == 0) && e.last() == Some(&1);
            parsed.is_ok() && !exponent_is_one
        }
        // The lengths are checked too, because the parser also accepts other encodings of a key.
        (DecodingKeyKind::SecretOrDer(bytes), Algorithm::EdDSA) => {
            bytes.len() == 32 && ParsedPublicKey::new(&signature::ED25519, bytes).is_ok()
        }
        (DecodingKeyKind::SecretOrDer(bytes), _) => {
            bytes.len() == 65 && ParsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, bytes).is_ok()
        }
    };
    sound.then_some(key)
}
