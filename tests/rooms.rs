//! Keeps the arrows between the rooms true: the map at the head of `src/lib.rs`, as a table that fails.
//!
//! Every file of `src/<room>/` is cut into tokens, tests and comments left out, and each path it names (`crate::key`,
//! `super::super::desk`, `use std::{fs, net}`) is held against the tables below. A new arrow is a line here first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each room may use.
const ARROWS: [(&str, &[&str]); 16] = [
    ("text", &[]),
    ("key", &["text"]),
    ("engine", &["key"]),
    ("journal", &["engine", "key"]),
    ("desk", &["journal", "engine", "key"]),
    ("ledger", &["journal", "engine", "key", "git", "text"]),
    ("token", &["engine"]),
    ("wire", &[]),
    ("http", &["desk", "engine", "key", "token", "wire", "text"]),
    ("git", &[]),
    ("client", &["wire"]),
    ("local", &["client", "wire", "git", "token", "text"]),
    ("judge", &["local", "client", "wire", "git", "text"]),
    (
        "serve",
        &["desk", "engine", "journal", "ledger", "http", "token", "wire", "key", "git", "local", "client", "text"],
    ),
    ("hook", &["judge", "local", "client", "wire", "git", "text"]),
    ("cli", &["judge", "client", "wire", "git", "hook", "key", "text", "local", "serve", "token"]),
];

/// What a room must not know of, and why.
const FORBIDDEN: [(&str, &[&str], &str); 7] = [
    ("engine", &["std::fs", "std::net", "std::io", "std::env", "std::process", "std::thread"], "the engine is pure"),
    ("engine", &["std::time::Instant", "std::time::SystemTime", "jiff"], "the time arrives as `now`"),
    ("engine", &["rand", "getrandom", "uuid::Uuid::now_v7", "Uuid::now_v7", "Uuid::new_v4"], "ids arrive too"),
    ("key", &["std::fs", "std::net", "std::io", "std::env", "std::process", "std::thread"], "text in, keys out"),
    ("key", &["std::time::Instant", "std::time::SystemTime", "jiff", "rand", "getrandom"], "text in, keys out"),
    ("wire", &["tokio", "axum", "hyper", "hyper_util", "tower"], "shapes know no framework"),
    ("git", &["tokio", "axum", "hyper", "hyper_util", "tower"], "async is for http and client"),
];

/// Plain threads and values: async is for `http` and `client`.
const NO_ASYNC: [&str; 5] = ["key", "engine", "desk", "journal", "ledger"];
const ASYNC: [&str; 5] = ["tokio", "axum", "hyper", "hyper_util", "tower"];

/// Only `cli` prints.
const PRINTING: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];

#[test]
fn every_arrow_between_rooms_is_on_the_map() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms: BTreeSet<String> = fs::read_dir(&source)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let listed: BTreeSet<String> = ARROWS.iter().map(|(room, _)| (*room).to_owned()).collect();
    assert_eq!(rooms, listed, "src/ and the table of this test list the same rooms");

    let files: Vec<(String, Vec<Token>)> = rust_files(&source)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&source).unwrap().to_str().unwrap().replace('\\', "/");
            (name, tokens(&fs::read_to_string(path).unwrap()))
        })
        .collect();
    let tests: BTreeSet<String> = files.iter().flat_map(|(name, tokens)| test_modules(name, tokens)).collect();
    let is_test =
        |name: &str| tests.iter().any(|test| name == format!("{test}.rs") || name.starts_with(&format!("{test}/")));
    let complaints: Vec<String> = files
        .iter()
        .filter(|(name, _)| name.contains('/') && !is_test(name))
        .flat_map(|(name, tokens)| complaints(name, tokens))
        .collect();
    assert!(complaints.is_empty(), "broken arrows:\n{}", complaints.join("\n"));
    assert!(files.len() > 80, "the walk sees the source ({} files)", files.len());
}

