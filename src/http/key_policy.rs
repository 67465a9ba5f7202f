//! What the configuration says about keys: which may be reserved here, for how long, and how.

use super::error::{ApiError, ApiResult};
use crate::engine::Mode;
use crate::key::{Claim, Key, KeyRules, Kind, NAMESPACES, PATTERN_STATES_MAX};
use crate::wire::Code;
use crate::wire::limits::TtlBounds;

/// The policy of one repository; changed as a whole while the server runs. What is held already stays so, and can be
/// released and renewed whatever a new policy says.
#[derive(Debug, Clone)]
pub struct KeyPolicy {
    /// How keys are read.
    pub rules: KeyRules,
    /// How long files may be held.
    pub file_ttl: TtlBounds,
    /// How long logical keys and resource URIs may be held.
    pub name_ttl: TtlBounds,
    /// Namespaces in which something may be reserved.
    pub namespaces: Vec<String>,
    /// How many states the automaton of a pattern may have.
    pub pattern_states: usize,
    /// How many plain directories a pattern must begin with; 1 keeps everybody from reserving `**`.
    pub pattern_depth: usize,
    /// What nobody may share.
    pub exclusive: Vec<Only>,
}

/// What nobody may share.
#[derive(Debug, Clone)]
pub enum Only {
    /// Everything in a namespace.
    Namespace(String),
    /// Whatever this key touches.
    Key(Key),
}

impl Default for KeyPolicy {
    fn default() -> Self {
        Self {
            rules: KeyRules::default(),
            file_ttl: TtlBounds::FILES,
            name_ttl: TtlBounds::NAMES,
            namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            pattern_states: PATTERN_STATES_MAX,
            pattern_depth: 0,
            exclusive: Vec::new(),
        }
    }
}

impl KeyPolicy {
    /// How long this key may be held.
    pub fn bounds(&self, key: &Key) -> TtlBounds {
        match key.kind() {
            Kind::Path | Kind::Glob => self.file_ttl,
            Kind::Logical | Kind::Uri => self.name_ttl,
        }
    }

    /// Whether this key may be reserved so.
    pub fn permit(&self, key: &Key, mode: Mode) -> ApiResult<()> {
        let shown = || format!("{:?}", key.shown());
        match key.claim() {
            Claim::Glob(glob) => {
                let depth = match glob.anchor() {
                    [] => 0,
                    anchor => anchor.iter().filter(|byte| **byte == b'/').count() + 1,
                };
                if depth < self.pattern_depth {
                    let sentence = format!(
                        "{} claims too much: a pattern must begin with at least {} here",
                        shown(),
                        match self.pattern_depth {
                            1 => "one directory that has a name".to_owned(),
                            more => format!("{more} directories that have names"),
                        },
                    );
                    return Err(ApiError::new(Code::OperationNotPermitted, sentence));
                }
                if glob.states() > self.pattern_states {
                    let sentence = format!("{} is too complex a pattern for this server; split it", shown());
                    return Err(ApiError::new(Code::InvalidKey, sentence));
                }
            }
            _ => {
                if let Some(namespace) = namespace(key)
                    && !self.namespaces.contains(&namespace)
                {
                    let sentence = match self.namespaces.join(", ") {
                        none if none.is_empty() => format!("{} cannot be reserved: only files can, here", shown()),
                        some => format!("{} cannot be reserved: the namespaces here are {some}", shown()),
                    };
                    return Err(ApiError::new(Code::OperationNotPermitted, sentence));
                }
            }
        }
        if mode == Mode::Shared && self.exclusive.iter().any(|only| only.covers(key)) {
            let sentence = format!("{} cannot be shared here; reserve it with mode exclusive", shown());
            return Err(ApiError::new(Code::OperationNotPermitted, sentence));
        }
        Ok(())
    }

    /// The same for a repository that compares names in its own way.
    pub fn folded(mut self, fold_case: bool) -> Self {
        self.rules.fold_case = fold_case;
        for only in &mut self.exclusive {
            if let Only::Key(key) = only {
                *key = key.folded(fold_case);
            }
        }
        self
    }
}

impl Only {
    /// As the configuration writes it: a key, or `db:*` for a whole namespace.
    pub fn parse(text: &str, rules: &KeyRules) -> Result<Only, String> {
        match text.strip_suffix(":*") {
            Some(name) if NAMESPACES.contains(&name) => Ok(Only::Namespace(name.to_owned())),
            _ => Key::parse(text, rules).map(Only::Key).map_err(|bad| bad.to_string()),
        }
    }

