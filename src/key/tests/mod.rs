//! The behaviour of keys, as tables; [`properties`] checks random texts.

mod naive;
mod overlaps;
mod properties;
mod random;
mod refusals;

use super::*;

fn rules(fold_case: bool) -> KeyRules {
    KeyRules { fold_case, ..KeyRules::default() }
}

fn key(text: &str) -> Key {
    Key::parse(text, &rules(false)).unwrap_or_else(|bad| panic!("{bad}"))
}

fn folding_key(text: &str) -> Key {
    Key::parse(text, &rules(true)).unwrap_or_else(|bad| panic!("{bad}"))
}

fn literal(name: &[u8]) -> Key {
    Key::literal(name, &rules(false)).unwrap_or_else(|bad| panic!("{bad}"))
}

#[test]
fn every_form_is_parsed_as_its_kind() {
    let table = [
        ("src/api/users.py", Kind::Path, "src/api/users.py"),
        ("./src//api/./users.py", Kind::Path, "src/api/users.py"),
        ("README", Kind::Path, "README"),
        (".gitignore", Kind::Path, ".gitignore"),
        (" a b", Kind::Path, " a b"),
        ("src/a:b", Kind::Path, "src/a:b"),
        ("100%", Kind::Path, "100%"),
        ("src/a]b}c,d", Kind::Path, "src/a]b}c,d"),
        ("src/api/", Kind::Glob, "src/api/**"),
        ("./src//", Kind::Glob, "src/**"),
        (".../", Kind::Glob, ".../**"),
        ("src/*/", Kind::Glob, "src/*/**"),
        ("src/**/", Kind::Glob, "src/**"),
        ("src/**/**/*.rs", Kind::Glob, "src/**/*.rs"),
        ("**", Kind::Glob, "**"),
        ("./**", Kind::Glob, "**"),
        ("src/**/*.rs", Kind::Glob, "src/**/*.rs"),
        ("src/[ab].rs", Kind::Glob, "src/[ab].rs"),
        ("src/[id].ts", Kind::Glob, "src/[id].ts"),
        ("src/{a,b}.rs", Kind::Glob, "src/{a,b}.rs"),
        ("src/?", Kind::Glob, "src/?"),
        ("./foo:*", Kind::Glob, "./foo:*"),
        ("a[/./]b", Kind::Glob, "a[/./]b"),
        ("file:src/[id].ts", Kind::Path, "file:src/[id].ts"),
        ("file:./src//a.rs", Kind::Path, "src/a.rs"),
        ("file:db:x", Kind::Path, "file:db:x"),
        ("./db:x", Kind::Path, "file:db:x"),
        ("file:file:a", Kind::Path, "file:file:a"),
        ("file:a%20b", Kind::Path, "a%20b"),
        ("api:GET /v1/users", Kind::Logical, "api:GET /v1/users"),
        ("api:DELETE /v1/users/{id}?x=*", Kind::Logical, "api:DELETE /v1/users/{id}?x=*"),
        ("db:migration-slot", Kind::Logical, "db:migration-slot"),
        ("db:schema:users", Kind::Logical, "db:schema:users"),
        ("event:user.created", Kind::Logical, "event:user.created"),
        ("event:tick", Kind::Logical, "event:tick"),
        ("flag:billing/*", Kind::Logical, "flag:billing/*"),
        ("flag:billing/new-invoice.v2", Kind::Logical, "flag:billing/new-invoice.v2"),
        ("env:shared-fixtures", Kind::Logical, "env:shared-fixtures"),
        ("env:8080-proxy", Kind::Logical, "env:8080-proxy"),
        ("env:tmp/shared", Kind::Logical, "env:tmp/shared"),
        ("env:report-2024", Kind::Logical, "env:report-2024"),
        ("api:GET //v1/./users/", Kind::Logical, "api:GET /v1/users"),
        ("api:GET /v1/users/?q=a//b", Kind::Logical, "api:GET /v1/users?q=a//b"),
        ("api:GET /", Kind::Logical, "api:GET /"),
        ("api:GET //", Kind::Logical, "api:GET /"),
        ("port:20004", Kind::Logical, "port:20004"),
        ("contract:openapi/v1.yaml", Kind::Logical, "contract:openapi/v1.yaml"),
        ("contract:./openapi//v1.yaml", Kind::Logical, "contract:openapi/v1.yaml"),
        ("feature:FEAT-123:pause", Kind::Logical, "feature:FEAT-123:pause"),
        ("github://acme/app/issues/42", Kind::Uri, "github://acme/app/issues/42"),
        ("GitHub://Acme/App", Kind::Uri, "github://Acme/App"),
        ("deploy://api-prod", Kind::Uri, "deploy://api-prod"),
        ("db://x", Kind::Uri, "db://x"),
        ("s3+x.y-z://bucket/*", Kind::Uri, "s3+x.y-z://bucket/*"),
    ];
    for (text, kind, shown) in table {
        let key = key(text);
        assert_eq!((key.kind(), &*key.shown()), (kind, shown), "{text}");
        assert_eq!(Key::parse(&key.shown(), &rules(false)).as_ref(), Ok(&key), "{text}");
        assert_eq!(Key::recall(&key.text(), false).as_ref(), Ok(&key), "{text}");
        assert!(!key.is_percent());
    }
}

