//! The repository's `dibs.*` settings.
//!
//! Read by libgit2 if only the usual files can hold them, else by one call of `git config`: libgit2 knows neither `git -c`
//! nor `GIT_CONFIG_COUNT`.

use std::collections::HashMap;

use super::library::Library;
use super::{GitError, Repo, Running, split_nul};

/// Every `dibs.*` setting. If one is set several times the last value counts, as in git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(HashMap<String, String>);

/// The settings, or a running `git config` that reads them, so that other work can be done meanwhile.
#[derive(Debug)]
pub enum SettingsCall {
    Known(Settings),
    Asked(Running),
}

impl SettingsCall {
    /// Reads the settings, or starts git to read them.
    pub fn start(repo: &Repo) -> Result<SettingsCall, GitError> {
        if let Some(known) = repo.library_here().and_then(Library::settings) {
            return Ok(SettingsCall::Known(known));
        }
        repo.git().args(["config", "-z", "--get-regexp", r"^dibs\."]).start().map(SettingsCall::Asked)
    }

    /// Waits for git, if it was started.
    pub fn finish(self) -> Result<Settings, GitError> {
        match self {
            SettingsCall::Known(settings) => Ok(settings),
            // Git exits with 1 if nothing matches.
            SettingsCall::Asked(running) => Ok(Settings::read(&running.answer()?.unwrap_or_default())),
        }
    }
}

impl Settings {
    /// Reads the settings of a repository.
    pub fn of(repo: &Repo) -> Result<Settings, GitError> {
        SettingsCall::start(repo)?.finish()
    }

    /// The value of `dibs.<name>`. The case of names does not matter, as in git.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// Settings from pairs, for tests.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Settings {
        Settings(pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect())
    }

    fn read(bytes: &[u8]) -> Settings {
        let mut all = HashMap::new();
        for entry in split_nul(bytes) {
            let text = String::from_utf8_lossy(&entry);
            // In git's configuration a name without a value means "true".
            let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
            let name = name.strip_prefix("dibs.").unwrap_or(name);
            all.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        Settings(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_a_bare_name_is_true() {
        let settings =
            Settings::read(b"dibs.enforce\nblock\0dibs.enforce\nwarn\0dibs.pushnet\0dibs.url\nhttp://x/\ny\0");
        assert_eq!(settings.get("enforce"), Some("warn"));
        assert_eq!(settings.get("pushNet"), Some("true"));
        assert_eq!(settings.get("url"), Some("http://x/\ny"));
        assert_eq!(settings.get("require"), None);
    }
}
