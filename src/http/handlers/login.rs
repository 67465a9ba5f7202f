//! Signing in a browser: get a code, exchange it for a cookie, see who is signed in, sign out.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, SET_COOKIE};
use http::{HeaderMap, HeaderValue};

use crate::desk::SubmitError;
use crate::engine::{Actor, Text};
use crate::http::app::App;
use crate::http::caller::{Caller, choose_repository};
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{Json, created};
use crate::http::login::codes::{self, CODE_TIME, CODES_MAX};
use crate::http::login::cookie::{self, Proof, may_change};
use crate::http::login::{LOGIN_SECONDS_MAX, random_text};
use crate::http::openapi::refusals;
use crate::http::submit::read_state;
use crate::token::{BadToken, BrowserLogin, Claims, Scope};
use crate::wire::{self, Code, ErrorBody, Time};

/// Get a code that signs a browser in.
///
/// The code has the rights of the token. It works once, within a minute, at `POST /api/login`.
#[utoipa::path(
    post,
    path = "/api/login/codes",
    operation_id = "createLoginCode",
    tag = "Dashboard",
    request_body = Option<wire::EmptyBody>,
    responses((status = 201, description = "The code.", body = wire::LoginCode), refusals::LoginCode),
)]
pub async fn create_code(
    State(app): State<Arc<App>>,
    claims: Claims,
    Json(_): Json<wire::EmptyBody>,
) -> ApiResult<Response> {
    refuse_ended(&app, &claims).await?;
    let expires = (app.wall_clock)() + CODE_TIME.as_secs().cast_signed();
    let full = |_| {
        let sentence = format!("{CODES_MAX} browsers are about to sign in here; try again in a minute");
        let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
        body.more.insert("limit".to_owned(), CODES_MAX.into());
        ApiError::from(body).retry_after(CODE_TIME.as_secs())
    };
    // In a cluster the code must come back to the node that has it.
    let repository = claims.repo.clone().filter(|_| app.forwarder.is_some());
    let code = app.login_codes.create(claims, app.keyring.login_name(), Instant::now()).map_err(full)?;
    let code = repository.map_or_else(|| code.clone(), |name| codes::with_repository(&code, &name));
    Ok(created(wire::LoginCode { code, expires_at: Time(expires * 1000) }))
}

/// Sign a browser in, with a code or a token.
///
/// Sets a cookie that scripts cannot read, and with which alone a request may only read. A request that changes something
/// also sends `changeSecret` of the answer, in the header `X-Dibs-Change`. A browser that is signed in as someone else gets
/// `FORBIDDEN` for a code, with the names `signedInAs` and `signsInAs`; the code stays valid, for a request with `replace`.
#[utoipa::path(
    post,
    path = "/api/login",
    operation_id = "signIn",
    tag = "Dashboard",
    request_body = wire::SignIn,
    responses((status = 200, description = "Who is signed in.", body = wire::SignedIn), refusals::SignIn),
    security(()),
)]
pub async fn sign_in(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Json(body): Json<wire::SignIn>,
) -> ApiResult<Response> {
    let claims = match (body.code, body.token) {
        (Some(code), None) => {
            let code = codes::without_repository(&code);
            if body.replace != Some(true) {
                refuse_other_login(&app, &headers, code)?;
            }
            app.login_codes.redeem(code, &app.keyring.login_name(), Instant::now()).ok_or_else(|| {
                let sentence = "this code was used already or is older than a minute; run git dibs open again";
                failed(&app, ApiError::new(Code::Unauthenticated, sentence))
            })?
        }
        (None, Some(token)) => {
            let verified = app.keyring.verify(token.trim(), (app.wall_clock)());
            verified.map_err(|bad: BadToken| failed(&app, bad.into()))?
        }
        _ => return Err(wire::BadBody::field("code", "or token is required, and not both").into()),
    };
    refuse_ended(&app, &claims).await?;
    let now = (app.wall_clock)();
    let expires = claims.expires.min(now + LOGIN_SECONDS_MAX);
    let change_secret = (claims.scope != Scope::Read).then(random_text);
    let login = BrowserLogin::new(random_text(), Claims { expires, ..claims }, change_secret.as_deref());
    let text = app.keyring.sign_login(&login);
    let text = text.map_err(|error| ApiError::new(Code::InvalidRequest, error.to_string()))?;
    let seconds = expires.saturating_sub(now).max(1);
    let mut response = not_stored(Json(wire::SignedIn {
        login: describe(&app, &login.claims, change_secret.is_some()),
        change_secret,
    }));
    response.headers_mut().insert(SET_COOKIE, cookie::set_cookie(&headers, &app, &text, seconds));
    Ok(response)
}

/// See who is signed in.
#[utoipa::path(
    get,
    path = "/api/login",
    operation_id = "getLogin",
    tag = "Dashboard",
    responses((status = 200, description = "The caller, or null.", body = wire::CurrentLogin), refusals::Login),
    security((), ("token" = [])),
)]
pub async fn get(State(app): State<Arc<App>>, headers: HeaderMap) -> ApiResult<Response> {
    let login = match Proof::of(&headers, &app) {
        Ok(Proof::Token(token)) => {
            let claims = Proof::Token(token).verify(&app)?;
            let may_change = claims.scope != Scope::Read;
            Some(describe(&app, &claims, may_change))
        }
        Ok(Proof::Cookie(text)) => {
            cookie::check_current(&app)?;
            let login = cookie::login(text, &app).ok();
            login.map(|login| describe(&app, &login.claims, may_change(&login, &headers)))
        }
        Err(error) if headers.contains_key(AUTHORIZATION) => return Err(error),
        Err(_) => None,
    };
    Ok(not_stored(Json(wire::CurrentLogin { login })))
}

