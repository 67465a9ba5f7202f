//! JSON with comments, edited without disturbing what is not ours.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;

use super::part::Problem;

/// JSON, and what agents accept beside it: comments and commas before a closing bracket.
const ACCEPTED: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Some editors put it before the first character.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file of JSON whose value is an object.
pub struct JsonFile<'t> {
    text: &'t str,
    root: CstRootNode,
    top: CstObject,
}

impl<'t> JsonFile<'t> {
    /// Parses a text. An empty text is an empty object.
    pub fn parse(text: &'t str) -> Result<JsonFile<'t>, Problem> {
        let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let root = CstRootNode::parse(body, &ACCEPTED)
            .map_err(|error| Problem::new(error.line_display(), format!("this is not JSON: {}", error.kind())))?;
        let top = root.object_value_or_create().ok_or_else(|| Problem::new(1, "this is not a JSON object"))?;
        Ok(JsonFile { text, root, top })
    }

    pub fn top(&self) -> &CstObject {
        &self.top
    }

    /// The object at this path of names. With `create`, what is missing is added; without, a missing one is none.
    pub fn object(&self, path: &[&str], create: bool) -> Result<Option<CstObject>, Problem> {
        let mut object = self.top.clone();
        for (depth, name) in path.iter().enumerate() {
            let path = &path[..=depth];
            self.check_single(&object, name, path)?;
            let found = match create {
                true => object.object_value_or_create(name),
                false if object.get(name).is_none() => return Ok(None),
                false => object.object_value(name),
            };
            object = found.ok_or_else(|| self.problem(path, "is not an object"))?;
        }
        Ok(Some(object))
    }

    /// The array of this name in the object at `path`, in the same way.
    pub fn array(&self, path: &[&str], name: &str, create: bool) -> Result<Option<CstArray>, Problem> {
        let Some(object) = self.object(path, create)? else { return Ok(None) };
        let whole: Vec<&str> = path.iter().copied().chain([name]).collect();
        self.check_single(&object, name, &whole)?;
        if !create && object.get(name).is_none() {
            return Ok(None);
        }
        let found = if create { object.array_value_or_create(name) } else { object.array_value(name) };
        found.map(Some).ok_or_else(|| self.problem(&whole, "is not a list"))
    }

    /// A name that occurs twice means something else to each reader, so it is not ours to choose.
    pub fn check_single(&self, object: &CstObject, name: &str, path: &[&str]) -> Result<(), Problem> {
        let same = object.properties().into_iter().filter(|one| one.decoded_name().as_deref() == Some(name));
        if same.count() > 1 { Err(self.problem(path, "occurs twice")) } else { Ok(()) }
    }

    /// A problem with the value at this path.
    pub fn problem(&self, path: &[&str], what: &str) -> Problem {
        Problem::new(self.line_of(path), format!("{} {what}", path.join(".")))
    }

    /// The edited text.
    pub fn text(&self) -> String {
        let mark = if self.text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.to_string() } else { String::new() };
        let mut text = format!("{mark}{}", self.root);
        if self.text.trim().is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// The edited text; none if nothing is left in it that says anything.
    pub fn text_unless_empty(&self, ignored: &[&str]) -> Option<String> {
        let is_ignored = |name: Option<String>| name.is_some_and(|name| ignored.contains(&name.as_str()));
        let is_empty = self.top.properties().iter().all(|one| is_ignored(one.decoded_name()));
        let text = self.text();
        if is_empty && !has_comment(&text) { None } else { Some(text) }
    }

    /// The line of the last value at this path, or of the deepest one that exists.
    fn line_of(&self, path: &[&str]) -> usize {
        let body = self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(self.text);
        let parsed = jsonc_parser::parse_to_ast(body, &Default::default(), &ACCEPTED);
        let Ok(Some(mut value)) = parsed.as_ref().map(|parsed| parsed.value.as_ref()) else { return 1 };
        let mut position = 0;
        for name in path {
            let object = value.as_object();
            let found = object.and_then(|object| object.properties.iter().rfind(|one| one.name.as_str() == *name));
            let Some(found) = found else { break };
            position = found.range.start;
            value = &found.value;
        }
        Problem::at(body, position, "").line
    }
}

/// Whether valid JSON has a comment: outside of strings, only a comment has a slash.
fn has_comment(text: &str) -> bool {
    let (mut in_string, mut is_escaped) = (false, false);
    text.chars().any(|c| {
        match c {
            '"' if !is_escaped => in_string = !in_string,
            '/' if !in_string => return true,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        false
    })
}

/// The value of a node.
pub fn value_of(node: &CstNode) -> Value {
    node.to_serde_value().unwrap_or_default()
}

/// A value in the form that can be inserted.
pub fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(all) => CstInputValue::Object(all.iter().map(|(name, one)| (name.clone(), input(one))).collect()),
    }
}
