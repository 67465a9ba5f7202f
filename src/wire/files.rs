//! What the worker protocol asks: reserve, release, renew, check.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::body::{BadBody, OneOrMany, RESERVE_KEYS_MAX};
use super::values::{whole, word};
use super::{Text, schema};

/// Alone or among others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nobody else.
    #[default]
    Exclusive,
    /// Others may hold it shared too. Requests may also call it `collaborative`.
    Shared,
}

impl Mode {
    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        }
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("exclusive", Mode::Exclusive), ("shared", Mode::Shared), ("collaborative", Mode::Shared)])
    }
}

/// How names are written that are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Bad bytes as `%XX`, a literal `%` as `%25`.
    Percent,
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("percent", Encoding::Percent)])
    }
}

/// What a check is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// To change the paths: a session that shares a path may change it beside the others that share it.
    Change,
    /// To look only.
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
    /// Several keys, all or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Key>>, min_items = 1, max_items = 10_000)]
    pub file_paths: Option<Vec<String>>,
    /// How long without renewal. Where the server was not told otherwise, files are held for 1 to 300 seconds and
    /// 60 where nothing is said; logical names and resource URIs for 1 to 28,800 and 1,800.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// Exclusive where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::AskedMode>)]
    pub mode: Option<Mode>,
    /// What for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 1000)]
    pub reason: Option<Text>,
    /// How long to stay in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 0, maximum = 300)]
    pub wait_seconds: Option<i64>,
    /// Only at this version of every key.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 0)]
    pub if_version: Option<i64>,
    /// How the names are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

impl Reserve {
    /// What is asked for: exactly one of the two fields, 1 to [`RESERVE_KEYS_MAX`] keys.
    pub fn one_or_many(&self) -> Result<OneOrMany<'_>, BadBody> {
        match OneOrMany::of(self.file_path.as_deref(), self.file_paths.as_deref())? {
            OneOrMany::Many(keys) if keys.len() > RESERVE_KEYS_MAX => {
                let what = format!("names {} keys, and {RESERVE_KEYS_MAX} is the most for one request", keys.len());
                Err(BadBody::field("filePaths", what))
            }
            asked => Ok(asked),
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Key>>, min_items = 1)]
    pub file_paths: Option<Vec<String>>,
    /// How the names are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

impl Release {
    /// What is let go: exactly one of the two fields, at least one key.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Key>>, min_items = 1)]
    pub file_paths: Option<Vec<String>>,
    /// How long from now on; as long as before where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// How the names are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

impl Renew {
    /// What is renewed: exactly one of the two fields, at least one key.
    pub fn one_or_many(&self) -> Result<OneOrMany<'_>, BadBody> {
        OneOrMany::of(self.file_path.as_deref(), self.file_paths.as_deref())
    }
}

/// `POST …/files/check-conflicts` and `POST /api/check-conflicts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What would be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Key>>, max_items = 1_000_000)]
    pub paths: Option<Vec<String>>,
    /// The same under its other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Key>>, max_items = 1_000_000)]
    pub file_paths: Option<Vec<String>>,
    /// How it would be held; exclusive where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::AskedMode>)]
    pub mode: Option<Mode>,
    /// What the check is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// How the names are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

impl Check {
    /// What is asked about: exactly one of the two fields. None at all is a fair question with an empty answer.
    pub fn into_paths(self) -> Result<Vec<String>, BadBody> {
        match (self.paths, self.file_paths) {
            (Some(paths), None) | (None, Some(paths)) => Ok(paths),
            (None, None) => Err(BadBody::field("paths", "is missing")),
            (Some(_), Some(_)) => Err(BadBody::field("filePaths", "cannot stand beside paths; send one of the two")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_sends_only_what_was_set() {
        let ask = Reserve { file_path: Some("a".to_owned()), wait_seconds: Some(5), ..Reserve::default() };
        assert_eq!(serde_json::to_string(&ask).unwrap(), r#"{"filePath":"a","waitSeconds":5}"#);
    }
}
