//! The configuration file of `serve`: every flag under its own name, and the settings without a flag in `[policy]` and
//! `[limits]`.
//!
//! `packaging/git-dibs.toml` shows every name with its default; a test compares it with this file.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::toml_table::{TomlDocument, TomlTable};
use super::{ConfigProblem, ConfigValue, Options};
use crate::client::Address;
use crate::cluster::LEASE_TIMES;
use crate::engine::Policy;
use crate::http::{ExclusiveRule, KeyPolicy, LfsForce, PortPolicy, ServerLimits};
use crate::key::{Key, KeyRules, Kind, NAMESPACES, PATTERN_STATES_MAX, PORT};
use crate::serve::LogFormat;
use crate::serve::repositories::split_name;
use crate::wire::limits::{CHECK_PATHS_CONFIG_MAX, PORTS_MAX, TtlBounds};

/// The longest time a reservation can be held, in seconds.
const TTL_MAX: u64 = 366 * 24 * 3600;

/// The largest value of `body-bytes`.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The largest value of a time in `[limits]`, in seconds.
const DAY: u64 = 24 * 3600;

#[derive(Debug, Clone)]
pub struct ConfigFile {
    pub options: Options,
    /// `[policy]`.
    pub key_policy: KeyPolicy,
    /// `[limits]`, as far as `http` keeps them.
    pub limits: ServerLimits,
    /// `[limits]`, as far as the engine keeps them.
    pub engine_policy: Policy,
}

impl ConfigFile {
    /// Reads a file and returns every error in it. A setting with an error has its default. That the file cannot be read is
    /// an error like any other.
    pub fn read(path: &Path) -> (ConfigFile, Vec<ConfigProblem>) {
        match std::fs::read_to_string(path) {
            Ok(text) => ConfigFile::parse(&text, path.parent().unwrap_or(Path::new(""))),
            Err(error) => {
                let sentence = format!("the configuration file {} cannot be read: {error}", path.display());
                (ConfigFile::default(), vec![ConfigProblem { line: None, sentence }])
            }
        }
    }

    /// Relative paths in `text` start at `directory`.
    fn parse(text: &str, directory: &Path) -> (ConfigFile, Vec<ConfigProblem>) {
        let document = TomlDocument::new(text, directory);
        let file = ConfigFile::from_toml(&document, directory);
        (file, document.finish())
    }

    fn from_toml(document: &TomlDocument<'_>, directory: &Path) -> ConfigFile {
        let mut table = document.root();
        let mut key_policy = policy(document, table.table("policy"));
        lfs(document, table.table("lfs"), &mut key_policy);
        if let Some(seconds) = table.number("resourceLockTimeout", 1..=TTL_MAX) {
            let (seconds, line) = (u32::try_from(seconds.value).expect("a year fits"), seconds.line);
            let TtlBounds { min, max, .. } = key_policy.name_ttl;
            if !(min..=max).contains(&seconds) {
                let sentence =
                    format!("resourceLockTimeout is {seconds}, and name-ttl in [policy] allows {min} to {max}");
                document.problem(line, sentence);
            }
            key_policy.name_ttl.default = seconds.clamp(min, max);
        }
        let (limits, engine_policy) = limits(table.table("limits"));
        let repos = table.texts("repo").unwrap_or_default();
        let options = Options {
            repo: repos.into_iter().map(|repo| absolute_repo(repo, directory)).collect(),
            listen: table.text("listen"),
            socket: table.path("socket"),
            data: table.path("data"),
            behind_proxy: table.flag("behind-proxy"),
            tls_cert: table.path("tls-cert"),
            tls_key: table.path("tls-key"),
            public_url: table.text("public-url"),
            host: table.texts("host").unwrap_or_default(),
            secret_file: table.path("secret-file"),
            jwks: table.path("jwks"),
            issuer: table.text("issuer"),
            audience: table.text("audience"),
            session_timeout: table.number("session-timeout", 1..=TTL_MAX),
            idle_timeout: table.number("idle-timeout", 0..=TTL_MAX),
            no_ledger: table.flag("no-ledger"),
            cluster: table.text("cluster"),
            node: table.text("node"),
            advertise: table.text("advertise"),
            cluster_lease: table.number("cluster-lease", LEASE_TIMES),
            cluster_ca: table.path("cluster-ca"),
            cluster_cert: table.path("cluster-cert"),
            cluster_key: table.path("cluster-key"),
            cluster_user: table.text("cluster-user"),
            cluster_password_file: table.path("cluster-password-file"),
            log: table.word("log", &[("json", LogFormat::Json), ("text", LogFormat::Text)]),
            log_level: table.text("log-level"),
        };
        table.finish();
        ConfigFile { options, key_policy, limits, engine_policy }
    }
}