    fn covers(&self, key: &Key) -> bool {
        match self {
            Only::Namespace(name) => namespace(key).as_ref() == Some(name),
            Only::Key(own) => own.overlaps(key).is_some(),
        }
    }
}

fn namespace(key: &Key) -> Option<String> {
    match key.kind() {
        Kind::Logical => key.shown().split_once(':').map(|(namespace, _)| namespace.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::limits::KEY_BYTES_MAX;

    fn refused(policy: &KeyPolicy, text: &str, mode: Mode) -> Option<Code> {
        let key = Key::parse(text, &policy.rules).unwrap();
        policy.permit(&key, mode).err().map(|refused| refused.code())
    }

    #[test]
    fn everything_that_is_a_key_is_permitted_by_default() {
        let policy = KeyPolicy::default();
        for text in ["a", "**", "src/", "db:x", "flag:a/*", "deploy://x", "contract:a.yaml", "feature:F:pause"] {
            assert_eq!(refused(&policy, text, Mode::Shared), None, "{text}");
        }
    }

    #[test]
    fn the_longest_key_is_as_long_as_the_contract_says() {
        let path = |bytes: usize| format!("{}{}", "a/".repeat(bytes / 2), "a".repeat(bytes % 2));
        let parse = |bytes: usize| Key::parse(&format!("{}z", path(bytes - 1)), &KeyRules::default());
        assert!(parse(KEY_BYTES_MAX).is_ok());
        assert!(parse(KEY_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn namespaces_can_be_closed() {
        let policy = KeyPolicy { namespaces: vec!["db".to_owned()], ..KeyPolicy::default() };
        assert_eq!(refused(&policy, "db:x", Mode::Exclusive), None);
        assert_eq!(refused(&policy, "env:x", Mode::Exclusive), Some(Code::OperationNotPermitted));
        assert_eq!(refused(&policy, "file:env:x", Mode::Exclusive), None);
        assert_eq!(refused(&policy, "deploy://x", Mode::Exclusive), None);
    }

    #[test]
    fn patterns_can_be_kept_small() {
        let policy = KeyPolicy { pattern_depth: 1, ..KeyPolicy::default() };
        for text in ["**", "*.rs", "**/a", "sr?/a", "{a,b}/**"] {
            assert_eq!(refused(&policy, text, Mode::Exclusive), Some(Code::OperationNotPermitted), "{text}");
        }
        for text in ["src/", "src/*", "a", "src/**/x"] {
            assert_eq!(refused(&policy, text, Mode::Exclusive), None, "{text}");
        }
        let policy = KeyPolicy { pattern_depth: 2, ..KeyPolicy::default() };
        assert_eq!(refused(&policy, "src/**", Mode::Exclusive), Some(Code::OperationNotPermitted));
        assert_eq!(refused(&policy, "src/a/**", Mode::Exclusive), None);
        let policy = KeyPolicy { pattern_states: 20, ..KeyPolicy::default() };
        assert_eq!(refused(&policy, "src/**", Mode::Exclusive), None);
        assert_eq!(refused(&policy, "*abcdefghijklmnopqrstuvwxyz*", Mode::Exclusive), Some(Code::InvalidKey));
    }

    #[test]
    fn some_keys_are_for_one_alone() {
        let rules = KeyRules::default();
        let exclusive = ["db:*", "migrations/", "flag:billing/*"].map(|text| Only::parse(text, &rules).unwrap());
        let policy = KeyPolicy { exclusive: exclusive.to_vec(), ..KeyPolicy::default() };
        for text in ["db:x", "db:schema:users", "migrations/1.sql", "**/*.sql", "flag:billing/new", "flag:billing/*"] {
            assert_eq!(refused(&policy, text, Mode::Shared), Some(Code::OperationNotPermitted), "{text}");
            assert_eq!(refused(&policy, text, Mode::Exclusive), None, "{text}");
        }
        for text in ["src/a.rs", "env:db", "flag:other/x"] {
            assert_eq!(refused(&policy, text, Mode::Shared), None, "{text}");
        }
        assert!(Only::parse("nope:*", &rules).is_err());
        let folded = policy.folded(true);
        assert_eq!(refused(&folded, "Migrations/1.sql", Mode::Shared), Some(Code::OperationNotPermitted));
    }
}
