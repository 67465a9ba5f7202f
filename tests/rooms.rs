//! Keeps the rooms apart: which room may use which, what else it must not use, and which of them print.
//!
//! Every file of `src/<room>` is read with `syn`, without its tests, and each path it names (`crate::key`,
//! `super::super::desk`, `use std::{fs, net}`, also inside macros) is compared with the tables below. There are no
//! exceptions for single files: where one seems necessary, a room is missing. The head of `src/lib.rs` shows the same
//! arrows to readers, and must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};

/// Every room, and the rooms it may use. Each needs its arrow in the head of `src/lib.rs`, and a use in the code.
const ARROWS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("boot_clock", &[]),
    ("threads", &[]),
    ("key", &["text"]),
    ("engine", &["key"]),
    ("etcd", &[]),
    ("journal", &["engine", "etcd"]),
    ("cluster", &["boot_clock", "engine", "etcd", "journal"]),
    ("desk", &["boot_clock", "threads", "journal", "engine"]),
    ("token", &["text", "engine"]),
    ("wire", &[]),
    ("tools", &["text", "wire"]),
    ("git", &[]),
    ("ledger", &["text", "threads", "key", "engine", "journal", "git"]),
    ("http", &["text", "threads", "key", "engine", "desk", "token", "wire", "tools"]),
    ("client", &["wire"]),
    ("local", &["text", "token", "wire", "git", "client"]),
    ("judge", &["text", "wire", "git", "client", "local"]),
    ("hook", &["text", "wire", "git", "client", "local", "judge"]),
    ("agent", &["text", "boot_clock", "wire", "git", "client", "local", "judge"]),
    ("mcp", &["wire", "git", "client", "local", "tools"]),
    (
        "serve",
        &[
            "text", "key", "engine", "etcd", "journal", "cluster", "desk", "ledger", "token", "wire", "http", "git",
            "client", "local",
        ],
    ),
    ("cli", &["text", "key", "token", "wire", "git", "client", "local", "judge", "hook", "agent", "mcp", "serve"]),
];

/// What a room must not use, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("engine", SYSTEM, "the engine is pure"),
    ("engine", CLOCKS, "the time arrives as `now`"),
    ("engine", CHANCE, "ids arrive with the command"),
    ("key", SYSTEM, "keys are made from text alone"),
    ("key", CLOCKS, "keys are made from text alone"),
    ("key", CHANCE, "keys are made from text alone"),
    ("key", ASYNC, "async is for http and client"),
    ("engine", ASYNC, "async is for http and client"),
    ("desk", ASYNC, "async is for http and client"),
    ("journal", ASYNC, "async is for http and client"),
    ("ledger", ASYNC, "async is for http and client"),
    ("git", ASYNC, "async is for http and client"),
    ("wire", ASYNC, "shapes depend on no framework"),
    ("tools", ASYNC, "tools depend on no transport"),
    ("tools", SYSTEM, "tools depend on no transport"),
    ("mcp", ASYNC, "async is for http and client"),
];

const SYSTEM: &[&str] = &["std::fs", "std::net", "std::io", "std::env", "std::process", "std::thread"];
const CLOCKS: &[&str] = &["std::time::Instant", "std::time::SystemTime", "jiff"];
const CHANCE: &[&str] = &["rand", "getrandom", "uuid::Uuid::now_v7", "uuid::Uuid::new_v4"];
const ASYNC: &[&str] = &["tokio", "axum", "hyper", "hyper_util", "tower"];

/// The rooms that print. The others are given a writer.
const PRINTING_ROOMS: &[&str] = &["cli"];
const PRINTING_MACROS: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];
const PRINTING_PATHS: &[&str] = &["std::io::stdout", "std::io::stderr"];

#[test]
fn every_room_uses_only_what_the_table_allows() {
    let source = source();
    let mut wrong = source.rooms.iter().flat_map(Module::violations).collect::<Vec<_>>();
    wrong.dedup();
    assert!(wrong.is_empty(), "broken arrows:\n{}", wrong.join("\n"));
    assert!(source.rooms.len() > 80, "only {} files were read", source.rooms.len());
}