impl Default for ConfigFile {
    fn default() -> Self {
        ConfigFile::parse("", Path::new("")).0
    }
}

/// `PATH` or `NAME=PATH` with a path that starts at the directory of the file.
fn absolute_repo(repo: ConfigValue<String>, directory: &Path) -> ConfigValue<String> {
    let (name, path) = split_name(&repo.value);
    let path = directory.join(path).to_string_lossy().into_owned();
    let value = name.map_or_else(|| path.clone(), |name| format!("{name}={path}"));
    ConfigValue { value, line: repo.line }
}

fn policy(document: &TomlDocument<'_>, mut table: TomlTable<'_, '_>) -> KeyPolicy {
    let mut policy = KeyPolicy::default();
    if let Some(names) = table.texts("namespaces") {
        for name in names.iter().filter(|name| !NAMESPACES.contains(&&*name.value)) {
            let sentence = format!("{:?} is not a namespace; there are {}", name.value, NAMESPACES.join(", "));
            document.problem(name.line, sentence);
        }
        policy.namespaces = names.into_iter().map(|name| name.value).collect();
    }
    for purpose in table.texts("purposes").unwrap_or_default() {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if !purpose.value.bytes().all(is_word) {
            let sentence = format!("{:?} is not a purpose; use only letters, digits, _, . and -", purpose.value);
            document.problem(purpose.line, sentence);
        } else if !policy.rules.purposes.contains(&purpose.value) {
            policy.rules.purposes.push(purpose.value);
        }
    }
    for form in table.texts("db-forms").unwrap_or_default() {
        let example = format!("db:{}", form.value.replace('*', "x"));
        match Key::parse(&example, &KeyRules::any_configuration(&example)) {
            Ok(_) => policy.rules.db_forms.push(form.value),
            Err(_) => {
                let sentence = format!("{:?} is not a form of db keys; write a word, or a word and :*", form.value);
                document.problem(form.line, sentence);
            }
        }
    }
    plain_namespaces(document, table.table("plain-namespaces"), &mut policy);
    policy.ports = ports(document, table.table("ports"));
    policy.file_ttl = bounds(document, &mut table, "file-ttl", TtlBounds::FILES);
    policy.name_ttl = bounds(document, &mut table, "name-ttl", TtlBounds::NAMES);
    if let Some(seconds) = table.number("lfs-ttl", 1..=TTL_MAX) {
        policy.lfs.ttl_seconds = u32::try_from(seconds.value).expect("a year fits");
    }
    if let Some(force) = table.word("lfs-force", &[("admin", LfsForce::Admin), ("anyone", LfsForce::Anyone)]) {
        policy.lfs.force = force.value;
    }
    policy.pattern_depth = number(&mut table, "pattern-depth", 0..=64, policy.pattern_depth);
    policy.pattern_states = number(&mut table, "pattern-states", 1..=PATTERN_STATES_MAX as u64, policy.pattern_states);
    for text in table.texts("exclusive").unwrap_or_default() {
        match ExclusiveRule::parse(&text.value, &policy.rules) {
            Ok(rule) => policy.exclusive.push(rule),
            Err(sentence) => document.problem(text.line, sentence.trim_end_matches('.')),
        }
    }
    table.finish();
    policy
}

/// Where the objects of Git LFS are.
fn lfs(document: &TomlDocument<'_>, mut table: TomlTable<'_, '_>, policy: &mut KeyPolicy) {
    if let Some(forward) = table.text("forward") {
        let example = forward.value.replace("{repo}", "x");
        match Address::parse(&example) {
            Ok(Address::Tcp { .. }) => policy.lfs.forward = Some(forward.value.into()),
            Ok(Address::Unix(_)) => document.problem(forward.line, "lfs.forward must begin with http:// or https://"),
            Err(why) => {
                document.problem(
                    forward.line,
                    format!("lfs.forward is {:?}, which is not an address: {why}", forward.value),
                );
            }
        }
    }
    table.finish();
}

/// Namespaces that the configuration adds, each with the bounds of its TTL.
fn plain_namespaces(document: &TomlDocument<'_>, mut table: TomlTable<'_, '_>, policy: &mut KeyPolicy) {
    for ConfigValue { value: name, line } in table.names() {
        let ttl = bounds(document, &mut table, &name, TtlBounds::NAMES);
        let is_free = name != PORT && name != "file" && !NAMESPACES.contains(&&*name);
        let example = format!("{name}:x");
        // Text with anything else before the colon is a path.
        let is_name = |key: Key| key.kind() == Kind::Logical;
        if !is_free || !Key::parse(&example, &KeyRules::any_configuration(&example)).is_ok_and(is_name) {
            document.problem(line, format!("{name:?} cannot be a namespace of its own; use a word that is free"));
            continue;
        }
        policy.plain_ttl.insert(name.clone(), ttl);
        policy.rules.plain_namespaces.push(name);
    }
    table.finish();
}

