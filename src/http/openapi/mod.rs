//! The API described for programs, at `/openapi.json`, and for people, at `/docs`.
//!
//! The document is made from the handlers' own descriptions and the types in [`wire`](crate::wire), so a route cannot
//! be missing in it. [`finish`] adds what those cannot say: what holds for every call, which fields exclude each
//! other, examples. `fixtures/openapi.json` is what it came to; the tests compare.

mod examples;
mod finish;
pub mod page;
pub mod params;
pub mod refusals;

use std::sync::LazyLock;

use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::app::App;
use super::router::routes;
use crate::wire;

/// The document without the parts that depend on how the server was started.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| finish::finish(routes().into_openapi()));

/// What the document says before it comes to the calls.
pub fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

/// The whole document, with the bounds of this server.
pub fn document(app: &App) -> Value {
    let mut document = DOCUMENT.clone();
    finish::tell_bounds(&mut document, app);
    document
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
