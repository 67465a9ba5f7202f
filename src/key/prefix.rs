//! The beginning of keys, to find those that have it.

use super::Key;
use super::text::compared_text;

/// The text that keys begin with, in the form in which keys are compared.
#[derive(Clone)]
pub struct KeyPrefix {
    text: String,
    fold_case: bool,
}

impl KeyPrefix {
    pub fn new(text: &str, fold_case: bool) -> KeyPrefix {
        let text = text.strip_prefix("./").unwrap_or(text);
        KeyPrefix { text: compared_text(text, fold_case).into_owned(), fold_case }
    }

    /// Whether a key begins with it. The `file:` in front of a path does not count.
    pub fn matches(&self, key: &Key) -> bool {
        let shown = key.shown();
        let shown = compared_text(&shown, self.fold_case);
        let path = shown.strip_prefix("file:");
        shown.starts_with(&self.text) || path.is_some_and(|path| path.starts_with(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyRules;
    use super::*;

    #[test]
    fn keys_are_found_in_every_spelling() {
        let rules = |fold_case| KeyRules { fold_case, ..KeyRules::default() };
        let found = |text: &str, key: &str, fold_case: bool| {
            KeyPrefix::new(text, fold_case).matches(&Key::parse(key, &rules(fold_case)).unwrap())
        };
        assert!(found("caf\u{e9}/", "cafe\u{301}/a.rs", false));
        assert!(found("cafe\u{301}", "caf\u{e9}/a.rs", false));
        assert!(found("./src/", "src/a.rs", false));
        assert!(found("src/[", "file:src/[id].ts", false));
        assert!(found("src/", "Src/A.rs", true));
        assert!(!found("src/", "Src/A.rs", false));
        assert!(!found("rc/", "src/a.rs", false));
    }
}
