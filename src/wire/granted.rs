//! What the worker protocol answers: grants, conflicts, releases, renewals, checks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Mode, Notice, Text, Time};

/// One key was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reserved {
    /// The reservation.
    pub reservation_id: String,
    /// What is held, as its holder wrote it.
    pub file_path: String,
    /// Its holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// How.
    pub mode: Mode,
    /// What for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// Since when.
    pub reserved_at: Time,
    /// Until when without renewal.
    pub expires_at: Time,
    /// Grows with every grant in the repository, never reused.
    pub fence: u64,
    /// Of the key: one more each time a holder let go.
    pub version: u64,
    /// How the name is written, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// All of several keys were granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedMany {
    /// One for each key, in the order of the request.
    pub reservations: Vec<Reserved>,
    /// The keys alone.
    pub reserved: Vec<String>,
    /// Nothing, or it would be a refusal.
    pub conflicts: Vec<Conflict>,
    /// What the session should know.
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

/// One reservation in the way of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// What was asked for, as it was asked.
    pub file_path: String,
    /// What is held, as its holder wrote it.
    pub key: String,
    /// Its holder.
    #[schema(value_type = String)]
    pub reserved_by: Text,
    /// The holder's display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reserved_by_name: Option<Text>,
    /// How it is held.
    pub mode: Mode,
    /// What for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// Until when without renewal.
    pub expires_at: Time,
    /// The holder and since when, in the shape older clients read.
    pub held_by: HeldBy,
    /// A path that both keys match, where a glob is involved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// They do not hold it yet: they wait, and were first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// How many already wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<u64>,
    /// How `filePath`, `key` and `example` are written, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// Who holds, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    /// The holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Since when.
    pub reserved_at: Time,
}

/// What became of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// Always; letting go of what is not held is fine.
    pub ok: bool,
    /// Whether anything was held.
    pub released: bool,
    /// How many reservations ended.
    pub released_count: u64,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `POST …/files/release-all`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedAll {
    /// How many reservations ended.
    pub released_count: u64,
    /// Their keys, as the holder wrote them.
    pub released_paths: Vec<String>,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// One reservation runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    /// The reservation.
    pub reservation_id: String,
    /// What is held, as its holder wrote it.
    pub file_path: String,
    /// Its holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Until when without another renewal.
    pub expires_at: Time,
    /// The same as when it was granted.
    pub fence: u64,
    /// How the name is written, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// Several reservations run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewedMany {
    /// The earliest of theirs.
    pub expires_at: Time,
    /// One for each key, in the order of the request.
    pub reservations: Vec<Renewed>,
    /// What the session should know.
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
    /// What other sessions hold, in the order of the request.
    pub conflicts: Vec<Conflict>,
    /// The other paths of the request, as it wrote them.
    pub clear: Vec<String>,
    /// Those of `clear` that the calling session holds.
    pub held: Vec<String>,
    /// The pause on the calling session's feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The server's clock when it checked. A client computes the time left until an `expiresAt` from this, because its
    /// own clock may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_time: Option<Time>,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// Somebody paused a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// Which.
    #[schema(value_type = String)]
    pub feature: Text,
    /// Who.
    #[schema(value_type = String)]
    pub reserved_by: Text,
    /// Their display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reserved_by_name: Option<Text>,
    /// Why.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// Until when without renewal.
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
            fence: 7,
            version: 2,
            encoding: None,
            notices: vec![],
        };
        let shown = json!({
            "reservationId": "res_1", "filePath": "src/a.rs", "sessionId": "ana", "mode": "exclusive", "reason": null,
            "reservedAt": "1970-01-01T00:00:00.000Z", "expiresAt": "1970-01-01T00:01:00.000Z", "fence": 7, "version": 2,
        });
        assert_eq!(serde_json::to_value(&reserved).unwrap(), shown);
        assert_eq!(serde_json::from_value::<Reserved>(shown).unwrap(), reserved);
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