/// Sign a browser out.
///
/// The cookie is deleted, and is not accepted any more. Without a cookie, nothing happens.
#[utoipa::path(
    delete,
    path = "/api/login",
    operation_id = "signOut",
    tag = "Dashboard",
    responses((status = 200, description = "The browser is signed out.", body = wire::EmptyBody), refusals::NoToken),
    security(()),
)]
pub async fn sign_out(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let now = (app.wall_clock)();
    // One that has ended here is told to the other nodes again: they may not know it yet.
    let login = cookie::cookie(&headers, &app).and_then(|text| app.keyring.verify_login(text, now).ok());
    let mut response = match login {
        Some(login) => end_login(app.clone(), login, now).await,
        None => Json(wire::EmptyBody {}).into_response(),
    };
    // A browser that cannot be signed out everywhere is to lose its cookie all the same.
    response.headers_mut().insert(SET_COOKIE, cookie::set_cookie(&headers, &app, "", 0));
    not_stored(response)
}

/// The answer promises that the cookie is not accepted any more, so the note is saved, and shared, first.
async fn end_login(app: Arc<App>, login: BrowserLogin, now: i64) -> Response {
    let (id, expires) = (login.id, login.claims.expires);
    app.ended_logins.add(&id, expires, now);
    let save_and_share = move || {
        app.ended_logins.save();
        app.ended_logins.tell(&id, expires)
    };
    match tokio::task::spawn_blocking(save_and_share).await {
        Ok(Ok(())) => Json(wire::EmptyBody {}).into_response(),
        Ok(Err(why)) => {
            tracing::warn!("a browser has signed out, and the other nodes do not know it: {why}");
            let sentence =
                "this browser is signed out; until etcd answers, other nodes may accept a copy of its cookie";
            ApiError::new(Code::Unavailable, sentence).retry_after(1).into_response()
        }
        Err(_) => ApiError::from(SubmitError::Stopped).into_response(),
    }
}

/// Refuses the code of one caller to a browser that is signed in as another one: a link could sign a person in as someone
/// else, who then sees what the person does.
fn refuse_other_login(app: &App, headers: &HeaderMap, code: &str) -> ApiResult<()> {
    let current = cookie::cookie(headers, app).and_then(|text| cookie::login(text, app).ok());
    let next = app.login_codes.look_up(code, &app.keyring.login_name(), Instant::now());
    let (Some(BrowserLogin { claims: current, .. }), Some(next)) = (current, next) else { return Ok(()) };
    let identity = |claims: &Claims| {
        (claims.issuer.clone(), claims.subject.clone(), claims.scope, claims.session.clone(), claims.repo.clone())
    };
    if identity(&current) == identity(&next) {
        return Ok(());
    }
    let [current, next] = [current, next].map(|claims| in_words(&claims));
    let sentence = format!("this browser is signed in as {current}, and the code is for {next}; sign out first");
    let mut body = ErrorBody::new(Code::Forbidden, sentence);
    body.more.insert("signedInAs".to_owned(), current.into());
    body.more.insert("signsInAs".to_owned(), next.into());
    Err(body.into())
}

/// "Ana (session ana)", "Ops (admin)", "local (read only)".
fn in_words(claims: &Claims) -> String {
    let name = claims.name.as_ref().unwrap_or(&claims.subject);
    match (&claims.session, claims.scope) {
        (Some(session), _) => format!("{name} (session {session})"),
        (None, Scope::Read) => format!("{name} (read only)"),
        (None, scope) => format!("{name} ({})", scope.as_str()),
    }
}

/// Counts a failed attempt. The answer to too many of them says only that.
fn failed(app: &App, error: ApiError) -> ApiError {
    match app.login_codes.count_failure(Instant::now()) {
        None => error,
        Some(wait) => {
            let sentence = "too many attempts to sign in have failed; try again in a minute";
            ApiError::new(Code::QuotaExceeded, sentence).retry_after(wait.as_secs())
        }
    }
}

/// Refuses the token of a session that has ended, as every other call does.
async fn refuse_ended(app: &App, claims: &Claims) -> ApiResult<()> {
    let Some(session) = claims.session.clone() else { return Ok(()) };
    let repo = choose_repository(app, claims, None)?;
    let caller = Caller { claims: claims.clone(), repo, is_browser_read: true, is_browser: true };
    let ended = move |engine: &crate::engine::Engine, _| engine.session(&session).and_then(|view| view.state);
    if read_state(&caller.repo.desk, Actor::Reader, ended).await?.value.is_some() {
        // As the session itself, so that the answer is the one of every other call; a token issued later opens it again.
        let caller = Caller { is_browser_read: false, ..caller };
        read_state(&caller.repo.desk, caller.look(), |_, _| ()).await?;
    }
    Ok(())
}

fn describe(app: &App, claims: &Claims, may_change: bool) -> wire::Login {
    let repositories: Vec<Text> = match (&claims.repo, claims.scope, app.repositories.only()) {
        (Some(repo), ..) => vec![repo.clone()],
        (None, Scope::Admin, _) => app.repositories.names().cloned().collect(),
        (None, _, only) => only.cloned().into_iter().collect(),
    };
    wire::Login {
        scope: claims.scope.as_str().into(),
        subject: claims.subject.clone(),
        session_id: claims.session.as_ref().map(|id| id.as_str().into()),
        name: claims.name.clone(),
        repositories,
        expires_at: Time(claims.expires.saturating_mul(1000)),
        may_change,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// No cache may keep it.
fn not_stored(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
