//! What the settings say a hook should do, and which setting said it.
//!
//! `DIBS_*` in the environment comes before `dibs.*` in git's configuration (`git -c` included), and that before the
//! default of the moment.

use crate::git::Settings;

use super::Moment;
use crate::local::Environment;

/// What to do about a path somebody else holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforce {
    /// Stop.
    Block,
    /// Say it and go on.
    Warn,
    /// Do not even ask.
    Off,
}

/// What to do when there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnreachable {
    /// Go on without a word.
    Allow,
    /// Say it and go on.
    Warn,
    /// Stop.
    Block,
}

/// What a session must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// Nothing: only what others hold is out of bounds.
    None,
    /// Every path it changes.
    Held,
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// As a reader would look it up: `dibs.enforce=warn`, `DIBS_ENFORCE=warn`, `dibs.enforce=block by default`.
    pub source: String,
}

/// All that decides a verdict besides the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `dibs.enforce`.
    pub enforce: Setting<Enforce>,
    /// `dibs.onUnreachable`.
    pub on_unreachable: Setting<OnUnreachable>,
    /// `dibs.require`.
    pub require: Setting<Require>,
    /// `dibs.pushNet`: at a push, what was touched and put back does not count.
    pub push_net: Setting<bool>,
    /// Sentences about values nobody understands; the default counts in their place.
    pub complaints: Vec<String>,
}

impl Policy {
    /// Reads the settings for one moment.
    pub fn read(moment: Moment, environment: &Environment, settings: &Settings) -> Policy {
        let mut source = Source { environment, settings, complaints: Vec::new() };
        let when_silent = if moment.is_push() { OnUnreachable::Block } else { OnUnreachable::Warn };
        let yes_no = [("true", true), ("yes", true), ("on", true), ("1", true)];
        let yes_no = yes_no.into_iter().chain([("false", false), ("no", false), ("off", false), ("0", false)]);
        Policy {
            enforce: source.one_of(
                ("enforce", "DIBS_ENFORCE"),
                &[("block", Enforce::Block), ("warn", Enforce::Warn), ("off", Enforce::Off)],
                Enforce::Block,
            ),
            on_unreachable: source.one_of(
                ("onUnreachable", "DIBS_ON_UNREACHABLE"),
                &[("allow", OnUnreachable::Allow), ("warn", OnUnreachable::Warn), ("block", OnUnreachable::Block)],
                when_silent,
            ),
            require: source.one_of(
                ("require", "DIBS_REQUIRE"),
                &[("none", Require::None), ("held", Require::Held)],
                Require::None,
            ),
            push_net: source.one_of(("pushNet", "DIBS_PUSH_NET"), &yes_no.collect::<Vec<_>>(), false),
            complaints: source.complaints,
        }
    }
}

struct Source<'a> {
    environment: &'a Environment,
    settings: &'a Settings,
    complaints: Vec<String>,
}

impl Source<'_> {
    fn one_of<T: Copy + PartialEq>(
        &mut self,
        (name, variable): (&str, &str),
        words: &[(&str, T)],
        default: T,
    ) -> Setting<T> {
        let given = match self.environment.text(variable).filter(|value| !value.is_empty()) {
            Some(value) => Some((variable.to_owned(), value)),
            None => self.settings.get(name).map(|value| (format!("dibs.{name}"), value.to_owned())),
        };
        if let Some((place, value)) = given {
            let known = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&value));
            if let Some((word, meaning)) = known {
                return Setting { value: *meaning, source: format!("{place}={word}") };
            }
            let list = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            let value = super::text::clean(&value, 40);
            self.complaints.push(format!("{place} is \"{value}\", which is none of {list}; the default is used"));
        }
        let word = words.iter().find(|(_, meaning)| *meaning == default).map_or("", |(word, _)| word);
        Setting { value: default, source: format!("dibs.{name}={word} by default") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(moment: Moment, variables: &[(&str, &str)], settings: &[(&str, &str)]) -> Policy {
        let environment = Environment::from_pairs(variables.iter().copied());
        Policy::read(moment, &environment, &Settings::from_pairs(settings.iter().copied()))
    }

    #[test]
    fn a_commit_goes_on_in_silence_from_the_server_and_a_push_does_not() {
        for moment in Moment::ALL {
            let policy = read(moment, &[], &[]);
            let expected = if moment.is_push() { OnUnreachable::Block } else { OnUnreachable::Warn };
            assert_eq!(policy.on_unreachable.value, expected, "{moment}");
            assert_eq!(policy.enforce.value, Enforce::Block);
            assert_eq!(policy.require.value, Require::None);
            assert!(!policy.push_net.value);
        }
        let policy = read(Moment::PrePush, &[], &[]);
        assert_eq!(policy.on_unreachable.source, "dibs.onUnreachable=block by default");
    }

    #[test]
    fn the_environment_comes_before_the_configuration() {
        let settings = [("enforce", "OFF"), ("onUnreachable", "allow"), ("pushNet", "true")];
        let policy = read(Moment::PrePush, &[("DIBS_ENFORCE", "warn"), ("DIBS_REQUIRE", "")], &settings);
        assert_eq!(policy.enforce, Setting { value: Enforce::Warn, source: "DIBS_ENFORCE=warn".to_owned() });
        assert_eq!(policy.on_unreachable.source, "dibs.onUnreachable=allow");
        assert!(policy.push_net.value);
        assert_eq!(policy.require.value, Require::None);
        assert_eq!(policy.complaints, Vec::<String>::new());
    }

    #[test]
    fn a_value_nobody_knows_is_named_and_the_default_counts() {
        let policy = read(Moment::PreCommit, &[], &[("enforce", "blok\x1b[2J")]);
        assert_eq!(policy.enforce.value, Enforce::Block);
        let complaint = "dibs.enforce is \"blok\\x1b[2J\", which is none of block, warn, off; the default is used";
        assert_eq!(policy.complaints, [complaint]);
    }
}
