//! The configuration file of `serve`: every flag under its own name, and what has no flag in `[policy]` and `[limits]`.
//!
//! Reading goes on after a mistake, so that `serve --check-config` can tell of all of them.
//! `packaging/git-dibs.toml` shows every name with its default; a test holds it against this file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::toml_table::{Problem, Sheet, Source, Told};
use crate::engine::Policy;
use crate::http::{KeyPolicy, Limits, Only, TtlBounds};
use crate::key::{NAMESPACES, PATTERN_STATES_MAX};
use crate::serve::Format;

/// The longest anything may be held, in seconds.
const TTL_MAX: u64 = 366 * 24 * 3600;

/// Reservations one session may hold, where the file says nothing. A session that holds more has lost its way.
const RESERVATIONS: usize = 1_000_000;

/// A day, in seconds: more than any client needs for anything.
const DAY: u64 = 24 * 3600;

/// What the file says. Nothing where it says nothing; `policy` and `limits` then have their defaults.
#[derive(Debug, Clone)]
pub struct File {
    /// Repositories: a path, or NAME=PATH.
    pub repo: Vec<Told<String>>,
    /// The address to listen on.
    pub listen: Option<Told<String>>,
    /// The Unix socket to listen on.
    pub socket: Option<Told<PathBuf>>,
    /// The directory for journal, ledger, secret and socket.
    pub data: Option<Told<PathBuf>>,
    /// Listen on other addresses than this machine's own.
    pub behind_proxy: Option<Told<bool>>,
    /// Names the server goes by, besides localhost.
    pub host: Vec<Told<String>>,
    /// A file with the HS256 secret.
    pub secret_file: Option<Told<PathBuf>>,
    /// A JWKS with public keys.
    pub jwks: Option<Told<PathBuf>>,
    /// The only `iss` accepted.
    pub issuer: Option<Told<String>>,
    /// The name that must be among `aud`.
    pub audience: Option<Told<String>>,
    /// A session silent for so many seconds is lost.
    pub session_timeout: Option<Told<u64>>,
    /// Write no ledger.
    pub no_ledger: Option<Told<bool>>,
    /// Log every decision, as `json` or `text`.
    pub log: Option<Told<Format>>,
    /// How much is logged.
    pub log_level: Option<Told<String>>,
    /// What may be reserved, for how long and how.
    pub policy: KeyPolicy,
    /// How much of everything the door takes.
    pub limits: Limits,
    /// How much of everything the rules allow.
    pub rules: Policy,
}

/// A file that was read.
pub struct Reading {
    /// What it says; a mistake counts as if nothing was said.
    pub file: File,
    /// Everything that is wrong with it.
    pub problems: Vec<Problem>,
}

impl Reading {
    /// Reads a file. That it cannot be read is a problem like any other.
    pub fn of(path: &Path) -> Reading {
        match std::fs::read_to_string(path) {
            Ok(text) => Reading::of_text(&text, path.parent().unwrap_or(Path::new(""))),
            Err(error) => {
                let mut reading = Reading::of_text("", Path::new(""));
                let sentence = format!("cannot be read: {error}");
                reading.problems.push(Problem { line: None, sentence });
                reading
            }
        }
    }

    /// Reads text; relative paths in it start from `directory`.
    pub fn of_text(text: &str, directory: &Path) -> Reading {
        let source = Source::new(text, directory);
        let file = File::from(&source, directory);
        Reading { file, problems: source.finish() }
    }
}

impl File {
    fn from(source: &Source<'_>, directory: &Path) -> File {
        let mut sheet = source.sheet();
        let policy = policy(source, sheet.table("policy"));
        let (limits, rules) = limits(sheet.table("limits"));
        let file = File {
            repo: sheet.texts("repo").unwrap_or_default().into_iter().map(|told| located(told, directory)).collect(),
            listen: sheet.text("listen"),
            socket: sheet.path("socket"),
            data: sheet.path("data"),
            behind_proxy: sheet.flag("behind-proxy"),
            host: sheet.texts("host").unwrap_or_default(),
            secret_file: sheet.path("secret-file"),
            jwks: sheet.path("jwks"),
            issuer: sheet.text("issuer"),
            audience: sheet.text("audience"),
            session_timeout: sheet.number("session-timeout", 1..=TTL_MAX),
            no_ledger: sheet.flag("no-ledger"),
            log: sheet.word("log", &[("json", Format::Json), ("text", Format::Text)]),
            log_level: sheet.text("log-level"),
            policy,
            limits,
            rules,
        };
        sheet.finish();
        file
    }
}

impl Default for File {
    fn default() -> Self {
        Reading::of_text("", Path::new("")).file
    }
}

