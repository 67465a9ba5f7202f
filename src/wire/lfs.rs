//! The locking calls of Git LFS, in the shapes of that protocol: snake_case, and `message` in every error.

use serde::{Deserialize, Serialize};

use super::{Text, Time};

/// The media type of every body.
pub const LFS_JSON: &str = "application/vnd.git-lfs+json";

/// The body of `POST …/locks`. Clients also send `ref`: locks are for all branches, so it is not read.
#[derive(Debug, Clone, Deserialize)]
pub struct CreateLock {
    pub path: String,
}

/// The body of `POST …/locks/verify`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct VerifyLocks {
    #[serde(default)]
    pub cursor: Option<String>,
    /// 0 is the same as none: the server chooses.
    #[serde(default)]
    pub limit: Option<i64>,
}

/// The body of `POST …/locks/{id}/unlock`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Unlock {
    #[serde(default)]
    pub force: Option<bool>,
}

/// One lock. Every field is always there: clients crash without an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Letters, digits and `_` only: clients put it into a URL as it is.
    pub id: String,
    pub path: Text,
    pub locked_at: Time,
    pub owner: LockOwner,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    pub name: Text,
}

/// The reply to a lock that was created or deleted. It has no `message`: clients take one for a failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LockReply {
    pub lock: Lock,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LockList {
    pub locks: Vec<Lock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(flatten)]
    pub unlisted: Unlisted,
}

/// What a list lacks. Git LFS clients do not read it; `git dibs doctor` does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlisted {
    /// How many reservations are not in the list, or not with all of their files.
    #[serde(default, rename = "dibs_unlisted", skip_serializing_if = "Option::is_none")]
    pub reservations: Option<usize>,
}

/// The reply to a verification.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VerifiedLocks {
    /// Locks of the caller.
    pub ours: Vec<Lock>,
    /// Locks of other sessions, whose files the caller must not push.
    pub theirs: Vec<Lock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(flatten)]
    pub unlisted: Unlisted,
}

/// An error, for a person.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LfsError {
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The lock that is in the way, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
}
