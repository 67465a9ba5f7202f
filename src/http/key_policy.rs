//! What the configuration says about keys: which may be reserved, for how long, and in which mode.

use std::collections::BTreeMap;

use super::error::{ApiError, ApiResult};
use super::lfs::LfsPolicy;
use super::port_policy::PortPolicy;
use crate::engine::Mode;
use crate::key::{Claim, Key, KeyRules, Kind, NAMESPACES, PATTERN_STATES_MAX, PORT};
use crate::wire::Code;
use crate::wire::limits::TtlBounds;

/// The policy of one repository. A reload of the configuration replaces it as a whole; existing reservations stay, and can
/// be released and renewed under any policy.
#[derive(Debug, Clone)]
pub struct KeyPolicy {
    pub rules: KeyRules,
    /// For paths and patterns.
    pub file_ttl: TtlBounds,
    /// For logical keys and resource URIs.
    pub name_ttl: TtlBounds,
    /// For every key that is held while its session gives signs of life. The default is the timeout of a session.
    pub idle: TtlBounds,
    /// The namespaces of logical keys that may be reserved.
    pub namespaces: Vec<String>,
    /// The most states the automaton of a pattern may have.
    pub pattern_states: usize,
    /// How many plain directories a pattern must begin with. 1 forbids `**`.
    pub pattern_depth: usize,
    /// What may only be reserved with mode exclusive.
    pub exclusive: Vec<ExclusiveRule>,
    pub ports: PortPolicy,
    /// The TTLs of the namespaces that the configuration adds.
    pub plain_ttl: BTreeMap<String, TtlBounds>,
    pub lfs: LfsPolicy,
}

/// Keys that may only be reserved with mode exclusive.
#[derive(Debug, Clone)]
pub enum ExclusiveRule {
    /// Everything in a namespace.
    Namespace(String),
    /// Every key that overlaps this one.
    Key(Key),
}

impl Default for KeyPolicy {
    fn default() -> Self {
        Self {
            rules: KeyRules::default(),
            file_ttl: TtlBounds::FILES,
            name_ttl: TtlBounds::NAMES,
            idle: TtlBounds::IDLE,
            namespaces: NAMESPACES.map(str::to_owned).to_vec(),
            pattern_states: PATTERN_STATES_MAX,
            pattern_depth: 0,
            exclusive: vec![ExclusiveRule::Key(migration_slot())],
            ports: PortPolicy::default(),
            plain_ttl: BTreeMap::new(),
            lfs: LfsPolicy::default(),
        }
    }
}

impl KeyPolicy {
    /// The bounds for the TTL of this key.
    pub fn bounds(&self, key: &Key) -> TtlBounds {
        match key.kind() {
            Kind::Path | Kind::Glob => self.file_ttl,
            Kind::Uri => self.name_ttl,
            Kind::Logical => {
                let own = namespace(key).and_then(|namespace| self.plain_ttl.get(&namespace).copied());
                own.unwrap_or(self.name_ttl)
            }
        }
    }

    /// Whether this key may be reserved in this mode.
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
                        "{} covers too much: on this server a pattern must begin with at least {}",
                        shown(),
                        match self.pattern_depth {
                            1 => "one plain directory name".to_owned(),
                            more => format!("{more} plain directory names"),
                        },
                    );
                    return Err(ApiError::new(Code::OperationNotPermitted, sentence));
                }
                if glob.states() > self.pattern_states {
                    let sentence =
                        format!("the pattern {} is too complex for this server; split it into several", shown());
                    return Err(ApiError::new(Code::InvalidKey, sentence));
                }
            }
            _ => {
                let namespace = namespace(key);
                if namespace.as_deref() == Some(PORT) {
                    let sentence = format!(
                        "{} cannot be reserved: ports are allocated, with POST /api/sessions/{{id}}/ports or git dibs ports",
                        shown()
                    );
                    return Err(ApiError::new(Code::OperationNotPermitted, sentence));
                }
                if let Some(namespace) = namespace
                    && !self.namespaces.contains(&namespace)
                    && !self.plain_ttl.contains_key(&namespace)
                {
                    let sentence = match self.namespaces.join(", ") {
                        none if none.is_empty() => {
                            format!("{} cannot be reserved: this server reserves only files", shown())
                        }
                        some => format!("{} cannot be reserved: this server has the namespaces {some}", shown()),
                    };
                    return Err(ApiError::new(Code::OperationNotPermitted, sentence));
                }
            }
        }
        if mode == Mode::Shared && self.exclusive.iter().any(|rule| rule.covers(key)) {
            let sentence = format!("{} cannot be shared on this server; reserve it with mode exclusive", shown());
            return Err(ApiError::new(Code::OperationNotPermitted, sentence));
        }
        Ok(())
    }

    /// The same policy for a repository that compares names with or without regard to case.
    pub fn folded(mut self, fold_case: bool) -> Self {
        self.rules.fold_case = fold_case;
        for rule in &mut self.exclusive {
            if let ExclusiveRule::Key(key) = rule {
                *key = key.folded(fold_case);
            }
        }
        self
    }
}

