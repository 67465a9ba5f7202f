//! Setting agents up, and taking everything out again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::world::World;

const AGENTS: [&str; 8] = ["claude", "codex", "gemini", "copilot", "qwen", "opencode", "cursor", "aider"];

/// The files of the work tree and of the home directory, with their contents.
fn files(world: &World) -> BTreeMap<String, String> {
    fn collect(dir: &Path, top: &Path, all: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() != ".git" && !name.ends_with("git-dibs/backups") => {
                    all.insert(format!("{name}/"), String::new());
                    collect(&path, top, all);
                }
                true => {}
                false => drop(all.insert(name, fs::read_to_string(&path).unwrap())),
            }
        }
    }
    let mut all = BTreeMap::new();
    collect(&world.path("app"), world.dir(), &mut all);
    collect(&world.path("home"), world.dir(), &mut all);
    // The directory of the copies stays.
    all.retain(|name, _| !name.starts_with("home/.local"));
    all
}

/// Files of others, in all the formats.
fn write_theirs(world: &World) {
    let theirs = "{\n    // ours\n    \"permissions\": { \"allow\": [\"Bash(ls)\"] },\n    \"hooks\": {\n        \"PreToolUse\": [\n            \
                  { \"matcher\": \"Bash\", \"hooks\": [{ \"type\": \"command\", \"command\": \"./check\" }] }\n        ]\n    }\n}\n";
    for dir in ["app/", "home/"] {
        for file in [".claude/settings.json", ".gemini/settings.json", ".qwen/settings.json", ".codex/hooks.json"] {
            let path = world.path(dir).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, theirs).unwrap();
        }
        fs::write(world.path(dir).join(".codex/config.toml"), "# mine\nmodel = \"x\"\n\n[tui]\ntheme = \"dark\"\n")
            .unwrap();
        fs::write(world.path(dir).join(".aider.conf.yml"), "# mine\nauto-commits: true\n").unwrap();
    }
    for file in ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md"] {
        fs::write(world.path("app").join(file), "# Rules\n\nBe kind.\n").unwrap();
    }
    fs::write(world.path("app/opencode.jsonc"), "{\n  // why\n  \"model\": \"x/y\"\n}\n").unwrap();
    fs::write(world.path("app/.mcp.json"), "{\n\t\"mcpServers\": {\n\t\t\"db\": {\"command\": \"db\"}\n\t}\n}\n")
        .unwrap();
}

