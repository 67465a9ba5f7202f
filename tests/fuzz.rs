//! The fuzz targets with a stable toolchain: realistic input, changed at random, for a while.
//!
//! This does not observe which code is reached, as a fuzzer does; `cargo +nightly fuzz run TARGET` finds more.
//! `DIBS_FUZZ_SECONDS` says how long each target is tried, `DIBS_FUZZ_SEED` sets the seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

#[path = "../fuzz/bodies.rs"]
mod bodies;
#[path = "support/dice.rs"]
mod dice;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod process;

use dice::{Dice, number_from_env};
use process::{Run, printed};

/// Inputs are not made longer than this: short ones find more.
const LENGTH_MAX: usize = 4096;

/// Pieces of input with a meaning to one of the targets.
const WORDS: &[&[u8]] = &[
    b"**",
    b"*",
    b"{",
    "}".as_bytes(),
    b"[",
    b"]",
    b"/",
    b"..",
    b".git",
    b"\n",
    b"\0",
    b"%FF",
    b"\xff",
    b"\\",
    b"file:",
    b"flag:",
    b"://",
    b"\"",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"[[[[[[[[",
    b"{\"a\":{\"a\":",
    b"\\ud800",
    b": ",
    b"- ",
    b"&a",
    b"*a",
    b"!!int",
    b"|\n",
    b">\n",
    b"\t",
    b"locks:",
    b"files:",
    b"keys:",
    b"ttl_minutes:",
    b"reason:",
    b"alg",
    b"none",
    b"HS256",
    b"RS256",
    b"kid",
    b"crit",
    b"jwk",
    b"exp",
    b"nbf",
    b"sub",
    b"scope",
    b"admin",
    b".",
    b"=",
    b"eyJ",
    b"0000000000000000000000000000000000000000",
    b"refs/heads/main",
    b"(delete)",
    b"ref:",
    b" ",
    b"DIRC",
    b"TREE",
    b"link",
    b"sdir",
    b"\x00\x00\x00\x02",
    b"\x00\x00\x00\x04",
    b"\x0f\xff",
    b"\xff\xff\xff\xff",
    "é".as_bytes(),
    b"e\xcc\x81",
];

#[test]
fn keys() {
    try_for_a_while(
        bodies::key_parse,
        &texts(&["src/**/*.rs", "file:src/[id].ts", "flag:a/*", "api:GET /v1/users", "a/{b,c}/"]),
    );
}

#[test]
fn overlaps() {
    try_for_a_while(
        bodies::overlap,
        &texts(&["src/**\nsrc/a.rs", "{a,b}/*.c\n[!b]/**", "flag:a/*\nflag:a/b", "a/**/b\n**/*"]),
    );
}

