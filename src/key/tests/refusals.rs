//! Texts that are refused, with which error, and with which message.

use super::*;
use crate::key::text::quoted;

fn refused(text: &str) -> BadKey {
    match Key::parse(text, &rules(false)) {
        Ok(key) => panic!("{text:?} is accepted as {key:?}"),
        Err(bad) => {
            let sentence = bad.to_string();
            assert!(sentence.ends_with('.') && !sentence.contains('\n') && sentence.len() < 900, "{sentence}");
            assert!(sentence.starts_with(&quoted(text)), "{sentence}");
            bad
        }
    }
}

#[test]
fn bad_paths() {
    let long = "x".repeat(4_097);
    let long_component = format!("src/{}", "x".repeat(256));
    let long_pattern = format!("src/{}/*", "x".repeat(256));
    let table: [(&str, &str); 62] = [
        ("", "empty"),
        (".", "empty"),
        ("./", "empty"),
        (".//./", "empty"),
        ("file:", "empty"),
        ("file:.", "empty"),
        ("/", "absolute"),
        ("//", "absolute"),
        ("/etc/passwd", "absolute"),
        ("/src/*", "absolute"),
        ("file:/a", "absolute"),
        ("file:///a", "absolute"),
        ("C:", "drive letter"),
        ("C:\\x", "backslash"),
        ("C:/Users", "drive letter"),
        ("c://x", "drive letter"),
        ("z:a/*", "drive letter"),
        ("./C:/x", "drive letter"),
        ("./C:/*", "drive letter"),
        ("file:C:/x", "drive letter"),
        ("..", ".."),
        ("../", ".."),
        ("../a", ".."),
        ("a/..", ".."),
        ("a/../b", ".."),
        ("src/../*", ".."),
        ("a/../", ".."),
        ("src\\a.rs", "backslash"),
        ("src\\*.rs", "backslash"),
        ("\\\\server\\share", "backslash"),
        ("file:a\\b", "backslash"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\tb", "control"),
        ("a\u{7f}", "control"),
        ("*\r", "control"),
        ("a ", "white space"),
        (" ", "white space"),
        ("a\u{a0}", "white space"),
        ("a/b\u{3000}", "white space"),
        ("*.rs ", "white space"),
        (&long, "4,096"),
        (&long_component, "255"),
        (&long_pattern, "255"),
        (".git", ".git"),
        (".git/config", ".git"),
        ("sub/.git", ".git"),
        (".GIT/x", ".git"),
        (".Git/", ".git"),
        (".git./x", ".git"),
        (".git ./x", ".git"),
        ("git~1/x", ".git"),
        ("GIT~1", ".git"),
        (".g\u{200c}it/x", ".git"),
        ("\u{feff}.git", ".git"),
        ("a/.git::$INDEX_ALLOCATION/x", ".git"),
        ("./.git:stream", ".git"),
        ("file:.git/x", ".git"),
        (".git/**", ".git"),
        ("**/.git/*", ".git"),
        ("*/GIT~1/*.rs", ".git"),
        ("file:src/", "slash at the end"),
    ];
    for (text, reason) in table {
        let bad = refused(text);
        assert!(matches!(bad, BadKey::Path(_)), "{bad:?}");
        assert!(bad.to_string().contains(reason), "{bad}");
    }
}

#[test]
fn malformed_names() {
    let long = format!("event:{}", "x".repeat(4_096));
    let table: [(&str, &str); 72] = [
        ("api:", "api:GET /v1/users"),
        ("api:GET", "api:GET /v1/users"),
        ("api:get /v1/users", "api:GET /v1/users"),
        ("api:Post /x", "api:POST /x"),
        ("api:get /a\nb", "upper case"),
        ("api:GET  /v1", "one space"),
        ("api:GET v1", "starts with \"/\""),
        ("api:GET /a b", "white space"),
        ("api:GET /a\n", "white space"),
        ("api: /v1", "one of GET, HEAD"),
        ("api:G3T /v1", "one of GET, HEAD"),
        ("api:FETCH /v1", "one of GET, HEAD"),
        ("api:GET /v1/../x", ".."),
        ("db:slot", "the forms are db:migration-slot, db:schema:NAME"),
        ("db:table:users", "the forms are db:migration-slot, db:schema:NAME"),
        ("db:schema", "the forms are"),
        ("port:", "1 to 65535"),
        ("port:0", "1 to 65535"),
        ("port:080", "1 to 65535"),
        ("port:65536", "1 to 65535"),
        ("port:http", "1 to 65535"),
        ("api:/v1", "api:GET /v1/users"),
        ("db:", "db:schema:users"),
        ("db:Users", "db:schema:users"),
        ("db:schema:", "db:schema:users"),
        ("db:schema:user-table", "db:schema:users"),
        ("db:schema:users:email", "db:schema:users"),
        ("db::users", "db:schema:users"),
        ("db:a b", "db:schema:users"),
        ("db:a/b", "db:schema:users"),
        ("event:", "event:user.created"),
        ("event:User.created", "event:user.created"),
        ("event:.created", "event:user.created"),
        ("event:user..created", "event:user.created"),
        ("event:user.*", "event:user.created"),
        ("flag:", "flag:billing/*"),
        ("flag:*", "every flag"),
        ("flag:/*", "flag:billing/*"),
        ("flag:Billing", "flag:billing/*"),
        ("flag:a//b", "flag:billing/*"),
        ("flag:a/*/b", "flag:billing/*"),
        ("flag:a*", "flag:billing/*"),
        ("flag:a/", "flag:billing/*"),
        ("flag:a/*/*", "flag:billing/*"),
        ("env:", "env:shared-fixtures"),
        ("env:8080", "allocate ports"),
        ("env:port-8080", "allocate ports"),
        ("env:PORT_8080", "allocate ports"),
        ("env:port8080", "allocate ports"),
        ("env:api/port.8080", "allocate ports"),
        ("env:tcp/8080", "allocate ports"),
        ("env:a b", "env:shared-fixtures"),
        ("env:a//b", "env:shared-fixtures"),
        ("env:a/../b", "env:shared-fixtures"),
        ("contract:", "empty"),
        ("contract:/abs.yaml", "absolute"),
        ("contract:../x.yaml", ".."),
        ("contract:.git/x", ".git"),
        ("contract:openapi/", "one file"),
        ("contract:a\\b", "backslash"),
        ("feature:", "feature:FEAT-123:pause"),
        ("feature:FEAT-123", "feature:FEAT-123:pause"),
        ("feature::pause", "feature:FEAT-123:pause"),
        ("feature:FEAT-123:", "the purposes are pause"),
        ("feature:FEAT-123:freeze", "the purposes are pause"),
        ("feature:FEAT-123:pause:now", "the purposes are pause"),
        ("feature:a b:pause", "feature:FEAT-123:pause"),
        ("github://", "nothing follows"),
        ("deploy://a b", "white space"),
        ("deploy://a\u{7}", "control"),
        ("deploy://a\u{2003}b", "white space"),
        (&long, "4,096"),
    ];
    for (text, reason) in table {
        let bad = refused(text);
        assert!(matches!(bad, BadKey::Form(_)), "{bad:?}");
        assert!(bad.to_string().contains(reason), "{bad}");
    }
    let mut rules = KeyRules::default();
    rules.purposes.push("freeze".to_owned());
    rules.db_forms.extend(["slot", "table:*"].map(str::to_owned));
    rules.plain_namespaces.push("task".to_owned());
    for text in ["feature:FEAT-123:freeze", "db:slot", "db:table:users", "task:123", "task:a/b", "task:x:y"] {
        assert!(Key::parse(text, &rules).is_ok(), "{text}: the configuration adds it");
        assert!(Key::parse(text, &KeyRules::default()).is_err(), "{text}");
        assert!(Key::parse(text, &KeyRules::any_configuration(text)).is_ok(), "{text}");
    }
    for text in ["task:", "task:a b", "task:a\n", "Task:1", "db:table", "db:table:Users"] {
        assert!(Key::parse(text, &rules).is_err(), "{text}");
    }
}

#[test]
fn keys_with_too_many_components() {
    let deep = |components: usize| vec!["a"; components].join("/");
    for (before, after) in [("", ""), ("", "/*.rs"), ("contract:", ""), ("flag:", ""), ("deploy://", ""), ("file:", "")]
    {
        let text = |components: usize| format!("{before}{}{after}", deep(components));
        assert!(Key::parse(&text(250), &KeyRules::default()).is_ok(), "{before}");
        let bad = refused(&text(260));
        assert!(bad.to_string().contains("255 components"), "{bad}");
    }
    assert!(Key::parse(&deep(255), &KeyRules::default()).is_ok());
    assert!(Key::parse(&deep(256), &KeyRules::default()).is_err());
    assert!(Key::literal(deep(256).as_bytes(), &KeyRules::default()).is_err());
    assert!(Key::parse(&format!("a{}b", "/".repeat(1_000)), &KeyRules::default()).is_ok(), "two components");
    assert!(Key::recall(&deep(2_000), false).is_ok(), "old journals load");
}

#[test]
fn unknown_namespaces() {
    for text in ["foo:bar", "API:GET /x", "Db:x", "File:x", "a+b.c_d-e:x", "foo:*.rs", "http:/x", "mailto:a@b", "x1:"] {
        let bad = refused(text);
        assert!(matches!(bad, BadKey::Namespace(_)), "{bad:?}");
        assert!(bad.to_string().contains(&format!("\"file:{text}\"")), "{bad}");
    }
}

#[test]
fn malformed_patterns() {
    let table = [
        ("src/[a", "unclosed character class"),
        ("[", "unclosed character class"),
        ("src/{a,b", "unclosed alternate group"),
        ("{", "unclosed alternate group"),
        ("*}", "unopened alternate group"),
        ("a}/", "unopened alternate group"),
        ("[z-a]*", "invalid range"),
        ("src/[é].rs", "ASCII"),
        (".gi[t]/*", "no path"),
        ("[.]", "no path"),
        ("[/]a", "no path"),
        ("a/{.,..}/b", "no path"),
        ("{../a,.git/b}", "no path"),
    ];
    for (text, reason) in table {
        let bad = refused(text);
        assert!(matches!(bad, BadKey::Form(_)), "{bad:?}");
        assert!(bad.to_string().contains(reason), "{bad}");
    }
}

#[test]
fn patterns_that_would_be_slow() {
    let windows = "*a????????????????????".to_owned();
    let table = [
        ("{".repeat(1_000), "nested"),
        (format!("{}a{}", "{".repeat(9), "}".repeat(9)), "nested"),
        (format!("{{{}}}", "a,".repeat(300)), "choices"),
        (windows, "too complex"),
        (format!("*a{}", "?".repeat(4_000)), "too complex"),
        (format!("**/a{}x", "*/".repeat(20)), "too complex"),
        (format!("{}b", "**/a*/".repeat(100)), "too complex"),
        ("{a*,b*,c*}".repeat(80), "too complex"),
        ("[a-z]*".repeat(600), "too complex"),
        ("*abcdefg".repeat(500), "too complex"),
    ];
    for (text, reason) in table {
        let bad = refused(&text);
        assert!(matches!(bad, BadKey::Form(_)), "{bad:?}");
        assert!(bad.to_string().contains(reason), "{bad}");
    }
    // A long pattern is not necessarily slow.
    for text in [
        "{a,b,c}".repeat(30),
        "[a-z]*".repeat(100),
        format!("{}a", "**/".repeat(1_000)),
        "?".repeat(250),
        format!("{}*", "directory/".repeat(250)),
        format!("{{{}}}", (0..100).map(|i| format!("src/module{i}/file.rs")).collect::<Vec<_>>().join(",")),
    ] {
        assert!(key(&text).overlaps(&key(&text)).is_some());
    }
}
