//! The fuzz targets, one function each: what must be true for any input bytes. `tests/fuzz.rs` runs the same
//! functions with a stable toolchain.

use std::path::Path;
use std::sync::OnceLock;

use git_dibs::agent::answer::Answer;
use git_dibs::agent::event::{self, AgentMoment};
use git_dibs::agent::{Agent, command_line, patch};
use git_dibs::git::range::Update;
use git_dibs::key::{Claim, Key, KeyRules, Kind};
use git_dibs::token::{Keyring, KeyringConfig};
use git_dibs::tools::protocol::{self, Action};
use git_dibs::tools::rpc::{self, Message};
use git_dibs::tools::{Aside, ToolError};
use git_dibs::{cli, git, text, wire};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "../src/key/checks.rs"]
mod checks;
#[path = "../tests/support/mint.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod mint;

/// The secret that signs the tokens here.
const SECRET: &[u8] = b"a-secret-of-more-than-thirty-two-bytes";

/// The time at which tokens are verified.
const NOW: i64 = 1_800_000_000;

/// More wildcards than this may take a minute to build under the limits of old journals; no request may have them.
const WILDCARDS_MAX: usize = 12;

/// Any bytes as a key: what is accepted can be written and read again.
pub fn key_parse(data: &[u8]) {
    if data.iter().filter(|byte| b"*?[{".contains(byte)).count() > WILDCARDS_MAX {
        return;
    }
    checks::literal_holds(data, &KeyRules::default());
    if let Ok(text) = std::str::from_utf8(data) {
        checks::parse_holds(text);
    }
}

/// Two lines as two keys: they meet in either order or in none, and where they meet there is an example.
pub fn overlap(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((a, b)) = text.split_once('\n') else { return };
    checks::overlap_holds(a, b);
}

