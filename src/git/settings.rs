//! The repository's `dibs.*` settings.
//!
//! Asked of libgit2 where nothing but the usual files can have a say, else of `git config`, in one call for all of them:
//! libgit2 knows neither `git -c` nor `GIT_CONFIG_COUNT`.

use std::collections::HashMap;

use super::library::Library;
use super::{GitError, Repo, Running, split_nul};

/// Every `dibs.*` setting; the last one given counts, as in git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(HashMap<String, String>);

/// The settings, or `git config` at work, so that other work can go on beside it.
#[derive(Debug)]
pub enum SettingsCall {
    /// They are known.
    Known(Settings),
    /// They are being asked for.
    Asked(Running),
}

impl SettingsCall {
    /// Starts asking.
    pub fn start(repo: &Repo) -> Result<SettingsCall, GitError> {
        if let Some(known) = repo.library_here().and_then(Library::settings) {
            return Ok(SettingsCall::Known(known));
        }
        repo.git().args(["config", "-z", "--get-regexp", r"^dibs\."]).start().map(SettingsCall::Asked)
    }

    /// Waits for the answer.
    pub fn finish(self) -> Result<Settings, GitError> {
        match self {
            SettingsCall::Known(settings) => Ok(settings),
            // Git says 1 when nothing matches.
            SettingsCall::Asked(running) => Ok(Settings::read(&running.answer()?.unwrap_or_default())),
        }
    }
}

impl Settings {
    /// Asks and waits.
    pub fn of(repo: &Repo) -> Result<Settings, GitError> {
        SettingsCall::start(repo)?.finish()
    }

    /// The value of `dibs.<name>`; git does not tell upper from lower case in names.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// Settings from pairs, for the places that have no repository.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Settings {
        Settings(pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect())
    }

    fn read(bytes: &[u8]) -> Settings {
        let mut all = HashMap::new();
        for entry in split_nul(bytes) {
            let text = String::from_utf8_lossy(&entry);
            // A name without a value is git's way to write "true".
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
