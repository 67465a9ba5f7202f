//! Making a session, for `session start` and `run`: with an admin's token, or with the local server's own secret.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Exit;
use super::failure::Failure;
use super::here::{Here, ServerArgs};
use crate::client::{Credential, Limits, Origin};
use crate::token::Mint;
use crate::token::mint::{SigningSecret, sign};
use crate::wire::{CreateSession, Time};

/// How long a session's token counts, in seconds. It is dead as soon as the session has ended, so this only has to be
/// longer than any session.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// What a new session is called.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct NewSession {
    /// The session's display name, which others see beside what it holds [default: DIBS_NAME, git config dibs.name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The feature it works on, so that it can be paused with it [default: DIBS_FEATURE, git config dibs.feature]
    #[arg(long, value_name = "FEATURE")]
    pub feature: Option<String>,
    /// The session's id, 1 to 128 of A-Z, a-z, 0-9, _, . and - [default: a new one]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A session that has just been made.
pub struct Opened {
    /// Its id.
    pub session: String,
    /// Its display name.
    pub name: Option<String>,
    /// What speaks for it.
    pub credential: Credential,
    /// The answer, for programs: the server's own, or one of the same shape.
    pub document: Value,
}

/// Makes a session; `name` is what it is called where nobody says otherwise.
pub fn open(here: &mut Here, new: &NewSession, name: Option<String>) -> anyhow::Result<Opened> {
    let said = |flag: &Option<String>, variable: &str, setting: &str| {
        let is_something = |text: &String| !text.trim().is_empty();
        let variable = || std::env::var(variable).ok().filter(is_something);
        let setting = || here.settings.get(setting).map(str::to_owned).filter(is_something);
        flag.clone().filter(is_something).or_else(variable).or_else(setting)
    };
    let name = said(&new.name, "DIBS_NAME", "name").or(name);
    let feature = said(&new.feature, "DIBS_FEATURE", "feature");
    if here.found.credential.as_ref().is_some_and(|credential| credential.is_admin) {
        return by_admin(here, new.id.clone(), name, feature);
    }
    by_secret(here, new.id.clone(), name, feature)
}

/// Asks the server to make it.
fn by_admin(
    here: &mut Here,
    id: Option<String>,
    name: Option<String>,
    feature: Option<String>,
) -> anyhow::Result<Opened> {
    let ask = CreateSession {
        repo: here.found.repo.as_deref().map(Into::into),
        session_id: id.map(Into::into),
        name: name.as_deref().map(Into::into),
        feature: feature.map(Into::into),
        ttl_seconds: Some(TOKEN_SECONDS),
    };
    let answer = here.client.create_session(&ask);
    let created = here.heard(answer)?;
    let document = serde_json::from_slice(here.client.answer()).unwrap_or_default();
    let credential = made(&created.token)?;
    Ok(Opened { session: created.session_id.to_string(), name, credential, document })
}

/// Signs a token as the server itself would, and brings the session to life with its first call.
fn by_secret(
    here: &mut Here,
    id: Option<String>,
    name: Option<String>,
    feature: Option<String>,
) -> anyhow::Result<Opened> {
    let secret = secret(here)?;
    let session = id.unwrap_or_else(|| format!("sess_{}", Uuid::now_v7().simple()));
    let issued = super::here::wall_clock().0 / 1000;
    let mint = Mint {
        subject: (&*session).into(),
        repo: here.found.repo.as_deref().map(Into::into),
        name: name.as_deref().map(Into::into),
        feature: feature.as_deref().map(Into::into),
        issued,
        expires: issued + TOKEN_SECONDS,
        ..Mint::default()
    };
    let token = sign(secret, &mint).map_err(|error| Failure::usage(format!("{error:#}")).for_program(here.json))?;
    let credential = made(&token)?;
    let mut client = here.client_as(Some(credential.clone()), Limits::default())?;
    std::mem::swap(&mut here.client, &mut client);
    let answer = here.client.heartbeat(&session);
    here.heard(answer)?;
    let expires_at = Time(super::here::wall_clock().0 + TOKEN_SECONDS * 1000);
    let document = json!({ "sessionId": session, "token": token, "expiresAt": expires_at });
    Ok(Opened { session, name, credential, document })
}

/// The secret of the server that was found, if it is ours to use.
fn secret(here: &Here) -> anyhow::Result<SigningSecret> {
    if let Some(secret) = SigningSecret::from_environment() {
        return Ok(secret);
    }
    let why = match &here.found.secret_file {
        Some(file) => match SigningSecret::of_server(file) {
            Ok(secret) => return Ok(secret),
            Err(error) => error.to_string(),
        },
        None => format!("the server {} names is not a local one with a secret in a file", here.found.source),
    };
    let sentence = format!(
        "a new session needs an admin token in DIBS_TOKEN, or the local server's secret, and {why}; \
         ask whoever runs the server for a token"
    );
    Err(Failure::new(Exit::Auth, sentence).for_program(here.json).into())
}

fn made(token: &str) -> Result<Credential, Failure> {
    let odd = |why| Failure::new(Exit::Error, format!("the new session's token {why}"));
    Credential::new(token, Origin::Environment).map_err(odd)
}
