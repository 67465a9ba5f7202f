//! The requests of the worker protocol: reserve, release, renew, check.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::body::{BadBody, OneOrMany};
use super::deserialize::{
    Misspelled, check_list, list, not_file_path, not_file_paths, not_idle_seconds, not_if_version, not_max_retries,
    not_ttl_minutes, not_ttl_seconds, not_wait_seconds, not_while_session, whole, word,
};
use super::limits::RESERVE_KEYS_MAX;
use super::{Text, schema};

/// Whether other sessions may hold the key at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No other session may hold it.
    #[default]
    Exclusive,
    /// Other sessions may hold it in this mode too.
    Shared,
    /// Another word for `shared`. Only the reply to a request that uses it repeats it.
    Collaborative,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
            Mode::Collaborative => "collaborative",
        }
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(
            deserializer,
            &[("exclusive", Mode::Exclusive), ("shared", Mode::Shared), ("collaborative", Mode::Collaborative)],
        )
    }
}

/// How a file name that is not UTF-8 is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Each byte that is not UTF-8 as `%XX`, a literal `%` as `%25`.
    Percent,
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("percent", Encoding::Percent)])
    }
}

/// What the caller of a check is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// To change it. Sessions that hold it shared may change it beside each other.
    Change,
    /// To look at it. Only exclusive reservations of other sessions are in the way.
    Look,
}

impl<'de> Deserialize<'de> for Intent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("change", Intent::Change), ("look", Intent::Look)])
    }
}

/// `POST …/files/reserve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reserve {
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Key>)]
    pub file_path: Option<String>,
    /// Several keys; all of them are reserved, or none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "list::<_, _, RESERVE_KEYS_MAX>")]
    #[schema(value_type = Option<Vec<schema::Key>>, min_items = 1)]
    pub file_paths: Option<Vec<String>>,
    /// How long the reservation lasts without renewal. Unless the server is configured otherwise: 1 to 300 seconds for
    /// files, default 60; 1 to 28,800 seconds for logical names and resource URIs, default 1,800.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// Hold it while the session gives signs of life, instead of for `ttlSeconds`. Every authenticated call of the session is
    /// one. The session itself ends after its own timeout, whatever it holds so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub while_session: Option<bool>,
    /// With `whileSession`: how long it lasts after the last sign of life. Default: the session timeout of the server.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub idle_seconds: Option<i64>,
    /// Default: exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RequestMode>)]
    pub mode: Option<Mode>,
    /// What the keys are reserved for; other sessions see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reason: Option<Text>,
    /// How long to wait in the queue if a key is not free. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 0)]
    pub wait_seconds: Option<i64>,
    /// Reserve only if this is the version of every key.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 0)]
    pub if_version: Option<i64>,
    /// How the file names are written, if not as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    #[serde(default, rename = "ttl_minutes", skip_serializing, deserialize_with = "not_ttl_minutes")]
    #[schema(ignore)]
    pub ttl_minutes: Misspelled,
    #[serde(default, rename = "file_path", skip_serializing, deserialize_with = "not_file_path")]
    #[schema(ignore)]
    pub other_file_path: Misspelled,
    #[serde(default, rename = "maxRetries", skip_serializing, deserialize_with = "not_max_retries")]
    #[schema(ignore)]
    pub max_retries: Misspelled,
    #[serde(default, rename = "file_paths", skip_serializing, deserialize_with = "not_file_paths")]
    #[schema(ignore)]
    pub other_file_paths: Misspelled,
    #[serde(default, rename = "ttl_seconds", skip_serializing, deserialize_with = "not_ttl_seconds")]
    #[schema(ignore)]
    pub other_ttl_seconds: Misspelled,
    #[serde(default, rename = "wait_seconds", skip_serializing, deserialize_with = "not_wait_seconds")]
    #[schema(ignore)]
    pub other_wait_seconds: Misspelled,
    #[serde(default, rename = "idle_seconds", skip_serializing, deserialize_with = "not_idle_seconds")]
    #[schema(ignore)]
    pub other_idle_seconds: Misspelled,
    #[serde(default, rename = "while_session", skip_serializing, deserialize_with = "not_while_session")]
    #[schema(ignore)]
    pub other_while_session: Misspelled,
    #[serde(default, rename = "if_version", skip_serializing, deserialize_with = "not_if_version")]
    #[schema(ignore)]
    pub other_if_version: Misspelled,
}

impl Reserve {
    /// The keys: exactly one of the two fields, 1 to [`RESERVE_KEYS_MAX`] keys.
    pub fn one_or_many(&self) -> Result<OneOrMany<'_>, BadBody> {
        match OneOrMany::of(self.file_path.as_deref(), self.file_paths.as_deref())? {
            OneOrMany::Many(keys) if keys.len() > RESERVE_KEYS_MAX => {
                let what = format!("has {} keys, and {RESERVE_KEYS_MAX} is the most for one request", keys.len());
                Err(BadBody::field("filePaths", what))
            }
            keys => Ok(keys),
        }
    }
}

