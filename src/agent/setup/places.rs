//! Where the files of agents are, and which agents are here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Scope, SetupError};
use crate::agent::Agent;
use crate::git::Repo;

/// The work tree, the user's directories, and the programs that can be found.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The top of the work tree.
    work_dir: Option<PathBuf>,
    /// The directory that all worktrees share.
    common_dir: Option<PathBuf>,
    home: Option<PathBuf>,
    /// Variables that move a directory of configuration.
    variables: Vec<(&'static str, PathBuf)>,
    /// The directories of PATH.
    path: Vec<PathBuf>,
}

const VARIABLES: [&str; 5] = ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

impl Places {
    /// As a repository and the variables of a process say. A relative directory is not used.
    pub fn new(repo: Option<&Repo>, variable: impl Fn(&str) -> Option<OsString>) -> Places {
        let dir = |name: &str| variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        Places {
            work_dir: repo.and_then(|repo| repo.work_dir.clone()),
            common_dir: repo.map(|repo| repo.common_dir.clone()),
            home: dir("HOME"),
            variables: VARIABLES.iter().filter_map(|name| Some((*name, dir(name)?))).collect(),
            path: variable("PATH").iter().flat_map(std::env::split_paths).filter(|dir| dir.is_absolute()).collect(),
        }
    }

    /// A work tree alone.
    pub fn of_work_tree(top: &Path) -> Places {
        Places { work_dir: Some(top.to_owned()), ..Places::default() }
    }

    /// The directory whose configuration is written; nothing outside of it is.
    pub fn root(&self, scope: Scope) -> Result<&Path, SetupError> {
        match scope {
            Scope::Project | Scope::Local => self.work_dir.as_deref().ok_or(SetupError::NoWorkTree),
            Scope::User => self.home.as_deref().ok_or(SetupError::NoHome),
        }
    }

    /// The directory for copies of changed files: never in the work tree, where they would be committed.
    pub fn backups(&self, scope: Scope) -> Result<PathBuf, SetupError> {
        match scope {
            Scope::User => Ok(self.user_dir("XDG_STATE_HOME", ".local/state")?.join("git-dibs/backups")),
            Scope::Project | Scope::Local => {
                let common_dir = self.common_dir.as_ref().ok_or(SetupError::NoWorkTree)?;
                Ok(common_dir.join("dibs/backups"))
            }
        }
    }

    /// The directory that says what files were before setup changed them.
    pub fn first_texts(&self, scope: Scope) -> Result<PathBuf, SetupError> {
        Ok(self.backups(scope)?.with_file_name("before-setup"))
    }

    /// A directory of the user: where the variable says, else below the home directory.
    pub fn user_dir(&self, variable: &str, below_home: &str) -> Result<PathBuf, SetupError> {
        match self.variables.iter().find(|(name, _)| *name == variable) {
            Some((_, dir)) => Ok(dir.clone()),
            None => Ok(self.home.as_ref().ok_or(SetupError::NoHome)?.join(below_home)),
        }
    }

    /// A file of the work tree, if there is one.
    pub fn in_work_tree(&self, name: &str) -> Option<PathBuf> {
        self.work_dir.as_ref().map(|top| top.join(name)).filter(|file| file.exists())
    }

    /// Whether a program can be found by its name.
    pub fn has_program(&self, name: &str) -> bool {
        use std::os::unix::fs::PermissionsExt;
        let is_program = |file: PathBuf| {
            std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        };
        self.path.iter().any(|dir| is_program(dir.join(name)))
    }

    /// The agents that are installed on this machine, or that the work tree has files of.
    pub fn agents(&self) -> Vec<Agent> {
        let is_here = |agent: &Agent| {
            let (programs, files) = signs(*agent);
            programs.iter().any(|name| self.has_program(name))
                || files.iter().any(|name| self.in_work_tree(name).is_some())
        };
        Agent::ALL.into_iter().filter(is_here).collect()
    }
}

/// The programs and the files by which an agent is recognised. AGENTS.md belongs to several.
fn signs(agent: Agent) -> (&'static [&'static str], &'static [&'static str]) {
    match agent {
        Agent::Claude => (&["claude"], &[".claude", "CLAUDE.md"]),
        Agent::Codex => (&["codex"], &[".codex"]),
        Agent::Gemini => (&["gemini"], &[".gemini", "GEMINI.md"]),
        Agent::Copilot => (&["copilot"], &[".github/copilot-instructions.md", ".github/hooks", ".github/copilot"]),
        Agent::Qwen => (&["qwen"], &[".qwen", "QWEN.md"]),
        Agent::Opencode => (&["opencode"], &[".opencode", "opencode.json", "opencode.jsonc"]),
        Agent::Cursor => (&["cursor", "cursor-agent"], &[".cursor", ".cursorrules"]),
        Agent::Aider => (&["aider"], &[".aider.conf.yml"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn agents_are_found_by_their_programs_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let (top, bin) = (dir.path().join("top"), dir.path().join("bin"));
        fs::create_dir_all(top.join(".claude")).unwrap();
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("codex"), "").unwrap();
        fs::write(bin.join("qwen"), "").unwrap();
        fs::set_permissions(bin.join("codex"), fs::Permissions::from_mode(0o755)).unwrap();
        let places = Places { work_dir: Some(top), path: vec![bin], ..Places::default() };
        assert_eq!(places.agents(), [Agent::Claude, Agent::Codex]);
    }

    #[test]
    fn a_scope_without_its_directory_is_an_error() {
        let places = Places::new(None, |name| (name == "CODEX_HOME").then(|| "relative".into()));
        assert!(matches!(places.root(Scope::Project), Err(SetupError::NoWorkTree)));
        assert!(matches!(places.root(Scope::User), Err(SetupError::NoHome)));
        assert!(matches!(places.user_dir("CODEX_HOME", ".codex"), Err(SetupError::NoHome)));
    }
}
