//! Replies to the most frequent requests without hyper and axum, which take more time than all the rest.
//!
//! A connection begins here. As long as each request is a plain one that reserves, releases or renews a key, or a heartbeat,
//! its handler is called directly. Everything else goes to hyper with the bytes that were read, and the connection stays there:
//! [`QuickCalls::begin`] has done nothing by then that hyper's way does not do again. So errors are written in one place only.

mod plain_request;
mod reply;

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::app::App;
use super::byte_budget::BytePermit;
use super::caller::Caller;
use super::error::{ApiResult, CloseWithoutReply};
use super::extract::{At, Json, LargeJson};
use super::handlers::{release, renew, reserve, sessions};
use super::middleware::host_check::HostCheck;
use super::middleware::{reply_room, request_id};
use crate::desk::logs_decisions;
use crate::engine::SessionId;
use crate::wire;
use plain_request::PlainRequest;
use reply::{bytes_of, json_response};

/// The longest request that is looked at here, in bytes. Longer ones are left to hyper.
pub const QUICK_BYTES_MAX: usize = 4 * 1024;

/// A call that is being carried out. Without a reply, the connection is to be closed.
pub type QuickCall = Pin<Box<dyn Future<Output = Option<QuickReply>> + Send>>;

/// The bytes of a reply, and its share of the budget for large replies, which is kept until they are sent.
pub struct QuickReply {
    pub bytes: Vec<u8>,
    _permit: BytePermit,
}

/// The calls that one listener answers here.
#[derive(Clone)]
pub struct QuickCalls {
    app: Arc<App>,
    host_check: HostCheck,
}

impl QuickCalls {
    pub fn new(app: Arc<App>, host_check: HostCheck) -> Self {
        Self { app, host_check }
    }

    /// The call that these bytes ask for, if they are one plain request which hyper's way would pass on to its handler.
    pub fn begin(&self, bytes: &[u8]) -> Option<QuickCall> {
        let request = PlainRequest::read(bytes)?;
        let is_accepted = match request.hop {
            None => self.host_check.accepts(request.host, &self.app.hosts()),
            // Another node has checked the host.
            Some(hop) => self.app.forwarder.as_ref()?.is_hop(&Method::POST, request.path, hop),
        };
        // A line of the decision log has the id of its request, which the layer around the router sets.
        if !is_accepted || logs_decisions() || self.app.is_stopping() {
            return None;
        }
        match request.call {
            "files/reserve" => {
                self.call(&request, "/api/sessions/{id}/files/reserve", |app, caller, At(id), body| async move {
                    reserve::reserve_keys(app, caller, &id, body, BytePermit::default()).await.map(Json)
                })
            }
            "files/release" => self.call(&request, "/api/sessions/{id}/files/release", |app, caller, id, body| {
                release::release(State(app), caller, id, LargeJson(body, BytePermit::default()))
            }),
            "files/renew" => self.call(&request, "/api/sessions/{id}/files/renew", |app, caller, id, body| {
                renew::renew(State(app), caller, id, LargeJson(body, BytePermit::default()))
            }),
            "heartbeat" => self.call(&request, "/api/sessions/{id}/heartbeat", |_, caller, id, body| {
                sessions::heartbeat(caller, id, Json(body))
            }),
            _ => None,
        }
    }

    /// Reads the body, finds out who calls, and prepares the call of the handler.
    fn call<B, R, F>(
        &self,
        request: &PlainRequest<'_>,
        route: &'static str,
        handler: impl FnOnce(Arc<App>, Caller, At<String>, B) -> F,
    ) -> Option<QuickCall>
    where
        B: DeserializeOwned,
        R: Serialize + Send,
        F: Future<Output = ApiResult<Json<R>>> + Send + 'static,
    {
        let app = self.app.clone();
        let (body_bytes, check_paths_max) = (app.limits().body_bytes, app.limits().keys_per_check);
        if request.body.len() > body_bytes {
            return None;
        }
        let body = wire::read_limited(request.body, check_paths_max).ok()?;
        let now = (app.wall_clock)();
        let caller = Caller::of_plain_request(&app, request.token, &SessionId::parse(request.session)?, now)?;
        let owner = caller.claims.subject.clone();
        let request_id = request_id::usable(request.request_id).map_or_else(request_id::new, str::to_owned);
        let result = handler(app.clone(), caller, At(request.session.to_owned()), body);
        Some(Box::pin(async move {
            let counted = app.requests.begin(Some(route), &Method::POST);
            let (bytes, status) = match result.await {
                Ok(Json(body)) => {
                    let json = serde_json::to_vec(&body).expect("replies are plain data");
                    let response = json_response(&json, &request_id, &app);
                    (response, StatusCode::OK)
                }
                Err(error) => {
                    let response = error.into_response();
                    let status = response.status();
                    if response.extensions().get::<CloseWithoutReply>().is_some() {
                        counted.end(status);
                        return None;
                    }
                    (bytes_of(response, &request_id, &app).await, status)
                }
            };
            counted.end(status);
            // Something may have changed, so there is no other reply if there is no room for this one.
            let permit = reply_room::room_for(&app, &owner, bytes.len()).await?;
            Some(QuickReply { bytes, _permit: permit })
        }))
    }
}
