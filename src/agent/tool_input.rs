//! The arguments of an agent's tool, whatever the agent calls them.
//!
//! Only what names files or a command is kept: the new text of a file may be large, and is skipped while it is read.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::text::shell;

/// Fields that name a file.
const PATH_FIELDS: [&str; 8] =
    ["file_path", "filePath", "path", "notebook_path", "notebookPath", "target_file", "targetFile", "filename"];

/// Fields with the new text of a file. A tool that has one of them and a path changes that file, whatever it is called.
const TEXT_FIELDS: [&str; 12] = [
    "content",
    "contents",
    "file_text",
    "fileText",
    "new_string",
    "newString",
    "new_str",
    "newStr",
    "new_source",
    "newText",
    "old_string",
    "oldString",
];

/// Fields with a list of edits, which may name files of their own.
const LIST_FIELDS: [&str; 4] = ["edits", "files", "changes", "operations"];

/// Fields with a patch.
const PATCH_FIELDS: [&str; 3] = ["patchText", "patch", "input"];

/// Fields with the directory in which a command runs.
const DIR_FIELDS: [&str; 6] = ["workdir", "dir_path", "directory", "working_directory", "workingDirectory", "cwd"];

/// Lists of edits inside of lists are read to this depth.
const DEPTH_MAX: usize = 4;

/// The arguments of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolInput {
    /// The files that are named.
    pub paths: Vec<String>,
    /// The shell command; for some tools, the patch.
    pub command: Option<String>,
    /// The patch.
    pub patch: Option<String>,
    /// The directory in which the command runs, if it is not the agent's own.
    pub dir: Option<String>,
    /// Whether there is new text for a file.
    pub has_text: bool,
}

impl<'de> Deserialize<'de> for ToolInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ToolInput, D::Error> {
        let mut input = ToolInput::default();
        Reader { input: &mut input, depth: 0, field: Field::All }.deserialize(deserializer)?;
        Ok(input)
    }
}

/// What the value that is read next belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    /// The arguments themselves, or an item of a list of edits.
    All,
    Path,
    Command,
    /// An item of a command that is a list of words.
    Word,
    Patch,
    Dir,
    List,
}

struct Reader<'a> {
    input: &'a mut ToolInput,
    depth: usize,
    field: Field,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of a tool")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        match self.field {
            // Some agents write the arguments as text; a patch may be all there is.
            Field::All if self.depth == 0 && text.trim_start().starts_with('{') => {
                if let Ok(inner) = serde_json::from_str::<ToolInput>(text) {
                    *self.input = inner;
                }
            }
            Field::All => self.input.patch = Some(text.to_owned()),
            Field::Path | Field::List => self.input.paths.push(text.to_owned()),
            Field::Command => self.input.command = Some(text.to_owned()),
            Field::Word => {
                // A script in one of the words, as in `bash -c`, must stay one word.
                let quoted = || String::from_utf8_lossy(&shell::quote(text.as_bytes())).into_owned();
                let word = shell::word(text).unwrap_or_else(quoted);
                let command = self.input.command.get_or_insert_default();
                command.push_str(if command.is_empty() { "" } else { " " });
                command.push_str(&word);
            }
            Field::Patch => self.input.patch = Some(text.to_owned()),
            Field::Dir => self.input.dir = Some(text.to_owned()).filter(|dir| !dir.trim().is_empty()),
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            let field = match &*name {
                name if PATH_FIELDS.contains(&name) => Some(Field::Path),
                name if PATCH_FIELDS.contains(&name) => Some(Field::Patch),
                name if LIST_FIELDS.contains(&name) => Some(Field::List),
                name if DIR_FIELDS.contains(&name) => Some(Field::Dir),
                "command" | "cmd" => Some(Field::Command),
                _ => None,
            };
            // A list of files may be one to read.
            self.input.has_text |= TEXT_FIELDS.contains(&&*name) || (field == Some(Field::List) && name != "files");
            match field.filter(|_| self.depth < DEPTH_MAX) {
                Some(field) => map.next_value_seed(Reader { input: self.input, depth: self.depth + 1, field })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Reader { input, depth, field } = self;
        let field = if field == Field::Command { Field::Word } else { field };
        while items.next_element_seed(Item(Reader { input, depth: depth + 1, field }))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// An item of a list. An item below the depth limit is skipped.
struct Item<'a>(Reader<'a>);

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.0.depth >= DEPTH_MAX {
            return IgnoredAny::deserialize(deserializer).map(drop);
        }
        self.0.deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> ToolInput {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn files_are_found_under_every_name() {
        for name in PATH_FIELDS {
            let input = read(&format!(r#"{{"{name}": "a.rs", "x": [1, {{"path": "no"}}], "content": "text"}}"#));
            assert_eq!((input.paths, input.has_text), (vec!["a.rs".to_owned()], true), "{name}");
        }
        let many = read(r#"{"filePath": "a", "edits": [{"filePath": "b", "newString": "x"}, {"path": "c"}, 7]}"#);
        assert_eq!(many.paths, ["a", "b", "c"]);
        assert_eq!(read(r#"{"files": ["a", "b"]}"#).paths, ["a", "b"]);
        assert_eq!(read(r#"{"path": null, "command": 5}"#), ToolInput::default());
    }

    #[test]
    fn arguments_may_be_text() {
        assert_eq!(read(r#""*** Begin Patch""#).patch.as_deref(), Some("*** Begin Patch"));
        assert_eq!(read(r#""{\"path\": \"a\", \"new_str\": \"b\"}""#).paths, ["a"]);
        assert_eq!(read(r#"{"command": ["git", "commit"]}"#).command.as_deref(), Some("git commit"));
    }

    #[test]
    fn a_script_in_a_list_of_words_was_torn_apart() {
        let input = read(r#"{"command": ["bash", "-lc", "cd sub; cd ..; apply_patch <<'P'\n*** Begin Patch\nP"]}"#);
        let patches = crate::agent::command_line::patches(&input.command.unwrap());
        assert_eq!(patches.len(), 1);
        assert_eq!(patches[0].dir, std::path::Path::new("sub/.."));
    }

    #[test]
    fn deep_lists_end() {
        let deep = format!("{}{}", r#"{"edits":["#.repeat(40), "]}".repeat(40));
        assert!(read(&deep).paths.is_empty());
    }
}
