//! The answers of the worker protocol: reservations, conflicts, releases, renewals, checks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Code, Encoding, Mode, Notice, Text, Time};

/// One new reservation, or one that the session already held and renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reserved {
    pub reservation_id: String,
    /// The key, as the holder wrote it.
    pub file_path: String,
    /// The holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    pub mode: Mode,
    /// What the holder reserved it for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    pub reserved_at: Time,
    /// When it expires unless it is renewed.
    pub expires_at: Time,
    /// How long it lasts without a renewal; with `whileSession`, without a sign of life of the session.
    #[serde(default)]
    #[schema(required = true)]
    pub ttl_seconds: u64,
    /// It lasts while the session gives signs of life: every call of the session moves `expiresAt`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_session: bool,
    /// The fencing number: grows with every grant in the repository and is never reused.
    pub fence: u64,
    /// The version of the key: one more each time a holder releases it.
    pub version: u64,
    /// Set when `filePath` is percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

impl Reserved {
    /// Whether this request granted it. What the session held before was renewed, and so ends later than its TTL after it
    /// began.
    pub fn is_new(&self) -> bool {
        let first_end = self.reserved_at.0.saturating_add_unsigned(self.ttl_seconds.saturating_mul(1000));
        self.expires_at.0 <= first_end
    }
}

/// Several keys were reserved, all at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedMany {
    /// In the order of the request.
    pub reservations: Vec<Reserved>,
    /// Only the keys.
    pub reserved: Vec<String>,
    /// Always empty; with conflicts the answer is an error.
    pub conflicts: Vec<Conflict>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// The answer to a reserve. Its form depends on the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ReserveReply {
    /// To a request with `filePath`.
    One(Reserved),
    /// To a request with `filePaths`.
    Many(ReservedMany),
}

impl ReserveReply {
    /// The reservations, in the order of the request.
    pub fn into_reservations(self) -> Vec<Reserved> {
        match self {
            ReserveReply::One(reservation) => vec![reservation],
            ReserveReply::Many(reply) => reply.reservations,
        }
    }
}

/// One reservation, or one queued request, in the way of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The key as the request wrote it.
    pub file_path: String,
    /// The key, as the holder wrote it.
    pub key: String,
    /// The holder.
    #[schema(value_type = String)]
    pub reserved_by: Text,
    /// The display name of the holder.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reserved_by_name: Option<Text>,
    pub mode: Mode,
    /// What the holder reserved it for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// When it expires unless it is renewed.
    pub expires_at: Time,
    /// The holder and the start of the reservation, as older clients read them.
    pub held_by: HeldBy,
    /// A path that both keys match, if one of them is a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The other session does not hold the key: it is ahead in the queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// How many requests wait for the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<u64>,
    /// Set when `filePath`, `key` and `example` are percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// How many more reservations are in the way of `filePath`. At most 3 are listed for each key of the request; this is
    /// in the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_holders: Option<u64>,
}

/// The holder and the start of its reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    /// The holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    pub reserved_at: Time,
}

/// The answer to a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// Always true; releasing a key that is not held is no error.
    pub ok: bool,
    /// Whether at least one of the keys was held.
    pub released: bool,
    /// How many reservations ended.
    pub released_count: u64,
    /// `LOCK_TIMEOUT` if the session held some of the keys until they expired. That is no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Those keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expired: Vec<String>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// The answer to `POST …/files/release-all`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedAll {
    /// How many reservations ended.
    pub released_count: u64,
    /// Their keys, at most 10,000 of them.
    pub released_paths: Vec<String>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// One renewed reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    pub reservation_id: String,
    /// The key, as the holder wrote it.
    pub file_path: String,
    /// The holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// When it expires unless it is renewed again.
    pub expires_at: Time,
    /// How long it lasts without a renewal; with `whileSession`, without a sign of life of the session.
    #[serde(default)]
    #[schema(required = true)]
    pub ttl_seconds: u64,
    /// It lasts while the session gives signs of life: every call of the session moves `expiresAt`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_session: bool,
    /// The same number as when it was granted.
    pub fence: u64,
    /// The version of the key: one more each time a holder releases it.
    #[serde(default)]
    #[schema(required = true)]
    pub version: u64,
    /// Set when `filePath` is percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// Several renewed reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewedMany {
    /// The earliest expiry.
    pub expires_at: Time,
    /// In the order of the request.
    pub reservations: Vec<Renewed>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// The answer to a renewal. Its form depends on the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum RenewReply {
    /// To a request with `filePath`.
    One(Renewed),
    /// To a request with `filePaths`.
    Many(RenewedMany),
}

