//! Bodies that have no type of their own in `wire`, because handlers answer or read them in parts.

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire;

/// An object nobody looks into; the call says everything.
#[derive(ToSchema)]
pub struct Nothing {}

/// What came of a reserve.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described")]
pub enum ReserveAnswer {
    /// To `filePath`.
    One(wire::Reserved),
    /// To `filePaths`.
    Many(wire::ReservedMany),
}

/// What came of a renewal.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described")]
pub enum RenewAnswer {
    /// To `filePath`.
    One(wire::Renewed),
    /// To `filePaths`.
    Many(wire::RenewedMany),
}