/// A valid token.
pub fn good_token() -> &'static str {
    static GOOD: OnceLock<String> = OnceLock::new();
    GOOD.get_or_init(|| mint::signed(HEADER, r#"{"sub":"sess_01abc","exp":1800000060}"#, SECRET))
}

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Valid tokens of other keys.
const GOOD: [&str; 4] = [
    include_str!("../fixtures/tokens/eddsa.jwt"),
    include_str!("../fixtures/tokens/es256.jwt"),
    include_str!("../fixtures/tokens/hs256.jwt"),
    include_str!("../fixtures/tokens/rs256.jwt"),
];

/// As a token: only the valid ones are accepted. As a header and, on the next line, a payload, both with a valid
/// signature: claims or a refusal, whatever they contain.
pub fn token(data: &[u8]) {
    static KEYRING: OnceLock<Keyring> = OnceLock::new();
    let keyring = KEYRING.get_or_init(|| {
        // The top of the repository, or `fuzz` in it.
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let top = if here.ends_with("fuzz") { here.join("..") } else { here.to_owned() };
        let jwks = top.join("fixtures/tokens/jwks.json");
        let config = KeyringConfig { secret: Some(SECRET.into()), jwks_file: Some(jwks), ..Default::default() };
        Keyring::new(config).expect("the keys of the tests are good")
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    let is_good = text == good_token() || GOOD.iter().any(|good| text == good.trim_end());
    assert!(keyring.verify(text, NOW).is_err() || is_good, "{text}");
    let (header, payload) = text.split_once('\n').unwrap_or((HEADER, text));
    if let Ok(claims) = keyring.verify(&mint::signed(header, payload, SECRET), NOW) {
        assert!(!claims.subject.is_empty() && header.contains("HS256"), "{text}");
    }
}

/// As the body of every call: a shape that can be written and read again, or a short sentence.
pub fn body(data: &[u8]) {
    fn holds<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
        match wire::read::<T>(data) {
            Ok(shape) => {
                let written = serde_json::to_vec(&shape).expect("it was read from JSON");
                assert_eq!(wire::read::<T>(&written).as_ref(), Ok(&shape));
            }
            Err(bad) => assert!(!bad.sentence.is_empty() && bad.sentence.len() < 1000, "{bad:?}"),
        }
    }
    holds::<wire::Reserve>(data);
    holds::<wire::Release>(data);
    holds::<wire::Renew>(data);
    holds::<wire::Check>(data);
    holds::<wire::CreateSession>(data);
    holds::<wire::EndSession>(data);
    holds::<wire::UnlockRequest>(data);
    holds::<wire::Approve>(data);
    holds::<wire::Reject>(data);
    holds::<wire::Override>(data);
    if let Ok(ask) = wire::read::<wire::Reserve>(data) {
        let _ = ask.one_or_many().map(|asked| asked.iter().count());
    }
}

/// As a work package: it is one, or every problem has a line that is there.
pub fn package(data: &[u8]) {
    let lines = data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    if let Err(problems) = cli::examine_package(data) {
        assert!(!problems.is_empty());
        assert!(problems.iter().all(|(line, what)| (1..=lines + 1).contains(line) && !what.is_empty()), "{problems:?}");
    }
}

/// As the input of a hook: no more updates than lines, each with two ids.
pub fn hook_input(data: &[u8]) {
    for updates in [Update::of_push(data), Update::of_receive(data)] {
        assert!(updates.len() <= data.split(|byte| *byte == b'\n').count());
        for update in updates {
            let is_id = |id: &git::Oid| id.as_str().bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_id(&update.old) && is_id(&update.new), "{update:?}");
            assert!(!(update.brings_work() && update.new.is_zero()), "{update:?}");
        }
    }
}

/// As an index file, against no tree and against one: a sorted list, or git is asked instead.
pub fn index(data: &[u8]) {
    thread_local! {
        static SCRATCH: Scratch = Scratch::new();
    }
    SCRATCH.with(|Scratch { repository, tree }| {
        for tree in [None, Some(*tree)] {
            let changed = git::index_against_tree(repository, data, tree);
            assert!(changed.is_none_or(|paths| paths.is_sorted()));
        }
    });
}

/// Any bytes as a message of an MCP client: the reply has the id of the request, and no text in it that could control a
/// terminal or hide from a reader.
pub fn tool_message(data: &[u8]) {
    let Ok(Message::Request(request)) = rpc::read(data) else { return };
    let reply = match protocol::answer(&request, "instructions") {
        Ok(Action::Reply(result)) => request.result(result),
        Err(error) => request.error(&error),
        Ok(Action::Use(tool_use)) => {
            let failed = ToolError::Failed(String::from_utf8_lossy(data).into_owned());
            let result = tool_use.result(Some("ana"), Err(failed), Aside::default(), wire::Time(0));
            let text = result["content"][0]["text"].as_str().expect("every result has a text");
            assert!(!text.chars().any(|c| c != '\n' && text::terminal::is_harmful(c)), "{text:?}");
            assert!(result["structuredContent"].is_object() && result["isError"] == true, "{result}");
            request.result(result)
        }
    };
    assert_eq!(reply["id"], request.id);
    assert_ne!(reply.get("result").is_some(), reply.get("error").is_some(), "{reply}");
}

/// A repository with the tree of the first index files: `a`, `dir/x` and `dir/y`, all empty.
struct Scratch {
    repository: git2::Repository,
    tree: git2::Oid,
}

impl Scratch {
    fn new() -> Scratch {
        let name = format!("dibs-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
        let repository = git2::Repository::init_bare(std::env::temp_dir().join(name)).expect("there is room for it");
        let blob = repository.blob(b"").expect("a blob can be written");
        let tree = |entries: &[(&str, git2::Oid, i32)]| {
            let mut tree = repository.treebuilder(None).expect("a tree");
            for (name, oid, mode) in entries {
                tree.insert(name, *oid, *mode).expect("an entry");
            }
            tree.write().expect("a tree can be written")
        };
        let dir = tree(&[("x", blob, 0o100_644), ("y", blob, 0o100_644)]);
        let tree = tree(&[("a", blob, 0o100_644), ("dir", dir, 0o040_000)]);
        Scratch { repository, tree }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.repository.path());
    }
}

/// As the input of every agent's hook: an event with an answer that can be read, or a short sentence without the input.
pub fn agent_event(data: &[u8]) {
    for agent in Agent::ALL {
        let event = match event::read(agent, data) {
            Ok(event) => event,
            Err(unknown) => {
                assert!(!unknown.0.is_empty() && unknown.0.len() < 200, "{unknown:?}");
                continue;
            }
        };
        if let AgentMoment::BeforeEdit(files) = &event.moment {
            assert!(!files.is_empty() && files.len() <= event::FILES_MAX, "{event:?}");
        }
        assert!(
            event.moment == AgentMoment::Other
                || (event.session.is_some() && (event.cwd.is_absolute() || event.cwd.as_os_str().is_empty())),
            "{event:?}"
        );
        let deny = Answer::Deny("no \"quotes\"\n".to_owned()).document(&event).expect("a denial is printed");
        assert!(serde_json::from_str::<serde_json::Value>(&deny).is_ok(), "{deny}");
        assert_eq!(Answer::Allow.document(&event), None);
    }
}

/// As a patch: each file that it names is in it, once.
pub fn patch(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let files = patch::files(text);
    let names: std::collections::BTreeSet<_> = files.iter().collect();
    assert_eq!(names.len(), files.len(), "{files:?}");
    assert!(files.iter().all(|file| !file.trim().is_empty() && text.contains(file)), "{files:?}");
    assert!(files.len() <= text.lines().count());
}

/// As a shell command: reading it ends, and finds no more uses of git than it has letters.
pub fn command_line(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let uses = command_line::git_uses(&text, Path::new("/r"));
    assert!(uses.len() <= text.len(), "{uses:?}");
    let patches = command_line::patches(&text);
    assert!(patches.len() <= text.len(), "{patches:?}");
}