impl RenewReply {
    /// The renewed reservations, in the order of the request.
    pub fn into_reservations(self) -> Vec<Renewed> {
        match self {
            RenewReply::One(reservation) => vec![reservation],
            RenewReply::Many(reply) => reply.reservations,
        }
    }
}

/// The answer to a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReply {
    /// What other sessions hold, in the order of the request: every path in conflict, with at most 3 holders each. In a
    /// long list, reasons and keys are shortened.
    pub conflicts: Vec<Conflict>,
    /// The other paths of the request, as it wrote them.
    pub clear: Vec<String>,
    /// Those of `clear` that the calling session holds.
    pub held: Vec<String>,
    /// Those of `clear` that other sessions hold and that they committed with the same content themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<String>,
    /// The pause on the calling session's feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The server's clock when it checked. A client computes the time left until an `expiresAt` from this, because its
    /// own clock may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_time: Option<Time>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Only in a client: the rest of the answer did not arrive, for this reason.
    #[serde(skip)]
    pub cut_short: Option<String>,
}

/// A pause on a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    #[schema(value_type = String)]
    pub feature: Text,
    /// The session that paused it.
    #[schema(value_type = String)]
    pub reserved_by: Text,
    /// The display name of that session.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reserved_by_name: Option<Text>,
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// When it expires unless it is renewed.
    pub expires_at: Time,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grant_has_the_fields_of_the_contract() {
        let reserved = Reserved {
            reservation_id: "res_1".to_owned(),
            file_path: "src/a.rs".to_owned(),
            session_id: "ana".into(),
            mode: Mode::Exclusive,
            reason: None,
            reserved_at: Time(0),
            expires_at: Time(60_000),
            ttl_seconds: 60,
            while_session: false,
            fence: 7,
            version: 2,
            encoding: None,
            notices: vec![],
        };
        let shown = json!({
            "reservationId": "res_1", "filePath": "src/a.rs", "sessionId": "ana", "mode": "exclusive", "reason": null,
            "reservedAt": "1970-01-01T00:00:00.000Z", "expiresAt": "1970-01-01T00:01:00.000Z", "ttlSeconds": 60,
            "fence": 7, "version": 2,
        });
        assert_eq!(serde_json::to_value(&reserved).unwrap(), shown);
        assert_eq!(serde_json::from_value::<Reserved>(shown).unwrap(), reserved);
        assert!(reserved.is_new());
        assert!(!Reserved { expires_at: Time(60_001), ..reserved }.is_new(), "renewed a moment after it was granted");
    }

    #[test]
    fn a_conflict_has_the_fields_of_the_contract() {
        let conflict = Conflict {
            file_path: "src/a.rs".to_owned(),
            key: "src/**".to_owned(),
            reserved_by: "ana".into(),
            reserved_by_name: Some("Ana".into()),
            mode: Mode::Shared,
            reason: Some("moving things".into()),
            expires_at: Time(60_000),
            held_by: HeldBy { session_id: "ana".into(), reserved_at: Time(0) },
            example: Some("src/a.rs".to_owned()),
            waiting: false,
            queue_length: None,
            encoding: None,
            more_holders: None,
        };
        let shown = json!({
            "filePath": "src/a.rs", "key": "src/**", "reservedBy": "ana", "reservedByName": "Ana", "mode": "shared",
            "reason": "moving things", "expiresAt": "1970-01-01T00:01:00.000Z",
            "heldBy": {"sessionId": "ana", "reservedAt": "1970-01-01T00:00:00.000Z"}, "example": "src/a.rs",
        });
        assert_eq!(serde_json::to_value(&conflict).unwrap(), shown);
        assert_eq!(serde_json::from_value::<Conflict>(shown).unwrap(), conflict);
    }
}
