//! Programs of others that speak MCP, as they come from their registries: the official Python client, and the inspector's
//! command line. `./test` puts them into `target/mcp`; what is missing there is skipped.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::process::printed;
use crate::world::{PROGRAM, Run, World, fetched, skip};

/// A program in `target/mcp`; none if it is not there.
fn program(path: &str, name: &str) -> Option<PathBuf> {
    let found = fetched("mcp").join(path);
    if found.exists() {
        return Some(found);
    }
    skip(&format!("MCP with {name}, because it is not in target/mcp"));
    None
}

#[test]
fn the_official_python_client_uses_every_tool_over_both_transports() {
    let Some(python) = program("python/bin/python", "the official Python client") else { return };
    let world = World::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
    let (ana, bo) = (world.session("ana").token, world.session("bo").token);
    let output = world.command(python, "repo").args(["-B", script, PROGRAM, world.url(), &ana, &bo]).run();
    assert!(output.status.success(), "{}", printed(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 6, "two transports, three ways to begin: {said}");
}

#[test]
fn the_inspector_lists_and_calls_the_tools_over_both_transports() {
    let script = "node/node_modules/@modelcontextprotocol/inspector-cli/build/index.js";
    let Some(inspector) = program(script, "the inspector") else { return };
    let world = World::new();
    let ana = world.session("ana");
    world.session("bo").hold("src/b.rs");
    let (url, bearer) = (format!("{}/mcp", world.url()), format!("Authorization: Bearer {}", ana.token));
    let over_http = vec![&*url, "--transport", "http", "--header", &*bearer];
    let over_stdio = vec![PROGRAM, "mcp"];
    for target in [over_http, over_stdio] {
        let inspect = |more: &[&str]| -> Value {
            let mut command = world.command("node", "repo");
            let output = command.env("DIBS_TOKEN", &ana.token).arg(&inspector).args(&target).args(more).run();
            assert!(output.status.success(), "{target:?} {more:?}: {}", printed(&output));
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&output)))
        };
        let tools = inspect(&["--method", "tools/list"]);
        assert!(tools["tools"].as_array().unwrap().len() >= 10, "{tools}");
        let call = |tool: &str, path: &str| {
            let path = format!("path={path}");
            inspect(&["--method", "tools/call", "--tool-name", tool, "--tool-arg", &path])["structuredContent"].clone()
        };
        assert_eq!(call("reserve", "src/a.rs")["status"], "reserved");
        let refused = call("reserve", "src/b.rs");
        assert_eq!((&refused["status"], &refused["conflicts"][0]["holder"]), (&json!("conflict"), &json!("bo")));
        assert_eq!(call("release", "src/a.rs")["released_count"], 1);
    }
}
