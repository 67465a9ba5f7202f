//! Parses a request body, or says in a sentence which field is wrong.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use utoipa::ToSchema;

use super::deserialize::{TOO_MANY, with_check_paths};

/// The most an error sentence quotes of a body, in bytes. A body may be megabytes of one wrong string.
const QUOTE_MAX: usize = 200;

/// The body of a call that takes no fields. Any JSON object will do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmptyBody {}

/// Why a body, or a query, is not what the call accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct BadBody {
    /// The field that is wrong, if it is one field, such as `ttlSeconds` or `filePaths[3]`.
    pub field: Option<String>,
    /// What is wrong, for people.
    pub sentence: String,
}

impl BadBody {
    /// One field is wrong. `what` continues the sentence after its name, as in "must not be empty".
    pub fn field(name: &str, what: impl std::fmt::Display) -> BadBody {
        BadBody { field: Some(name.to_owned()), sentence: format!("The field {name} {what}.") }
    }
}

/// Parses a body. An empty body counts as `{}`, so a call whose fields are all optional needs no body.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBody> {
    let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes };
    // The derived code would also accept a list of values in the order of the fields. No client should rely on that.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(BadBody { field: None, sentence: "The body is not a JSON object.".to_owned() });
    }
    // Keeping track of the field costs more than parsing, so it is done only for a body that is known to be wrong.
    serde_json::from_slice(bytes).map_err(|error| explain::<T>(bytes, error))
}

/// The same for a server that accepts at most so many paths in one check.
pub fn read_limited<T: DeserializeOwned>(bytes: &[u8], check_paths_max: usize) -> Result<T, BadBody> {
    with_check_paths(check_paths_max, || read(bytes))
}

/// The keys of a request: a single one or a list. The answers to the two differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneOrMany<'a> {
    /// From `filePath`.
    One(&'a str),
    /// From `filePaths`; not empty.
    Many(&'a [String]),
}

impl<'a> OneOrMany<'a> {
    /// Every key, in the order of the request.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (one, many) = match self {
            OneOrMany::One(key) => (Some(key), &[][..]),
            OneOrMany::Many(keys) => (None, keys),
        };
        one.into_iter().chain(many.iter().map(String::as_str))
    }

    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(self) -> usize {
        match self {
            OneOrMany::One(_) => 1,
            OneOrMany::Many(keys) => keys.len(),
        }
    }

    /// Requires exactly one of the two fields, and at least one key.
    pub(super) fn of(one: Option<&'a str>, many: Option<&'a [String]>) -> Result<OneOrMany<'a>, BadBody> {
        match (one, many) {
            (Some(key), None) => Ok(OneOrMany::One(key)),
            (None, Some([])) => Err(BadBody::field("filePaths", "must name at least one key")),
            (None, Some(keys)) => Ok(OneOrMany::Many(keys)),
            (None, None) => Err(BadBody::field("filePath", "is missing; send filePath, or filePaths for several")),
            (Some(_), Some(_)) => {
                Err(BadBody::field("filePaths", "must not be sent together with filePath; send one of the two"))
            }
        }
    }
}

/// Parses a body that is known to be wrong again, this time keeping track of the field.
fn explain<T: DeserializeOwned>(bytes: &[u8], first: serde_json::Error) -> BadBody {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let (path, error) = match serde_path_to_error::deserialize::<_, T>(&mut json) {
        // The value itself is valid, so the text after it is not.
        Ok(_) => return BadBody { field: None, sentence: format!("The body is not JSON: {first}.") },
        Err(error) => (error.path().to_string(), error.into_inner()),
    };
    let message = error.to_string();
    match error.classify() {
        Category::Data => {
            // The position helps with broken JSON; here the name of the field is better.
            let what = message.rsplit_once(" at line ").map_or(&*message, |(what, _)| what);
            let field = (path != ".").then_some(path).or_else(|| named_field(what));
            let sentence = match &field {
                Some(field) if what.starts_with("missing field") => format!("The field {field} is missing."),
                Some(field) if what.starts_with("duplicate field") => format!("The field {field} is given twice."),
                Some(field) if what.starts_with(TOO_MANY) => format!("The field {field} {what}."),
                Some(field) => format!("The field {field} is wrong: {}.", shortened(what)),
                None => format!("The body is wrong: {}.", shortened(what)),
            };
            BadBody { field, sentence }
        }
        Category::Syntax | Category::Eof | Category::Io => {
            BadBody { field: None, sentence: format!("The body is not JSON: {}.", shortened(&message)) }
        }
    }
}

