//! Who calls, for which repository, and for which sessions the caller may act.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath};
use http::Method;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::app::{App, Repository};
use super::error::{ApiError, ApiResult};
use super::extract::{BodyOwner, query_values};
use super::handlers::mcp::MCP_PATH;
use super::lfs::repository_in_path;
use super::login::cookie::Proof;
use crate::engine::{Actor, SessionId, SessionIdentity, Text, Timestamp};
use crate::token::{Claims, Scope};
use crate::wire::{Code, ErrorBody};

/// Where a token may come in `X-API-Key` instead of `Authorization`.
const API_KEY_PATHS: &str = "/compat/coordinator/";

/// The sender of a request with a valid token.
#[derive(Clone)]
pub struct Caller {
    pub claims: Claims,
    /// The repository that the request is about.
    pub repo: Arc<Repository>,
    /// A browser reads with its cookie. A page that is open is no sign of life of a session, and gets none of its notices.
    pub is_browser_read: bool,
    /// A page acts for the session. What it changes is a sign of life, but the notices are left for the worker.
    pub is_browser: bool,
}

/// For calls that choose the repository themselves. Like every extractor of the head it runs before that of the body, so
/// no body is read for a client without a valid token.
impl FromRequestParts<Arc<App>> for Claims {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        authenticate(parts, app)
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let proof = proof(parts, app)?;
        let claims = proof.authorize(app, &parts.method, &parts.headers)?;
        let is_browser_read = proof.is_cookie() && matches!(parts.method, Method::GET | Method::HEAD);
        if let Some(reason) = app.unready() {
            return Err(ApiError::new(Code::Unavailable, reason).retry_after(1));
        }
        let requested_repo = requested_repo(parts)?;
        let repo = choose_repository(app, &claims, requested_repo.as_deref())?;
        let caller = Caller { claims, repo, is_browser_read, is_browser: proof.is_cookie() };
        caller.refuse_foreign_session(parts)?;
        let session_of_call = || match parts.uri.path() == MCP_PATH {
            true => SessionId::parse(&query_values(parts, "session").ok()?.pop()?),
            false => session_in_path(parts),
        };
        caller.limit_rate(session_of_call, app.limits().requests_per_second)?;
        BodyOwner::mark(parts, &caller.claims.subject);
        Ok(caller)
    }
}

/// The claims of the request's token or cookie, which must be enough for its method.
pub fn authenticate(parts: &Parts, app: &App) -> ApiResult<Claims> {
    proof(parts, app)?.authorize(app, &parts.method, &parts.headers)
}

/// The token or cookie of a request. Clients of the coordinator send their token in a header of its own.
fn proof<'a>(parts: &'a Parts, app: &App) -> ApiResult<Proof<'a>> {
    let may_be_key = parts.uri.path().starts_with(API_KEY_PATHS) && !parts.headers.contains_key(AUTHORIZATION);
    let key = parts.headers.get("x-api-key").filter(|_| may_be_key).and_then(|key| key.to_str().ok());
    key.map_or_else(|| Proof::of(&parts.headers, app), |token| Ok(Proof::Token(token)))
}

/// The repository that a request names: in `?repo=`, or in the path of a Git LFS client.
fn requested_repo(parts: &Parts) -> ApiResult<Option<String>> {
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    match repository_in_path(route, parts.uri.path()) {
        Some(name) => Ok(Some(percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned())),
        None => Ok(query_values(parts, "repo")?.pop()),
    }
}

/// The name of the repository that a request is about, if its token is valid and may use it.
pub fn repository_of(parts: &Parts, app: &App) -> ApiResult<Text> {
    let claims = authenticate(parts, app)?;
    choose_name(app, &claims, requested_repo(parts)?.as_deref()).cloned()
}

/// The repository of a valid token that names no other, if this node does not lead it.
pub fn repository_led_elsewhere(app: &App, token: &str) -> Option<Text> {
    let claims = app.keyring.verify(token, (app.wall_clock)()).ok()?;
    let name = choose_name(app, &claims, None).ok()?;
    app.repositories.get(name).is_none().then(|| name.clone())
}

/// The repository that a token is for. A token for several names one in `?repo=`.
pub fn choose_repository(app: &App, claims: &Claims, requested_repo: Option<&str>) -> ApiResult<Arc<Repository>> {
    let name = choose_name(app, claims, requested_repo)?;
    app.repositories.get(name).ok_or_else(|| {
        let sentence = "this node does not lead the repository now; ask again in a moment";
        ApiError::new(Code::Unavailable, sentence).retry_after(1)
    })
}

fn choose_name<'a>(app: &'a App, claims: &Claims, requested_repo: Option<&str>) -> ApiResult<&'a Text> {
    let name = match (&claims.repo, requested_repo) {
        (Some(own), Some(requested)) if **own != *requested => {
            return Err(ApiError::new(Code::Forbidden, "this token is for another repository"));
        }
        (Some(own), _) => Some(&**own),
        (None, Some(requested)) => Some(requested),
        (None, None) => None,
    };
    let only = app.repositories.only();
    match (name, only) {
        (Some(name), _) => match app.repositories.names().find(|known| ***known == *name) {
            Some(known) if claims.repo.is_some() || claims.scope == Scope::Admin || only.is_some() => Ok(known),
            // Without a token for it, a client may not learn whether a repository exists.
            _ => {
                let sentence = format!("{name:?} is not a repository that this token may use here");
                Err(ApiError::new(Code::Forbidden, sentence))
            }
        },
        (None, Some(only)) => Ok(only),
        (None, None) if claims.scope == Scope::Admin => {
            let names: Vec<&str> = app.repositories.names().map(|name| &**name).collect();
            let sentence = format!(
                "name the repository with ?repo= (in commands: --repo NAME or git config dibs.repo NAME); this server has {}",
                names.join(", ")
            );
            Err(ApiError::new(Code::InvalidRequest, sentence))
        }
        (None, None) => {
            let sentence = "this server has several repositories, and the token does not name one";
            Err(ApiError::new(Code::Unauthenticated, sentence))
        }
    }
}

