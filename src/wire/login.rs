//! Signing a browser in: codes, the exchange, and who is signed in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Text, Time};

/// The answer of `POST /api/login/codes`. `Debug` does not show the code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginCode {
    /// It works once. A page gets it in the fragment of its URL, which browsers do not send to servers: `/#code=<code>`.
    pub code: String,
    pub expires_at: Time,
}

/// `POST /api/login`: a code, or a token. `Debug` shows neither.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignIn {
    /// A code that `POST /api/login/codes` made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A token that a person pasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Of a code: sign in although the browser is signed in as someone else. Without it, such a code is refused and stays
    /// valid, so that a link of another person does not replace a login unseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
}

/// The answer of `POST /api/login`. `Debug` does not show the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedIn {
    /// The page sends it as `X-Dibs-Change` with every call that changes something; null if the login may only read.
    pub change_secret: Option<String>,
    #[serde(flatten)]
    pub login: Login,
}

/// The answer of `GET /api/login`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentLogin {
    /// Null if the browser is not signed in. That is no error: a page asks this first.
    #[serde(default)]
    #[schema(required = true)]
    pub login: Option<Login>,
}

/// Who is signed in: the claims of the token, without the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// What the token permits: `session`, `worker`, `read` or `admin`.
    #[schema(value_type = String)]
    pub scope: Text,
    /// `sub` of the token.
    #[schema(value_type = String)]
    pub subject: Text,
    /// The session that the caller acts for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_id: Option<Text>,
    /// The display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub name: Option<Text>,
    /// The repositories that the caller may look at. A call for one of several names it with `?repo=`.
    #[schema(value_type = Vec<String>)]
    pub repositories: Vec<Text>,
    /// When the login, or the token, is not valid any more.
    pub expires_at: Time,
    /// Whether this request could have changed something, as far as its token permits it.
    pub may_change: bool,
    /// The version of the server.
    #[schema(value_type = String)]
    pub version: Text,
}

impl std::fmt::Debug for LoginCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginCode").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SignedIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignedIn").field("login", &self.login).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_no_secret() {
        let code = LoginCode { code: "very secret".to_owned(), expires_at: Time(0) };
        let [code_text, token] = [(); 2].map(|()| Some("very secret".to_owned()));
        let sign_in = SignIn { code: code_text, token, replace: None };
        assert!(!format!("{code:?} {sign_in:?}").contains("secret"));
    }
}