/// `POST …/files/release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Key>)]
    pub file_path: Option<String>,
    /// Several keys.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "list::<_, _, RESERVE_KEYS_MAX>")]
    #[schema(value_type = Option<Vec<schema::Key>>, min_items = 1)]
    pub file_paths: Option<Vec<String>>,
    /// How the file names are written, if not as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    #[serde(default, rename = "file_path", skip_serializing, deserialize_with = "not_file_path")]
    #[schema(ignore)]
    pub other_file_path: Misspelled,
}

impl Release {
    /// The keys: exactly one of the two fields, 1 to [`RESERVE_KEYS_MAX`] keys.
    pub fn one_or_many(&self) -> Result<OneOrMany<'_>, BadBody> {
        OneOrMany::of(self.file_path.as_deref(), self.file_paths.as_deref())
    }
}

/// `POST …/files/renew`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renew {
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Key>)]
    pub file_path: Option<String>,
    /// Several keys.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "list::<_, _, RESERVE_KEYS_MAX>")]
    #[schema(value_type = Option<Vec<schema::Key>>, min_items = 1)]
    pub file_paths: Option<Vec<String>>,
    /// The new TTL. Default: the same as before.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// How the file names are written, if not as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    #[serde(default, rename = "ttl_minutes", skip_serializing, deserialize_with = "not_ttl_minutes")]
    #[schema(ignore)]
    pub ttl_minutes: Misspelled,
    #[serde(default, rename = "file_path", skip_serializing, deserialize_with = "not_file_path")]
    #[schema(ignore)]
    pub other_file_path: Misspelled,
}

impl Renew {
    /// The keys: exactly one of the two fields, 1 to [`RESERVE_KEYS_MAX`] keys.
    pub fn one_or_many(&self) -> Result<OneOrMany<'_>, BadBody> {
        OneOrMany::of(self.file_path.as_deref(), self.file_paths.as_deref())
    }
}

/// `POST …/files/check-conflicts` and `POST /api/check-conflicts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The paths to check.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "check_list")]
    #[schema(value_type = Option<Vec<schema::Key>>)]
    pub paths: Option<Vec<String>>,
    /// Another name of `paths`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "check_list")]
    #[schema(value_type = Option<Vec<schema::Key>>)]
    pub file_paths: Option<Vec<String>>,
    /// The mode in which they would be held. Default: exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RequestMode>)]
    pub mode: Option<Mode>,
    /// What the caller is about to do. With it, `mode` is ignored; without it, the check is for a reservation in `mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    pub intent: Option<Intent>,
    /// For how many seconds they would be reserved. With it, or with `whileSession`, a check is refused for the same policy
    /// and the same limits as the reservation would be.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// They would be reserved while the session gives signs of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub while_session: Option<bool>,
    /// With `whileSession`: how long they would last after the last sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub idle_seconds: Option<i64>,
    /// The new content of each path, as the object id of its blob, in the order of the paths; all zeros for a deletion. A
    /// path may be listed several times with different contents. Has an effect only with `intent` `change`: content that
    /// every holder in the way has committed itself is no conflict.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "check_list")]
    #[schema(value_type = Option<Vec<schema::ObjectId>>)]
    pub blobs: Option<Vec<String>>,
    /// The calling session is about to commit `blobs`: remember them for the paths that it holds. Has an effect only with
    /// `blobs`, with `intent` `change`, and for a session's own call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
    /// How the file names are written, if not as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    #[serde(default, rename = "ttl_minutes", skip_serializing, deserialize_with = "not_ttl_minutes")]
    #[schema(ignore)]
    pub ttl_minutes: Misspelled,
    #[serde(default, rename = "file_path", skip_serializing, deserialize_with = "not_file_path")]
    #[schema(ignore)]
    pub other_file_path: Misspelled,
}

impl Check {
    /// The paths: exactly one of the two fields. The list may be empty.
    pub fn into_paths(self) -> Result<Vec<String>, BadBody> {
        match (self.paths, self.file_paths) {
            (Some(paths), None) | (None, Some(paths)) => Ok(paths),
            (None, None) => Err(BadBody::field("paths", "is missing")),
            (Some(_), Some(_)) => {
                Err(BadBody::field("filePaths", "must not be sent together with paths; send one of the two"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_contains_only_the_fields_that_are_set() {
        let request = Reserve { file_path: Some("a".to_owned()), wait_seconds: Some(5), ..Reserve::default() };
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"filePath":"a","waitSeconds":5}"#);
    }
}