/// The session in the URL, as the handler reads it: `%61na` is `ana`.
fn session_in_path(parts: &Parts) -> Option<SessionId> {
    let id = parts.uri.path().strip_prefix("/api/sessions/")?.split('/').next()?;
    SessionId::parse(&percent_encoding::percent_decode_str(id).decode_utf8().ok()?)
}

impl Caller {
    /// The caller of a request that changes this session and names no repository; none where it would be refused.
    pub fn of_plain_request(app: &App, token: &str, session: &SessionId, now: i64) -> Option<Caller> {
        let claims = app.keyring.verify(token, now).ok()?;
        if app.unready().is_some() || !claims.may_act_for(session) {
            return None;
        }
        let repo = choose_repository(app, &claims, None).ok()?;
        let caller = Caller { claims, repo, is_browser_read: false, is_browser: false };
        caller.limit_rate(|| Some(session.clone()), app.limits().requests_per_second).ok()?;
        Some(caller)
    }

    /// Counts the request of a session and refuses it if there are too many. Tokens of scope `read` and `admin` have no
    /// such limit, because many people and programs share them.
    fn limit_rate(&self, session_of_call: impl FnOnce() -> Option<SessionId>, per_second: u32) -> ApiResult<()> {
        if per_second == 0 || self.is_browser_read {
            return Ok(());
        }
        let session = match self.claims.scope {
            Scope::Session => self.claims.session.clone(),
            Scope::Worker => self.claims.session.clone().or_else(session_of_call),
            Scope::Read | Scope::Admin => None,
        };
        let Some(session) = session else { return Ok(()) };
        self.repo.rate_limiter.check(&session, per_second).map_err(|wait| {
            let sentence = format!("this session sends more than {per_second} requests per second; slow down");
            let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
            body.more.insert("limit".to_owned(), per_second.into());
            ApiError::from(body).retry_after(wait.as_secs() + 1)
        })
    }

    /// Refuses to change another session before the body is read, so that a wrong body does not hide it.
    fn refuse_foreign_session(&self, parts: &Parts) -> ApiResult<()> {
        if matches!(parts.method, Method::GET | Method::HEAD) || self.claims.scope == Scope::Read {
            return Ok(());
        }
        match session_in_path(parts) {
            Some(session) if !self.claims.may_act_for(&session) => Err(self.forbidden()),
            _ => Ok(()),
        }
    }

    /// To act for the session in the URL.
    pub fn act_for(&self, id: &str) -> ApiResult<(Actor, SessionId)> {
        let session = self.session(id)?;
        if !self.claims.may_act_for(&session) {
            return Err(self.forbidden());
        }
        Ok((self.as_session(&session), session))
    }

    /// To look at what belongs to the session in the URL. The session itself may, and scopes `read` and `admin`.
    pub fn look_for(&self, id: &str) -> ApiResult<(Actor, SessionId)> {
        let session = self.session(id)?;
        match self.claims.scope {
            Scope::Read => Ok((Actor::Reader, session)),
            _ if self.is_browser_read && self.claims.may_act_for(&session) => Ok((Actor::Reader, session)),
            _ if self.claims.may_act_for(&session) => Ok((self.as_session(&session), session)),
            _ => Err(self.forbidden()),
        }
    }

    /// To look at what every session may see. The call keeps the calling session alive, unless a page makes it.
    pub fn look(&self) -> Actor {
        match &self.claims.session {
            _ if self.is_browser_read => Actor::Reader,
            Some(session) => self.as_session(&session.clone()),
            None if self.claims.scope == Scope::Admin => self.admin(),
            None => Actor::Reader,
        }
    }

    /// To do what only an admin may.
    pub fn act_as_admin(&self) -> ApiResult<Actor> {
        match self.claims.scope {
            Scope::Admin => Ok(self.admin()),
            _ => Err(ApiError::new(Code::Forbidden, "this call needs a token with scope admin")),
        }
    }

    fn admin(&self) -> Actor {
        Actor::Admin(self.claims.name.clone().unwrap_or_else(|| self.claims.subject.clone()))
    }

    fn as_session(&self, session: &SessionId) -> Actor {
        match self.claims.owner() {
            Some(owner) => Actor::Session(SessionIdentity {
                id: session.clone(),
                name: self.claims.name.clone(),
                feature: self.claims.feature.clone(),
                owner,
                issued: self.claims.issued_ms.map(Timestamp),
                hears_notices: !self.is_browser,
            }),
            None => self.admin(),
        }
    }

    fn session(&self, id: &str) -> ApiResult<SessionId> {
        let bad = || match self.claims.scope {
            Scope::Admin | Scope::Read => {
                let sentence = format!("{id:?} is not a session id; use 1 to 128 of A-Z, a-z, 0-9, _, . and -");
                ApiError::new(Code::InvalidRequest, sentence)
            }
            Scope::Session | Scope::Worker => self.forbidden(),
        };
        SessionId::parse(id).ok_or_else(bad)
    }

    /// Refuses scope `read`, whatever else is wrong with a change.
    pub fn refuse_reader(&self) -> ApiResult<()> {
        if self.claims.scope == Scope::Read { Err(self.forbidden()) } else { Ok(()) }
    }

    fn forbidden(&self) -> ApiError {
        let sentence = match self.claims.scope {
            Scope::Read => "this token may read, but not change anything",
            _ => "this token acts for another session",
        };
        ApiError::new(Code::Forbidden, sentence)
    }
}
