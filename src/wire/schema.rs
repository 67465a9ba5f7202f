//! Schemas for values that need more explanation than their Rust type gives.

use std::borrow::Cow;

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{Code, Time};

/// A key as a request writes it. No pattern could express all rules, so they are described in words.
pub struct Key;

impl PartialSchema for Key {
    fn schema() -> RefOr<Schema> {
        let rules = "What can be reserved, as one string. Paths are relative to the top of the repository and separated \
            by `/`; `./`, `//` and inner `.` are removed; a path that git itself would refuse is refused.\n\n\
            - `src/api/users.py`: one path\n\
            - `src/api/`: everything under a directory, the same as `src/api/**`\n\
            - `src/**/*.rs`, `src/[ab].rs`, `src/{a,b}.rs`: a pattern; `*` and `?` do not cross `/`, `**` does; it also \
            covers the file that is named like the pattern itself\n\
            - `file:src/[id].ts`: one path, taken literally\n\
            - `api:GET /v1/users`, `db:migration-slot`, `event:user.created`, `flag:billing/*`, `env:shared-fixtures`, \
            `contract:openapi/v1.yaml`, `feature:FEAT-123:pause`: logical names\n\
            - `github://acme/app/issues/42`, `deploy://api-prod`: resource URIs\n\n\
            Two keys conflict when different sessions hold them, at least one of them exclusively, and some name could \
            match both.";
        let object = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("dibs-key".to_owned())))
            .min_length(Some(1))
            .description(Some(rules))
            .examples(["src/api/users.py", "src/**/*.rs", "file:src/[id].ts", "db:migration-slot"]);
        object.into()
    }
}

impl ToSchema for Key {
    fn name() -> Cow<'static, str> {
        "Key".into()
    }
}

/// The id of an object in git.
pub struct ObjectId;

impl PartialSchema for ObjectId {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"))
            .description(Some("The id of an object in git, in hexadecimal. All zeros stand for no object."))
            .examples(["5716ca5987cbf97d6bb54920bea6adde242d87e6"]);
        object.into()
    }
}

impl ToSchema for ObjectId {
    fn name() -> Cow<'static, str> {
        "ObjectId".into()
    }
}

/// The mode in a request. Requests may use one more word for `shared` than answers.
#[derive(serde::Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestMode {
    /// No other session may hold it.
    Exclusive,
    /// Other sessions may hold it in this mode too.
    Shared,
    /// The same as `shared`.
    Collaborative,
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, milliseconds, ending in `Z`."))
            .examples(["2026-01-31T09:30:00.250Z"]);
        object.into()
    }
}

impl ToSchema for Time {}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let codes = Code::ALL.iter().map(|code| code.as_str());
        let text = "The kind of an error. Codes are added, never renamed.";
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).description(Some(text)).into()
    }
}

impl ToSchema for Code {}
