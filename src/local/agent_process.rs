//! Which process is the agent: the nearest process above its hook or its MCP server that is not a shell.
//!
//! Agents run a hook's command line in a shell, which may be gone before the hook ends. The session ends with the agent.

use super::process::ProcessIdentity;

/// Programs between an agent and what it starts.
const BETWEEN: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "ash", "ksh", "mksh", "fish", "busybox", "env", "timeout", "nice", "sudo", "xargs",
    "git-dibs", "git",
];

/// Programs that adopt a process whose parent has ended.
const ADOPTERS: [&str; 8] =
    ["systemd", "init", "launchd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan"];

/// The agent that started this program; none if it cannot be found.
pub fn agent_process() -> Option<ProcessIdentity> {
    let is_between = |name: &str| BETWEEN.contains(&name);
    let (process, name) = ProcessIdentity::ancestors().find(|(_, name)| !is_between(name))?;
    (!ADOPTERS.contains(&&*name)).then_some(process)
}
