//! What the settings tell to do about an objection, and where each value comes from.
//!
//! A `DIBS_*` variable takes precedence over `dibs.*` in git's configuration (`git -c` included), and that over the default
//! of the occasion.

use crate::git::Settings;

use super::Occasion;
use crate::local::Environment;

/// What to do about an objection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforce {
    Block,
    /// Show it and go ahead.
    Warn,
    /// Do not ask the server.
    Off,
}

/// What to do if the change cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnreachable {
    /// Go ahead silently.
    Allow,
    /// Show it and go ahead.
    Warn,
    Block,
}

/// What a session must hold to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// Nothing: only reservations of other sessions matter.
    None,
    /// Every path it changes.
    Held,
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySetting<T> {
    pub value: T,
    /// What a reader would look up: `dibs.enforce=warn`, `DIBS_ENFORCE=warn`, `dibs.enforce=block by default`.
    pub source: String,
}

/// The repository's settings for checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckPolicy {
    /// `dibs.enforce`.
    pub enforce: PolicySetting<Enforce>,
    /// `dibs.onUnreachable`.
    pub on_unreachable: PolicySetting<OnUnreachable>,
    /// `dibs.require`.
    pub require: PolicySetting<Require>,
    /// `dibs.pushNet`: at a push, a path that is in the end as the other side has it does not count.
    pub push_net: PolicySetting<bool>,
    /// Sentences about invalid values; the default is used instead.
    pub complaints: Vec<String>,
}

impl CheckPolicy {
    /// Reads the settings for an occasion.
    pub fn read(occasion: &Occasion, environment: &Environment, settings: &Settings) -> CheckPolicy {
        let mut reader = Reader { environment, settings, complaints: Vec::new() };
        let yes_no = [("true", true), ("yes", true), ("on", true), ("1", true)];
        let yes_no = yes_no.into_iter().chain([("false", false), ("no", false), ("off", false), ("0", false)]);
        CheckPolicy {
            enforce: reader.one_of(
                ("enforce", "DIBS_ENFORCE"),
                &[("block", Enforce::Block), ("warn", Enforce::Warn), ("off", Enforce::Off)],
                Enforce::Block,
            ),
            on_unreachable: reader.one_of(
                ("onUnreachable", "DIBS_ON_UNREACHABLE"),
                &[("allow", OnUnreachable::Allow), ("warn", OnUnreachable::Warn), ("block", OnUnreachable::Block)],
                occasion.on_unreachable,
            ),
            require: reader.one_of(
                ("require", "DIBS_REQUIRE"),
                &[("none", Require::None), ("held", Require::Held)],
                Require::None,
            ),
            push_net: reader.one_of(("pushNet", "DIBS_PUSH_NET"), &yes_no.collect::<Vec<_>>(), false),
            complaints: reader.complaints,
        }
    }
}

struct Reader<'a> {
    environment: &'a Environment,
    settings: &'a Settings,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn one_of<T: Copy + PartialEq>(
        &mut self,
        (name, variable): (&str, &str),
        words: &[(&str, T)],
        default: T,
    ) -> PolicySetting<T> {
        let configured = match self.environment.text(variable).filter(|value| !value.is_empty()) {
            Some(value) => Some((variable.to_owned(), value)),
            None => self.settings.get(name).map(|value| (format!("dibs.{name}"), value.to_owned())),
        };
        if let Some((place, value)) = configured {
            let known = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&value));
            if let Some((word, meaning)) = known {
                return PolicySetting { value: *meaning, source: format!("{place}={word}") };
            }
            let list = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            let value = crate::text::terminal::clean(&value, 40);
            self.complaints.push(format!("{place} is \"{value}\", but must be one of {list}; the default is used"));
        }
        let word = words.iter().find(|(_, meaning)| *meaning == default).map_or("", |(word, _)| word);
        PolicySetting { value: default, source: format!("dibs.{name}={word} by default") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: Occasion = Occasion { noun: "commit", is_staged: true, on_unreachable: OnUnreachable::Warn };
    const PUSH: Occasion = Occasion { noun: "push", is_staged: false, on_unreachable: OnUnreachable::Block };

    fn read(occasion: &Occasion, variables: &[(&str, &str)], settings: &[(&str, &str)]) -> CheckPolicy {
        let environment = Environment::from_pairs(variables.iter().copied());
        CheckPolicy::read(occasion, &environment, &Settings::from_pairs(settings.iter().copied()))
    }

    #[test]
    fn without_settings_the_occasion_decides_about_an_unreachable_server() {
        for occasion in [&COMMIT, &PUSH] {
            let policy = read(occasion, &[], &[]);
            assert_eq!(policy.on_unreachable.value, occasion.on_unreachable, "{occasion:?}");
            assert_eq!(policy.enforce.value, Enforce::Block);
            assert_eq!(policy.require.value, Require::None);
            assert!(!policy.push_net.value);
        }
        let policy = read(&PUSH, &[], &[]);
        assert_eq!(policy.on_unreachable.source, "dibs.onUnreachable=block by default");
    }

    #[test]
    fn the_environment_comes_before_the_configuration() {
        let settings = [("enforce", "OFF"), ("onUnreachable", "allow"), ("pushNet", "true")];
        let policy = read(&PUSH, &[("DIBS_ENFORCE", "warn"), ("DIBS_REQUIRE", "")], &settings);
        assert_eq!(policy.enforce, PolicySetting { value: Enforce::Warn, source: "DIBS_ENFORCE=warn".to_owned() });
        assert_eq!(policy.on_unreachable.source, "dibs.onUnreachable=allow");
        assert!(policy.push_net.value);
        assert_eq!(policy.require.value, Require::None);
        assert_eq!(policy.complaints, Vec::<String>::new());
    }

    #[test]
    fn an_invalid_value_is_named_and_the_default_is_used() {
        let policy = read(&COMMIT, &[], &[("enforce", "blok\x1b[2J")]);
        assert_eq!(policy.enforce.value, Enforce::Block);
        let complaint = "dibs.enforce is \"blok\\x1b[2J\", but must be one of block, warn, off; the default is used";
        assert_eq!(policy.complaints, [complaint]);
    }
}