impl ExclusiveRule {
    /// Parses a rule of the configuration: a key, or `db:*` for a whole namespace.
    pub fn parse(text: &str, rules: &KeyRules) -> Result<ExclusiveRule, String> {
        match text.strip_suffix(":*") {
            Some(name) if NAMESPACES.contains(&name) => Ok(ExclusiveRule::Namespace(name.to_owned())),
            _ => Key::parse(text, rules).map(ExclusiveRule::Key).map_err(|bad| bad.to_string()),
        }
    }

    fn covers(&self, key: &Key) -> bool {
        match self {
            ExclusiveRule::Namespace(name) => namespace(key).as_ref() == Some(name),
            ExclusiveRule::Key(own) => own.overlaps(key).is_some(),
        }
    }
}

/// There is one slot, and every migration needs all of it.
fn migration_slot() -> Key {
    Key::parse("db:migration-slot", &KeyRules::default()).expect("a key")
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
    use crate::wire::limits::{COMPONENT_BYTES_MAX, KEY_BYTES_MAX};

    fn refused(policy: &KeyPolicy, text: &str, mode: Mode) -> Option<Code> {
        let key = Key::parse(text, &policy.rules).unwrap();
        policy.permit(&key, mode).err().map(|refused| refused.code())
    }

    #[test]
    fn every_key_is_permitted_by_default() {
        let policy = KeyPolicy::default();
        for text in ["a", "**", "src/", "db:schema:x", "flag:a/*", "deploy://x", "contract:a.yaml", "feature:F:pause"] {
            assert_eq!(refused(&policy, text, Mode::Shared), None, "{text}");
        }
        assert_eq!(refused(&policy, "db:migration-slot", Mode::Exclusive), None);
        assert_eq!(refused(&policy, "db:migration-slot", Mode::Shared), Some(Code::OperationNotPermitted));
        assert_eq!(refused(&policy, "port:20004", Mode::Exclusive), Some(Code::OperationNotPermitted));
    }

    #[test]
    fn the_longest_key_is_as_long_as_the_contract_says() {
        let path = |bytes: usize| "abcdefghijklmno/".repeat(bytes / 16) + &"z".repeat(bytes % 16);
        let parse = |bytes: usize| Key::parse(&format!("{}z", path(bytes - 1)), &KeyRules::default());
        assert!(parse(KEY_BYTES_MAX).is_err(), "256 components");
        let parse = |bytes: usize| Key::parse(&path(bytes).replacen("o/", "op", 1), &KeyRules::default());
        assert!(parse(KEY_BYTES_MAX - 1).is_ok());
        assert!(parse(KEY_BYTES_MAX + 1).is_err());
        let name = |bytes: usize| Key::parse(&"a".repeat(bytes), &KeyRules::default());
        assert!(name(COMPONENT_BYTES_MAX).is_ok());
        assert!(name(COMPONENT_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn namespaces_can_be_closed() {
        let policy = KeyPolicy { namespaces: vec!["db".to_owned()], ..KeyPolicy::default() };
        assert_eq!(refused(&policy, "db:schema:x", Mode::Exclusive), None);
        assert_eq!(refused(&policy, "env:x", Mode::Exclusive), Some(Code::OperationNotPermitted));
        assert_eq!(refused(&policy, "file:env:x", Mode::Exclusive), None);
        assert_eq!(refused(&policy, "deploy://x", Mode::Exclusive), None);
    }

    #[test]
    fn broad_and_complex_patterns_can_be_forbidden() {
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
    fn some_keys_cannot_be_shared() {
        let rules = KeyRules::default();
        let exclusive =
            ["db:*", "migrations/", "flag:billing/*"].map(|text| ExclusiveRule::parse(text, &rules).unwrap());
        let policy = KeyPolicy { exclusive: exclusive.to_vec(), ..KeyPolicy::default() };
        for text in
            ["db:schema:x", "db:schema:users", "migrations/1.sql", "**/*.sql", "flag:billing/new", "flag:billing/*"]
        {
            assert_eq!(refused(&policy, text, Mode::Shared), Some(Code::OperationNotPermitted), "{text}");
            assert_eq!(refused(&policy, text, Mode::Exclusive), None, "{text}");
        }
        for text in ["src/a.rs", "env:db", "flag:other/x"] {
            assert_eq!(refused(&policy, text, Mode::Shared), None, "{text}");
        }
        assert!(ExclusiveRule::parse("nope:*", &rules).is_err());
        let folded = policy.folded(true);
        assert_eq!(refused(&folded, "Migrations/1.sql", Mode::Shared), Some(Code::OperationNotPermitted));
    }
}
