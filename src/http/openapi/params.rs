//! Parameters in paths, queries and headers, as the document describes them.
//!
//! The handlers parse them by hand, so that errors have the envelope of the contract. These types are only described.

use utoipa::IntoParams;

use crate::wire::schema::{Key, RequestMode};
use crate::wire::{Encoding, HotspotWindow, Intent, SessionState, Time};

/// The session in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct SessionAt {
    /// A session id.
    #[param(pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
    id: String,
}

/// The entity in a path: the resource URI `KIND://ID`.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct EntityAt {
    /// The kind of entity.
    #[param(pattern = "^[a-z][a-z0-9]{1,31}$", example = "job")]
    kind: String,
    /// The id of the entity in its own system.
    #[param(pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "42")]
    id: String,
}

/// The unlock request in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct RequestAt {
    /// An unlock request, by its `id`.
    #[param(value_type = String, format = "uuid", example = "0d0e9c7e-54ea-4cf6-9d3b-4dd7a7f8b6b1")]
    req_id: String,
}

/// The reservation in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct ReservationAt {
    /// A reservation, by its `reservationId`.
    #[param(pattern = "^res_[0-9a-f]{32}$", example = "res_0198f0a4b5c67d8e9fa0b1c2d3e4f506")]
    reservation_id: String,
}

/// Query parameters of every list that has pages.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct PageParams {
    /// The most items on the page.
    #[param(required = false, minimum = 1, maximum = 1000, example = 100)]
    limit: u64,
    /// `nextCursor` of the previous page.
    #[param(required = false, pattern = "^[0-9]{1,19}$", example = "0")]
    cursor: String,
}

/// Query parameters of `GET /api/sessions`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct SessionQuery {
    /// Only sessions in this state.
    #[param(required = false, inline, example = "active")]
    state: SessionState,
    /// Only sessions that ended at or after this time.
    #[param(required = false, rename = "endedSince", value_type = Time, example = "2026-01-31T09:30:00.250Z")]
    ended_since: String,
}

/// Query parameters of `GET /api/reservations`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct ReservationQuery {
    /// Only keys that start with this text.
    #[param(required = false, example = "src/")]
    prefix: String,
    /// Only reservations of this session.
    #[param(required = false, example = "ana")]
    session: String,
}

/// Query parameters of `GET /api/unlock-requests`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct LimitQuery {
    /// The most requests in the list.
    #[param(required = false, minimum = 1, maximum = 1000, example = 100)]
    limit: u64,
}

/// Query parameters of `GET /api/held`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct HeldQuery {
    /// The session whose reservations are its own. Default: the session of the token.
    #[param(required = false, pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
    session: String,
}

/// Query parameters of `GET /api/events`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct EventParams {
    /// Only events of this session.
    #[param(required = false, pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
    session: String,
    /// Only events about keys that start with this text.
    #[param(required = false, example = "src/")]
    prefix: String,
    /// The events after this one. Default: only new events.
    #[param(required = false, pattern = "^[0-9]{1,19}$", example = "0")]
    after: String,
    /// `1` also sends the event `live`: deadlines and signs of life that changed without a record.
    #[param(required = false, pattern = "^[01]$", example = "0")]
    live: String,
}

/// Query parameters of `GET /api/refusals`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct RefusalQuery {
    /// Only refusals at or after this time.
    #[param(required = false, value_type = Time, example = "2026-01-31T09:30:00.250Z")]
    since: String,
}

/// Query parameters of `GET /api/hotspots`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct HotspotQuery {
    /// How far to look back. Default: an hour.
    #[param(required = false, inline, example = "day")]
    window: HotspotWindow,
}

/// The position of a client that reconnects.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described")]
pub struct LastEvent {
    /// The same as `after`, as browsers send it when they reconnect. It takes precedence.
    #[param(rename = "Last-Event-ID", required = false, pattern = "^[0-9]{1,19}$", example = "42")]
    last_event_id: String,
}

/// Query parameters of `GET /api/history`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct HistoryQuery {
    /// Only events about keys that overlap this one.
    #[param(required = false, value_type = Key, example = "src/a.rs")]
    path: String,
    /// How `path` is written, if not as plain text.
    #[param(required = false, inline, example = "percent")]
    encoding: Encoding,
    /// Only events of this session.
    #[param(required = false, pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
    session: String,
    /// Only events at or after this time.
    #[param(required = false, value_type = Time, example = "2026-01-31T09:30:00.250Z")]
    since: String,
    /// The most items on the page.
    #[param(required = false, minimum = 1, maximum = 1000, example = 100)]
    limit: u64,
    /// `nextCursor` of the previous page.
    #[param(required = false, pattern = "^[1-9][0-9]{0,18}(-[0-9a-f]{40})?$", example = "42")]
    cursor: String,
}

/// The paths and options of a check in a URL.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct Paths {
    /// Keys, separated by commas. Either this or `path` is required.
    #[param(required = false, style = Form, explode = false, value_type = Vec<Key>, example = json!(["src/a.rs", "src/b.rs"]))]
    paths: Vec<String>,
    /// One key, which may contain commas. Repeat the parameter for more.
    #[param(required = false, style = Form, explode = true, value_type = Vec<Key>, example = json!(["docs/a,b.md"]))]
    path: Vec<String>,
    /// The mode in which they would be held. Default: exclusive.
    #[param(required = false, inline, value_type = RequestMode, example = "shared")]
    mode: String,
    /// What the caller is about to do. With it, `mode` is ignored; without it, the check is for a reservation in `mode`.
    #[param(required = false, inline, example = "change")]
    intent: Intent,
    /// How the file names are written, if not as plain text.
    #[param(required = false, inline, example = "percent")]
    encoding: Encoding,
}

/// A file of the pages.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct PartAt {
    /// The directory that the page names. Another version of the server has another one.
    #[param(pattern = "^[0-9a-f]{16}$", example = "0123456789abcdef")]
    directory: String,
    /// Its file name.
    #[param(example = "app.js")]
    file: String,
}
