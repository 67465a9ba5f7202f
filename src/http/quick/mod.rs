//! Replies to the most frequent requests without hyper and axum, which take more time than all the rest.
//!
//! A connection begins here. As long as each request is a plain one that reserves, releases or renews a key, or a heartbeat,
//! its handler is called directly. Everything else goes to hyper with the bytes that were read, and the connection stays there:
//! [`QuickCalls::begin`] has done nothing by then that hyper's way does not do again. So errors are written in one place only.
//! In a cluster, a node that does not lead sends these requests to the leader, on one connection for all of its clients.

mod plain_request;
mod reply;

use std::future::Ready;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::app::App;
use super::byte_budget::BytePermit;
use super::caller::{Caller, repository_led_elsewhere};
use super::error::{ApiResult, CloseWithoutReply};
use super::extract::{At, Json, LargeJson};
use super::forward::{Forwarder, QuickSendError, STATUS_AT};
use super::handlers::{release, renew, reserve, sessions};
use super::middleware::host_check::HostCheck;
use super::middleware::{reply_room, request_id};
use crate::desk::logs_decisions;
use crate::engine::{SessionId, Text};
use crate::wire;
use plain_request::{NotPlain, PlainRequest};
use reply::{bytes_of, json_response};

/// The longest request that is looked at here, in bytes. Longer ones are left to hyper.
pub const QUICK_BYTES_MAX: usize = 4 * 1024;

/// A call that is being carried out.
pub type QuickCall = Pin<Box<dyn Future<Output = QuickEnd> + Send>>;

/// How a call ends.
pub enum QuickEnd {
    Reply(QuickReply),
    /// Nothing was done. The request is for hyper.
    HandOver(Vec<u8>),
    /// The connection is to be closed without a reply.
    Close,
}

/// The first of several requests that follow each other.
pub enum FirstCall {
    Call {
        call: QuickCall,
        /// What the other node wants to recognise the reply by.
        tag: String,
        /// The length of the request.
        length: usize,
    },
    /// A part of a request.
    Incomplete,
    Other,
}

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
        // A tag belongs to requests of nodes.
        let request = PlainRequest::read(bytes).filter(|request| request.tag.is_none())?;
        self.begin_request(&request, bytes)
    }

    /// The first call of a node that sends one request after the other.
    pub fn begin_first(&self, bytes: &[u8]) -> FirstCall {
        match PlainRequest::read_first(bytes) {
            Ok((request, rest)) => {
                let length = bytes.len() - rest.len();
                let (Some(_), Some(tag)) = (request.hop, request.tag) else { return FirstCall::Other };
                let call = self.begin_request(&request, &bytes[..length]);
                call.map_or(FirstCall::Other, |call| FirstCall::Call { call, tag: tag.to_owned(), length })
            }
            Err(NotPlain::Incomplete) => FirstCall::Incomplete,
            Err(NotPlain::Other) => FirstCall::Other,
        }
    }

    /// Whether the bytes begin as a plain request of another node that does not wait for each reply. It may be incomplete.
    pub fn is_from_node(&self, bytes: &[u8]) -> bool {
        let (Some(forwarder), Some((path, hop))) = (&self.app.forwarder, plain_request::path_and_hop(bytes)) else {
            return false;
        };
        forwarder.is_hop(&Method::POST, path, hop)
    }

    fn begin_request(&self, request: &PlainRequest<'_>, bytes: &[u8]) -> Option<QuickCall> {
        let is_accepted = match request.hop {
            None => self.host_check.accepts(request.host, &self.app.hosts()),
            // Another node has checked the host.
            Some(hop) => self.app.forwarder.as_ref()?.is_hop(&Method::POST, request.path, hop),
        };
        // A line of the decision log has the id of its request, which the layer around the router sets.
        if !is_accepted || logs_decisions() || self.app.is_stopping() {
            return None;
        }
        let route = match request.call {
            "files/reserve" => "/api/sessions/{id}/files/reserve",
            "files/release" => "/api/sessions/{id}/files/release",
            "files/renew" => "/api/sessions/{id}/files/renew",
            "heartbeat" => "/api/sessions/{id}/heartbeat",
            _ => return None,
        };
        if let Some(forwarder) = self.app.forwarder.as_ref().filter(|_| request.hop.is_none())
            && let Some(repository) = repository_led_elsewhere(&self.app, request.token)
        {
            return forward(forwarder, repository, request, route, bytes, &self.app);
        }
        match request.call {
            "files/reserve" => {
                self.call(request, route, reserve::reserve_plain_key, |app, caller, At(id), body| async move {
                    reserve::reserve_keys(app, caller, &id, body, BytePermit::default()).await.map(Json)
                })
            }
            "files/release" => self.call(request, route, release::release_plain_key, |app, caller, id, body| {
                release::release(State(app), caller, id, LargeJson(body, BytePermit::default()))
            }),
            "files/renew" => self.call(request, route, not_plain, |app, caller, id, body| {
                renew::renew(State(app), caller, id, LargeJson(body, BytePermit::default()))
            }),
            _ => {
                self.call(request, route, not_plain, |_, caller, id, body| sessions::heartbeat(caller, id, Json(body)))
            }
        }
    }

    /// Reads the body, finds out who calls, and prepares the call: with `plain`, whose future is small, or with the handler.
    fn call<B, P, PF, H, HF>(
        &self,
        request: &PlainRequest<'_>,
        route: &'static str,
        plain: impl FnOnce(&Caller, &str, &B) -> Option<PF>,
        handler: impl FnOnce(Arc<App>, Caller, At<String>, B) -> HF,
    ) -> Option<QuickCall>
    where
        B: DeserializeOwned,
        P: Serialize + Send + 'static,
        PF: Future<Output = ApiResult<Json<P>>> + Send + 'static,
        H: Serialize + Send + 'static,
        HF: Future<Output = ApiResult<Json<H>>> + Send + 'static,
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
        if let Some(result) = plain(&caller, request.session, &body) {
            return Some(Box::pin(answer(app, route, request_id, owner, result)));
        }
        let result = handler(app.clone(), caller, At(request.session.to_owned()), body);
        Some(Box::pin(answer(app, route, request_id, owner, result)))
    }
}