#[test]
fn the_table_lists_the_rooms_that_exist() {
    let listed: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    let source = source();
    let found: BTreeSet<&str> = source.rooms.iter().map(|module| module.room()).collect();
    assert_eq!(found, listed, "the rooms in src/ (left) and in the table of this test (right)");
}

#[test]
fn every_arrow_of_the_table_is_used() {
    let source = source();
    let used: BTreeSet<(&str, &str)> =
        source.rooms.iter().flat_map(|module| module.uses().map(|used| (module.room(), used))).collect();
    let stale: Vec<String> = arrows().difference(&used).map(|(user, used)| format!("{used} ← {user}")).collect();
    assert!(stale.is_empty(), "in the table, but not in the code: {}", stale.join(" · "));
}

#[test]
fn the_head_of_lib_rs_shows_exactly_the_arrows_of_the_table() {
    let head = source().head;
    let shown = arrows_in(&head);
    let shown: BTreeSet<(&str, &str)> = shown.iter().map(|(user, used)| (&**user, &**used)).collect();
    let text = |(user, used): &(&str, &str)| format!("`{used} ← {user}`");
    let missing: Vec<String> = arrows().difference(&shown).map(text).collect();
    let surplus: Vec<String> = shown.difference(&arrows()).map(text).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "the sentence \"Read `a ← b` …\" in src/lib.rs lacks {missing:?} and has {surplus:?} too many"
    );
}

#[test]
fn a_broken_arrow_is_seen_however_it_is_written() {
    let broken = |name: &str, text: &str| !Module::parse(name, text).violations().is_empty();
    for text in [
        "use crate::journal::Journal;",
        "use crate::{key::Key, desk};",
        "fn f() { crate::http::serve() }",
        "fn f(x: crate::wire::Code) {}",
        "impl crate::wire::Shape for X {}",
        "use super::super::token;",
        "mod inner { use super::super::super::token; }",
        "fn f() { assert_eq!(1, format!(\"{}\", crate::desk::FIGURE)); }",
        "macro_rules! f { () => { $crate::desk::f() }; }",
        "#[derive(crate::wire::Shape)] struct X;",
        "use std::{fmt, fs::File};",
        "use std::time::{Duration, Instant};",
        "use std::time; fn f() { time::Instant::now(); }",
        "use std::time as clock; fn f() { clock::Instant::now(); }",
        "use std::{time::{self}}; fn f() { time::Instant::now(); }",
        "use std::time::*;",
        "use std::*;",
        "fn f() -> std::time::SystemTime { loop {} }",
        "fn f() -> ::std::time::SystemTime { loop {} }",
        "use uuid::Uuid; fn f() { Uuid::now_v7(); }",
        "use tokio::sync::mpsc;",
        "fn f() { println!(\"x\") }",
        "fn f() { std::println!(\"x\") }",
        "fn f() { matches!(1, _ if { println!(\"x\"); true }) }",
        "use std::io; fn f() { io::stderr(); }",
        "use crate::*;",
        "use crate as all;",
        "use crate::{self as all};",
        "use super::super as all;",
    ] {
        assert!(broken("engine/reserve.rs", text), "{text}");
    }
    assert!(broken("engine/mod.rs", "use super::wire;"));
    assert!(broken("engine.rs", "use super::wire;"));
    assert!(broken("http/look.rs", "use crate::journal::Journal;"));
    assert!(broken("hook/ask.rs", "fn f() { std::io::stderr(); }"));
    assert!(broken("client/calls.rs", "use crate::engine::Engine;"));
    for text in [
        "use crate::key::Key; use super::state::Engine; use std::time::Duration;",
        "// crate::desk\n/* crate::desk /* nested */ crate::http */ /// [`crate::wire`]\nfn f() {}",
        "fn f<'a>(x: &'a str) -> char { \"crate::desk \\\" crate::http\"; r#\"crate::desk \" \"#; '\"' }",
        "mod inner { use super::super::state::Engine; }",
        "use std::time; fn f(d: time::Duration) {}",
        "#[cfg(test)] mod tests { use crate::journal::Journal; fn f() { println!(\"{}\", 1) } }",
        "pub(crate) struct X { pub(super) x: u8 }",
        "#[cfg(test)] use crate::journal::Journal;",
        "impl X { #[cfg(test)] fn f() { crate::journal::f() } }",
        "struct X { #[cfg(test)] journal: crate::journal::Journal }",
        "fn f() { #[cfg(test)] let x = crate::journal::f(); }",
    ] {
        assert_eq!(Module::parse("engine/reserve.rs", text).violations(), Vec::<String>::new(), "{text}");
    }
    assert!(!broken("cli/commands/serve.rs", "use crate::serve::Config; fn f() { println!(\"x\") }"));
    assert_eq!(Module::parse("key/mod.rs", "#[cfg(test)]\nmod tests;\nmod path;").test_modules, ["key/tests"]);
    assert_eq!(Module::parse("key/path.rs", "#[cfg(test)] mod cases;").test_modules, ["key/path/cases"]);
}

