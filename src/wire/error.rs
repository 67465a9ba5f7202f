//! Errors: one envelope for all of them, and the codes that clients branch on.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::{Conflict, Text, Time};

macro_rules! codes {
    ($(#[doc = $doc:literal] $name:ident = $text:literal, $status:literal;)*) => {
        /// The kind of an error. Codes are part of the contract: they are added, never renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $doc] $name,)*
            /// A code that only a newer server knows. Clients read it; no server sends it.
            Unrecognized,
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The HTTP status of an error with this code.
            pub fn status(self) -> u16 {
                match self {
                    $(Code::$name => $status,)*
                    Code::Unrecognized => 500,
                }
            }

            /// One sentence for the published document.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $doc.trim_ascii_start(),)*
                    Code::Unrecognized => "A code that only a newer server knows.",
                }
            }

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                    Code::Unrecognized => "UNRECOGNIZED",
                }
            }
        }
    };
}

codes! {
    /// The body or the query is not what the call accepts.
    InvalidRequest = "INVALID_REQUEST", 400;
    /// The path is not valid in a repository.
    InvalidPath = "INVALID_PATH", 400;
    /// A logical key, URI or pattern is malformed.
    InvalidKey = "INVALID_KEY", 400;
    /// The TTL is too short or too long; `min` and `max` are the bounds.
    TtlOutOfRange = "TTL_OUT_OF_RANGE", 400;
    /// There is no token, or it is not valid.
    Unauthenticated = "UNAUTHENTICATED", 401;
    /// The token may not do this.
    Forbidden = "FORBIDDEN", 403;
    /// Another session holds the key.
    LockNotHeld = "LOCK_NOT_HELD", 403;
    /// The operation is not possible here, such as reserving in an unknown namespace.
    OperationNotPermitted = "OPERATION_NOT_PERMITTED", 403;
    /// There is nothing with this path, name or id.
    NotFound = "NOT_FOUND", 404;
    /// The path exists, but does not support the method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405;
    /// The body is larger than the call accepts.
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", 413;
    /// The URL is longer than the server accepts.
    UriTooLong = "URI_TOO_LONG", 414;
    /// The head of the request is larger than the server accepts.
    HeadersTooLarge = "HEADERS_TOO_LARGE", 431;
    /// The body is not declared as JSON.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", 415;
    /// Another session holds a requested key.
    ResourceLocked = "RESOURCE_LOCKED", 409;
    /// The wait in the queue timed out.
    LockAcquisitionFailed = "LOCK_ACQUISITION_FAILED", 409;
    /// Waiting would close a cycle of sessions that wait for each other; `cycle` shows it.
    PossibleDeadlock = "POSSIBLE_DEADLOCK", 409;
    /// The version of the key is not `ifVersion`.
    VersionMismatch = "VERSION_MISMATCH", 409;
    /// The session has ended, and its token is no longer valid.
    SessionEnded = "SESSION_ENDED", 410;
    /// The reservation has expired.
    LockTimeout = "LOCK_TIMEOUT", 410;
    /// The session's feature is paused.
    FeaturePaused = "FEATURE_PAUSED", 423;
    /// A limit is reached; try again later.
    QuotaExceeded = "QUOTA_EXCEEDED", 429;
    /// The server cannot answer now. Nothing was granted, nothing was lost.
    Unavailable = "UNAVAILABLE", 503;
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Ok(Code::ALL.iter().copied().find(|code| code.as_str() == text).unwrap_or(Code::Unrecognized))
    }
}

/// The body of every error: a sentence, a code, and the facts that belong to the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// A sentence for people.
    pub error: String,
    /// The kind of the error, for programs.
    pub code: Code,
    /// The session in the way: the holder of the first of `conflicts`, or the session that paused the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by: Option<Text>,
    /// The display name of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by_name: Option<Text>,
    /// Its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reason: Option<Text>,
    /// When the first of `conflicts` expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// What is in the way: every key in conflict, with at most 3 holders each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<Vec<Conflict>>,
    /// Always empty: a request for several keys is granted completely or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Vec<String>>,
    /// The cycle that waiting would close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Vec<CycleStep>>,
    /// The smallest allowed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The largest allowed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// The field or key that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The current version of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Of a wait that ended without a grant: the ids that the reservations would have had, one for each key. Their history
    /// can be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_ids: Option<Vec<String>>,
    /// Of `LOCK_NOT_HELD`: the key, if this session held it until it expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<Vec<String>>,
    /// Facts without a field of their own.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

impl ErrorBody {
    /// An error without facts.
    pub fn new(code: Code, error: impl Into<String>) -> ErrorBody {
        ErrorBody {
            error: error.into(),
            code,
            reserved_by: None,
            reserved_by_name: None,
            reason: None,
            expires_at: None,
            conflicts: None,
            reserved: None,
            cycle: None,
            min: None,
            max: None,
            field: None,
            version: None,
            reservation_ids: None,
            expired: None,
            more: serde_json::Map::new(),
        }
    }
}

impl From<super::BadBody> for ErrorBody {
    fn from(bad: super::BadBody) -> ErrorBody {
        ErrorBody { field: bad.field, ..ErrorBody::new(Code::InvalidRequest, bad.sentence) }
    }
}

/// One step of a cycle: this session waits for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CycleStep {
    #[schema(value_type = String)]
    pub session: Text,
    /// The key that it holds and the session before it wants.
    pub holds: String,
    /// The key that it wants and the next session holds.
    pub wants: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_new_ones_do_not_break_old_clients() {
        for code in Code::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), *code);
        }
        assert_eq!(serde_json::from_str::<Code>("\"COFFEE_BREAK\"").unwrap(), Code::Unrecognized);
    }

    #[test]
    fn an_error_has_its_facts_beside_the_sentence() {
        let refusal = ErrorBody {
            min: Some(1),
            max: Some(300),
            ..ErrorBody::new(Code::TtlOutOfRange, "ttlSeconds is 301 and must be 1 to 300.")
        };
        let json = r#"{"error":"ttlSeconds is 301 and must be 1 to 300.","code":"TTL_OUT_OF_RANGE","min":1,"max":300}"#;
        assert_eq!(serde_json::to_string(&refusal).unwrap(), json);
        assert_eq!(serde_json::from_str::<ErrorBody>(json).unwrap(), refusal);
    }

    #[test]
    fn facts_without_a_field_are_kept() {
        let json = r#"{"error":"No.","code":"FORBIDDEN","moon":"full"}"#;
        let refusal: ErrorBody = serde_json::from_str(json).unwrap();
        assert_eq!(refusal.more["moon"], "full");
        assert_eq!(serde_json::to_string(&refusal).unwrap(), json);
    }
}
