//! Tokens (JWTs): who calls, and what the caller may do.
//!
//! Nothing here knows HTTP, a clock or who holds what: the text of a token and the time go in, [`Claims`] or a [`BadToken`]
//! come out. Start at [`Keyring::verify`]; [`Keyring::sign`] signs the tokens that this server issues itself, and
//! [`Keyring::sign_login`] the cookies of browsers.
//!
//! Neither a token nor a secret is ever part of an error, of `Debug` output or of a log line. The time that a refusal takes
//! reveals nothing about them either: aws-lc compares signatures in constant time; a token that was verified before is
//! found by its SHA-256, which is compared in constant time too. A secret is compared with foreign input nowhere else.

mod cache;
mod claims;
mod jwks;
mod keyring;
mod login;
mod secret;
pub mod sign;
#[cfg(test)]
mod tests;

pub use claims::{Claims, IDENTITY_MAX, LEEWAY_SECONDS, NAME_MAX, Scope, TIME_MAX};
pub use jwks::JWKS_MAX;
pub use keyring::{Keyring, KeyringConfig, NewToken, TOKEN_MAX};
pub use login::BrowserLogin;
pub use secret::{SECRET_MAX, SECRET_MIN, secret_file};

/// Why a token is refused. It does not say which check failed, because that would help an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It was valid once; a new token is needed.
    #[error("the token has expired")]
    Expired,
    /// Anything else.
    #[error("the token is not valid")]
    Invalid,
}

/// Why the keyring cannot be created, reloaded or used: one sentence for the operator of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyringError(String);

/// What exactly is wrong with a token: for tests and for the issuer of a token, never for the client that sends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum TokenError {
    #[error("the token is too long")]
    TooLong,
    #[error("the token is not a JWT, or a claim has the wrong type")]
    Unreadable,
    #[error("the header names something critical")]
    Critical,
    #[error("the header says it is another kind of token")]
    Type,
    #[error("there is no key with this kid")]
    UnknownKid,
    #[error("the algorithm is not the one its kid is pinned to")]
    Algorithm,
    #[error("the signature is wrong")]
    Signature,
    #[error("the issuer is missing or wrong")]
    Issuer,
    #[error("the audience is missing or wrong")]
    Audience,
    #[error("the subject is missing, empty, too long or has control characters")]
    Subject,
    #[error("the session id is not 1 to 128 letters, digits, dots, dashes and underscores")]
    Session,
    #[error("the repository name is empty, too long or has control characters")]
    Repo,
    #[error("the name is too long or has control characters")]
    Name,
    #[error("the feature is too long or has control characters")]
    Feature,
    #[error("the prefix is not 1 to 128 letters, digits, dots, dashes and underscores")]
    Prefix,
    #[error("the expiry (exp) is missing or is not a number of seconds")]
    Expiry,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token has expired")]
    Expired,
}

impl From<TokenError> for BadToken {
    fn from(error: TokenError) -> BadToken {
        if error == TokenError::Expired { BadToken::Expired } else { BadToken::Invalid }
    }
}