/// A repository as it is named on the command line: `PATH` or `NAME=PATH`.
pub fn named_repo(text: &str) -> (Option<&str>, &Path) {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name), Path::new(path)),
        _ => (None, Path::new(text)),
    }
}

/// A repository's path, too, starts where the file is.
fn located(told: Told<String>, directory: &Path) -> Told<String> {
    let (name, path) = named_repo(&told.value);
    let path = directory.join(path).to_string_lossy().into_owned();
    let value = name.map_or_else(|| path.clone(), |name| format!("{name}={path}"));
    Told { value, line: told.line }
}

fn policy(source: &Source<'_>, mut sheet: Sheet<'_, '_>) -> KeyPolicy {
    let mut policy = KeyPolicy::default();
    if let Some(names) = sheet.texts("namespaces") {
        for name in names.iter().filter(|name| !NAMESPACES.contains(&&*name.value)) {
            let sentence = format!("there is no namespace {:?}; there are {}", name.value, NAMESPACES.join(", "));
            source.problem(name.line, sentence);
        }
        policy.namespaces = names.into_iter().map(|name| name.value).collect();
    }
    for purpose in sheet.texts("purposes").unwrap_or_default() {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if !purpose.value.bytes().all(is_word) {
            let sentence = format!("{:?} is no purpose; use letters, digits, _, . and -", purpose.value);
            source.problem(purpose.line, sentence);
        } else if !policy.rules.purposes.contains(&purpose.value) {
            policy.rules.purposes.push(purpose.value);
        }
    }
    policy.file_ttl = bounds(source, &mut sheet, "file-ttl", TtlBounds::FILES);
    policy.name_ttl = bounds(source, &mut sheet, "name-ttl", TtlBounds::NAMES);
    policy.pattern_depth = number(&mut sheet, "pattern-depth", 0..=64, policy.pattern_depth);
    policy.pattern_states = number(&mut sheet, "pattern-states", 1..=PATTERN_STATES_MAX as u64, policy.pattern_states);
    for text in sheet.texts("exclusive").unwrap_or_default() {
        match Only::parse(&text.value, &policy.rules) {
            Ok(only) => policy.exclusive.push(only),
            Err(sentence) => source.problem(text.line, sentence.trim_end_matches('.')),
        }
    }
    sheet.finish();
    policy
}

/// Seconds: `{ default = 60, min = 1, max = 300 }`.
fn bounds(source: &Source<'_>, sheet: &mut Sheet<'_, '_>, name: &'static str, usual: TtlBounds) -> TtlBounds {
    let mut table = sheet.table(name);
    let mut seconds = |name, usual| table.number(name, 1..=TTL_MAX).unwrap_or(Told::elsewhere(u64::from(usual)));
    let (default, min, max) = (seconds("default", usual.default), seconds("min", usual.min), seconds("max", usual.max));
    table.finish();
    let line = default.line.or(max.line).or(min.line);
    let (default, min, max) = (default.value, min.value, max.value);
    if min > default || default > max {
        let sentence =
            format!("policy.{name}: min ≤ default ≤ max must hold, and min is {min}, default {default}, max {max}");
        source.problem(line, sentence);
        return usual;
    }
    let number = |seconds: u64| u32::try_from(seconds).expect("a year fits");
    TtlBounds { default: number(default), min: number(min), max: number(max) }
}

fn limits(mut sheet: Sheet<'_, '_>) -> (Limits, Policy) {
    const MANY: u64 = 1_000_000_000;
    let (door, rules) = (Limits::default(), Policy { reservations_per_session: RESERVATIONS, ..Policy::default() });
    let limits = Limits {
        body_bytes: number(&mut sheet, "body-bytes", 1024..=door.body_bytes as u64, door.body_bytes),
        keys_per_check: number(&mut sheet, "keys-per-check", 1..=1_000_000, door.keys_per_check),
        keys_per_reserve: number(
            &mut sheet,
            "keys-per-reserve",
            1..=door.keys_per_reserve as u64,
            door.keys_per_reserve,
        ),
        requests_per_second: number(&mut sheet, "requests-per-second", 0..=1_000_000, door.requests_per_second as usize)
            as u32,
        connections: number(&mut sheet, "connections", 1..=1_000_000, door.connections),
        header_time: seconds(&mut sheet, "header-seconds", door.header_time),
        body_time: seconds(&mut sheet, "body-seconds", door.body_time),
        idle_time: seconds(&mut sheet, "idle-seconds", door.idle_time),
        event_keep_alive: seconds(&mut sheet, "event-keep-alive-seconds", door.event_keep_alive),
        event_readers: number(&mut sheet, "event-readers", 0..=100_000, door.event_readers),
    };
    let rules = Policy {
        reservations_per_session: number(
            &mut sheet,
            "reservations-per-session",
            1..=MANY,
            rules.reservations_per_session,
        ),
        waiters_per_session: number(&mut sheet, "waiters-per-session", 0..=MANY, rules.waiters_per_session),
        sessions: number(&mut sheet, "sessions-per-repository", 1..=MANY, rules.sessions),
        ..rules
    };
    sheet.finish();
    (limits, rules)
}

