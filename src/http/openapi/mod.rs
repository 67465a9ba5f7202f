//! The published OpenAPI document, at `/openapi.json`. The page at `/docs` shows it.
//!
//! The document is made from the descriptions at the handlers and the types in [`wire`](crate::wire), so no route can be
//! missing. [`finish`] adds what those cannot express: what is the same for every call, which fields exclude each other,
//! examples. The tests compare the result with `fixtures/openapi.json`.

mod examples;
mod finish;
pub mod params;
pub mod refusals;

use std::sync::LazyLock;

use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::app::App;
use super::router::routes;
use crate::wire;

/// The document without the parts that depend on the configuration.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| finish::finish(routes().into_openapi()));

/// Title, tags and security of the document.
pub fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

/// The whole document, with the bounds of this server.
pub fn document(app: &App) -> Value {
    let mut document = DOCUMENT.clone();
    finish::set_bounds(&mut document, app);
    document
}

#[derive(OpenApi)]
#[openapi(
    info(title = "git-dibs", description = "File reservations for repositories that many worker sessions share."),
    servers((url = "/", description = "This server.")),
    tags(
        (name = "Files", description = "The worker protocol: reserve, release, renew, check."),
        (name = "Entities", description = "Locks on things of another system, such as jobs and merge requests."),
        (name = "Ports", description = "Ports that no other session has."),
        (name = "Sessions", description = "The workers that reserve: create, list, heartbeat, end."),
        (name = "Pushes", description = "Announce a push, so that a git server knows which session it comes from."),
        (name = "Unlock requests", description = "Ask a holder to release a key."),
        (name = "Monitoring and administration", description = "All reservations, overrides, events, history, statistics, health."),
        (name = "Dashboard", description = "How a browser signs in to the page at `/`."),
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
            repositories), `scope` (`session`, the default, `worker`, `read` or `admin`), and optional `sid`, \
            `name`, `feature`, `nbf`, `iat`, `iss`, `aud`. A session token acts for its own session only; `read` may read \
            and check; `admin` may do anything in its repository.";
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").description(Some(about));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}
