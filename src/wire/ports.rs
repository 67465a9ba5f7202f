//! Ports: `…/ports`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::deserialize::{Misspelled, not_ttl_minutes, not_ttl_seconds, whole};
use super::{Notice, Text, Time};

/// `POST …/ports`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatePorts {
    /// How many. Default: what the server is configured for, usually 4.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub count: Option<i64>,
    /// How long they are allocated without another call. The same bounds and default as for logical names.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// What they are for; other sessions see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub purpose: Option<Text>,
    #[serde(default, rename = "ttl_minutes", skip_serializing, deserialize_with = "not_ttl_minutes")]
    #[schema(ignore)]
    pub ttl_minutes: Misspelled,
    #[serde(default, rename = "ttl_seconds", skip_serializing, deserialize_with = "not_ttl_seconds")]
    #[schema(ignore)]
    pub other_ttl_seconds: Misspelled,
}

/// The ports of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ports {
    /// In order.
    pub ports: Vec<u16>,
    /// When the first of them expires unless the session asks again; null if it has none.
    #[serde(default)]
    #[schema(required = true)]
    pub expires_at: Option<Time>,
    /// How long they last without another call; null if there are none.
    #[serde(default)]
    #[schema(required = true)]
    pub ttl_seconds: Option<u64>,
    /// The sum of their versions: how often these ports were freed before.
    #[serde(default)]
    #[schema(required = true)]
    pub version: u64,
    /// The same for an environment: a variable for each port, and a name for a compose project.
    pub env: BTreeMap<String, String>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
