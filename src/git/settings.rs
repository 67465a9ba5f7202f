//! The repository's `dibs.*` settings.
//!
//! Read by libgit2 if only the usual files can hold them, else by one call of `git config`: libgit2 knows neither `git -c`
//! nor `GIT_CONFIG_COUNT`.

use std::collections::HashMap;

use super::library::Library;
use super::{GitError, Repo, Running, split_nul};

/// Every `dibs.*` setting. If one is set several times the last value counts, as in git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    effective: HashMap<String, String>,
    /// All values in the file that has the effective one, in order, and the importance of the file.
    repeated: HashMap<String, (i32, Vec<String>)>,
    /// What the user or the system sets, outside of the repository: all values, in order.
    of_user: HashMap<String, Vec<String>>,
}

/// Who set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// The files of the system or of the user, or `git -c`.
    User,
    /// A file of the repository. The author of the repository may have written it.
    Repository,
}

/// The settings, or a running `git config` that reads them, so that other work can be done meanwhile.
#[derive(Debug)]
pub enum SettingsCall {
    Known(Settings),
    Asked(Running),
}

impl SettingsCall {
    /// Reads the settings, or starts git to read them.
    pub fn start(repo: &Repo) -> Result<SettingsCall, GitError> {
        if let Some(known) = repo.library().and_then(Library::settings) {
            return Ok(SettingsCall::Known(known));
        }
        repo.git().args(["config", "-z", "--show-scope", "--get-regexp", r"^dibs\."]).start().map(SettingsCall::Asked)
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
        self.effective.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// The values of `dibs.<name>` where it is set several times in one file: all of the most important file that sets it.
    pub fn all(&self, name: &str) -> &[String] {
        self.repeated.get(&name.to_ascii_lowercase()).map_or(&[], |(_, values)| values.as_slice())
    }

    /// The values of `dibs.<name>` that no file of the repository sets, the most important one last.
    pub fn of_user(&self, name: &str) -> &[String] {
        self.of_user.get(&name.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// Settings of a repository from pairs, for tests.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Settings {
        let mut settings = Settings::default();
        pairs.into_iter().for_each(|(name, value)| settings.add(name, value.to_owned(), SetBy::Repository));
        settings
    }

    /// Adds a value, which is more important than those before it.
    pub fn add(&mut self, name: &str, value: String, set_by: SetBy) {
        let level = if set_by == SetBy::User { 1 } else { 3 };
        self.add_of_file(name, value, set_by, level);
    }

    /// The same with the importance of the file that has it.
    pub fn add_of_file(&mut self, name: &str, value: String, set_by: SetBy, level: i32) {
        let name = name.to_ascii_lowercase();
        let (found, values) = self.repeated.entry(name.clone()).or_default();
        if *found != level {
            (*found, *values) = (level, Vec::new());
        }
        values.push(value.clone());
        if set_by == SetBy::User {
            self.of_user.entry(name.clone()).or_default().push(value.clone());
        }
        self.effective.insert(name, value);
    }

    fn read(bytes: &[u8]) -> Settings {
        let mut settings = Settings::default();
        let mut entries = split_nul(bytes).into_iter();
        while let (Some(scope), Some(entry)) = (entries.next(), entries.next()) {
            let text = String::from_utf8_lossy(&entry);
            // In git's configuration a name without a value means "true".
            let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
            let name = name.strip_prefix("dibs.").unwrap_or(name);
            let set_by = match scope.as_slice() {
                b"system" | b"global" | b"command" => SetBy::User,
                _ => SetBy::Repository,
            };
            let scopes: [&[u8]; 5] = [b"system", b"global", b"local", b"worktree", b"command"];
            let level = scopes.iter().position(|known| *known == scope.as_slice()).map_or(0, |at| at as i32 + 1);
            settings.add_of_file(name, value.to_owned(), set_by, level);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_a_bare_name_is_true() {
        let settings = Settings::read(
            b"global\0dibs.enforce\nblock\0local\0dibs.enforce\nwarn\0local\0dibs.pushnet\0command\0dibs.url\nhttp://x/\ny\0",
        );
        assert_eq!(settings.get("enforce"), Some("warn"));
        assert_eq!(settings.get("pushNet"), Some("true"));
        assert_eq!(settings.get("url"), Some("http://x/\ny"));
        assert_eq!(settings.get("require"), None);
        assert_eq!(settings.of_user("enforce"), ["block"]);
        assert_eq!(settings.of_user("url"), ["http://x/\ny"]);
        assert!(settings.of_user("pushNet").is_empty());
    }
}
