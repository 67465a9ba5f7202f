//! Who calls, for which repository, and for which sessions the caller may act.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::app::{App, Repository};
use super::error::{ApiError, ApiResult};
use super::extract::{BodyOwner, query_values};
use super::handlers::mcp::MCP_PATH;
use crate::engine::{Actor, SessionId, SessionIdentity, Timestamp};
use crate::token::{Claims, Scope};
use crate::wire::{Code, ErrorBody};

/// The sender of a request with a valid token.
#[derive(Clone)]
pub struct Caller {
    pub claims: Claims,
    /// The repository that the request is about.
    pub repo: Arc<Repository>,
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
        let claims = authenticate(parts, app)?;
        if let Some(reason) = app.unready() {
            return Err(ApiError::new(Code::Unavailable, reason).retry_after(1));
        }
        let requested_repo = query_values(parts, "repo")?.pop();
        let repo = choose_repository(app, &claims, requested_repo.as_deref())?;
        let caller = Caller { claims, repo };
        caller.limit_rate(parts, app.limits().requests_per_second)?;
        BodyOwner::mark(parts, &caller.claims.subject);
        Ok(caller)
    }
}

/// The claims of the request's token. The error for an invalid one says only whether it has expired.
pub fn authenticate(parts: &Parts, app: &App) -> ApiResult<Claims> {
    Ok(app.keyring.verify(bearer(&parts.headers)?, (app.wall_clock)())?)
}

/// The token of a request, not verified.
pub fn bearer(headers: &HeaderMap) -> ApiResult<&str> {
    let missing = || {
        let sentence = "this call needs a token; send it as Authorization: Bearer <token>";
        ApiError::new(Code::Unauthenticated, sentence)
    };
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

/// The repository that a token is for. A token for several names one in `?repo=`.
pub fn choose_repository(app: &App, claims: &Claims, requested_repo: Option<&str>) -> ApiResult<Arc<Repository>> {
    let name = match (&claims.repo, requested_repo) {
        (Some(own), Some(requested)) if **own != *requested => {
            return Err(ApiError::new(Code::Forbidden, "this token is for another repository"));
        }
        (Some(own), _) => Some(&**own),
        (None, Some(requested)) => Some(requested),
        (None, None) => None,
    };
    match (name, app.only_repository()) {
        (Some(name), _) => match app.repositories.get(name) {
            Some(repo) if claims.repo.is_some() || claims.scope == Scope::Admin || app.only_repository().is_some() => {
                Ok(repo.clone())
            }
            // Without a token for it, a client may not learn whether a repository exists.
            _ => {
                let sentence = format!("{name:?} is not a repository that this token may use here");
                Err(ApiError::new(Code::Forbidden, sentence))
            }
        },
        (None, Some(only)) => Ok(only.clone()),
        (None, None) if claims.scope == Scope::Admin => {
            let names: Vec<&str> = app.repositories.keys().map(|name| &**name).collect();
            let sentence = format!("name the repository with ?repo=; this server has {}", names.join(", "));
            Err(ApiError::new(Code::InvalidRequest, sentence))
        }
        (None, None) => {
            let sentence = "this server has several repositories, and the token does not name one";
            Err(ApiError::new(Code::Unauthenticated, sentence))
        }
    }
}

impl Caller {
    /// Counts the request of a session and refuses it if there are too many. Tokens of scope `read` and `admin` have no
    /// such limit, because many people and programs share them.
    fn limit_rate(&self, parts: &Parts, per_second: u32) -> ApiResult<()> {
        if per_second == 0 {
            return Ok(());
        }
        let session_in_path = || {
            if parts.uri.path() == MCP_PATH {
                return SessionId::parse(&query_values(parts, "session").ok()?.pop()?);
            }
            let id = parts.uri.path().strip_prefix("/api/sessions/")?.split('/').next()?;
            // As the handler reads it: `%61na` is `ana`.
            SessionId::parse(&percent_encoding::percent_decode_str(id).decode_utf8().ok()?)
        };
        let session = match self.claims.scope {
            Scope::Session => self.claims.session.clone(),
            Scope::Worker => session_in_path(),
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
            _ if self.claims.may_act_for(&session) => Ok((self.as_session(&session), session)),
            _ => Err(self.forbidden()),
        }
    }

    /// To look at what every session may see. The call keeps the calling session alive.
    pub fn look(&self) -> Actor {
        match &self.claims.session {
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

    fn forbidden(&self) -> ApiError {
        let sentence = match self.claims.scope {
            Scope::Read => "this token may read, but not change anything",
            _ => "this token acts for another session",
        };
        ApiError::new(Code::Forbidden, sentence)
    }
}
