//! Hooks in an agent's JSON.
//!
//! Most agents keep groups of hooks for each event: `{"hooks": {EVENT: [{"matcher": …, "hooks": [{"command": …}]}]}}`.
//! Copilot and Cursor keep the hooks themselves: `{"version": 1, "hooks": {EVENT: [{"command": …}]}}`. A hook is ours if its
//! command calls `git-dibs agent-hook`.

use jsonc_parser::cst::{CstArray, CstNode, CstObject};
use serde_json::Value;

use super::json::{JsonFile, input, value_of};
use super::part::Problem;

/// What tells our hooks from those of others.
pub const MARK: &str = "git-dibs agent-hook";

/// Our hooks in one file.
#[derive(Debug)]
pub struct Hooks {
    /// For each event, the entry in its list.
    pub events: Vec<(&'static str, Value)>,
    /// The file begins with the version of its format.
    pub has_version: bool,
}

impl Hooks {
    pub fn added(&self, text: &str) -> Result<String, Problem> {
        let file = JsonFile::parse(text)?;
        if self.has_version && file.top().get("version").is_none() {
            file.top().insert(0, "version", 1u64.into());
        }
        file.object(&["hooks"], true)?;
        for name in event_names(&file)? {
            if !self.events.iter().any(|(event, _)| *event == name) {
                remove_from(&file, &name)?;
            }
        }
        for (event, entry) in &self.events {
            let list = file.array(&["hooks"], event, true)?;
            list.iter().for_each(|list| put(list, entry));
        }
        Ok(file.text())
    }

    pub fn removed(&self, text: &str) -> Result<Option<String>, Problem> {
        let file = JsonFile::parse(text)?;
        let names = event_names(&file)?;
        let mut found = false;
        for name in &names {
            found |= remove_from(&file, name)?;
        }
        if !found {
            return Ok(Some(text.to_owned()));
        }
        if let Some(hooks) = file.object(&["hooks"], false)?
            && hooks.properties().is_empty()
            && let Some(property) = file.top().get("hooks")
        {
            property.remove();
        }
        Ok(file.text_unless_empty(if self.has_version { &["version"] } else { &["$version"] }))
    }
}

/// The events that have hooks.
fn event_names(file: &JsonFile<'_>) -> Result<Vec<String>, Problem> {
    let hooks = file.object(&["hooks"], false)?;
    Ok(hooks.iter().flat_map(CstObject::properties).filter_map(|one| one.decoded_name()).collect())
}

/// Makes `wanted` the only entry of ours, in the place of the first that is there.
fn put(list: &CstArray, wanted: &Value) {
    let ours: Vec<CstNode> = list.elements().into_iter().filter(|entry| whole_is_ours(&value_of(entry))).collect();
    take_out_of_groups(list);
    let mut ours = ours.into_iter();
    match ours.next() {
        None => drop(list.append(input(wanted))),
        Some(first) if value_of(&first) == *wanted => {}
        Some(first) => replace(first, wanted),
    }
    ours.for_each(CstNode::remove);
}

fn replace(node: CstNode, wanted: &Value) {
    if let Some(object) = node.as_object() {
        object.replace_with(input(wanted));
    }
}

/// Removes our entries from the list of an event, and the list if it is then empty. Whether there were any.
fn remove_from(file: &JsonFile<'_>, event: &str) -> Result<bool, Problem> {
    let is_list = file.object(&["hooks"], false)?.and_then(|hooks| hooks.array_value(event)).is_some();
    // What is not a list is not ours.
    let Some(list) = (if is_list { file.array(&["hooks"], event, false)? } else { None }) else { return Ok(false) };
    let ours: Vec<CstNode> = list.elements().into_iter().filter(|entry| whole_is_ours(&value_of(entry))).collect();
    let found = take_out_of_groups(&list) | !ours.is_empty();
    ours.into_iter().for_each(CstNode::remove);
    if found
        && list.elements().is_empty()
        && let Some(hooks) = file.object(&["hooks"], false)?
        && let Some(property) = hooks.get(event)
    {
        property.remove();
    }
    Ok(found)
}

/// Removes our hooks from groups that have hooks of others too. Whether there were any.
fn take_out_of_groups(list: &CstArray) -> bool {
    let mut found = false;
    for group in list.elements().iter().filter(|group| !whole_is_ours(&value_of(group))) {
        let hooks = group.as_object().and_then(|group| group.array_value("hooks"));
        for hook in hooks.iter().flat_map(CstArray::elements).filter(|hook| calls_us(&value_of(hook))) {
            hook.remove();
            found = true;
        }
    }
    found
}

/// A hook of ours, or a group with hooks of ours alone.
fn whole_is_ours(entry: &Value) -> bool {
    match entry["hooks"].as_array() {
        Some(hooks) => !hooks.is_empty() && hooks.iter().all(calls_us),
        None => calls_us(entry),
    }
}

fn calls_us(hook: &Value) -> bool {
    ["command", "bash"].iter().any(|name| hook[*name].as_str().is_some_and(|command| command.contains(MARK)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ours() -> Hooks {
        let entry = |matcher: &str| json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": "exec git-dibs agent-hook x" }] });
        Hooks { events: vec![("PreToolUse", entry("Edit")), ("PostToolUse", entry("Bash"))], has_version: false }
    }

    /// Adds, checks that adding again changes nothing, and removes again.
    #[track_caller]
    fn added_and_removed(before: &str) -> (String, Option<String>) {
        let after = ours().added(before).unwrap();
        assert_eq!(ours().added(&after).unwrap(), after, "adding again changes nothing");
        let removed = ours().removed(&after).unwrap();
        (after, removed)
    }

    #[test]
    fn a_new_file_has_only_our_hooks_and_is_removed_again() {
        let (after, removed) = added_and_removed("");
        assert!(after.starts_with("{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n"), "{after}");
        assert!(after.ends_with("}\n") && !after.ends_with("\n\n"), "{after:?}");
        assert_eq!(removed, None);
    }

    #[test]
    fn what_is_there_is_kept_byte_for_byte() {
        let texts = [
            "{\n    // mine\n    \"a\": 1, // one\n    \"hooks\": {\n        \"PreToolUse\": [\n            {\"matcher\": \"Bash\", \"hooks\": \
             [{\"type\": \"command\", \"command\": \"x\"}]} // theirs\n        ],\n    },\n}\n",
            "{\r\n\t\"permissions\": {\"allow\": [\"Bash(ls)\"]}\r\n}\r\n",
            "\u{feff}{\n  \"a\": [1,2,   3],\n  /* block */\n  \"b\": null\n}",
            "{\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"say done\" }] }\n    ]\n  }\n}\n",
            "// head\n{\n  \"z\": 1e3\n}\n// tail\n",
        ];
        for before in texts {
            let (after, removed) = added_and_removed(before);
            assert_eq!(removed.as_deref(), Some(before));
            let mut rest = after.as_str();
            for line in before.lines() {
                // A comma may follow the last entry now.
                let body = line.trim_end_matches(['\r', ',']).trim_start_matches('\u{feff}').trim();
                let body = body.split(" //").next().unwrap();
                let at = rest.find(body).unwrap_or_else(|| panic!("{body:?} is missing in {after}"));
                rest = &rest[at + body.len()..];
            }
        }
    }

    #[test]
    fn an_older_entry_is_replaced_where_it_is() {
        let before = r#"{"hooks": {"PreToolUse": [
            {"matcher": "A", "hooks": [{"command": "git-dibs agent-hook old"}]},
            {"matcher": "B", "hooks": [{"command": "theirs"}, {"command": "git-dibs agent-hook old"}]},
            {"matcher": "C", "hooks": [{"command": "git-dibs agent-hook old"}]}],
            "Stop": [{"hooks": [{"command": "git-dibs agent-hook old"}]}]}}"#;
        let (after, removed) = added_and_removed(before);
        let value: Value = serde_json::from_str(&after).unwrap();
        let hooks = &value["hooks"];
        assert_eq!(
            hooks["PreToolUse"],
            json!([ours().events[0].1, {"matcher": "B", "hooks": [{"command": "theirs"}]}])
        );
        assert_eq!(hooks["PostToolUse"], json!([ours().events[1].1]));
        assert_eq!(hooks.get("Stop"), None, "we hook it no longer");
        let left: Value = serde_json::from_str(&removed.unwrap()).unwrap();
        assert_eq!(left, json!({"hooks": {"PreToolUse": [{"matcher": "B", "hooks": [{"command": "theirs"}]}]}}));
    }