fn number(sheet: &mut Sheet<'_, '_>, name: &'static str, range: std::ops::RangeInclusive<u64>, usual: usize) -> usize {
    sheet.number(name, range).map_or(usual, |told| usize::try_from(told.value).unwrap_or(usize::MAX))
}

fn seconds(sheet: &mut Sheet<'_, '_>, name: &'static str, usual: Duration) -> Duration {
    sheet.number(name, 1..=DAY).map_or(usual, |told| Duration::from_secs(told.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../packaging/git-dibs.toml");

    fn read(text: &str) -> Reading {
        Reading::of_text(text, Path::new("/etc"))
    }

    fn complaints(text: &str) -> Vec<String> {
        read(text).problems.iter().map(Problem::to_string).collect()
    }

    /// The example with every setting in force.
    fn uncommented() -> String {
        let setting = |line: &str| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) && rest.contains(" = ") => rest.to_owned(),
            _ => line.to_owned(),
        };
        EXAMPLE.lines().map(|line| setting(line) + "\n").collect()
    }

    #[test]
    fn a_repository_may_have_a_name() {
        assert_eq!(named_repo("app=/srv/app.git"), (Some("app"), Path::new("/srv/app.git")));
        assert_eq!(named_repo("/srv/app.git"), (None, Path::new("/srv/app.git")));
        assert_eq!(named_repo("/srv/a=b"), (None, Path::new("/srv/a=b")));
        let repo: Vec<_> = read("repo = [\"app=git/app\", \"/srv/b\"]").file.repo;
        let repo: Vec<_> = repo.iter().map(|told| &*told.value).collect();
        assert_eq!(repo, ["app=/etc/git/app", "/srv/b"]);
    }

    #[test]
    fn the_example_changes_nothing() {
        let reading = read(EXAMPLE);
        assert_eq!(reading.problems, []);
        assert_eq!(format!("{:?}", reading.file), format!("{:?}", File::default()));
    }

    #[test]
    fn the_example_shows_every_name_with_its_default() {
        let text = uncommented();
        let source = Source::new(&text, Path::new("/etc"));
        let (shown, usual) = (File::from(&source, Path::new("/etc")), File::default());
        let names = source.names.borrow().clone();
        assert_eq!(source.finish(), []);
        assert_eq!(shown.limits, usual.limits);
        assert_eq!(format!("{:?}", shown.policy), format!("{:?}", usual.policy));
        assert_eq!(format!("{:?}", shown.rules), format!("{:?}", usual.rules));
        assert_eq!(shown.session_timeout.unwrap().value, usual.rules.session_timeout.as_secs());

        let table: toml::Table = toml::from_str(&text).unwrap();
        for name in &names {
            let mut parts = name.split('.');
            let first = table.get(parts.next().unwrap());
            let found = parts.fold(first, |found, part| found?.get(part));
            assert!(found.is_some(), "packaging/git-dibs.toml does not show {name}");
        }
        assert!(names.len() > 30, "{names:?}");
    }

    #[test]
    fn everything_that_is_wrong_is_told() {
        let text = "\
            lisen = \"x\"\n\
            repo = \"here\"\n\
            session-timeout = 0\n\
            [policy]\n\
            namespaces = [\"db\", \"dbs\"]\n\
            purposes = [\"a b\"]\n\
            file-ttl = { default = 600, max = 300 }\n\
            name-ttl = { maximum = 5 }\n\
            exclusive = [\"db:*\",\n\
              \"../x\"]\n\
            [limits]\n\
            keys-per-check = 0\n\
            connections = \"many\"\n\
            [tokens]\n";
        let found = complaints(text);
        let lines: Vec<_> = found.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(lines, ["1", "2", "3", "5", "6", "7", "8", "10", "12", "13", "14"], "{found:#?}");
    }

    #[test]
    fn bounds_may_be_told_in_part() {
        let file = read("[policy]\nfile-ttl = { max = 900 }\n").file;
        assert_eq!(file.policy.file_ttl, TtlBounds { max: 900, ..TtlBounds::FILES });
        assert_eq!(complaints("[policy.file-ttl]\nmin = 61\n").len(), 1);
    }
}