/// For calls that have nothing but a handler.
fn not_plain<B>(_: &Caller, _: &str, _: &B) -> Option<Ready<ApiResult<Json<()>>>> {
    None
}

/// Writes the result of a call as the bytes of a reply.
async fn answer<R: Serialize + Send>(
    app: Arc<App>,
    route: &'static str,
    request_id: String,
    owner: Text,
    result: impl Future<Output = ApiResult<Json<R>>> + Send,
) -> QuickEnd {
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
                return QuickEnd::Close;
            }
            // Boxed, so that it does not make every call larger.
            (Box::pin(bytes_of(response, &request_id, &app)).await, status)
        }
    };
    counted.end(status);
    let permit = match reply_room::counts(bytes.len()) {
        true => Box::pin(reply_room::room_for(&app, &owner, bytes.len())).await,
        false => Some(BytePermit::default()),
    };
    // Something may have changed, so there is no other reply if there is no room for this one.
    permit.map_or(QuickEnd::Close, |permit| QuickEnd::Reply(QuickReply { bytes, _permit: permit }))
}

/// Sends the request to the leader; none if it is not for the connection that all clients share.
fn forward(
    forwarder: &Forwarder,
    repository: Text,
    request: &PlainRequest<'_>,
    route: &'static str,
    bytes: &[u8],
    app: &Arc<App>,
) -> Option<QuickCall> {
    if !request.is_answered_at_once() {
        return None;
    }
    let path = request.path.to_owned();
    let sending = forwarder.send_quick(&repository, &path, bytes)?;
    let (app, bytes) = (app.clone(), bytes.to_vec());
    Some(Box::pin(async move {
        let mut response = sending.wait().await;
        // The connection was closed before the request was sent, and the next one is new.
        if response == Err(QuickSendError::NotSent)
            && let Some(again) = app.forwarder.as_ref().and_then(|to| to.send_quick(&repository, &path, &bytes))
        {
            response = again.wait().await;
        }
        match response {
            Ok(reply) => {
                let status = StatusCode::from_bytes(&reply[STATUS_AT]).unwrap_or(StatusCode::OK);
                app.requests.begin(Some(route), &Method::POST).end(status);
                QuickEnd::Reply(QuickReply { bytes: reply, _permit: BytePermit::default() })
            }
            Err(QuickSendError::NotSent) => QuickEnd::HandOver(bytes),
            Err(QuickSendError::Unknown) => QuickEnd::Close,
        }
    }))
}
