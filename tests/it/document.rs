//! `fixtures/openapi.json`, and whether it knew what a server just did.

use std::sync::LazyLock;

use serde_json::Value;

use crate::http::Answer;

/// Where the document is checked in.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/openapi.json");

/// Words of refusals that any call may meet before it is even looked at; the introduction tells of them once.
const GATE: [&str; 3] = ["web page of another site", "does not accept that Host name", "must not be in a URL"];

static CHECKED_IN: LazyLock<Document> = LazyLock::new(|| {
    let text = std::fs::read_to_string(FILE).unwrap();
    Document { json: serde_json::from_str(&text).expect("the document is JSON") }
});

pub struct Document {
    pub json: Value,
}

impl Document {
    pub fn checked_in() -> &'static Document {
        &CHECKED_IN
    }

    /// Method, path and description of every call.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.json["paths"].as_object().expect("there are paths");
        paths.iter().flat_map(|(path, item)| {
            let calls = item.as_object().expect("a path has methods");
            calls.iter().map(move |(method, call)| (&**method, &**path, call))
        })
    }

    /// The call a request is for. A path without variable parts goes before one with them, as in the router.
    pub fn call(&self, method: &str, target: &str) -> Option<&Value> {
        let path = target.split('?').next().unwrap();
        let fits = |template: &str| {
            let (mut parts, mut asked) = (template.split('/'), path.split('/'));
            parts
                .by_ref()
                .zip(asked.by_ref())
                .all(|(part, text)| part == text || (part.starts_with('{') && !text.is_empty()))
                && template.split('/').count() == path.split('/').count()
        };
        let fitting = self.calls().filter(|(known, template, _)| known.eq_ignore_ascii_case(method) && fits(template));
        fitting.min_by_key(|(_, template, _)| template.contains('{')).map(|(_, _, call)| call)
    }

    /// The codes a call may refuse with, at this status.
    pub fn codes(&self, call: &Value, status: &str) -> Vec<String> {
        let schema = &call["responses"][status]["content"]["application/json"]["schema"];
        let codes = schema["allOf"][1]["properties"]["code"]["enum"].as_array();
        codes.into_iter().flatten().map(|code| code.as_str().expect("codes are text").to_owned()).collect()
    }

    pub fn resolve(&self, value: &Value) -> Value {
        match value["$ref"].as_str() {
            Some(reference) => self.json.pointer(&reference[1..]).expect("references lead somewhere").clone(),
            None => value.clone(),
        }
    }

    /// Every answer to a call in the document has a status that is described there, and a code too if it is a refusal.
    #[track_caller]
    pub fn knows(&self, method: &str, target: &str, answer: &Answer) {
        let Some(call) = self.call(method, target) else {
            assert!(answer.status >= 400, "{method} {target} is not in the document: {answer}");
            return;
        };
        if answer.status >= 400 && GATE.iter().any(|words| answer.json()["error"].to_string().contains(words)) {
            return;
        }
        let status = answer.status.to_string();
        assert!(call["responses"].get(&*status).is_some(), "{method} {target} is not said to answer {answer}");
        if answer.status >= 400 {
            let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
            assert!(self.codes(call, &status).contains(&code), "{method} {target} is not said to answer {answer}");
        }
    }
}
