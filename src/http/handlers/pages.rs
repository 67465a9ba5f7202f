//! The dashboard at `/`, the page at `/docs`, and the files that they load.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::At;
use crate::http::openapi::{params, refusals};
use crate::http::web::{SITE, WebFile};
use crate::wire::Code;

/// A page may load what this server has, nothing from elsewhere, and may not be shown in a frame.
const POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The name of a file's directory depends on the contents, so they never change.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The dashboard.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "getDashboard",
    tag = "Documents",
    responses((status = 200, description = "A page that loads nothing from other servers.", body = String, content_type = "text/html"), refusals::NoToken),
    security(()),
)]
pub async fn dashboard(headers: HeaderMap) -> Response {
    page("index.html", &headers)
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
pub async fn docs(headers: HeaderMap) -> Response {
    page("docs.html", &headers)
}

/// A file of these pages.
#[utoipa::path(
    get,
    path = "/assets/{directory}/{file}",
    operation_id = "getPagePart",
    tag = "Documents",
    params(params::PartAt),
    responses(
        (status = 200, description = "The file. It never changes.", content((String = "text/javascript"), (String = "text/css"))),
        refusals::NoSuchFile,
    ),
    security(()),
)]
pub async fn file(At((directory, name)): At<(String, String)>, headers: HeaderMap) -> ApiResult<Response> {
    let found = SITE.file(&name).filter(|_| directory == SITE.directory);
    let missing = || ApiError::new(Code::NotFound, "the page has no such file; load the page again");
    Ok(send(found.ok_or_else(missing)?, &headers, FOR_EVER))
}

fn page(name: &str, headers: &HeaderMap) -> Response {
    let file = SITE.page(name);
    let tag = HeaderValue::from_str(&file.tag).expect("a tag is ASCII");
    let mut response = match headers.get(IF_NONE_MATCH) {
        Some(known) if *known == tag => StatusCode::NOT_MODIFIED.into_response(),
        _ => send(file, headers, "no-cache"),
    };
    response.headers_mut().insert(ETAG, tag);
    response
}

fn send(file: &WebFile, headers: &HeaderMap, cache: &'static str) -> Response {
    let fields: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, file.content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, cache),
        (VARY, "accept-encoding"),
    ];
    match accepts_gzip(headers) {
        true => (fields, [(CONTENT_ENCODING, "gzip")], Bytes::clone(&file.gzip)).into_response(),
        false => (fields, Bytes::clone(&file.plain)).into_response(),
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}
