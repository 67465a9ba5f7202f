//! The cookie of a signed-in browser: its name, its text, and how a request proves who sends it.

use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method};

use crate::http::app::App;
use crate::http::error::{ApiError, ApiResult};
use crate::token::{BadToken, BrowserLogin, Claims};
use crate::wire::Code;

/// The header with the secret that a changing request of a browser needs.
pub const CHANGE_HEADER: &str = "x-dibs-change";

/// What a request proves its sender with.
#[derive(Debug, Clone, Copy)]
pub enum Proof<'a> {
    /// A bearer token.
    Token(&'a str),
    /// The cookie of a browser.
    Cookie(&'a str),
}

/// The same, owned, for a reply that takes long.
pub enum OwnedProof {
    Token(String),
    Cookie(String),
}

impl<'a> Proof<'a> {
    /// The proof of a request. A request with `Authorization` does not use its cookies.
    pub fn of(headers: &'a HeaderMap, app: &App) -> ApiResult<Proof<'a>> {
        match headers.contains_key(AUTHORIZATION) {
            true => bearer(headers).map(Proof::Token),
            false => cookie(headers, app).map(Proof::Cookie).ok_or_else(missing),
        }
    }

    pub fn to_owned(self) -> OwnedProof {
        match self {
            Proof::Token(text) => OwnedProof::Token(text.to_owned()),
            Proof::Cookie(text) => OwnedProof::Cookie(text.to_owned()),
        }
    }

    /// The claims, whatever the request does. The error for an invalid proof says only whether it has expired.
    pub fn verify(self, app: &App) -> Result<Claims, BadToken> {
        match self {
            Proof::Token(token) => app.keyring.verify(token, (app.wall_clock)()),
            Proof::Cookie(text) => login(text, app).map(|login| login.claims),
        }
    }

    /// The claims for a request with this method. With a cookie alone, a request may only read.
    pub fn authorize(self, app: &App, method: &Method, headers: &HeaderMap) -> ApiResult<Claims> {
        match self {
            Proof::Token(_) => Ok(self.verify(app)?),
            Proof::Cookie(text) => {
                check_current(app)?;
                let login = login(text, app)?;
                if *method != Method::GET && *method != Method::HEAD && !may_change(&login, headers) {
                    let sentence = "this browser tab is read only; to change something, open the dashboard again \
                                    with: git dibs open";
                    return Err(ApiError::new(Code::Forbidden, sentence));
                }
                Ok(login.claims)
            }
        }
    }

    pub fn is_cookie(self) -> bool {
        matches!(self, Proof::Cookie(_))
    }
}

impl OwnedProof {
    pub fn verify(&self, app: &App) -> Result<Claims, BadToken> {
        match self {
            OwnedProof::Token(text) => Proof::Token(text).verify(app),
            OwnedProof::Cookie(text) => Proof::Cookie(text).verify(app),
        }
    }
}

/// Whether a request has the secret of its login. A login without one may never change anything.
pub fn may_change(login: &BrowserLogin, headers: &HeaderMap) -> bool {
    headers.get(CHANGE_HEADER).is_some_and(|secret| login.allows_change(secret.as_bytes()))
}

/// Refuses cookies while this node of a cluster cannot know which of them the other nodes have ended.
pub fn check_current(app: &App) -> ApiResult<()> {
    if app.forwarder.as_ref().is_none_or(|forwarder| forwarder.view().knows_ended_logins()) {
        return Ok(());
    }
    let sentence = "this node has not heard from etcd which browsers have signed out; ask again in a moment";
    Err(ApiError::new(Code::Unavailable, sentence).retry_after(1))
}

/// The login of a cookie, unless it has ended.
pub fn login(text: &str, app: &App) -> Result<BrowserLogin, BadToken> {
    let login = app.keyring.verify_login(text, (app.wall_clock)())?;
    if app.ended_logins.contains(&login.id) { Err(BadToken::Invalid) } else { Ok(login) }
}

/// The text of this server's cookie. If there are several of that name, none counts: another site of the same host set one.
pub fn cookie<'a>(headers: &'a HeaderMap, app: &App) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('=')).peekable();
    pairs.peek()?;
    let name = name(headers, app);
    let mut own = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    own.next().filter(|_| own.next().is_none())
}

/// The cookie that signs a browser in for so many seconds, or out for 0.
pub fn set_cookie(headers: &HeaderMap, app: &App, text: &str, seconds: i64) -> HeaderValue {
    let secure = if is_over_tls(headers, app) { "; Secure" } else { "" };
    let name = name(headers, app);
    let cookie = format!("{name}={text}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&cookie).expect("a login and a name are ASCII")
}

/// Whether the browser has loaded the page over TLS, from this server or from a proxy in front of it.
///
/// The page says it in `Origin`: a page on the machine of the proxy may also be loaded without TLS, from this server itself.
/// A request without one, or of an opaque origin (`null`), is taken for what the server is there for.
fn is_over_tls(headers: &HeaderMap, app: &App) -> bool {
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    match origin.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("https"),
        None => app.serves_tls,
    }
}

/// The name of this server's cookie. Browsers send a cookie to all ports of a host, so the name has the keys of the server
/// and the port in it.
fn name(headers: &HeaderMap, app: &App) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
    format!("dibs-{}-{port}", app.keyring.login_name())
}

/// The token of a request, not verified.
pub fn bearer(headers: &HeaderMap) -> ApiResult<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let header = values.next().ok_or_else(missing)?;
    if values.next().is_some() {
        return Err(missing());
    }
    let (scheme, token) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    Ok(token.trim_matches(' '))
}

fn missing() -> ApiError {
    ApiError::new(Code::Unauthenticated, "this call needs a token; send it as Authorization: Bearer <token>")
}