/// `{ first = 20000, last = 29999, block = 4, check = true }`.
fn ports(document: &TomlDocument<'_>, mut table: TomlTable<'_, '_>) -> PortPolicy {
    let usual = PortPolicy::default();
    let mut number = |name, range: RangeInclusive<u64>, usual: u16| {
        let found = table.number(name, range);
        let line = found.as_ref().and_then(|found| found.line);
        (found.map_or(usual, |found| u16::try_from(found.value).expect("it fits")), line)
    };
    let (first, first_line) = number("first", 1024..=65535, usual.first);
    let (last, last_line) = number("last", 1024..=65535, usual.last);
    let (block, block_line) = number("block", 1..=u64::from(PORTS_MAX), usual.block);
    let check = table.flag("check").map_or(usual.check, |flag| flag.value);
    table.finish();
    if u32::from(first) + u32::from(block) > u32::from(last) + 1 {
        let sentence = format!("policy.ports: there is no block of {block} ports from {first} to {last}");
        document.problem(last_line.or(first_line).or(block_line), sentence);
        return usual;
    }
    PortPolicy { first, last, block, check, ..usual }
}

/// Seconds: `{ default = 60, min = 1, max = 300 }`.
fn bounds(document: &TomlDocument<'_>, table: &mut TomlTable<'_, '_>, name: &str, usual: TtlBounds) -> TtlBounds {
    let mut table = table.table(name);
    let mut seconds =
        |name, usual: u32| table.number(name, 1..=TTL_MAX).unwrap_or(ConfigValue::from_flag(usual.into()));
    let (default, min, max) = (seconds("default", usual.default), seconds("min", usual.min), seconds("max", usual.max));
    table.finish();
    let line = default.line.or(max.line).or(min.line);
    let (default, min, max) = (default.value, min.value, max.value);
    if min > default || default > max {
        let sentence = format!(
            "policy.{name} must have min ≤ default ≤ max, but min is {min}, default is {default} and max is {max}"
        );
        document.problem(line, sentence);
        return usual;
    }
    let number = |seconds: u64| u32::try_from(seconds).expect("a year fits");
    TtlBounds { default: number(default), min: number(min), max: number(max) }
}

fn limits(mut table: TomlTable<'_, '_>) -> (ServerLimits, Policy) {
    const MANY: u64 = 1_000_000_000;
    const TEXT_BYTES_MAX: u64 = 1 << 40;
    let http = ServerLimits::default();
    let engine = Policy::default();
    let limits = ServerLimits {
        body_bytes: number(&mut table, "body-bytes", 1024..=BODY_BYTES_MAX, http.body_bytes),
        keys_per_check: number(&mut table, "keys-per-check", 1..=CHECK_PATHS_CONFIG_MAX as u64, http.keys_per_check),
        keys_per_reserve: number(
            &mut table,
            "keys-per-reserve",
            1..=http.keys_per_reserve as u64,
            http.keys_per_reserve,
        ),
        requests_per_second: number(&mut table, "requests-per-second", 0..=1_000_000, http.requests_per_second as usize)
            as u32,
        connections: number(&mut table, "connections", 1..=1_000_000, http.connections),
        connections_per_peer: number(&mut table, "connections-per-peer", 1..=1_000_000, http.connections_per_peer),
        header_time: seconds(&mut table, "header-seconds", http.header_time),
        body_time: seconds(&mut table, "body-seconds", http.body_time),
        idle_time: seconds(&mut table, "idle-seconds", http.idle_time),
        event_keep_alive: seconds(&mut table, "event-keep-alive-seconds", http.event_keep_alive),
        event_readers: number(&mut table, "event-readers", 0..=100_000, http.event_readers),
    };
    let engine_policy = Policy {
        reservations_per_session: number(
            &mut table,
            "reservations-per-session",
            1..=MANY,
            engine.reservations_per_session,
        ),
        reservations: number(&mut table, "reservations-per-repository", 1..=MANY, engine.reservations),
        text_bytes: number(&mut table, "text-bytes-per-repository", 1024..=TEXT_BYTES_MAX, engine.text_bytes),
        waiters_per_session: number(&mut table, "waiters-per-session", 0..=MANY, engine.waiters_per_session),
        sessions: number(&mut table, "sessions-per-repository", 1..=MANY, engine.sessions),
        sessions_per_worker: number(&mut table, "sessions-per-worker", 1..=MANY, engine.sessions_per_worker),
        unlock_requests_per_session: number(
            &mut table,
            "unlock-requests-per-session",
            0..=MANY,
            engine.unlock_requests_per_session,
        ),
        unlock_requests_per_holder: number(
            &mut table,
            "unlock-requests-per-holder",
            0..=MANY,
            engine.unlock_requests_per_holder,
        ),
        unlock_requests: number(&mut table, "unlock-requests-per-repository", 0..=MANY, engine.unlock_requests),
        ..engine
    };
    table.finish();
    (limits, engine_policy)
}

