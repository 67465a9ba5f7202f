//! The variable parts of paths and queries, as the document describes them. Handlers read them by hand, because they
//! complain in our own words; these shapes are only ever described.

use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::wire::schema::{Key, RequestMode};
use crate::wire::{Encoding, Intent, SessionState, Time};

/// The session in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct SessionAt {
    /// A session id.
    #[param(pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
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

/// Which part of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct Page {
    /// The most to list.
    #[param(required = false, minimum = 1, maximum = 1000, example = 100)]
    limit: u64,
    /// Where to go on: `nextCursor` of the page before.
    #[param(required = false, pattern = "^[0-9]{1,19}$", example = "0")]
    cursor: String,
}

/// Which sessions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct Sessions {
    /// Only those that stand so.
    #[param(required = false, inline, example = "active")]
    state: SessionState,
}

/// Which reservations.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct Reservations {
    /// Only keys that begin so.
    #[param(required = false, example = "src/")]
    prefix: String,
    /// Only those of this session.
    #[param(required = false, example = "ana")]
    session: String,
}

/// Which events, and from where on.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct Following {
    /// Only what is about this session.
    #[param(required = false, pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
    session: String,
    /// Only what is about keys that begin so.
    #[param(required = false, example = "src/")]
    prefix: String,
    /// The events after this one; from now on where nothing is said.
    #[param(required = false, pattern = "^[0-9]{1,19}$", example = "0")]
    after: String,
}

/// Where a follower was.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described")]
pub struct LastEvent {
    /// The same as `after`, as browsers send it when they come back; goes before it.
    #[param(rename = "Last-Event-ID", required = false, pattern = "^[0-9]{1,19}$", example = "42")]
    last_event_id: String,
}

/// Which part of the history.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct History {
    /// Only what is about this key, or about one that covers it.
    #[param(required = false, value_type = Key, example = "src/a.rs")]
    path: String,
    /// How `path` is written.
    #[param(required = false, inline, example = "percent")]
    encoding: Encoding,
    /// Only what this session did.
    #[param(required = false, pattern = "^[A-Za-z0-9_.-]{1,128}$", example = "ana")]
    session: String,
    /// Only what happened since.
    #[param(required = false, value_type = Time, example = "2026-01-31T09:30:00.250Z")]
    since: String,
    /// The most to list.
    #[param(required = false, minimum = 1, maximum = 1000, example = 100)]
    limit: u64,
    /// Where to go on: `nextCursor` of the page before.
    #[param(required = false, pattern = "^[1-9][0-9]{0,18}(-[0-9a-f]{40})?$", example = "42")]
    cursor: String,
}

/// What a check by query asks about.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described")]
pub struct Paths {
    /// Keys, separated by commas. Either this or `path` must be there.
    #[param(required = false, style = Form, explode = false, value_type = Vec<Key>, example = json!(["src/a.rs", "src/b.rs"]))]
    paths: Vec<String>,
    /// One key, which may have commas in it; repeat it for more.
    #[param(required = false, style = Form, explode = true, value_type = Vec<Key>, example = json!(["docs/a,b.md"]))]
    path: Vec<String>,
    /// How it would be held; exclusive where nothing is said.
    #[param(required = false, inline, value_type = RequestMode, example = "shared")]
    mode: String,
    /// What the caller is about to do. Without it, the check answers for a reservation in `mode`; with it, `mode` does
    /// not count.
    #[param(required = false, inline, example = "change")]
    intent: Intent,
    /// How the names are written.
    #[param(required = false, inline, example = "percent")]
    encoding: Encoding,
}

/// A part of the page.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "only described")]
pub struct PartAt {
    /// Its file name.
    #[param(inline, value_type = PartName, example = "page.js")]
    file: String,
}

/// The parts there are.
#[derive(Serialize, ToSchema)]
#[expect(dead_code, reason = "only described")]
enum PartName {
    #[serde(rename = "page.js")]
    Script,
    #[serde(rename = "page.css")]
    Style,
}