#[test]
fn a_broken_arrow_is_seen_however_it_is_written() {
    let broken = |name: &str, text: &str| !complaints(name, &tokens(text)).is_empty();
    for text in [
        "use crate::journal::Journal;",
        "use crate::{key::Key, desk};",
        "fn f() { crate::http::serve() }",
        "use super::super::token;",
        "use std::{fmt, fs::File};",
        "use std::time::{Duration, Instant};",
        "fn f() -> std::time::SystemTime { todo!() }",
        "use tokio::sync::mpsc;",
        "fn f() { println!(\"x\") }",
        "fn f() { std::io::stderr(); }",
        "use crate::*;",
        "use crate as all;",
    ] {
        assert!(broken("engine/reserve.rs", text), "{text}");
    }
    assert!(broken("engine/mod.rs", "use super::wire;"));
    assert!(broken("http/look.rs", "use crate::journal::Journal;"));
    assert!(broken("hook/ask.rs", "fn f() { std::io::stderr(); }"));
    assert!(broken("cli/reserve.rs", "use crate::engine::Engine;"));
    for text in [
        "use crate::key::Key; use super::state::Engine; use std::time::Duration;",
        "// crate::desk\n/* crate::desk /* nested */ crate::http */ /// [`crate::wire`]\nfn f() {}",
        "fn f<'a>(x: &'a str) -> char { \"crate::desk \\\" crate::http\"; r#\"crate::desk \" \"#; '\"' }",
        "#[cfg(test)] mod tests { use crate::journal::Journal; fn f() { println!(\"{}\", 1) } }",
        "#[cfg(test)] use crate::journal::Journal;",
    ] {
        assert_eq!(complaints("engine/reserve.rs", &tokens(text)), Vec::<String>::new(), "{text}");
    }
    assert!(!broken("serve/open.rs", "use crate::engine::Engine;"));
    assert_eq!(test_modules("key/mod.rs", &tokens("#[cfg(test)]\nmod tests;\nmod path;")), ["key/tests"]);
    assert_eq!(test_modules("key/path.rs", &tokens("#[cfg(test)] mod odd;")), ["key/path/odd"]);
}

/// What is wrong with one file, in sentences.
fn complaints(name: &str, tokens: &[Token]) -> Vec<String> {
    let room = name.split('/').next().unwrap();
    let code = without_tests(tokens);
    let (_, allowed) = ARROWS.iter().find(|(from, _)| *from == room).expect("every room is listed");
    let mut found = Vec::new();
    for path in paths(&code) {
        let text = path.join("::");
        match reached(name, &path) {
            Some("*" | "as") => found.push(format!("{name} names the whole crate ({text})")),
            Some(to) if to != room && is_room(to) && !allowed.contains(&to) => {
                found.push(format!("{name} uses {to} ({text}), and {room} may use {allowed:?}"));
            }
            _ => {}
        }
        for (_, paths, why) in FORBIDDEN.iter().filter(|(forbidden, ..)| *forbidden == room) {
            if paths.iter().any(|forbidden| is_within(&text, forbidden)) {
                found.push(format!("{name} uses {text}, and {why}"));
            }
        }
        if NO_ASYNC.contains(&room) && ASYNC.contains(&path[0]) {
            found.push(format!("{name} uses {text}, and async is for http and client"));
        }
        let stream = path.ends_with(&["io", "stdout"]) || path.ends_with(&["io", "stderr"]);
        if stream && room != "cli" {
            found.push(format!("{name} writes to {text}, and only cli prints"));
        }
    }
    for pair in code.windows(2) {
        if let [Token::Word(word), Token::Sign('!')] = pair
            && PRINTING.contains(&&**word)
            && room != "cli"
        {
            found.push(format!("{name} calls {word}!, and only cli prints"));
        }
    }
    found
}

fn is_room(name: &str) -> bool {
    ARROWS.iter().any(|(room, _)| *room == name)
}

fn is_within(path: &str, forbidden: &str) -> bool {
    path.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What stands at the root of the crate in this path, by way of `crate` or of enough `super`s.
fn reached<'a>(name: &str, path: &[&'a str]) -> Option<&'a str> {
    if path[0] == "crate" {
        return path.get(1).copied();
    }
    let depth = name.split('/').count() - usize::from(name.ends_with("/mod.rs"));
    let ups = path.iter().take_while(|part| **part == "super").count();
    (ups >= depth).then(|| path.get(ups).copied()).flatten()
}

