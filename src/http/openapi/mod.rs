//! The API described for programs, at `/openapi.json`, and for people, at `/docs`.
//!
//! The document is made from the handlers' own descriptions and the types in [`wire`](crate::wire), so a route cannot
//! be missing in it. [`finish`] adds what those cannot say: what holds for every call, which fields exclude each
//! other, examples. `fixtures/openapi.json` is what it came to; the tests compare.

mod examples;
mod finish;
mod page;
pub mod params;
pub mod refusals;
pub mod shapes;

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::http::app::App;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json};
use crate::wire::{self, Code};

/// The page loads its own parts and the document, talks to nobody else, and is shown in nobody else's frame.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The document without the parts that depend on how the server was started.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| finish::finish(super::calls().into_openapi()));

/// What the document says before it comes to the calls.
pub fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

/// Where `/` leads.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "frontDoor",
    tag = "Documents",
    responses((status = 307, description = "To the page that explains the calls.", headers(("location" = String, description = "`/docs`."))), refusals::Anybody),
    security(()),
)]
pub async fn front_door() -> Redirect {
    Redirect::temporary("/docs")
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getDocument",
    tag = "Documents",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), refusals::Anybody),
    security(()),
)]
pub async fn document(State(app): State<Arc<App>>) -> Response {
    let mut document = DOCUMENT.clone();
    finish::tell_bounds(&mut document, &app);
    ([(CACHE_CONTROL, "no-cache")], Json(document)).into_response()
}

/// This document, for people.
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "getPage",
    tag = "Documents",
    responses((status = 200, description = "A page that needs nothing from elsewhere.", body = String, content_type = "text/html"), refusals::Anybody),
    security(()),
)]
pub async fn page() -> Response {
    served(&page::PAGE)
}

/// A part of the page.
#[utoipa::path(
    get,
    path = "/docs/{file}",
    operation_id = "getPagePart",
    tag = "Documents",
    params(params::PartAt),
    responses(
        (status = 200, description = "The file.", content((String = "text/javascript"), (String = "text/css"))),
        refusals::NoSuchFile,
    ),
    security(()),
)]
pub async fn part(At(file): At<String>) -> ApiResult<Response> {
    let part = page::PARTS.iter().find(|part| part.name == file);
    let missing = || ApiError::new(Code::NotFound, "the page has no such part");
    part.map(served).ok_or_else(missing)
}

fn served(part: &page::Part) -> Response {
    let headers = [
        (CONTENT_TYPE, part.content_type),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, part.text).into_response()
}

#[derive(OpenApi)]
#[openapi(
    info(title = "git-dibs", description = "File reservations for repositories that many worker sessions share."),
    servers((url = "/", description = "This server.")),
    tags(
        (name = "Files", description = "The worker protocol: reserve, release, renew, check."),
        (name = "Sessions", description = "Who reserves: made, seen, kept alive, ended."),
        (name = "Unlock requests", description = "Asking a holder to let go."),
        (name = "Looking and operating", description = "Everything held, overrides, figures, health."),
        (name = "Documents", description = "This document, for programs and for people."),
    ),
    components(schemas(wire::ErrorBody, wire::Event, wire::Reset, wire::Notices)),
    security(("token" = [])),
    modifiers(&Tokens),
)]
struct Head;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let about = "A JWT. Claims: `sub` (the session), `exp` (required), `repo` (required where the server has several \
            repositories), `scope` (`session` where nothing is said, `worker`, `read` or `admin`), and optional `sid`, \
            `name`, `feature`, `nbf`, `iat`, `iss`, `aud`. A session token acts for its own session only; `read` may look \
            and check; `admin` may do anything in its repository.";
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").description(Some(about));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}