#[test]
fn the_arrows_of_a_sentence_are_read() {
    let head = "# Rooms\n\nRead `a ← b` as \"b may use a\": `key ← engine, wire ← desk` ·\n`git, key ← hook`, and more.\n\n`x ← y`";
    let expected =
        [("desk", "engine"), ("desk", "wire"), ("engine", "key"), ("hook", "git"), ("hook", "key"), ("wire", "key")];
    assert_eq!(arrows_in(head), expected.map(|(user, used)| (user.to_owned(), used.to_owned())).into());
}

/// The arrows of the table, as `(user, used)`.
fn arrows() -> BTreeSet<(&'static str, &'static str)> {
    ARROWS.iter().flat_map(|(user, used)| used.iter().map(|used| (*user, *used))).collect()
}

/// The arrows in the paragraph that begins with "Read `a ← b`". Each stands between backticks: `a, b ← c ← d` says that c
/// may use a and b, and that d may use c.
fn arrows_in(head: &str) -> BTreeSet<(String, String)> {
    let begin = head.find("Read `a ← b`").expect("src/lib.rs says how to read its arrows");
    let paragraph = head[begin..].split("\n\n").next().unwrap();
    let quoted = paragraph.split('`').skip(1).step_by(2).skip(1);
    let names = |group: &str| group.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let mut arrows = BTreeSet::new();
    for chain in quoted.filter(|text| text.contains('←')) {
        let groups: Vec<Vec<String>> = chain.split('←').map(names).collect();
        for pair in groups.windows(2) {
            let all = pair[1].iter().flat_map(|user| pair[0].iter().map(|used| (user.clone(), used.clone())));
            arrows.extend(all);
        }
    }
    arrows
}

/// The library's source.
struct Source {
    /// The documentation at the head of `src/lib.rs`.
    head: String,
    /// Every file that belongs to a room and is not there for tests only.
    rooms: Vec<Module>,
}

fn source() -> Source {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let lib = syn::parse_file(&read(&top.join("lib.rs"))).unwrap();
    let modules: Vec<Module> = rust_files(&top)
        .iter()
        .map(|path| (path.strip_prefix(&top).unwrap().to_str().unwrap(), path))
        .filter(|(name, _)| !["lib.rs", "main.rs"].contains(name))
        .map(|(name, path)| Module::parse(name, &read(path)))
        .collect();
    let tests: BTreeSet<String> = modules.iter().flat_map(|module| module.test_modules.clone()).collect();
    let is_test = |name: &str| tests.iter().any(|test| name.strip_prefix(&**test).is_some_and(is_module_end));
    Source { head: documentation(&lib.attrs), rooms: modules.into_iter().filter(|one| !is_test(&one.name)).collect() }
}

fn is_module_end(rest: &str) -> bool {
    rest == ".rs" || rest.starts_with('/')
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn documentation(attributes: &[syn::Attribute]) -> String {
    let line = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) if path.is_ident("doc") => Some(text.value()),
        _ => None,
    };
    let lines: Vec<String> = attributes.iter().filter_map(line).map(|line| line.trim().to_owned()).collect();
    lines.join("\n")
}

/// What one file names.
struct Module {
    /// Its path below `src`.
    name: String,
    /// Every path in it, from the root of the crate or from an external crate: `crate::key::Key`, `std::fs`.
    paths: Vec<Vec<String>>,
    macros: Vec<String>,
    /// The modules it declares for tests only, as paths below `src` without `.rs`.
    test_modules: Vec<String>,
}