    #[test]
    fn what_cannot_be_parsed_is_refused_with_its_line() {
        let refused = |text: &str| {
            let problem = ours().added(text).unwrap_err();
            format!("{}: {}", problem.line, problem.what)
        };
        assert!(refused("{\n  \"a\": 1\n  \"b\": 2\n}").starts_with("2: this is not JSON: "));
        assert!(refused("{\n  a: 1\n}").starts_with("2: this is not JSON: "));
        assert!(refused("{} {}").starts_with("1: this is not JSON: "));
        assert_eq!(refused("[]"), "1: this is not a JSON object");
        assert_eq!(refused("{\n\n  \"hooks\": []\n}"), "3: hooks is not an object");
        assert_eq!(refused("{\"hooks\": {\n\"PreToolUse\": {}}}"), "2: hooks.PreToolUse is not a list");
        assert_eq!(refused("{\"hooks\": {},\n\"hooks\": {}}"), "2: hooks occurs twice");
        assert_eq!(
            refused("{\"hooks\": {\"PreToolUse\": [],\n\n\"PreToolUse\": []}}"),
            "3: hooks.PreToolUse occurs twice"
        );
    }

    #[test]
    fn removing_what_is_not_there_changes_nothing() {
        for text in
            ["{}", "{ }\n", "{\"hooks\": {}}", "{\"hooks\": {\"PreToolUse\": [1, \"x\", {\"hooks\": 3}], \"Stop\": 7}}"]
        {
            assert_eq!(ours().removed(text).unwrap().as_deref(), Some(text));
        }
    }

    #[test]
    fn a_file_with_a_version_gets_it_first() {
        let hooks =
            Hooks { events: vec![("preToolUse", json!({ "bash": "git-dibs agent-hook x" }))], has_version: true };
        let after = hooks.added("").unwrap();
        assert!(after.starts_with("{\n  \"version\": 1,\n  \"hooks\""), "{after}");
        assert_eq!(hooks.removed(&after).unwrap(), None);
        let theirs =
            "{\n  \"version\": 1,\n  \"hooks\": {\n    \"stop\": [\n      { \"command\": \"x\" }\n    ]\n  }\n}\n";
        assert_eq!(hooks.removed(&hooks.added(theirs).unwrap()).unwrap().as_deref(), Some(theirs));
    }
}
