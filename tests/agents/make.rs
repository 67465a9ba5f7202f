//! The makes of agents: where their programs are, and how a user has configured and starts them.
//!
//! What is configured here is the user's own: the address of the model, a dummy key, and the trust that `git dibs setup`
//! asks the user for. Nothing of git-dibs is.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    Claude,
    Codex,
    Gemini,
    Copilot,
    Qwen,
    Opencode,
}

impl Make {
    pub fn named(name: &str) -> Make {
        let all = [Make::Claude, Make::Codex, Make::Gemini, Make::Copilot, Make::Qwen, Make::Opencode];
        all.into_iter().find(|make| make.name() == name).unwrap_or_else(|| panic!("{name} is no make"))
    }

    pub fn name(self) -> &'static str {
        match self {
            Make::Claude => "claude",
            Make::Codex => "codex",
            Make::Gemini => "gemini",
            Make::Copilot => "copilot",
            Make::Qwen => "qwen",
            Make::Opencode => "opencode",
        }
    }

    /// The program, if it is installed. The scripts of packages are not run, so the launchers that they would prepare are
    /// passed over.
    pub fn program(self) -> Option<PathBuf> {
        let dir = std::env::var_os("DIBS_TEST_AGENTS").map(PathBuf::from);
        let dir = dir.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/agents"));
        let name = match self {
            Make::Claude => "@anthropic-ai/claude-code-linux-x64/claude",
            Make::Codex => "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            Make::Gemini => ".bin/gemini",
            Make::Copilot => "@github/copilot-linux-x64/copilot",
            Make::Qwen => ".bin/qwen",
            Make::Opencode => "opencode-linux-x64/bin/opencode",
        };
        Some(dir.join(self.name()).join("node_modules").join(name)).filter(|program| program.exists())
    }

    /// The agent in the repository of the world, with this prompt. `model` is the name of the model, where that matters.
    pub fn command(self, world: &World, address: SocketAddr, model: Option<&str>, prompt: &str) -> Command {
        let home = world.path("home");
        let repo = world.path("app");
        let mut command = world.command(world.path("agent-bin").join(self.name()), "app");
        match self {
            Make::Claude => {
                command.env("ANTHROPIC_BASE_URL", format!("http://{address}")).env("ANTHROPIC_API_KEY", "dummy");
                command.envs([("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")]);
                // Without it, the flag below is refused to root.
                command.env("IS_SANDBOX", "1");
                command.args(["-p", prompt, "--dangerously-skip-permissions"]);
            }
            Make::Codex => {
                let model = model.unwrap_or("gpt-5.5");
                let repo = repo.display();
                write(
                    &home.join(".codex/config.toml"),
                    &format!(
                        "model = \"{model}\"\nmodel_provider = \"fake\"\napproval_policy = \"never\"\nsandbox_mode = \
                         \"danger-full-access\"\n\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"http://{address}/v1\"\n\
                         wire_api = \"responses\"\nenv_key = \"FAKE_KEY\"\n\n[projects.\"{repo}\"]\ntrust_level = \"trusted\"\n"
                    ),
                );
                command.env("FAKE_KEY", "dummy");
                // What the user does with /hooks.
                command.args(["exec", "--dangerously-bypass-hook-trust", prompt]);
            }
            Make::Gemini => {
                let auth = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
                write(&home.join(".gemini/settings.json"), &auth.to_string());
                let trust = json!({ repo.to_str().unwrap(): "TRUST_FOLDER" });
                write(&home.join(".gemini/trustedFolders.json"), &trust.to_string());
                command.env("GEMINI_API_KEY", "dummy").env("GOOGLE_GEMINI_BASE_URL", format!("http://{address}"));
                command.args(["-m", "gemini-2.5-flash", "-y", "-p", prompt]);
            }
            Make::Copilot => {
                command.env("COPILOT_PROVIDER_BASE_URL", format!("http://{address}/v1"));
                command.envs([
                    ("COPILOT_OFFLINE", "true"),
                    ("COPILOT_PROVIDER_API_KEY", "dummy"),
                    ("COPILOT_MODEL", model.unwrap_or("fake")),
                    ("COPILOT_PROVIDER_WIRE_API", "completions"),
                    ("COPILOT_PROVIDER_TYPE", "openai"),
                ]);
                command.args(["-p", prompt, "--allow-all", "--no-auto-update", "--disable-builtin-mcps", "--no-color"]);
                command.arg("--trust-folder");
            }
            Make::Qwen => {
                command.env("OPENAI_BASE_URL", format!("http://{address}/v1"));
                command.envs([("OPENAI_API_KEY", "dummy"), ("OPENAI_MODEL", "fake")]);
                command.args(["--auth-type", "openai", "-y", "-p", prompt]);
            }
            Make::Opencode => {
                let model = model.unwrap_or("fake");
                let limit = json!({ "context": 100_000, "output": 8000 });
                let settings = json!({
                    "autoupdate": false, "share": "disabled",
                    "model": format!("fake/{model}"), "small_model": format!("fake/{model}"),
                    "provider": { "fake": {
                        "npm": "@ai-sdk/openai-compatible", "name": "fake",
                        "options": { "baseURL": format!("http://{address}/v1"), "apiKey": "dummy" },
                        "models": { model: { "name": "fake", "tool_call": true, "limit": limit } },
                    } },
                });
                write(&home.join(".config/opencode/opencode.json"), &settings.to_string());
                for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD"] {
                    command.env(format!("OPENCODE_DISABLE_{name}"), "1");
                }
                command.args(["run", "--print-logs", "--log-level", "WARN", "--auto", prompt]);
            }
        }
        command
    }
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}