/// The files, or folders of them, that are there for tests only, as `room/name`.
fn test_modules(name: &str, tokens: &[Token]) -> Vec<String> {
    let stem = name.strip_suffix("/mod.rs").or(name.strip_suffix(".rs")).unwrap();
    let mut found = Vec::new();
    for (start, end) in test_items(tokens) {
        if let [.., Token::Word(keyword), Token::Word(module), Token::Sign(';')] = &tokens[start..end]
            && keyword == "mod"
        {
            found.push(format!("{stem}/{module}"));
        }
    }
    found
}

fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut from = 0;
    for (start, end) in test_items(tokens) {
        kept.extend_from_slice(&tokens[from..start.max(from)]);
        from = end.max(from);
    }
    kept.extend_from_slice(&tokens[from..]);
    kept
}

/// Where the items marked `#[cfg(test)]` begin and end.
fn test_items(tokens: &[Token]) -> Vec<(usize, usize)> {
    let marks = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is_mark = |at: usize| (0..marks.len()).all(|i| tokens.get(at + i).is_some_and(|token| token.is(marks[i])));
    let mut items = Vec::new();
    for start in (0..tokens.len()).filter(|at| is_mark(*at)) {
        let mut depth = 0;
        let ends = |token: &Token| {
            match token {
                Token::Sign('{' | '(' | '[') => depth += 1,
                Token::Sign('}' | ')' | ']') => depth -= 1,
                _ => {}
            }
            depth == 0 && (token.is(";") || token.is("}"))
        };
        let length = tokens[start..].iter().position(ends).expect("an item ends");
        items.push((start, start + length + 1));
    }
    items
}

/// Every path the code names, those in braces each for itself.
fn paths(tokens: &[Token]) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = match tokens[at] {
            Token::Word(_) => read_path(tokens, at, Vec::new(), &mut found),
            _ => at + 1,
        };
    }
    found
}

/// Reads one path, or one branch of a `use`, and says where it ends.
fn read_path<'a>(tokens: &'a [Token], mut at: usize, mut path: Vec<&'a str>, found: &mut Vec<Vec<&'a str>>) -> usize {
    loop {
        match tokens.get(at) {
            Some(Token::Word(word)) => path.push(word),
            Some(Token::Sign('*')) => path.push("*"),
            Some(Token::Sign('{')) => {
                at += 1;
                while !tokens[at].is("}") {
                    at = match tokens[at] {
                        Token::Word(_) | Token::Sign('{') => read_path(tokens, at, path.clone(), found),
                        _ => at + 1,
                    };
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !tokens.get(at).is_some_and(|token| token.is("::")) {
            break;
        }
        at += 1;
    }
    if path == ["crate"] && tokens.get(at).is_some_and(|token| token.is("as")) {
        path.push("as");
    }
    found.push(path);
    at
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Sign(char),
    /// `::`
    Colons,
}

impl Token {
    fn is(&self, text: &str) -> bool {
        match self {
            Token::Word(word) => word == text,
            Token::Sign(sign) => text.len() == 1 && text.starts_with(*sign),
            Token::Colons => text == "::",
        }
    }
}

/// Words and signs, without comments and without what stands in quotes.
fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment_length(rest)
        } else if let Some(length) = quoted_length(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token::Word(rest[..length].to_owned()));
            length
        } else if rest.starts_with("::") {
            found.push(Token::Colons);
            2
        } else {
            if !first.is_whitespace() {
                found.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        match text.get(at..at + 2) {
            Some("/*") => (depth, at) = (depth + 1, at + 2),
            Some("*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += text[at..].chars().next().expect("a comment ends").len_utf8(),
        }
        if depth == 0 {
            return at;
        }
    }
}

/// How long the string or character is that the text begins with. A lifetime is neither.
fn quoted_length(text: &str) -> Option<usize> {
    let body = text.trim_start_matches(['b', 'c', 'r']);
    let prefix = &text[..text.len() - body.len()];
    if prefix.contains('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let inner = body[hashes..].strip_prefix('"')?;
        let end = inner.find(&format!("\"{}", "#".repeat(hashes))).expect("a raw string ends");
        return Some(prefix.len() + hashes + 1 + end + 1 + hashes);
    }
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    if quote == '\'' && !body.starts_with("'\\") {
        let one = body[1..].chars().next()?.len_utf8();
        return (body[1 + one..].starts_with('\'')).then_some(prefix.len() + one + 2);
    }
    let mut escaped = false;
    let end = body[1..].find(|c| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some(prefix.len() + 1 + end.expect("what is quoted ends") + 1)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
