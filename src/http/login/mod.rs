//! How a browser signs in, and what its cookie allows.
//!
//! A client with a token gets a code ([`codes`]), which is valid once and for a minute. The page at `/` exchanges the code,
//! or a token that a person pastes, for a cookie that scripts cannot read, and for a secret that only the page has. With the
//! cookie alone a request may only read. To change something it also sends the secret in a header ([`cookie`]), which
//! no page of another site can do: it neither knows the secret nor may it send the header.

pub mod codes;
pub mod cookie;
pub mod ended;

use aws_lc_rs::rand;

use crate::text::hex;

/// The longest that a login is valid, in seconds. It never outlives its token.
pub const LOGIN_SECONDS_MAX: i64 = 7 * 24 * 3600;

/// 128 random bits as text: for codes, secrets and ids of logins.
pub fn random_text() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("this machine gives random bytes; the server checked that when it started");
    hex::encode(&bytes)
}
