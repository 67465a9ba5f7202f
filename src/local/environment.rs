//! The environment variables of the process, as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::git::Oid;

/// A copy of the environment, so that tests can use another one.
///
/// It has no `Debug`: it may contain a token.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub fn of_process() -> Environment {
        Environment(std::env::vars_os().collect())
    }

    /// An environment for tests.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        Environment(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Sets a variable that the environment does not have.
    pub fn set_missing(&mut self, name: &str, value: &str) {
        self.0.entry(name.into()).or_insert_with(|| value.into());
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable as text; bytes that are not UTF-8 become replacement characters.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// The commits that `git merge` is merging. It names them in variables while `MERGE_HEAD` does not exist yet.
    pub fn merging(&self) -> Vec<Oid> {
        let names = self.0.keys().filter_map(|name| name.as_encoded_bytes().strip_prefix(b"GITHEAD_"));
        names.filter_map(Oid::parse).collect()
    }

    /// The value of a push option `name=value`, the last one if it was given several times.
    pub fn push_option(&self, name: &str) -> Option<String> {
        let count: usize = self.text("GIT_PUSH_OPTION_COUNT")?.parse().ok()?;
        // Git sets one variable for each option, so a larger count is not from git.
        let options = (0..count.min(self.0.len())).filter_map(|n| self.text(&format!("GIT_PUSH_OPTION_{n}")));
        options.filter_map(|option| option.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_options_and_merge_heads_are_found() {
        let head = "1".repeat(40);
        let merging = format!("GITHEAD_{head}");
        let pairs = [
            ("GIT_PUSH_OPTION_COUNT", "3"),
            ("GIT_PUSH_OPTION_0", "dibs-token=old"),
            ("GIT_PUSH_OPTION_1", "ci.skip"),
            ("GIT_PUSH_OPTION_2", "dibs-token=new=er"),
            ("GIT_PUSH_OPTION_3", "dibs-token=beyond"),
            (&merging, "topic"),
            ("GITHEAD_short", "x"),
        ];
        let environment = Environment::from_pairs(pairs);
        assert_eq!(environment.push_option("dibs-token").as_deref(), Some("new=er"));
        assert_eq!(environment.push_option("dibs"), None);
        assert_eq!(environment.merging(), [Oid::parse(head.as_bytes()).unwrap()]);
        assert_eq!(Environment::from_pairs([("GIT_PUSH_OPTION_COUNT", "99999999999")]).push_option("x"), None);
    }
}
