//! Making tokens with a server's own secret, for whoever may read it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::here::wall_clock;
use crate::token::{Keyring, KeyringConfig, Mint};

/// The secret in the environment, which counts before every file.
pub fn secret_of_environment() -> Option<Vec<u8>> {
    std::env::var("DIBS_JWT_SECRET").ok().filter(|secret| !secret.is_empty()).map(String::into_bytes)
}

/// Makes a token for a session, in the repository of this name where the server has several.
pub fn session_token(
    secret: Secret,
    session: &str,
    repo: Option<&str>,
    name: Option<&str>,
    feature: Option<&str>,
    seconds: i64,
) -> Result<String> {
    let mint = Mint {
        subject: session.into(),
        repo: repo.map(Into::into),
        name: name.map(Into::into),
        feature: feature.map(Into::into),
        ..Mint::default()
    };
    sign(secret, mint, seconds)
}

/// Makes a token that is signed with this secret and counts for `seconds` from now on.
pub fn sign(secret: Secret, mut mint: Mint, seconds: i64) -> Result<String> {
    let (secret, secret_file) = match secret {
        Secret::Itself(secret) => (Some(secret), None),
        Secret::File(file) => (None, Some(file)),
    };
    // Where the server was told to insist on these, it was told so in the same environment or by the same person.
    let told = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (issuer, audience) = (told("DIBS_ISSUER"), told("DIBS_AUDIENCE"));
    let keyring = Keyring::new(KeyringConfig { secret, secret_file, issuer, audience, ..KeyringConfig::default() })?;
    mint.issued = wall_clock().0 / 1000;
    mint.expires = mint.issued + seconds;
    Ok(keyring.mint(&mint)?)
}

/// Where a secret is.
pub enum Secret {
    /// Here.
    Itself(Vec<u8>),
    /// In a file, which is made where there is none.
    File(PathBuf),
}

impl Secret {
    /// The secret in a file that must be there and ours to read.
    pub fn of_server(file: &Path) -> Result<Secret> {
        match std::fs::File::open(file) {
            Ok(_) => Ok(Secret::File(file.to_owned())),
            Err(error) => bail!("the server's secret {} cannot be read ({error})", file.display()),
        }
    }
}
