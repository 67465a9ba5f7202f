//! Our MCP server in Codex's TOML: `[mcp_servers.dibs]`.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::mcp_server::NAME;
use super::part::Problem;

const SERVERS: &str = "mcp_servers";

/// The MCP server in one file.
#[derive(Debug)]
pub struct TomlServer;

impl TomlServer {
    pub fn added(&self, text: &str) -> Result<String, Problem> {
        let mut document = parse(text)?;
        let is_inline = document.get(SERVERS).is_some_and(Item::is_inline_table);
        let servers = document.entry(SERVERS).or_insert_with(|| {
            let mut servers = Table::new();
            // Without a line [mcp_servers] of its own.
            servers.set_implicit(true);
            Item::Table(servers)
        });
        let Some(servers) = servers.as_table_like_mut() else {
            return Err(Problem::new(line_of(text, SERVERS), "mcp_servers is not a table"));
        };
        match servers.get(NAME) {
            Some(there) if is_current(there) => return Ok(text.to_owned()),
            Some(there) if !is_ours(there) => {
                return Err(Problem::new(line_of(text, NAME), "mcp_servers.dibs is another MCP server; rename it"));
            }
            _ => {}
        }
        let mut server = Table::new();
        server.insert("command", value("git-dibs"));
        server.insert("args", value(Array::from_iter(["mcp"])));
        let server = if is_inline { value(server.into_inline_table()) } else { Item::Table(server) };
        servers.insert(NAME, server);
        Ok(document.to_string())
    }

    pub fn removed(&self, text: &str) -> Result<Option<String>, Problem> {
        let mut document = parse(text)?;
        let servers = document.get_mut(SERVERS).and_then(Item::as_table_like_mut);
        let Some(servers) = servers.filter(|servers| servers.get(NAME).is_some_and(is_ours)) else {
            return Ok(Some(text.to_owned()));
        };
        servers.remove(NAME);
        let is_left_empty = servers.is_empty();
        if is_left_empty && document.get(SERVERS).and_then(Item::as_table).is_some_and(Table::is_implicit) {
            document.remove(SERVERS);
        }
        let text = document.to_string();
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }
}

fn parse(text: &str) -> Result<DocumentMut, Problem> {
    text.parse::<DocumentMut>().map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::at(text, at, format!("this is not TOML: {}", error.message().replace('\n', ", ")))
    })
}

/// The first line with this word.
fn line_of(text: &str, word: &str) -> usize {
    text.lines().position(|line| line.contains(word)).map_or(1, |index| index + 1)
}

fn words(server: &Item) -> Option<(&str, Vec<&str>)> {
    let server: &dyn TableLike = server.as_table_like()?;
    let args = server.get("args").and_then(Item::as_array);
    let args = args.map(|args| args.iter().filter_map(|arg| arg.as_str()).collect()).unwrap_or_default();
    Some((server.get("command")?.as_str()?, args))
}

/// Whether a server runs `git-dibs mcp`.
fn is_ours(server: &Item) -> bool {
    let is_program = |command: &str| command.rsplit('/').next() == Some("git-dibs");
    words(server).is_some_and(|(command, args)| is_program(command) && args.first() == Some(&"mcp"))
}

/// Whether a server is as we write it. Further keys, such as a time limit, are the user's.
fn is_current(server: &Item) -> bool {
    words(server) == Some(("git-dibs", vec!["mcp"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "[mcp_servers.dibs]\ncommand = \"git-dibs\"\nargs = [\"mcp\"]\n";

    #[test]
    fn our_server_is_added_and_removed_again() {
        assert_eq!(TomlServer.added("").unwrap(), OURS);
        assert_eq!(TomlServer.removed(OURS).unwrap(), None);
        for before in [
            "# mine\nmodel = \"x\" # why\n\n[projects.\"/a b\"]\ntrust_level = \"trusted\"\n",
            "[mcp_servers.db]\ncommand = \"x\"\n\n[tui]\nnotifications = true\n",
            "[mcp_servers]\n[mcp_servers.db]\nurl = \"http://x\"\n",
        ] {
            let after = TomlServer.added(before).unwrap();
            assert!(after.contains(OURS), "{after}");
            for line in before.lines() {
                assert!(after.lines().any(|one| one == line), "{line:?} is missing in {after}");
            }
            assert_eq!(TomlServer.added(&after).unwrap(), after);
            assert_eq!(TomlServer.removed(&after).unwrap().as_deref(), Some(before), "{after}");
        }
    }

    #[test]
    fn an_inline_table_stays_one() {
        let after = TomlServer.added("mcp_servers = { db = { command = \"x\" } }\n").unwrap();
        assert!(after.contains("dibs = { command = \"git-dibs\", args = [\"mcp\"] }"), "{after}");
        after.parse::<DocumentMut>().unwrap();
    }

    #[test]
    fn what_the_user_added_to_our_server_is_kept() {
        let own = format!("{OURS}startup_timeout_sec = 3\n");
        assert_eq!(TomlServer.added(&own).unwrap(), own);
        assert_eq!(TomlServer.removed(&own).unwrap(), None);
    }

    #[test]
    fn what_is_not_ours_to_change_is_refused_with_its_line() {
        let refused = |text: &str| TomlServer.added(text).unwrap_err();
        let problem = refused("a = 1\nb = = 2\n");
        assert!(problem.line == 2 && problem.what.starts_with("this is not TOML: "), "{problem:?}");
        assert_eq!(refused("a = 1\nmcp_servers = 3\n"), Problem::new(2, "mcp_servers is not a table"));
        let theirs = "[mcp_servers.dibs]\ncommand = \"other\"\n";
        assert_eq!(refused(theirs), Problem::new(1, "mcp_servers.dibs is another MCP server; rename it"));
        assert_eq!(TomlServer.removed(theirs).unwrap().as_deref(), Some(theirs));
    }
}
