//! `/mcp`: the tools of [`tools`](crate::tools) over HTTP, as MCP's streamable transport has it.
//!
//! One POST is one message. A call that waits is answered with a stream, every other one with JSON. Nothing is kept
//! between two messages: a client of the older generation gets a session id from `initialize`, which only tells the
//! requests of two clients with the same token apart when one of them cancels a wait. The caller is the session of the
//! token, as in every call; an admin or a worker names the session with `?session=`.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request as HttpRequest, State};
use axum::response::{IntoResponse, Response};
use hashbrown::HashMap;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::{mcp_calls, mcp_stream};
use crate::http::app::App;
use crate::http::byte_budget::BytePermit;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{query_values, read_body};
use crate::http::ids::new_id;
use crate::tools::protocol::{self, Action, Generation};
use crate::tools::rpc::{self, Message, Notification, Request, RpcError};
use crate::tools::{self, Aside, MESSAGE_BYTES_MAX, ToolError, ToolUse};
use crate::wire::Time;

pub const MCP_PATH: &str = "/mcp";

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// One message of a client.
pub async fn post(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    let (mut parts, body) = request.into_parts();
    // Before the body, which is not read for a client without a valid token.
    let (caller, session) = match caller(&mut parts, &app).await {
        Ok(caller) => caller,
        Err(error) => return refusal(error),
    };
    let headers = parts.headers.clone();
    let (bytes, permit) = match read_body(HttpRequest::from_parts(parts, body), &app, MESSAGE_BYTES_MAX).await {
        Ok(read) => read,
        Err(error) => return refusal(error),
    };
    let read = rpc::read(&bytes);
    drop(bytes);
    match read {
        Ok(Message::Request(request)) => answer(app, caller, session, &headers, request, permit).await,
        Ok(Message::Notification(notification)) => {
            app.tool_waits.cancel(&caller, &headers, &notification);
            StatusCode::ACCEPTED.into_response()
        }
        Ok(Message::Reply) => StatusCode::ACCEPTED.into_response(),
        Err(reply) => message(StatusCode::BAD_REQUEST, &reply),
    }
}