/// The field that serde names in its message, such as "missing field `reason`"; the path does not contain it.
fn named_field(message: &str) -> Option<String> {
    let rest = message.strip_prefix("missing field `").or_else(|| message.strip_prefix("duplicate field `"))?;
    rest.strip_suffix('`').map(str::to_owned)
}

/// At most [`QUOTE_MAX`] bytes of a message, including its end, where serde says what it expected.
fn shortened(message: &str) -> String {
    if message.len() <= QUOTE_MAX {
        return message.to_owned();
    }
    let head = &message[..message.floor_char_boundary(QUOTE_MAX / 2)];
    let tail = &message[message.ceil_char_boundary(message.len() - QUOTE_MAX / 2)..];
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::super::limits::RESERVE_KEYS_MAX;
    use super::super::*;
    use super::*;

    fn reserve(body: &str) -> Result<Reserve, BadBody> {
        read::<Reserve>(body.as_bytes())
    }

    /// The named field, and the sentence.
    fn wrong(body: &str) -> (Option<String>, String) {
        let bad = reserve(body).unwrap_err();
        (bad.field, bad.sentence)
    }

    #[test]
    fn reads_all_fields_and_ignores_unknown_ones() {
        let ask = reserve(
            r#"{"filePath": "a", "ttlSeconds": 120, "mode": "collaborative", "reason": "why", "waitSeconds": 5,
                "ifVersion": 3, "encoding": "percent", "colour": {"deep": [1, 2]}}"#,
        );
        let expected = Reserve {
            file_path: Some("a".to_owned()),
            file_paths: None,
            ttl_seconds: Some(120),
            while_session: None,
            idle_seconds: None,
            mode: Some(Mode::Shared),
            reason: Some("why".into()),
            wait_seconds: Some(5),
            if_version: Some(3),
            encoding: Some(Encoding::Percent),
        };
        assert_eq!(ask, Ok(expected));
    }

    #[test]
    fn null_is_absent_and_an_empty_body_is_an_empty_object() {
        let nulls = r#"{"filePath": null, "filePaths": null, "ttlSeconds": null, "mode": null, "reason": null}"#;
        assert_eq!(reserve(nulls), Ok(Reserve::default()));
        assert_eq!(read::<EndSession>(b""), Ok(EndSession::default()));
        assert_eq!(read::<EndSession>(b" \r\n"), Ok(EndSession::default()));
        assert_eq!(read::<Override>(b"").unwrap_err().field.as_deref(), Some("reason"));
    }

    #[test]
    fn a_wrong_type_names_its_field() {
        for (body, field, sentence) in [
            (
                r#"{"ttlSeconds": "60"}"#,
                "ttlSeconds",
                r#"The field ttlSeconds is wrong: invalid type: string "60", expected a whole number."#,
            ),
            (
                r#"{"ttlSeconds": 60.5}"#,
                "ttlSeconds",
                "The field ttlSeconds is wrong: invalid type: floating point `60.5`, expected a whole number.",
            ),
            (
                r#"{"filePath": 7}"#,
                "filePath",
                "The field filePath is wrong: invalid type: integer `7`, expected a string.",
            ),
            (
                r#"{"filePaths": ["a", {}]}"#,
                "filePaths[1]",
                "The field filePaths[1] is wrong: invalid type: map, expected a string.",
            ),
            (
                r#"{"mode": "both"}"#,
                "mode",
                r#"The field mode is wrong: invalid value: string "both", expected "exclusive" or "shared" or "collaborative"."#,
            ),
            (
                r#"{"mode": {"shared": null}}"#,
                "mode",
                r#"The field mode is wrong: invalid type: map, expected "exclusive" or "shared" or "collaborative"."#,
            ),
            (r#"{"reason": "a", "reason": "b"}"#, "reason", "The field reason is given twice."),
        ] {
            assert_eq!(wrong(body), (Some(field.to_owned()), sentence.to_owned()), "{body}");
        }
        let missing = read::<UnlockRequest>(br#"{"filePath": "a"}"#).unwrap_err();
        assert_eq!(missing, BadBody::field("reason", "is missing"));
    }

    #[test]
    fn a_list_stops_at_its_limit() {
        let list = |count: usize| format!(r#"{{"filePaths": [{}""]}}"#, r#""","#.repeat(count - 1));
        assert_eq!(reserve(&list(RESERVE_KEYS_MAX)).unwrap().file_paths.unwrap().len(), RESERVE_KEYS_MAX);
        let (field, sentence) = wrong(&list(RESERVE_KEYS_MAX + 1));
        assert_eq!(field.as_deref(), Some("filePaths"));
        assert_eq!(sentence, "The field filePaths has more than 10000 entries; 10000 is the most for one request.");
        let updates = r#"{"ref": "a", "old": "", "new": ""},"#.repeat(limits::PUSH_UPDATES_MAX);
        let bad = read::<AnnouncePush>(format!(r#"{{"updates": [{updates}{}"#, &updates[..35]).as_bytes()).unwrap_err();
        assert_eq!(bad.field.as_deref(), Some("updates"));
        let check = br#"{"paths": ["a", "b"], "blobs": ["", "", ""]}"#;
        assert!(read::<Check>(check).is_ok() && read_limited::<Check>(check, 3).is_ok());
        assert_eq!(read_limited::<Check>(check, 2).unwrap_err().field.as_deref(), Some("blobs"));
        assert!(read::<Check>(check).is_ok());
    }

    #[test]
    fn a_body_that_is_not_an_object_is_refused() {
        for body in ["[]", "[\"a\"]", "7", "\"a\"", "null", "<html>"] {
            assert_eq!(wrong(body), (None, "The body is not a JSON object.".to_owned()), "{body}");
        }
        for body in
            ["{", "{\"filePath\": \"a\"", "{\"filePath\"}", "{} {}", "{}x", "{\"filePath\": \"\\ud800\"}", "{a:1}"]
        {
            let (field, sentence) = wrong(body);
            assert!(field.is_none() && sentence.starts_with("The body is not JSON: "), "{body}: {sentence}");
        }
        assert!(read::<Reserve>(b"{\"filePath\": \"\xff\"}").is_err());
    }

    #[test]
    fn numbers_out_of_range_are_checked_later() {
        for (number, read) in [
            ("-5", -5),
            ("0", 0),
            ("60.0", 60),
            ("6e1", 60),
            ("9223372036854775808", i64::MAX),
            ("99999999999999999999999999", i64::MAX),
            ("-99999999999999999999999999", i64::MIN),
            ("1e300", i64::MAX),
        ] {
            let ask = reserve(&format!(r#"{{"ttlSeconds": {number}}}"#)).unwrap();
            assert_eq!(ask.ttl_seconds, Some(read), "{number}");
        }
    }

    #[test]
    fn errors_about_deep_and_huge_bodies_are_short() {
        let deep = format!(r#"{{"filePath": {}"#, "[".repeat(100_000));
        assert!(wrong(&deep).1.len() < 400);
        let ignored = format!(r#"{{"x": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(reserve(&ignored), Ok(Reserve::default()), "ignored values are skipped without recursion");
        let long = format!(r#"{{"ttlSeconds": "{}"}}"#, "ü".repeat(100_000));
        let (field, sentence) = wrong(&long);
        assert_eq!(field.as_deref(), Some("ttlSeconds"));
        assert!(sentence.len() < 400 && sentence.ends_with("expected a whole number."), "{sentence}");
    }

    #[test]
    fn one_or_many_requires_exactly_one_field_and_one_key() {
        let keys = |body: &str| {
            let ask = reserve(body).unwrap();
            ask.one_or_many().map(|keys| keys.iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(keys(r#"{"filePath": "a"}"#), Ok(vec!["a".to_owned()]));
        assert_eq!(keys(r#"{"filePaths": ["a", "b"]}"#), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(keys("{}").unwrap_err().field.as_deref(), Some("filePath"));
        assert_eq!(keys(r#"{"filePaths": []}"#).unwrap_err().field.as_deref(), Some("filePaths"));
        assert_eq!(keys(r#"{"filePath": "a", "filePaths": ["b"]}"#).unwrap_err().field.as_deref(), Some("filePaths"));

        let most = Reserve { file_paths: Some(vec!["a".to_owned(); RESERVE_KEYS_MAX]), ..Reserve::default() };
        assert!(most.one_or_many().is_ok());
        let more = Reserve { file_paths: Some(vec!["a".to_owned(); RESERVE_KEYS_MAX + 1]), ..Reserve::default() };
        assert!(more.one_or_many().is_err());
    }

    #[test]
    fn a_check_accepts_either_field_and_an_empty_list() {
        let paths = |body: &str| read::<Check>(body.as_bytes()).unwrap().into_paths();
        assert_eq!(paths(r#"{"paths": ["a"]}"#), Ok(vec!["a".to_owned()]));
        assert_eq!(paths(r#"{"filePaths": ["a"]}"#), Ok(vec!["a".to_owned()]));
        assert_eq!(paths(r#"{"paths": []}"#), Ok(vec![]));
        assert!(paths("{}").is_err());
        assert!(paths(r#"{"paths": ["a"], "filePaths": ["a"]}"#).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = read::<Reserve>(&bytes);
            let _ = read::<Check>(&[b"{\"paths\":", &*bytes, b"}"].concat());
        }
    }
}