fn read(world: &World, file: &str) -> String {
    fs::read_to_string(world.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn setting_up_twice_changes_nothing_and_removing_leaves_what_was_there() {
    for has_theirs in [false, true] {
        for scope in ["project", "user"] {
            let world = World::new();
            if has_theirs {
                write_theirs(&world);
            }
            let before = files(&world);
            let run = |more: &[&str]| {
                let agents = AGENTS.iter().copied().chain(["--scope", scope, "--json"]);
                world
                    .dibs(
                        agents
                            .fold(vec!["setup"], |mut all, one| {
                                all.push(one);
                                all
                            })
                            .into_iter()
                            .chain(more.iter().copied()),
                    )
                    .json()
            };
            let changed = |document: &Value| -> Vec<usize> {
                document["agents"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| one["changes"].as_array().unwrap().len())
                    .collect()
            };
            let dry = run(&["--dry-run", "--instructions", "--skill"]);
            assert_eq!(files(&world), before, "a dry run changes nothing");
            assert!(changed(&dry).iter().all(|count| *count > 0), "{dry:#}");
            let first = run(&["--instructions", "--skill"]);
            assert!(changed(&first).iter().all(|count| *count > 0), "{first:#}");
            let after = files(&world);
            let again = run(&["--instructions", "--skill"]);
            assert_eq!(changed(&again), [0; 8], "{again:#}");
            assert_eq!(changed(&run(&[])), [0; 8], "instructions that are there stay");
            assert_eq!(files(&world), after);
            run(&["--remove"]);
            assert_eq!(files(&world), before, "scope {scope}");
            assert_eq!(changed(&run(&["--remove"])), [0; 8]);
        }
    }
}

/// Files of all agents, each with this text.
fn write_all(world: &World, json: &str, other: &str) {
    let jsons = [
        ".claude/settings.json",
        ".mcp.json",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".github/mcp.json",
        ".qwen/settings.json",
        "opencode.json",
        ".cursor/hooks.json",
        ".cursor/mcp.json",
    ];
    jsons.iter().for_each(|file| world.write(file, json));
    [".codex/config.toml", ".aider.conf.yml", "AGENTS.md"].iter().for_each(|file| world.write(file, other));
}

#[test]
fn a_settings_file_that_was_empty_was_removed() {
    for (json, other) in [("", ""), (" \n\n", "\n"), ("{}", ""), ("{ }\n\n\n", "\n\n")] {
        let world = World::new();
        write_all(&world, json, other);
        fs::create_dir_all(world.path("app/.opencode/plugins")).unwrap();
        let before = files(&world);
        world.dibs(["setup"].into_iter().chain(AGENTS)).ok();
        world.dibs(["setup", "--instructions"].into_iter().chain(AGENTS)).ok();
        world.dibs(["setup", "--remove"].into_iter().chain(AGENTS)).ok();
        assert_eq!(files(&world), before, "{json:?}");
    }
    let world = World::new();
    write_all(&world, "{}", "");
    let before = files(&world);
    world.dibs(["setup", "claude"]).ok();
    let more = read(&world, "app/.claude/settings.json").replacen('{', "{ \"model\": \"x\",", 1);
    world.write(".claude/settings.json", &more);
    world.dibs(["setup", "claude"]).ok();
    world.write(".claude/settings.json", &read(&world, "app/.claude/settings.json").replace("\"model\": \"x\",", ""));
    world.dibs(["setup", "claude", "--remove"]).ok();
    assert_eq!(files(&world).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "it is still there");
}

#[test]
fn a_compact_file_came_back_in_another_layout() {
    let world = World::new();
    let json = r#"{"mcpServers":{"db":{"command":"db","args":["a","b"]}},"mcp":{},"hooks":{"Stop":[]}}"#;
    write_all(&world, json, "# mine");
    let before = files(&world);
    world.dibs(["setup"].into_iter().chain(AGENTS)).ok();
    assert_ne!(files(&world), before);
    world.dibs(["setup", "--remove"].into_iter().chain(AGENTS)).ok();
    assert_eq!(files(&world), before);
}

/// Then it is no longer known what the file would be without us, and only our part is taken out.
#[test]
fn what_another_program_changed_since_stays() {
    let world = World::new();
    write_all(&world, r#"{"model":"x"}"#, "");
    world.dibs(["setup", "claude"]).ok();
    let text = read(&world, "app/.claude/settings.json").replace("\"x\"", "\"y\"");
    world.write(".claude/settings.json", &text);
    world.dibs(["setup", "claude", "--remove"]).ok();
    let left: Value = serde_json::from_str(&read(&world, "app/.claude/settings.json")).unwrap();
    assert_eq!(left, json!({ "model": "y" }));
}

#[test]
fn every_agent_calls_us_in_its_own_form() {
    let world = World::new();
    world.dibs(["setup"].into_iter().chain(AGENTS)).ok();
    let document = |file: &str| -> Value { serde_json::from_str(&read(&world, file)).unwrap() };
    let claude = document("app/.claude/settings.json");
    let hook = |event: &str| claude["hooks"][event][0]["hooks"][0].clone();
    let command = "command -v git-dibs >/dev/null || exit 0; git-dibs agent-hook claude 2>/dev/null || exit 0";
    assert_eq!(hook("PreToolUse"), json!({ "type": "command", "command": command, "timeout": 10 }));
    assert_eq!(hook("SessionEnd")["timeout"], 3);
    assert_eq!(claude["hooks"]["PreToolUse"][0]["matcher"], "Edit|Write|MultiEdit|NotebookEdit|Bash");
    let stdio = json!({ "command": "git-dibs", "args": ["mcp"] });
    assert_eq!(document("app/.mcp.json")["mcpServers"]["dibs"], stdio);
    assert!(
        document("app/.codex/hooks.json")["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
            .as_str()
            .unwrap()
            .starts_with("sh -c '")
    );
    assert!(read(&world, "app/.codex/config.toml").contains("[mcp_servers.dibs]\ncommand = \"git-dibs\"\n"));
    let gemini = document("app/.gemini/settings.json");
    assert_eq!(gemini["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"], 10_000, "milliseconds");
    assert_eq!(gemini["mcpServers"]["dibs"], stdio);
    assert_eq!(document("app/.qwen/settings.json")["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"], 10, "seconds");
    assert_eq!(document("app/.github/hooks/git-dibs.json")["hooks"]["PreToolUse"][0]["timeoutSec"], 10);
    assert_eq!(document("app/.github/mcp.json")["mcpServers"]["dibs"]["tools"], json!(["*"]));
    assert!(read(&world, "app/.opencode/plugins/git-dibs.js").contains("agent-hook"));
    assert_eq!(document("app/.opencode/opencode.json")["mcp"]["dibs"]["command"], json!(["git-dibs", "mcp"]));
    let cursor = document("app/.cursor/hooks.json");
    assert_eq!(
        (&cursor["version"], &cursor["hooks"]["preToolUse"][0]["matcher"]),
        (&json!(1), &json!("Write|Delete|Shell"))
    );
    assert!(read(&world, "app/.aider.conf.yml").contains("\ngit-commit-verify: true\n"));
    assert!(!world.path("app/AGENTS.md").exists(), "only with --instructions");
}

#[test]
fn the_user_is_told_what_is_left_to_do() {
    let world = World::new();
    for (agent, step) in [
        ("codex", "type /hooks and trust"),
        ("copilot", "--trust-folder"),
        ("gemini", "--skip-trust"),
        ("cursor", "not tested with the program"),
        ("aider", "Aider has no hooks"),
        ("claude", "say yes"),
    ] {
        let said = world.dibs(["setup", agent]).ok();
        assert!(said.err.contains(step), "{agent}: {}", said.err);
        assert!(agent == "aider" || said.out.contains("+++ "), "the diff: {}", said.out);
        assert!(said.err.contains("commit these files"), "{}", said.err);
    }
    let said = world.dibs(["setup", "claude", "--scope", "user"]).ok();
    assert!(said.err.contains("claude mcp add --scope user dibs -- git-dibs mcp"), "{}", said.err);
    let said = world.dibs(["setup", "codex", "--scope", "user"]).ok();
    assert!(said.err.contains("every hook runs twice"), "{}", said.err);
}

#[test]
fn a_file_that_cannot_be_parsed_is_refused_with_its_line_and_stays() {
    let world = World::new();
    let broken = "{\n  \"hooks\": {\n    oops\n  }\n}\n";
    world.write(".claude/settings.json", broken);
    let said = world.dibs(["setup", "claude"]).fails(1);
    let place = format!("{}:3: this is not JSON", world.path("app/.claude/settings.json").display());
    assert!(said.err.contains(&place) && said.err.contains("nothing was changed"), "{}", said.err);
    assert_eq!(read(&world, "app/.claude/settings.json"), broken);
    assert!(!world.path("app/.mcp.json").exists(), "nothing else of this agent was written");
    world.write(".codex/config.toml", "model = \n");
    let said = world.dibs(["setup", "all", "--json"]).fails(1);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let errors = document["agents"].as_array().unwrap().iter().filter(|one| one["error"].is_string()).count();
    assert_eq!(errors, 2, "{document:#}");
    assert!(!world.path("app/.codex/hooks.json").exists());
    let said = world.dibs(["setup", "claude", "--json"]).fails(1);
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap()["code"], "NOT_SET_UP");
}

#[test]
fn a_link_out_of_the_work_tree_is_refused_and_one_within_it_is_followed() {
    let world = World::new();
    fs::write(world.path("home/shared.json"), "{}\n").unwrap();
    fs::create_dir(world.path("app/.claude")).unwrap();
    symlink(world.path("home/shared.json"), world.path("app/.claude/settings.json")).unwrap();
    let said = world.dibs(["setup", "claude"]).fails(1);
    assert!(said.err.contains("outside of"), "{}", said.err);
    assert_eq!(read(&world, "home/shared.json"), "{}\n");
    fs::remove_file(world.path("app/.claude/settings.json")).unwrap();
    world.write("tools/claude.json", "{\n  \"a\": 1\n}\n");
    symlink("../tools/claude.json", world.path("app/.claude/settings.json")).unwrap();
    world.dibs(["setup", "claude"]).ok();
    assert!(fs::symlink_metadata(world.path("app/.claude/settings.json")).unwrap().is_symlink());
    assert!(read(&world, "app/tools/claude.json").contains("agent-hook claude"));
}

#[test]
fn the_old_file_is_copied_and_the_mode_stays() {
    let world = World::new();
    world.write(".gemini/settings.json", "{\n  \"secret\": \"x\"\n}\n");
    let file = world.path("app/.gemini/settings.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let document = world.dibs(["setup", "gemini", "--json"]).json();
    let backup = document["agents"][0]["changes"][0]["backup"].as_str().unwrap();
    assert!(Path::new(backup).starts_with(world.path("app/.git/dibs/backups")), "{backup}");
    assert_eq!(fs::read_to_string(backup).unwrap(), "{\n  \"secret\": \"x\"\n}\n");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(document["agents"][0]["changes"][0]["action"], "changed");
}

#[test]
fn all_means_the_agents_that_are_here() {
    let mut world = World::new();
    world.set_variable("PATH", std::env::split_paths("/usr/bin:/bin").next().unwrap().into_os_string());
    let said = world.dibs(["setup", "all"]).run();
    if said.code == Some(1) {
        assert!(said.err.contains("no agent is installed here"), "{}", said.err);
    }
    world.write(".qwen/settings.json", "{}\n");
    world.write("CLAUDE.md", "x\n");
    let document = world.dibs(["setup", "all", "--json"]).json();
    let names: Vec<&str> =
        document["agents"].as_array().unwrap().iter().map(|one| one["agent"].as_str().unwrap()).collect();
    assert!(names.contains(&"qwen") && names.contains(&"claude"), "{names:?}");
    let note = document["agents"][0]["notes"].to_string();
    assert!(note.contains("git-dibs is not on PATH"), "{note}");
}

#[test]
fn a_scope_that_an_agent_does_not_have_is_named() {
    let world = World::new();
    let said = world.dibs(["setup", "codex", "--scope", "local"]).fails(1);
    assert!(said.err.contains("Codex has no local scope; use project or user"), "{}", said.err);
    let said = world.dibs(["setup", "claude", "--scope", "local"]).ok();
    assert!(said.out.contains(".claude/settings.local.json") && !world.path("app/.mcp.json").exists());
    world.dibs(["setup", "claude", "--scope", "elsewhere"]).fails(2);
    world.dibs(["setup", "emacs"]).fails(2);
    world.dibs(["setup"]).fails(2);
    let said = world.dibs(["setup", "claude"]).at("../home").fails(1);
    assert!(said.err.contains("there is no work tree here"), "{}", said.err);
    world.dibs(["setup", "claude", "--scope", "user"]).at("../home").ok();
    assert!(world.path("home/.claude/settings.json").exists());
}

#[test]
fn shared_instructions_stay_while_another_agent_uses_them() {
    let world = World::new();
    world.dibs(["setup", "codex", "opencode", "--instructions"]).ok();
    assert_eq!(read(&world, "app/AGENTS.md").matches("git-dibs: begin").count(), 1);
    world.dibs(["setup", "codex", "--remove"]).ok();
    assert!(read(&world, "app/AGENTS.md").contains("git dibs status"));
    world.dibs(["setup", "opencode", "--remove"]).ok();
    assert!(!world.path("app/AGENTS.md").exists());
}
