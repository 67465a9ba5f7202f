//! Creating a session: with an admin's token, with a worker's token, or with a token signed with the local server's own
//! secret.
//!
//! Unless an id is given, the id is the session's name and four random characters: `ana-7f3k`. The id of a worker's
//! session begins with the worker's prefix, if it has one.

use std::io;

use uuid::Uuid;

use super::clock;
use super::discover::ServerAccess;
use super::workspace::Workspace;
use crate::client::{Client, ClientError, Credential, Limits, Origin};
use crate::token::NewToken;
use crate::token::sign::{SigningSecret, sign};
use crate::wire::{Code, CreateSession, Text, Time};

/// How long a session's token is valid, in seconds. A token also becomes invalid when its session ends, so this only has
/// to be longer than any session.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// The longest part of an id that comes from the session's name, in characters.
const STEM_CHARS_MAX: usize = 20;

/// The digits of the random part of an id, without letters that look like other digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// How many ids are tried before giving up. Of a million ids for each name, a few are taken.
const ID_ATTEMPTS_MAX: usize = 16;

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
        "no token here can start sessions, and the local server's secret cannot be used ({0}); ask the person who runs the \
         server for a worker token, and name its file: git config dibs.tokenFile FILE"
    )]
    NotAllowed(String),
    /// No token can be signed for this id, name or feature.
    #[error("{0}")]
    BadRequest(String),
    #[error("the token of the new session {0}")]
    BadToken(&'static str),
    #[error("every id that was tried is taken; give one with --id")]
    NoFreeId,
    #[error("cannot use the network: {0}")]
    Network(#[from] io::Error),
}

/// Creates a session. Afterwards `client` is the one that made the last call.
pub fn create(access: &ServerAccess, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    let Some(starter) = access.starter() else { return by_secret(access, client, new) };
    if access.credential.as_ref() != Some(&starter) {
        *client = access.client_as(Some(starter.clone()), Limits::default())?;
    }
    match starter.is_admin {
        true => by_admin(access, client, new),
        false => by_worker(&starter, client, new),
    }
}

/// Uses an id for the first time, which makes it a session of this worker. Its name is the one in the worker's token.
fn by_worker(worker: &Credential, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    let id = match new.id {
        Some(id) => id,
        None => unused_id(client, worker.prefix.as_deref(), new.name.as_deref())?,
    };
    client.heartbeat(&id)?;
    let expires_at = Time(worker.expires.unwrap_or_default().saturating_mul(1000));
    Ok(CreatedSession { credential: worker.clone().acting_for(&id), id, name: None, expires_at })
}

/// Asks the server to create it.
fn by_admin(access: &ServerAccess, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    let id = match new.id {
        Some(id) => id,
        None => unused_id(client, None, new.name.as_deref())?,
    };
    let created = client.create_session(&CreateSession {
        repo: access.repo.as_deref().map(Into::into),
        session_id: Some((&*id).into()),
        name: new.name.as_deref().map(Into::into),
        feature: new.feature.map(Into::into),
        ttl_seconds: Some(TOKEN_SECONDS),
        url: address(access),
        ..CreateSession::default()
    })?;
    let credential = Credential::new(&created.token, Origin::Environment).map_err(CreateError::BadToken)?;
    let id = created.session_id.to_string();
    Ok(CreatedSession { id, name: new.name, credential, expires_at: created.expires_at })
}

/// The address that the session's token names; none for the local server, which tokens name by its id: its address may
/// change when it is started again.
fn address(access: &ServerAccess) -> Option<Text> {
    let endpoint = access.endpoints.first().filter(|_| !access.is_local)?;
    Some(endpoint.to_string().into())
}

/// An id that no session has. Two admins that find the same id at the same moment, one chance in a million, share it.
fn unused_id(client: &mut Client, prefix: Option<&str>, name: Option<&str>) -> Result<String, CreateError> {
    for _ in 0..ID_ATTEMPTS_MAX {
        let id = format!("{}{}", prefix.unwrap_or_default(), short_id(name));
        match client.session(&id) {
            Ok(_) => {}
            Err(error) if error.code() == Some(Code::NotFound) => return Ok(id),
            Err(error) => return Err(error.into()),
        }
    }
    Err(CreateError::NoFreeId)
}

/// Signs a token as the server itself would. The session begins with its first call.
fn by_secret(access: &ServerAccess, client: &mut Client, new: NewSession) -> Result<CreatedSession, CreateError> {
    let now = clock::now();
    let issued = now.0 / 1000;
    let mut begin = |id: &str, subject: &str| -> Result<Credential, CreateError> {
        let new = NewToken {
            subject: subject.into(),
            repo: access.repo.as_deref().map(Into::into),
            name: new.name.as_deref().map(Into::into),
            feature: new.feature.as_deref().map(Into::into),
            url: address(access),
            issued,
            expires: issued + TOKEN_SECONDS,
            ..NewToken::default()
        };
        let new = if id == subject { new } else { new.owning_session(id) };
        let secret = secret(access).map_err(CreateError::NotAllowed)?;
        let token = sign(secret, &new).map_err(|error| CreateError::BadRequest(error.to_string()))?;
        let credential = Credential::new(&token, Origin::Environment).map_err(CreateError::BadToken)?;
        *client = access.client_as(Some(credential.clone()), Limits::default())?;
        client.heartbeat(id)?;
        Ok(credential)
    };
    let created = |id: String, credential| {
        let expires_at = Time(now.0 + TOKEN_SECONDS * 1000);
        Ok(CreatedSession { id, name: new.name.clone(), credential, expires_at })
    };
    if let Some(id) = new.id.clone() {
        let credential = begin(&id, &id)?;
        return created(id, credential);
    }
    for _ in 0..ID_ATTEMPTS_MAX {
        let id = short_id(new.name.as_deref());
        // The subject is random, so a session with this id, even one that begins at the same moment, has another owner,
        // and the server refuses this token.
        match begin(&id, &Uuid::new_v4().simple().to_string()) {
            Ok(credential) => return created(id, credential),
            Err(CreateError::Call(error)) if is_taken(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(CreateError::NoFreeId)
}

/// Whether the refusal means that another session has this id.
fn is_taken(error: &ClientError) -> bool {
    matches!(error.code(), Some(Code::Forbidden | Code::SessionEnded))
}

/// The name, cut and without characters that an id cannot have, and four random characters.
fn short_id(name: Option<&str>) -> String {
    let mut stem = String::new();
    for c in name.unwrap_or_default().chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => stem.push(c),
            c @ ('_' | '.') => stem.push(c),
            _ if !stem.ends_with('-') => stem.push('-'),
            _ => {}
        }
        if stem.len() == STEM_CHARS_MAX {
            break;
        }
    }
    let separators = ['-', '.', '_'];
    let stem = match stem.trim_matches(separators) {
        "" => "session",
        stem => stem,
    };
    let random = Uuid::new_v4();
    let suffix: String = random.as_bytes()[..4].iter().map(|byte| ALPHABET[usize::from(byte % 32)] as char).collect();
    format!("{stem}-{suffix}")
}

/// The secret of the server, if this process may use it. The error says why not.
pub(super) fn secret(access: &ServerAccess) -> Result<SigningSecret, String> {
    if let Some(secret) = SigningSecret::from_environment() {
        return Ok(secret);
    }
    let Some(file) = &access.secret_file else {
        let why = format!("the server that {} names is not a local server with a secret file", access.source);
        return Err(why);
    };
    SigningSecret::of_server(file).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_name_and_four_characters() {
        let stem = |name: Option<&str>| {
            let id = short_id(name);
            let (stem, suffix) = id.rsplit_once('-').unwrap();
            assert!(suffix.len() == 4 && suffix.bytes().all(|byte| ALPHABET.contains(&byte)), "{id}");
            stem.to_owned()
        };
        assert_eq!(stem(Some("Ana")), "ana");
        assert_eq!(stem(Some("Ana María / parser")), "ana-mar-a-parser");
        assert_eq!(stem(Some("../../etc")), "etc");
        assert_eq!(stem(Some("a-name-that-is-longer-than-it-may-be")), "a-name-that-is-longe");
        assert_eq!(stem(Some("日本")), "session");
        assert_eq!(stem(Some("\x1b[2J\n")), "2j");
        assert_eq!(stem(None), "session");
    }
}