/// There is no stream of messages from the server, and nothing to end.
pub async fn other_method() -> Response {
    let error = RpcError::new(rpc::REFUSED, "/mcp takes messages by POST alone");
    let mut response = message(StatusCode::METHOD_NOT_ALLOWED, &rpc::error_reply(&Value::Null, &error));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// The caller, and the session that it acts for.
async fn caller(parts: &mut http::request::Parts, app: &Arc<App>) -> ApiResult<(Caller, Option<String>)> {
    let caller = Caller::from_request_parts(parts, app).await?;
    let own = caller.claims.session.as_ref().map(|session| session.as_str().to_owned());
    let session = query_values(parts, "session")?.pop().or(own);
    Ok((caller, session))
}

async fn answer(
    app: Arc<App>,
    caller: Caller,
    session: Option<String>,
    headers: &HeaderMap,
    request: Request,
    permit: BytePermit,
) -> Response {
    if let Err(error) = check_headers(headers, &request) {
        return message(StatusCode::BAD_REQUEST, &request.error(&error));
    }
    match protocol::answer(&request, &tools::instructions()) {
        Ok(Action::Reply(result)) => {
            let mut response = message(StatusCode::OK, &request.result(result));
            if request.method == "initialize" {
                let id = HeaderValue::from_str(&new_id().simple().to_string()).expect("hex digits fit a header");
                response.headers_mut().insert(SESSION_HEADER, id);
            }
            response
        }
        Ok(Action::Use(tool_use)) => {
            // A call may wait for minutes. What it needs of the message is read by now, and the rest goes.
            let request = Request { params: Map::new(), ..request };
            use_tool(app, caller, session, headers, request, tool_use, permit).await
        }
        Err(error) => message(status_of(&request, &error), &request.error(&error)),
    }
}

async fn use_tool(
    app: Arc<App>,
    caller: Caller,
    session: Option<String>,
    headers: &HeaderMap,
    request: Request,
    tool_use: ToolUse,
    permit: BytePermit,
) -> Response {
    let Ok(mut call) = tool_use.call.clone() else {
        return message(StatusCode::OK, &request.result(tool_use.failed("")));
    };
    call.hold_while_session();
    // As in every call that names a session: the token must be allowed to act for it.
    let session = tool_use.session.clone().or(session);
    let waits = call.wait_seconds() > 0;
    let key = wait_key(&caller, headers, &request.id);
    let made = mcp_calls::make(app.clone(), caller, session.clone(), call);
    let finish = move |app: &App, request: &Request, reply: ApiResult<_>| -> Result<Value, ApiError> {
        let reply = match reply {
            Ok(reply) => Ok(reply),
            Err(error) => Err(ToolError::Refused(Box::new(error.into_body()?))),
        };
        let now = Time((app.wall_clock)() * 1000);
        Ok(request.result(tool_use.result(session.as_deref(), reply, Aside::default(), now)))
    };
    if !waits {
        return match finish(&app, &request, made.await) {
            Ok(result) => message(StatusCode::OK, &result),
            Err(error) => error.into_response(),
        };
    }
    // The keys of a call that waits are counted for themselves; see `reserve`.
    drop(permit);
    let waiting = async move {
        let under_way = app.tool_waits.begin(key);
        tokio::select! {
            reply = made => finish(&app, &request, reply).ok(),
            () = under_way.cancelled() => None,
        }
    };
    if accepts_stream(headers) {
        return mcp_stream::response(Box::pin(waiting));
    }
    match waiting.await {
        Some(result) => message(StatusCode::OK, &result),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// What the newer generation repeats in headers must be what the message says.
fn check_headers(headers: &HeaderMap, request: &Request) -> Result<(), RpcError> {
    let mismatch = |what: String| Err(RpcError::new(rpc::HEADER_MISMATCH, what));
    let header = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let (version, named) = (header(&VERSION_HEADER), protocol::named_version(request));
    if request.method == "initialize" {
        return Ok(());
    }
    match (version, named) {
        (Some(version), None) if !protocol::is_known_version(version) => return Err(protocol::unsupported(version)),
        (version, Some(named)) if version != Some(named) => {
            return mismatch(format!("the header {VERSION_HEADER} must be the version in the message"));
        }
        _ => {}
    }
    if !version.is_some_and(protocol::repeats_method_in_headers) {
        return Ok(());
    }
    if header(&METHOD_HEADER) != Some(&*request.method) {
        return mismatch(format!("the header {METHOD_HEADER} must be the method of the message"));
    }
    let tool = request.params.get("name").and_then(Value::as_str).filter(|_| request.method == "tools/call");
    if tool.is_some() && header(&NAME_HEADER) != tool {
        return mismatch(format!("the header {NAME_HEADER} must be the name of the tool"));
    }
    Ok(())
}

/// The status of an error. In the older generation an error of a request is a normal response.
fn status_of(request: &Request, error: &RpcError) -> StatusCode {
    let is_new = !matches!(Generation::of(request), Ok(Generation::Handshake));
    match error.code {
        _ if !is_new => StatusCode::OK,
        rpc::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        rpc::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        rpc::INVALID_PARAMS if Generation::of(request).is_err() => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn accepts_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/event-stream"))
}

fn message(status: StatusCode, message: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], message.to_string()).into_response()
}

/// A refusal of the server, with its status and headers, in the form of the protocol.
fn refusal(error: ApiError) -> Response {
    let data = json!({ "code": error.code() });
    let reply = RpcError { data: Some(data), ..RpcError::new(rpc::REFUSED, error.sentence()) };
    let reply = rpc::error_reply(&Value::Null, &reply);
    error.into_response().map(|_| Body::from(reply.to_string()))
}

/// The tool calls that wait in a queue, so that a notification can cancel one. Each has its connection, whose number is
/// limited.
#[derive(Default)]
pub struct ToolWaits(Mutex<HashMap<WaitKey, Arc<Notify>>>);

/// The subject of the token, the session id that `initialize` gave out, and the id of the request.
type WaitKey = (String, String, String);

fn wait_key(caller: &Caller, headers: &HeaderMap, id: &Value) -> WaitKey {
    let session = headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    (caller.claims.subject.to_string(), session.to_owned(), id.to_string())
}

impl ToolWaits {
    fn begin(&self, key: WaitKey) -> UnderWay<'_> {
        let notify = Arc::new(Notify::new());
        self.lock().insert(key.clone(), notify.clone());
        UnderWay { waits: self, key, notify }
    }

    fn cancel(&self, caller: &Caller, headers: &HeaderMap, notification: &Notification) {
        let Some(id) = protocol::cancelled_request(notification) else { return };
        if let Some(notify) = self.lock().get(&wait_key(caller, headers, id)) {
            notify.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WaitKey, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// One of them, until it is dropped.
struct UnderWay<'a> {
    waits: &'a ToolWaits,
    key: WaitKey,
    notify: Arc<Notify>,
}

impl UnderWay<'_> {
    async fn cancelled(&self) {
        self.notify.notified().await;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut waits = self.waits.lock();
        // A later request with the same id has replaced it.
        if waits.get(&self.key).is_some_and(|notify| Arc::ptr_eq(notify, &self.notify)) {
            waits.remove(&self.key);
        }
    }
}
