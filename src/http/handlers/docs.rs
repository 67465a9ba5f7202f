//! The published document at `/openapi.json`, and the page at `/docs` that shows it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

use crate::http::app::App;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json};
use crate::http::openapi::{self, page, params, refusals};
use crate::wire::Code;

/// The page may load its own parts and the document, nothing from elsewhere, and may not be shown in a frame.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Redirect to the documentation.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "frontDoor",
    tag = "Documents",
    responses((status = 307, description = "The page that explains the calls.", headers(("location" = String, description = "`/docs`."))), refusals::NoToken),
    security(()),
)]
pub async fn redirect_to_docs() -> Redirect {
    Redirect::temporary("/docs")
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getDocument",
    tag = "Documents",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), refusals::NoToken),
    security(()),
)]
pub async fn document(State(app): State<Arc<App>>) -> Response {
    ([(CACHE_CONTROL, "no-cache")], Json(openapi::document(&app))).into_response()
}

/// This document as a page for people.
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "getPage",
    tag = "Documents",
    responses((status = 200, description = "A page that loads nothing from other servers.", body = String, content_type = "text/html"), refusals::NoToken),
    security(()),
)]
pub async fn docs_page() -> Response {
    file_response(&page::PAGE)
}

/// A file of that page.
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
pub async fn docs_file(At(name): At<String>) -> ApiResult<Response> {
    let file = page::PAGE_FILES.iter().find(|file| file.name == name);
    let missing = || ApiError::new(Code::NotFound, "the page has no such file");
    file.map(file_response).ok_or_else(missing)
}

fn file_response(file: &page::PageFile) -> Response {
    let headers = [
        (CONTENT_TYPE, file.content_type),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, file.text).into_response()
}