impl Module {
    fn parse(name: &str, text: &str) -> Module {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let stem = name.strip_suffix("/mod.rs").or(name.strip_suffix(".rs")).unwrap();
        let module = stem.split('/').map(str::to_owned).collect();
        let mut reader =
            Reader { module, paths: Vec::new(), names: BTreeMap::new(), macros: Vec::new(), tests: Vec::new() };
        reader.visit_file(&file);
        let test_modules = reader.tests.iter().map(|path| path.join("/")).collect();
        let paths = reader.paths.iter().map(|path| reader.expanded(path)).collect();
        Module { name: name.to_owned(), paths, macros: reader.macros, test_modules }
    }

    fn room(&self) -> &str {
        self.name.split('/').next().unwrap().trim_end_matches(".rs")
    }

    /// The other rooms it uses.
    fn uses(&self) -> impl Iterator<Item = &str> {
        let rooms = self.paths.iter().filter(|path| path[0] == "crate").filter_map(|path| path.get(1));
        rooms.map(String::as_str).filter(|used| *used != self.room() && ARROWS.iter().any(|(room, _)| room == used))
    }

    /// What is wrong with it, in sentences.
    fn violations(&self) -> Vec<String> {
        let (name, room) = (&self.name, self.room());
        let (_, allowed) = ARROWS.iter().find(|(listed, _)| *listed == room).expect("every room is in the table");
        let mut found = Vec::new();
        for used in self.uses().filter(|used| !allowed.contains(used)) {
            found.push(format!("{name} uses {used}, and {room} may use {allowed:?}"));
        }
        for path in &self.paths {
            let text = path.join("::");
            if matches!(text.as_str(), "crate" | "crate::*" | "crate::self") {
                found.push(format!("{name} names the whole crate"));
            }
            for (_, forbidden, why) in FORBIDDEN.iter().filter(|(listed, ..)| *listed == room) {
                if forbidden.iter().any(|forbidden| reaches(&text, forbidden)) {
                    found.push(format!("{name} uses {text}, and {why}"));
                }
            }
            if !PRINTING_ROOMS.contains(&room) && PRINTING_PATHS.iter().any(|printing| reaches(&text, printing)) {
                found.push(format!("{name} uses {text}, and only {PRINTING_ROOMS:?} print"));
            }
        }
        for called in self.macros.iter().filter(|called| PRINTING_MACROS.contains(&&***called)) {
            if !PRINTING_ROOMS.contains(&room) {
                found.push(format!("{name} calls {called}!, and only {PRINTING_ROOMS:?} print"));
            }
        }
        found
    }
}

