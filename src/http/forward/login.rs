//! Which repository a sign-in is about, so that the node that leads it answers.
//!
//! The leader of a session's repository knows whether the session has ended. A code is in the memory of the node that made
//! it, so it names the repository after a dot. What is about no repository goes to the leader of the first one. Who is
//! signed in, and signing out, every node answers itself.

use http::request::Parts;
use hyper::body::Bytes;

use super::super::app::App;
use super::super::caller::authenticate;
use super::super::login::codes;
use crate::engine::Text;
use crate::token::Claims;
use crate::wire::SignIn;

/// The repository whose leader answers: that of the token or code of a sign-in, or the first one.
pub fn repository(parts: &Parts, body: Option<&Bytes>, app: &App) -> Option<Text> {
    let own = match parts.uri.path().strip_prefix(super::LOGIN_PATHS) {
        // Of a code that is made now.
        Some("/codes") => authenticate(parts, app).ok().and_then(repository_of_token),
        _ => body.and_then(|body| repository_of_body(body, app)),
    };
    own.filter(|name| app.repositories.has(name)).or_else(|| app.repositories.names().next().cloned())
}

fn repository_of_body(body: &[u8], app: &App) -> Option<Text> {
    let SignIn { code, token, replace: _ } = serde_json::from_slice(body).ok()?;
    match (code, token) {
        (Some(code), None) => codes::repository(&code),
        (None, Some(token)) => repository_of_token(app.keyring.verify(token.trim(), (app.wall_clock)()).ok()?),
        _ => None,
    }
}

fn repository_of_token(claims: Claims) -> Option<Text> {
    claims.repo
}
