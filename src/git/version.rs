//! The version of the git program.

use std::fmt;

use super::{Git, GitError};

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
