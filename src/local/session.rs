//! Creating a session: with an admin's token, or with a token signed with the local server's own secret.

use std::io;

use uuid::Uuid;

use super::clock;
use super::discover::ServerAccess;
use super::workspace::Workspace;
use crate::client::{Client, ClientError, Credential, Limits, Origin};
use crate::token::NewToken;
use crate::token::sign::{SigningSecret, sign};
use crate::wire::{CreateSession, Time};

/// How long a session's token is valid, in seconds. A token also becomes invalid when its session ends, so this only has
/// to be longer than any session.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// What a new session is called.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    pub id: Option<String>,
    pub name: Option<String>,
    pub feature: Option<String>,
}

impl NewSession {
    /// Takes name and feature from `DIBS_NAME` and `DIBS_FEATURE`, else from the settings, where no flag gave them.
    pub fn with_defaults(self, workspace: &Workspace) -> NewSession {
        let is_set = |text: &String| !text.trim().is_empty();
        let choose = |flag: Option<String>, variable: &str, setting: &str| {
            let variable = || workspace.environment.text(variable).filter(is_set);
            let setting = || workspace.settings.get(setting).map(str::to_owned).filter(is_set);
            flag.filter(is_set).or_else(variable).or_else(setting)
        };
        NewSession {
            id: self.id,
            name: choose(self.name, "DIBS_NAME", "name"),
            feature: choose(self.feature, "DIBS_FEATURE", "feature"),
        }
    }
}

/// A session that was just created.
pub struct CreatedSession {
    pub id: String,
    pub name: Option<String>,
    /// The session's own token.
    pub credential: Credential,
    /// When the token expires.
    pub expires_at: Time,
}

/// Why no session was created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The server refused or did not answer. The client that was passed in has the reply.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// There is neither an admin token nor the server's secret.
    #[error(
        "a new session needs an admin token in DIBS_TOKEN, or the local server's secret: {0}; \
         ask the person who runs the server for a token"
    )]
    NotAllowed(String),
    /// No token can be signed for this id, name or feature.
    #[error("{0}")]
    BadRequest(String),
    #[error("the token of the new session {0}")]
    BadToken(&'static str),
    #[error("cannot use the network: {0}")]
    Network(#[from] io::Error),
}

/// Creates a session. Afterwards `client` is the one that made the last call.
pub fn create(access: &ServerAccess, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    match access.credential.as_ref().is_some_and(|credential| credential.is_admin) {
        true => by_admin(access, client, new),
        false => by_secret(access, client, new),
    }
}

/// Asks the server to create it.
fn by_admin(access: &ServerAccess, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    let created = client.create_session(&CreateSession {
        repo: access.repo.as_deref().map(Into::into),
        session_id: new.id.map(Into::into),
        name: new.name.as_deref().map(Into::into),
        feature: new.feature.map(Into::into),
        ttl_seconds: Some(TOKEN_SECONDS),
    })?;
    let credential = Credential::new(&created.token, Origin::Environment).map_err(CreateError::BadToken)?;
    let id = created.session_id.to_string();
    Ok(CreatedSession { id, name: new.name, credential, expires_at: created.expires_at })
}

/// Signs a token as the server itself would. The session begins with its first call.
fn by_secret(access: &ServerAccess, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    let secret = secret(access)?;
    let id = new.id.unwrap_or_else(|| format!("sess_{}", Uuid::now_v7().simple()));
    let now = clock::now();
    let issued = now.0 / 1000;
    let token = NewToken {
        subject: (&*id).into(),
        repo: access.repo.as_deref().map(Into::into),
        name: new.name.as_deref().map(Into::into),
        feature: new.feature.as_deref().map(Into::into),
        issued,
        expires: issued + TOKEN_SECONDS,
        ..NewToken::default()
    };
    let token = sign(secret, &token).map_err(|error| CreateError::BadRequest(error.to_string()))?;
    let credential = Credential::new(&token, Origin::Environment).map_err(CreateError::BadToken)?;
    *client = access.client_as(Some(credential.clone()), Limits::default())?;
    client.heartbeat(&id)?;
    Ok(CreatedSession { id, name: new.name, credential, expires_at: Time(now.0 + TOKEN_SECONDS * 1000) })
}

/// The secret of the server, if this process may use it.
fn secret(access: &ServerAccess) -> Result<SigningSecret, CreateError> {
    if let Some(secret) = SigningSecret::from_environment() {
        return Ok(secret);
    }
    let Some(file) = &access.secret_file else {
        let why = format!("the server that {} names is not a local server with a secret file", access.source);
        return Err(CreateError::NotAllowed(why));
    };
    SigningSecret::of_server(file).map_err(|error| CreateError::NotAllowed(error.to_string()))
}
