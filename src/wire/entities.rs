//! Entities: locks on things of another system, such as jobs and merge requests, with requests to unlock them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::deserialize::{Misspelled, not_ttl_minutes, not_ttl_seconds, whole};
use super::{Code, Notice, Text, Time, UnlockStatus};

/// `POST /api/entities/{kind}/{id}/lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockEntity {
    /// The session that locks. Default: that of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub agent_id: Option<Text>,
    /// Its display name, if the token has none and the session is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub agent_name: Option<Text>,
    /// What for; other sessions see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reason: Option<Text>,
    /// How long the lock lasts without another call. Default: while the session gives signs of life.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    #[serde(default, rename = "ttl_minutes", skip_serializing, deserialize_with = "not_ttl_minutes")]
    #[schema(ignore)]
    pub ttl_minutes: Misspelled,
    #[serde(default, rename = "ttl_seconds", skip_serializing, deserialize_with = "not_ttl_seconds")]
    #[schema(ignore)]
    pub other_ttl_seconds: Misspelled,
}

/// `POST …/unlock`, and an answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityAgent {
    /// The session that acts. Default: that of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub agent_id: Option<Text>,
}

/// `POST …/unlock-requests` of an entity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestEntity {
    /// The session that asks. Default: that of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub requested_by: Option<Text>,
    /// Its display name, if the token has none and the session is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub requested_by_name: Option<Text>,
    /// The holder sees it.
    #[schema(value_type = String, pattern = r"\S")]
    pub reason: Text,
}

/// The lock of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityLock {
    /// The holder.
    #[schema(value_type = String)]
    pub locked_by: Text,
    /// The display name of the holder.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub locked_by_name: Option<Text>,
    pub locked_at: Time,
    /// What the holder locked it for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// When it ends unless the holder calls.
    pub expires_at: Time,
    /// How long it lasts without another call; without `ttlSeconds` in the request, without a sign of life of its session.
    #[serde(default)]
    #[schema(required = true)]
    pub ttl_seconds: u64,
    /// One more each time the entity is unlocked.
    #[serde(default)]
    #[schema(required = true)]
    pub version: u64,
    pub reservation_id: String,
    /// The fencing number: grows with every grant in the repository and is never reused.
    pub fence: u64,
}

/// A request to unlock an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityRequest {
    /// A UUID.
    pub id: String,
    #[schema(value_type = String)]
    pub requested_by: Text,
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub requested_by_name: Option<Text>,
    #[schema(value_type = String)]
    pub reason: Text,
    pub requested_at: Time,
    pub status: UnlockStatus,
    #[serde(default)]
    #[schema(required = true)]
    pub responded_at: Option<Time>,
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub responded_by: Option<Text>,
}

/// An entity: its lock and its requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Null while it is free.
    #[serde(default)]
    #[schema(required = true)]
    pub lock: Option<EntityLock>,
    /// The oldest first; at most the newest 100. Reasons of older ones are shortened.
    pub requests: Vec<EntityRequest>,
    /// In the reply to a new request: that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<EntityRequest>,
    /// In the reply to an answer: whether it released the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_lock: Option<bool>,
    /// In the reply to an unlock: `LOCK_TIMEOUT` if the lock of this session had expired before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