#[test]
fn tool_messages() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let mut corpus: Vec<Vec<u8>> = files.flat_map(|text| texts(&text.lines().collect::<Vec<_>>())).collect();
    let call = |tool: &str, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    };
    corpus.extend(texts(&[
        &call("wait", r#"{"paths":["a","b/"],"seconds":5,"mode":"shared","reason":"x","ttl_seconds":9}"#),
        &call("release", r#"{"all":true}"#),
        &call("answer_unlock", r#"{"request_id":"x","approve":false,"note":"no"}"#),
        &call("acquire_lock", r#"{"file_path":"a","ttl_minutes":5,"agent_id":"x"}"#),
        &call("check_locks", r#"{"file_paths":["a"]}"#),
    ]));
    try_for_a_while(bodies::tool_message, &corpus);
}

#[test]
fn tokens() {
    let header = r#"{"alg":"HS256","typ":"JWT"}"#;
    let payload = r#"{"sub":"s","sid":"t","exp":1800000060,"nbf":1,"iat":1.5,"scope":"admin","repo":"r","aud":["a","b"],"iss":"i","name":"n"}"#;
    let jwt = |name: &str| std::fs::read(format!("{}/fixtures/tokens/{name}.jwt", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut corpus = texts(&[
        &format!("{header}\n{payload}"),
        payload,
        r#"{"alg":"none","kid":"a","crit":["x"],"jwk":{"kty":"oct","k":"AA"}}"#,
    ]);
    corpus.extend(["eddsa", "es256", "hs256", "rs256"].map(jwt));
    corpus.push(bodies::good_token().into());
    try_for_a_while(bodies::token, &corpus);
}

#[test]
fn request_bodies() {
    try_for_a_while(
        bodies::body,
        &texts(&[
            r#"{"filePath":"a","ttlSeconds":120,"mode":"shared","reason":"w","waitSeconds":5,"ifVersion":3,"encoding":"percent"}"#,
            r#"{"filePaths":["a","src/**"],"paths":["b"]}"#,
            r#"{"repo":"r","sessionId":"s","name":"n","feature":"f","ttlSeconds":60,"state":"failed"}"#,
            r#"{"filePath":"a","reason":"r","handOver":true,"note":"n"}"#,
        ]),
    );
}

#[test]
fn work_packages() {
    try_for_a_while(
        bodies::package,
        &texts(&[
            "locks:\n  files: [src/api/, \"src/[id].ts\"]\n  keys: [db:migration-slot]\n  ttl_minutes: 5\n  reason: users\n",
            "name: x\nother: {a: [1, 2.5, true, ~]}\nlocks:\n  files:\n    - a\n    - 'b c'\n  reason: |\n    two\n    lines\n",
        ]),
    );
}

#[test]
fn hook_input() {
    let (a, b, zero) = ("1".repeat(40), "2".repeat(64), "0".repeat(40));
    try_for_a_while(
        bodies::hook_input,
        &texts(&[
            &format!("refs/heads/main {a} refs/heads/main {zero}\n(delete) {zero} refs/heads/x {a}\n"),
            &format!("HEAD^{{/two words}} {b} refs/heads/main {b}\n"),
            &format!("{a} {zero} refs/heads/main\n{zero} ref:refs/heads/x HEAD\n"),
        ]),
    );
}

#[test]
fn index_files() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "git init -q; mkdir dir; touch a dir/x dir/y; git add .; cp .git/index 2; git write-tree; cp .git/index t
        echo 1 >b; git add -N b; cp .git/index 3; git update-index --index-version 4; cp .git/index 4";
    let done = Command::new("sh").args(["-ec", script]).current_dir(&dir).run();
    assert!(done.status.success(), "{}", printed(&done));
    let mut corpus: Vec<Vec<u8>> =
        ["2", "t", "3", "4"].map(|name| std::fs::read(dir.path().join(name)).unwrap()).into();
    corpus.push(deep_index(100_000));
    try_for_a_while(bodies::index, &corpus);
}

/// An index with one file below this many directories: a recursive walk would overflow the stack.
fn deep_index(depth: usize) -> Vec<u8> {
    let mut bytes = b"DIRC\x00\x00\x00\x02\x00\x00\x00\x01".to_vec();
    bytes.extend([0; 60]);
    bytes.extend([0x0f, 0xff]);
    bytes.extend(b"a/".repeat(depth));
    bytes.extend(b"a");
    bytes.extend(vec![0; 8 - (bytes.len() - 12) % 8]);
    bytes.extend([0; 20]);
    bytes
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Tries the corpus itself, then random changes of it. Input that fails is shown, so that it can be put into a test.
fn try_for_a_while(body: fn(&[u8]), corpus: &[Vec<u8>]) {
    let (seconds, seed): (u64, u64) = (number_from_env("DIBS_FUZZ_SECONDS", 2), number_from_env("DIBS_FUZZ_SEED", 5));
    let mut dice = Dice::new(seed);
    let (begun, mut count) = (Instant::now(), 0);
    let (mut longest, mut slowest) = (Duration::ZERO, Vec::new());
    while count < corpus.len() || begun.elapsed() < Duration::from_secs(seconds) {
        let input = corpus.get(count).cloned().unwrap_or_else(|| changed(corpus, &mut dice));
        count += 1;
        let before = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| body(&input))).is_err() {
            panic!("seed {seed}, input {count}: {:?}", input.escape_ascii().to_string());
        }
        if before.elapsed() > longest {
            (longest, slowest) = (before.elapsed(), input);
        }
    }
    let slowest: String = slowest.escape_ascii().to_string().chars().take(300).collect();
    eprintln!("{count} inputs in {seconds} s; the longest, {} ms, took {slowest:?}", longest.as_millis());
}

fn changed(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let pick = |dice: &mut Dice| &corpus[dice.below(corpus.len() as u64) as usize];
    let mut input = pick(dice).clone();
    input.truncate(LENGTH_MAX);
    for _ in 0..=dice.below(6) {
        let at = dice.below(input.len() as u64 + 1) as usize;
        let end = (at + 1 + dice.below(8) as usize).min(input.len());
        match dice.below(8) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = dice.below(256) as u8,
            2 => input.insert(at, dice.below(256) as u8),
            3 => drop(input.drain(at.min(end)..end)),
            4 => {
                let again = input[at.min(end)..end].repeat(1 + dice.below(20) as usize);
                input.splice(at..at, again);
            }
            5 => {
                let other = pick(dice);
                let from = dice.below(other.len() as u64 + 1) as usize;
                let tail: Vec<u8> = other[from..].iter().copied().take(LENGTH_MAX).collect();
                input.truncate(at);
                input.extend(tail);
            }
            6 => input.truncate(at),
            _ => {
                let word = WORDS[dice.below(WORDS.len() as u64) as usize];
                input.splice(at..at, word.iter().copied());
            }
        }
    }
    input.truncate(LENGTH_MAX);
    input
}
