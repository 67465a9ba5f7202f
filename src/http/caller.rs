//! Who calls, for which repository, and on whose behalf they may act.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::app::{App, Repository};
use super::error::{ApiError, ApiResult};
use super::parts::query_values;
use crate::engine::{Actor, SessionId, SessionIdentity};
use crate::token::{Claims, Scope};
use crate::wire::{Code, ErrorBody};

/// A request whose token was good.
pub struct Caller {
    /// What the token says.
    pub claims: Claims,
    /// What it is about.
    pub repo: Arc<Repository>,
}

/// For calls that find out themselves which repository is meant. Like every extractor of the head it comes before that
/// of the body, so that nobody without a good token has a body read.
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
        let asked = query_values(parts, "repo")?.pop();
        let repo = choose(app, &claims, asked.as_deref())?;
        let caller = Caller { claims, repo };
        caller.meter(parts, app.limits().requests_per_second)?;
        Ok(caller)
    }
}

/// The claims of a good token; nothing is said about what is wrong with any other, except that it is too old.
pub fn authenticate(parts: &Parts, app: &App) -> ApiResult<Claims> {
    Ok(app.keyring.verify(bearer(&parts.headers)?, (app.wall_clock)())?)
}

/// The token a request came with, whatever it is worth.
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

/// The repository a token is for. An admin of all of them names one in `?repo=`.
pub fn choose(app: &App, claims: &Claims, asked: Option<&str>) -> ApiResult<Arc<Repository>> {
    let named = match (&claims.repo, asked) {
        (Some(own), Some(asked)) if **own != *asked => {
            return Err(ApiError::new(Code::Forbidden, "this token is for another repository"));
        }
        (Some(own), _) => Some(&**own),
        (None, Some(asked)) => Some(asked),
        (None, None) => None,
    };
    match (named, app.only()) {
        (Some(name), _) => match app.repositories.get(name) {
            Some(repo) if claims.repo.is_some() || claims.scope == Scope::Admin || app.only().is_some() => {
                Ok(repo.clone())
            }
            // Whether it exists is nobody's business who has no token for it.
            _ => Err(ApiError::new(Code::Forbidden, "this token is for a repository that is not served here")),
        },
        (None, Some(only)) => Ok(only.clone()),
        (None, None) if claims.scope == Scope::Admin => {
            let names: Vec<&str> = app.repositories.keys().map(|name| &**name).collect();
            let sentence = format!("say which repository with ?repo=; this server has {}", names.join(", "));
            Err(ApiError::new(Code::InvalidRequest, sentence))
        }
        (None, None) => {
            let sentence = "this server has several repositories, and the token does not say for which one it is";
            Err(ApiError::new(Code::Unauthenticated, sentence))
        }
    }
}

impl Caller {
    /// Counts the request as one of its session's. Who only looks and who may do anything is not counted: many people
    /// and programs share such a token.
    fn meter(&self, parts: &Parts, per_second: u32) -> ApiResult<()> {
        if per_second == 0 {
            return Ok(());
        }
        let named = || {
            let id = parts.uri.path().strip_prefix("/api/sessions/")?.split('/').next()?;
            SessionId::parse(id)
        };
        let session = match self.claims.scope {
            Scope::Session => self.claims.session.clone(),
            Scope::Worker => named(),
            Scope::Read | Scope::Admin => None,
        };
        let Some(session) = session else { return Ok(()) };
        self.repo.meter.count(&session, per_second).map_err(|wait| {
            let sentence = format!("this session asks more than {per_second} times a second; slow down");
            let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
            body.more.insert("limit".to_owned(), per_second.into());
            ApiError::from(body).retry_after(wait.as_secs() + 1)
        })
    }

    /// Acting for the session named in the URL.
    pub fn act_for(&self, id: &str) -> ApiResult<(Actor, SessionId)> {
        let session = self.session(id)?;
        if !self.claims.may_act_for(&session) {
            return Err(self.forbidden());
        }
        Ok((self.as_session(&session), session))
    }

    /// Looking at what belongs to the session named in the URL: the session itself, or whoever may look at all.
    pub fn look_for(&self, id: &str) -> ApiResult<(Actor, SessionId)> {
        let session = self.session(id)?;
        match self.claims.scope {
            Scope::Read => Ok((Actor::Reader, session)),
            _ if self.claims.may_act_for(&session) => Ok((self.as_session(&session), session)),
            _ => Err(self.forbidden()),
        }
    }

    /// Looking at what belongs to everybody. A session that looks is alive.
    pub fn look(&self) -> Actor {
        match &self.claims.session {
            Some(session) => self.as_session(&session.clone()),
            None if self.claims.scope == Scope::Admin => self.admin(),
            None => Actor::Reader,
        }
    }

    /// Doing what only an admin may.
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
            }),
            None => self.admin(),
        }
    }

    fn session(&self, id: &str) -> ApiResult<SessionId> {
        let bad = || match self.claims.scope {
            Scope::Admin | Scope::Read => {
                let sentence = format!("{id:?} is not a session id; those are 1 to 128 of A-Z, a-z, 0-9, _, . and -");
                ApiError::new(Code::InvalidRequest, sentence)
            }
            Scope::Session | Scope::Worker => self.forbidden(),
        };
        SessionId::parse(id).ok_or_else(bad)
    }

    fn forbidden(&self) -> ApiError {
        let sentence = match self.claims.scope {
            Scope::Read => "this token may look, but not change anything",
            _ => "this token acts for another session",
        };
        ApiError::new(Code::Forbidden, sentence)
    }
}