fn number(
    table: &mut TomlTable<'_, '_>,
    name: &'static str,
    range: std::ops::RangeInclusive<u64>,
    usual: usize,
) -> usize {
    table.number(name, range).map_or(usual, |number| usize::try_from(number.value).unwrap_or(usize::MAX))
}

fn seconds(table: &mut TomlTable<'_, '_>, name: &'static str, usual: Duration) -> Duration {
    table.number(name, 1..=DAY).map_or(usual, |number| Duration::from_secs(number.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../packaging/git-dibs.toml");

    fn parse(text: &str) -> ConfigFile {
        ConfigFile::parse(text, Path::new("/etc")).0
    }

    fn problems(text: &str) -> Vec<String> {
        ConfigFile::parse(text, Path::new("/etc")).1.iter().map(ConfigProblem::to_string).collect()
    }

    /// The example with every setting uncommented.
    fn uncommented() -> String {
        let setting = |line: &str| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) && rest.contains(" = ") => rest.to_owned(),
            _ => line.to_owned(),
        };
        EXAMPLE.lines().map(|line| setting(line) + "\n").collect()
    }

    #[test]
    fn a_relative_repository_starts_at_the_directory_of_the_file() {
        let repos = parse("repo = [\"app=git/app\", \"/srv/b\"]").options.repo;
        let repos: Vec<_> = repos.iter().map(|repo| &*repo.value).collect();
        assert_eq!(repos, ["app=/etc/git/app", "/srv/b"]);
    }

    #[test]
    fn the_example_changes_nothing() {
        assert_eq!(problems(EXAMPLE), Vec::<String>::new());
        assert_eq!(format!("{:?}", parse(EXAMPLE)), format!("{:?}", ConfigFile::default()));
    }

    #[test]
    fn the_example_shows_every_name_with_its_default() {
        let text = uncommented();
        let document = TomlDocument::new(&text, Path::new("/etc"));
        let (example, default) = (ConfigFile::from_toml(&document, Path::new("/etc")), ConfigFile::default());
        let names = document.names.borrow().clone();
        assert_eq!(document.finish(), []);
        assert_eq!(example.limits, default.limits);
        let mut example_policy = example.key_policy.clone();
        // The one setting whose default is that there is none.
        assert!(example_policy.lfs.forward.take().is_some());
        assert_eq!(format!("{example_policy:?}"), format!("{:?}", default.key_policy));
        assert_eq!(format!("{:?}", example.engine_policy), format!("{:?}", default.engine_policy));
        assert_eq!(example.options.session_timeout.unwrap().value, default.engine_policy.session_timeout.as_secs());

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
    fn every_problem_is_reported() {
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
        let found = problems(text);
        let lines: Vec<_> = found.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(lines, ["1", "2", "3", "5", "6", "7", "8", "10", "12", "13", "14"], "{found:#?}");
    }

    #[test]
    fn the_settings_of_git_lfs_are_checked() {
        let policy =
            parse("[policy]\nlfs-ttl = 60\nlfs-force = \"anyone\"\n[lfs]\nforward = \"https://lfs.example/{repo}\"\n");
        let lfs = policy.key_policy.lfs;
        assert_eq!((lfs.ttl_seconds, lfs.force), (60, LfsForce::Anyone));
        assert_eq!(lfs.forward.as_deref(), Some("https://lfs.example/{repo}"));
        for bad in [
            "[policy]\nlfs-ttl = 0",
            "[policy]\nlfs-force = \"all\"",
            "[lfs]\nforward = \"lfs.example\"",
            "[lfs]\nx = 1",
        ] {
            assert_eq!(problems(bad).len(), 1, "{bad}");
        }
        assert_eq!(problems("[lfs]\nforward = \"unix:/x\"").len(), 1);
    }

    #[test]
    fn bounds_may_be_given_in_part() {
        let file = parse("[policy]\nfile-ttl = { max = 900 }\n");
        assert_eq!(file.key_policy.file_ttl, TtlBounds { max: 900, ..TtlBounds::FILES });
        assert_eq!(problems("[policy.file-ttl]\nmin = 61\n").len(), 1);
    }
}