/// Whether a path is the forbidden one, lies inside of it, or brings it in with everything around it.
fn reaches(path: &str, forbidden: &str) -> bool {
    let within = |path: &str, outer: &str| {
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    within(path, forbidden) || path.strip_suffix("::*").is_some_and(|module| within(forbidden, module))
}

/// Collects what a file names.
struct Reader {
    /// The module the reader is in, from the root of the crate.
    module: Vec<String>,
    paths: Vec<Vec<String>>,
    /// What `use` calls things: the name here, and the whole path.
    names: BTreeMap<String, Vec<String>>,
    macros: Vec<String>,
    /// Modules in files of their own that are there for tests only.
    tests: Vec<Vec<String>>,
}

impl Reader {
    /// Notes a path, as seen from the root of the crate.
    fn note(&mut self, path: Vec<String>) -> Vec<String> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let inside = match path.first().map(String::as_str) {
            Some("super") => self.module.len().saturating_sub(ups),
            Some("self") => self.module.len(),
            _ => {
                self.paths.push(path.clone());
                return path;
            }
        };
        let rest = path.into_iter().skip_while(|part| part == "super" || part == "self");
        let here = self.module[..inside].iter().cloned();
        let whole: Vec<String> = ["crate".to_owned()].into_iter().chain(here).chain(rest).collect();
        self.paths.push(whole.clone());
        whole
    }

    /// A path with the name it begins with spelled out: `time::Instant` after `use std::time`.
    fn expanded(&self, path: &[String]) -> Vec<String> {
        match self.names.get(&path[0]) {
            Some(whole) => whole.iter().chain(&path[1..]).cloned().collect(),
            None => path.to_vec(),
        }
    }

    fn read_use(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |last: String| prefix.iter().cloned().chain([last]).collect::<Vec<_>>();
        let (name, path) = match tree {
            syn::UseTree::Path(one) => return self.read_use(&with(one.ident.to_string()), &one.tree),
            syn::UseTree::Group(group) => return group.items.iter().for_each(|tree| self.read_use(prefix, tree)),
            syn::UseTree::Glob(_) => (None, with("*".to_owned())),
            syn::UseTree::Name(one) => (Some(one.ident.to_string()), with(one.ident.to_string())),
            syn::UseTree::Rename(one) => (Some(one.rename.to_string()), with(one.ident.to_string())),
        };
        let mut whole = self.note(path);
        // `use std::time::{self}` brings in `time`.
        let name = match whole.last().map(String::as_str) {
            Some("self") if whole.len() > 2 => {
                whole.pop();
                name.filter(|name| name != "self").or(whole.last().cloned())
            }
            _ => name,
        };
        self.names.extend(name.filter(|name| *name != whole[0]).map(|name| (name, whole)));
    }

    /// Reads the tokens of a macro or an attribute, which are not parsed: every word with the words after `::`.
    fn read_tokens(&mut self, mut cursor: Cursor<'_>) {
        while !cursor.eof() {
            if let Some((inside, _, _, rest)) = cursor.any_group() {
                self.read_tokens(inside);
                cursor = rest;
                continue;
            }
            let Some((word, mut rest)) = cursor.ident() else {
                cursor = cursor.token_tree().expect("it is not the end").1;
                continue;
            };
            let mut path = vec![word.to_string()];
            while let Some((next, after)) = after_colons(rest) {
                path.push(next);
                rest = after;
            }
            if rest.punct().is_some_and(|(sign, _)| sign.as_char() == '!') {
                self.macros.extend(path.last().cloned());
            }
            self.note(path);
            cursor = rest;
        }
    }
}

/// The word after `::`.
fn after_colons(cursor: Cursor<'_>) -> Option<(String, Cursor<'_>)> {
    let (word, rest) = after_colon(after_colon(cursor)?)?.ident()?;
    Some((word.to_string(), rest))
}

fn after_colon(cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    cursor.punct().filter(|(sign, _)| sign.as_char() == ':').map(|(_, rest)| rest)
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let is_test =
        |attribute: &syn::Attribute| attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg") && is_test(attribute))
}

/// Leaves out everything that is marked with `#[cfg(test)]`.
macro_rules! leave_out_tests {
    ($($visit:ident: $node:ident),* $(,)?) => {
        $(
            fn $visit(&mut self, node: &'ast syn::$node) {
                if !is_for_tests(&node.attrs) {
                    visit::$visit(self, node);
                }
            }
        )*
    };
}

impl<'ast> Visit<'ast> for Reader {
    leave_out_tests! {
        visit_arm: Arm,
        visit_expr_block: ExprBlock,
        visit_field: Field,
        visit_field_value: FieldValue,
        visit_impl_item_const: ImplItemConst,
        visit_impl_item_fn: ImplItemFn,
        visit_item_const: ItemConst,
        visit_item_enum: ItemEnum,
        visit_item_fn: ItemFn,
        visit_item_impl: ItemImpl,
        visit_item_macro: ItemMacro,
        visit_item_static: ItemStatic,
        visit_item_struct: ItemStruct,
        visit_item_trait: ItemTrait,
        visit_item_type: ItemType,
        visit_local: Local,
        visit_stmt_macro: StmtMacro,
        visit_trait_item_fn: TraitItemFn,
        visit_variant: Variant,
    }

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        self.module.push(node.ident.to_string());
        match is_for_tests(&node.attrs) {
            true if node.content.is_none() => self.tests.push(self.module.clone()),
            true => {}
            false => visit::visit_item_mod(self, node),
        }
        self.module.pop();
    }

    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        if !is_for_tests(&node.attrs) {
            self.read_use(&[], &node.tree);
        }
    }

    /// `pub(crate)` and the like name no other room.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.note(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.macros.extend(call.path.segments.last().map(|segment| segment.ident.to_string()));
        self.read_tokens(TokenBuffer::new2(call.tokens.clone()).begin());
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.read_tokens(TokenBuffer::new2(list.tokens.clone()).begin());
        visit::visit_meta_list(self, list);
    }
}
