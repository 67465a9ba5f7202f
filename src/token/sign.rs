//! Signs tokens outside the server, for a caller that may read the server's secret.
//!
//! `git dibs token`, `session start` and `run` use this. The server itself signs with the keyring it already has.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Keyring, KeyringConfig, KeyringError, NewToken, Scope};
use crate::engine::SessionId;

/// The secret to sign with.
pub enum SigningSecret {
    /// The secret itself.
    Bytes(Vec<u8>),
    /// The file is created, with a new secret, if it does not exist.
    File(PathBuf),
}

impl SigningSecret {
    /// The secret in `DIBS_JWT_SECRET`. It takes precedence over secret files.
    pub fn from_environment() -> Option<SigningSecret> {
        secret_from_environment().map(SigningSecret::Bytes)
    }

    /// The secret file of a running server: it must exist, and this process must be allowed to read it.
    pub fn of_server(file: &Path) -> Result<SigningSecret, KeyringError> {
        match std::fs::File::open(file) {
            Ok(_) => Ok(SigningSecret::File(file.to_owned())),
            Err(error) => Err(KeyringError(format!("cannot read the server's secret {}: {error}", file.display()))),
        }
    }
}

/// The value of `DIBS_JWT_SECRET`, unless it is empty.
pub fn secret_from_environment() -> Option<Vec<u8>> {
    from_environment("DIBS_JWT_SECRET").map(String::into_bytes)
}

/// Signs a token. Its issuer and audience are `DIBS_ISSUER` and `DIBS_AUDIENCE`, the variables that also tell the server
/// which issuer and audience to require.
pub fn sign(secret: SigningSecret, token: &NewToken) -> Result<String, KeyringError> {
    // Checked before the keyring is made, because that may create the secret file.
    if token.scope == Scope::Session && token.session.is_none() && SessionId::parse(&token.subject).is_none() {
        let sentence = "is not a session id; use 1 to 128 of A-Z, a-z, 0-9, _, . and -";
        return Err(KeyringError(format!("{:?} {sentence}", &*token.subject)));
    }
    let (secret, secret_file) = match secret {
        SigningSecret::Bytes(secret) => (Some(secret), None),
        SigningSecret::File(file) => (None, Some(file)),
    };
    let (issuer, audience) = (from_environment("DIBS_ISSUER"), from_environment("DIBS_AUDIENCE"));
    let config = KeyringConfig { secret, secret_file, issuer, audience, ..KeyringConfig::default() };
    Keyring::new(config)?.sign(&NewToken { issued_millis: millis_within(token.issued), ..token.clone() })
}

/// The milliseconds of the current time if it is within this second; else the last ones of that second.
fn millis_within(second: i64) -> u16 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if now.as_secs() == second as u64 { now.subsec_millis() as u16 } else { 999 }
}

fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
