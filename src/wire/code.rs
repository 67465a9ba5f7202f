//! Refusals: one envelope for all of them, and the codes clients branch on.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::{Conflict, Text, Time};

macro_rules! codes {
    ($(#[doc = $doc:literal] $name:ident = $text:literal, $status:literal;)*) => {
        /// What kind of refusal it is. Codes are promises: they are added, never renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $doc] $name,)*
            /// One that only a newer server knows; never sent.
            Unrecognized,
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The HTTP status it travels with.
            pub fn status(self) -> u16 {
                match self {
                    $(Code::$name => $status,)*
                    Code::Unrecognized => 500,
                }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $doc.trim_ascii_start(),)*
                    Code::Unrecognized => "One that only a newer server knows.",
                }
            }

            /// As it is written in JSON.
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
    /// The body or query is not what the call takes.
    InvalidRequest = "INVALID_REQUEST", 400;
    /// The path cannot be in a repository.
    InvalidPath = "INVALID_PATH", 400;
    /// A logical key, URI or pattern does not follow its form.
    InvalidKey = "INVALID_KEY", 400;
    /// Too short or too long; comes with `min` and `max`.
    TtlOutOfRange = "TTL_OUT_OF_RANGE", 400;
    /// No token, or none that counts.
    Unauthenticated = "UNAUTHENTICATED", 401;
    /// The token may not do this.
    Forbidden = "FORBIDDEN", 403;
    /// Somebody else holds it.
    LockNotHeld = "LOCK_NOT_HELD", 403;
    /// Nobody may do this, such as reserving in an unknown namespace.
    OperationNotPermitted = "OPERATION_NOT_PERMITTED", 403;
    /// Nothing there.
    NotFound = "NOT_FOUND", 404;
    /// The path exists, the method does not.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405;
    /// The body is larger than the server reads.
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", 413;
    /// The body is not declared as JSON.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", 415;
    /// Somebody else holds what was asked for.
    ResourceLocked = "RESOURCE_LOCKED", 409;
    /// Waited, and the time ran out.
    LockAcquisitionFailed = "LOCK_ACQUISITION_FAILED", 409;
    /// The wait would never end; comes with `cycle`.
    PossibleDeadlock = "POSSIBLE_DEADLOCK", 409;
    /// The key is not at `ifVersion` any more.
    VersionMismatch = "VERSION_MISMATCH", 409;
    /// The session is over, and its token with it.
    SessionEnded = "SESSION_ENDED", 410;
    /// The reservation expired in the meantime.
    LockTimeout = "LOCK_TIMEOUT", 410;
    /// The session's feature is paused.
    FeaturePaused = "FEATURE_PAUSED", 423;
    /// Too much at once; try later.
    QuotaExceeded = "QUOTA_EXCEEDED", 429;
    /// The server cannot answer now; nothing was granted, nothing was lost.
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

/// Every refusal: a sentence, a code, and the facts that belong to the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// For a person.
    pub error: String,
    /// For a program.
    pub code: Code,
    /// Who is in the way: the first of `conflicts`, or the one who paused the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by: Option<Text>,
    /// Their display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by_name: Option<Text>,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reason: Option<Text>,
    /// When the first of `conflicts` runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Everything in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<Vec<Conflict>>,
    /// Nothing, always: a request for several keys is granted as a whole or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Vec<String>>,
    /// The circle a wait would close.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Vec<Wait>>,
    /// The least that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The most that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// The field or key that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The version the key is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Facts that have no field here.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

impl ErrorBody {
    /// A refusal without facts; set those that belong to it.
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
            more: serde_json::Map::new(),
        }
    }
}

impl From<super::BadBody> for ErrorBody {
    fn from(bad: super::BadBody) -> ErrorBody {
        ErrorBody { field: bad.field, ..ErrorBody::new(Code::InvalidRequest, bad.sentence) }
    }
}

/// One step of a circle: this session waits for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Who.
    #[schema(value_type = String)]
    pub session: Text,
    /// What it holds that the one before it wants.
    pub holds: String,
    /// What it wants that the next one holds.
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
    fn a_refusal_shows_its_facts_beside_the_sentence() {
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
    fn facts_without_a_field_survive() {
        let json = r#"{"error":"No.","code":"FORBIDDEN","moon":"full"}"#;
        let refusal: ErrorBody = serde_json::from_str(json).unwrap();
        assert_eq!(refusal.more["moon"], "full");
        assert_eq!(serde_json::to_string(&refusal).unwrap(), json);
    }
}
