//! The admin of a local server: the person who may read its secret.

use super::discover::ServerAccess;
use super::{Workspace, clock, session};
use crate::client::{Credential, Origin};
use crate::git::Repo;
use crate::token::sign::sign;
use crate::token::{NewToken, Scope};

/// How long the token of a local admin is valid, in seconds: a day of work.
const TOKEN_SECONDS: i64 = 12 * 3600;

/// An admin's token: the caller's own if it is one, else one that is signed with the local server's secret. The error is a
/// sentence for the caller.
pub fn credential(access: &ServerAccess, workspace: &Workspace) -> Result<Credential, String> {
    match &access.credential {
        Some(credential) if credential.is_admin => return Ok(credential.clone()),
        _ => {}
    }
    let not_allowed =
        |why: String| format!("an admin needs an admin's token in DIBS_TOKEN, or the local server's secret: {why}");
    let secret = session::secret(access).map_err(not_allowed)?;
    let issued = clock::now().0 / 1000;
    let user = workspace.environment.text("USER").filter(|user| is_plain(user)).unwrap_or_else(|| "owner".to_owned());
    let new = NewToken {
        subject: user.into(),
        scope: Scope::Admin,
        name: workspace.repo.as_ref().and_then(user_name).map(Into::into),
        issued,
        expires: issued + TOKEN_SECONDS,
        ..NewToken::default()
    };
    let signed = sign(secret, &new).map_err(|error| error.to_string())?;
    Credential::new(&signed, Origin::Environment).map_err(|why| format!("the admin's token {why}"))
}

/// The user's name, as git knows it, if it can be shown.
fn user_name(repo: &Repo) -> Option<String> {
    let name = repo.git().args(["config", "--get", "user.name"]).answer().ok()??;
    let name = String::from_utf8(name).ok()?.trim().to_owned();
    Some(name).filter(|name| is_plain(name))
}

/// Whether a token can have this name.
fn is_plain(name: &str) -> bool {
    let is_shown = |c: char| c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ';
    (1..=100).contains(&name.chars().count()) && name.chars().all(is_shown)
}