#[test]
fn spelling_is_kept_and_does_not_matter() {
    let composed = key("caf\u{e9}/x");
    let decomposed = key("cafe\u{301}/x");
    assert_eq!(composed, decomposed);
    assert_eq!(decomposed.shown(), "cafe\u{301}/x");
    assert_eq!(key("cafe\u{301}/*"), key("caf\u{e9}/*"));

    assert_ne!(key("README.md"), key("readme.MD"));
    assert_eq!(folding_key("README.md"), folding_key("readme.MD"));
    assert_eq!(folding_key("README.md").shown(), "README.md");
    assert_eq!(folding_key("Straße"), folding_key("STRASSE"));
    assert_eq!(folding_key("SRC/*.[RT]S"), folding_key("src/*.[rt]s"));
    assert_eq!(folding_key("contract:API.yaml"), folding_key("contract:api.yaml"));
    // Names outside the file tree always have case.
    assert_ne!(folding_key("env:CI"), folding_key("env:ci"));
    assert_ne!(folding_key("deploy://A"), folding_key("deploy://a"));

    let key = key("Src/Ä.rs");
    assert_eq!(key.folded(true), folding_key("sRC/ä.RS"));
    assert_eq!(key.folded(true).folded(false), key);
    assert_eq!(key.folded(true).shown(), "Src/Ä.rs");
}

#[test]
fn equal_means_the_same_thing() {
    use std::collections::HashSet;
    let same = [key("a/b"), key("./a//b"), key("file:a/b"), literal(b"a/b")];
    assert_eq!(same.iter().collect::<HashSet<_>>().len(), 1);
    // The same text as a path, a pattern and a name is three different keys.
    assert_ne!(key("file:src/[id].ts"), key("src/[id].ts"));
    assert_ne!(key("file:db:schema:x"), key("db:schema:x"));
    assert!(size_of::<Key>() <= 48);
}

#[test]
fn names_from_git_can_be_written_and_parsed_again() {
    let table: [(&[u8], &str, &str, bool); 12] = [
        (b"src/a.rs", "src/a.rs", "src/a.rs", false),
        (b"src/[id].ts", "file:src/[id].ts", "file:src/[id].ts", false),
        (b"db:x", "file:db:x", "file:db:x", false),
        (b"C:x", "file:C:x", "file:C:x", true),
        (b"file:x", "file:file:x", "file:file:x", false),
        (b"100%", "100%", "100%", false),
        (b"100%*", "file:100%*", "file:100%25*", false),
        (b"a\nb", "file:a%0Ab", "file:a%0Ab", true),
        (b"a ", "file:a ", "a ", true),
        (b"a\\b", "file:a\\b", "a\\b", true),
        (b"caf\xe9%", "file:caf%E9%25", "file:caf%E9%25", true),
        (b".git/x", "file:.git/x", ".git/x", true),
    ];
    for (name, shown, text, percent) in table {
        let key = literal(name);
        assert_eq!((&*key.shown(), &*key.text(), key.is_percent()), (shown, text, percent), "{name:?}");
        assert_eq!(Key::recall(text, false).as_ref(), Ok(&key), "{name:?}");
        let Claim::Path(canonical) = key.claim() else { panic!("{name:?} is no path") };
        assert_eq!(canonical, name);
    }
    assert_eq!(Key::parse_percent("file:caf%E9%25", &rules(false)), Ok(literal(b"caf\xe9%")));
    assert_eq!(Key::parse_percent("file:a%5Cb%0a", &rules(false)), Ok(literal(b"a\\b\n")));
    assert_eq!(Key::parse_percent("100%", &rules(false)), Ok(literal(b"100%")));
    assert_eq!(Key::parse_percent("src/*", &rules(false)), Ok(key("src/*")));
    let long = [b'x'; 300];
    assert!(Key::literal(&long, &rules(false)).is_ok(), "git has no limit for a component");
}

#[test]
fn old_journals_load() {
    // Purposes, namespaces and limits of older versions: keys that were granted once must still load.
    for (text, kind) in [
        ("feature:F:freeze", Kind::Logical),
        ("port:8080", Kind::Logical),
        ("db:Weird Name", Kind::Logical),
        ("deploy://", Kind::Uri),
        ("src/[é].rs", Kind::Glob),
        (".git/*", Kind::Glob),
        ("*a?????????", Kind::Glob),
        ("src/", Kind::Glob),
        (".git/config", Kind::Path),
        ("1foo:bar", Kind::Path),
        ("é:x", Kind::Path),
        ("a\\b", Kind::Path),
    ] {
        let key = Key::recall(text, false).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!(key.kind(), kind, "{text}");
        assert_eq!(Key::recall(&key.text(), false).as_ref(), Ok(&key), "{text}");
    }
    let deep = format!("{}/x*", vec!["d"; 4_000].join("/"));
    assert_eq!(Key::recall(&deep, false).unwrap().text(), deep);
    for text in ["", "..", "/a", "file:", "file:%00", "{"] {
        assert!(Key::recall(text, false).is_err(), "{text:?} was never accepted");
    }
}

#[test]
fn keys_are_text_in_json() {
    let keys = [key("src/**"), key("db:schema:x"), literal(b"a\xff"), key("e\u{301}")];
    let json = serde_json::to_string(&keys).unwrap();
    assert_eq!(json, "[\"src/**\",\"db:schema:x\",\"file:a%FF\",\"e\u{301}\"]");
    let again: Vec<Key> = serde_json::from_str(&json).unwrap();
    assert_eq!(again, keys);
    assert!(serde_json::from_str::<Key>("\"/a\"").is_err());
}
