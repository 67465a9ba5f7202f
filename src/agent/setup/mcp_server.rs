//! Our MCP server in an agent's JSON: `{"mcpServers": {"dibs": {"command": "git-dibs", "args": ["mcp"]}}}`, or nearly so.

use serde_json::Value;

use super::json::{JsonFile, input, value_of};
use super::part::Problem;

/// The name of our server, which agents put before the names of its tools.
pub const NAME: &str = "dibs";

/// The MCP server in one file.
#[derive(Debug)]
pub struct McpServer {
    /// The object that has the servers.
    pub servers: &'static str,
    pub entry: Value,
    /// Names beside `servers` that say nothing by themselves.
    pub ignored: &'static [&'static str],
    /// What the agent adds to a file without it, by name and value. A new file has it, so that the agent does not change it.
    pub heading: Option<(&'static str, &'static str)>,
}

impl McpServer {
    pub fn added(&self, text: &str) -> Result<String, Problem> {
        let file = JsonFile::parse(text)?;
        if let Some((name, value)) = self.heading.filter(|_| text.is_empty()) {
            file.top().insert(0, name, value.into());
        }
        let Some(servers) = file.object(&[self.servers], true)? else { return Ok(text.to_owned()) };
        let path = [self.servers, NAME];
        file.check_single(&servers, NAME, &path)?;
        match servers.get(NAME).map(|property| (property.value().map(|value| value_of(&value)), property)) {
            None => drop(servers.append(NAME, input(&self.entry))),
            Some((Some(value), _)) if value == self.entry => return Ok(text.to_owned()),
            Some((Some(value), property)) if is_ours(&value) => property.set_value(input(&self.entry)),
            Some(_) => return Err(file.problem(&path, "is another MCP server; rename it")),
        }
        Ok(file.text())
    }

    pub fn removed(&self, text: &str) -> Result<Option<String>, Problem> {
        let file = JsonFile::parse(text)?;
        let Some(servers) = file.object(&[self.servers], false)? else { return Ok(Some(text.to_owned())) };
        let ours = servers.get(NAME).filter(|one| one.value().is_some_and(|value| is_ours(&value_of(&value))));
        let Some(ours) = ours else { return Ok(Some(text.to_owned())) };
        ours.remove();
        if servers.properties().is_empty()
            && let Some(property) = file.top().get(self.servers)
        {
            property.remove();
        }
        Ok(file.text_unless_empty(self.ignored))
    }
}

/// Whether a server runs `git-dibs mcp`.
fn is_ours(server: &Value) -> bool {
    let words = [&server["command"], &server["args"]].into_iter().flat_map(|value| match value {
        Value::Array(words) => words.clone(),
        one => vec![one.clone()],
    });
    let words: Vec<String> = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
    let is_program = |word: &String| word.rsplit('/').next() == Some("git-dibs");
    words.first().is_some_and(is_program) && words.get(1).map(String::as_str) == Some("mcp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server() -> McpServer {
        McpServer {
            servers: "mcpServers",
            entry: json!({ "command": "git-dibs", "args": ["mcp"] }),
            ignored: &[],
            heading: None,
        }
    }

    #[test]
    fn our_server_is_added_beside_others_and_removed_again() {
        let before = "{\n  // ours\n  \"mcpServers\": {\n    \"db\": { \"command\": \"x\" }\n  }\n}\n";
        let after = server().added(before).unwrap();
        assert!(after.contains("\"db\": { \"command\": \"x\" },\n    \"dibs\": {\n"), "{after}");
        assert_eq!(server().added(&after).unwrap(), after);
        assert_eq!(server().removed(&after).unwrap().as_deref(), Some(before));
        assert_eq!(server().removed(&server().added("").unwrap()).unwrap(), None);
    }

    #[test]
    fn ours_is_brought_up_to_date_and_anothers_is_left_alone() {
        let old = r#"{"mcpServers": {"dibs": {"command": "/usr/bin/git-dibs", "args": ["mcp"], "env": {}}}}"#;
        let after: Value = serde_json::from_str(&server().added(old).unwrap()).unwrap();
        assert_eq!(after["mcpServers"]["dibs"], server().entry);
        let theirs = "{\"mcpServers\": {\n\"dibs\": {\"command\": \"dibs-server\"}}}";
        let problem = server().added(theirs).unwrap_err();
        assert_eq!((problem.line, &*problem.what), (2, "mcpServers.dibs is another MCP server; rename it"));
        assert_eq!(server().removed(theirs).unwrap().as_deref(), Some(theirs));
    }

    #[test]
    fn a_new_file_has_what_the_agent_would_add() {
        let heading = Some(("$schema", "https://example.org/config.json"));
        let server = McpServer { ignored: &["$schema"], heading, ..server() };
        let after = server.added("").unwrap();
        assert!(
            after.starts_with("{\n  \"$schema\": \"https://example.org/config.json\",\n  \"mcpServers\""),
            "{after}"
        );
        assert_eq!(server.removed(&after).unwrap(), None);
        assert!(!server.added("{\n}\n").unwrap().contains("$schema"));
    }

    #[test]
    fn a_command_that_is_a_list_is_recognised() {
        assert!(is_ours(&json!({ "type": "local", "command": ["git-dibs", "mcp"] })));
        assert!(!is_ours(&json!({ "command": ["npx", "git-dibs", "mcp"] })));
        assert!(!is_ours(&json!({ "url": "http://x" })));
    }
}
