//! Calls about the objects of Git LFS, which this server does not store: a client is sent on to the server that does.

use axum::extract::{MatchedPath, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use std::sync::Arc;

use super::repository_in_path;
use crate::http::app::App;
use crate::http::extract::Json;
use crate::wire::lfs::LfsError;

/// Redirects with 307: the client repeats the same request there, with its body, and with credentials for that host. Our
/// token goes nowhere else, and no object passes through here.
pub async fn forward(State(app): State<Arc<App>>, request: Request) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let (path, named) = (request.uri().path(), repository_in_path(route, request.uri().path()));
    // The setting is the same for all repositories, and the reply does not tell whether there is one of this name.
    let forward = app.repositories.open().next().and_then(|repo| repo.policy().lfs.forward.clone());
    let only = app.repositories.only().map(|name| &**name);
    let target = forward.and_then(|forward| {
        let base = forward.replace("{repo}", named.or(only).unwrap_or_default());
        let call = path.split_once("/objects/")?.1;
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        HeaderValue::from_str(&format!("{}/objects/{call}{query}", base.trim_end_matches('/'))).ok()
    });
    match target {
        Some(target) => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, target)]).into_response(),
        None => {
            let message = "this server keeps the locks of Git LFS, and no objects; its operator can name the server that \
                           stores them: forward in [lfs]";
            let error = LfsError { message: message.to_owned(), ..LfsError::default() };
            (StatusCode::NOT_IMPLEMENTED, Json(error)).into_response()
        }
    }
}
