//! The version of the git program.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Git, GitError};

/// Directories in which a git may be that is not on PATH.
const USUAL_DIRS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 2 in 2.54.1.
    pub major: u32,
    /// 54 in 2.54.1.
    pub minor: u32,
}

impl Version {
    /// The first version with hooks in its configuration (`hook.<name>.command`).
    pub const CONFIG_HOOKS: Version = Version { major: 2, minor: 54 };
    /// The oldest supported version: `git hook run` and absolute paths from `rev-parse` are needed.
    pub const OLDEST: Version = Version { major: 2, minor: 36 };

    /// The version of the git on PATH.
    pub fn of_git() -> Result<Version, GitError> {
        let text = Git::here().arg("--version").output()?;
        let text = String::from_utf8_lossy(&text);
        let what = || GitError::Odd { call: "--version".to_owned(), what: text.trim().to_owned() };
        Version::parse(&text).ok_or_else(what)
    }

    /// The oldest of the gits on this machine: on PATH, and where systems and package managers put one. An editor may use
    /// another one than the shell.
    pub fn oldest_on_machine() -> Result<Version, GitError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::env::split_paths(&path).chain(USUAL_DIRS.iter().map(PathBuf::from));
        let mut programs: Vec<PathBuf> = dirs.map(|dir| dir.join("git")).filter(|git| git.is_file()).collect();
        programs.sort_unstable();
        programs.dedup();
        let of = |program: &PathBuf| {
            let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
            Version::parse(&String::from_utf8_lossy(&output.stdout))
        };
        let own = Version::of_git()?;
        Ok(programs.iter().filter_map(of).fold(own, Version::min))
    }

    /// Reads `git version 2.47.3`, and ignores what a vendor adds after it.
    pub fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.trim().strip_prefix("git version ")?.split(['.', ' ', '-']);
        Some(Version { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_vendors_are_read() {
        let read = |text| Version::parse(text).map(|v| (v.major, v.minor));
        assert_eq!(read("git version 2.47.3\n"), Some((2, 47)));
        assert_eq!(read("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(read("git version 2.54.0.windows.1"), Some((2, 54)));
        assert_eq!(read("git version 2.54-rc1"), Some((2, 54)));
        assert_eq!(read("hub version 1"), None);
        assert!(Version::of_git().unwrap() >= Version::OLDEST);
    }

    #[test]
    fn config_hooks_begin_with_2_54() {
        let knows = |text| Version::parse(text).unwrap() >= Version::CONFIG_HOOKS;
        assert!(!knows("git version 2.53.9"));
        assert!(knows("git version 2.54.0"));
        assert!(knows("git version 3.0.0"));
    }
}
