//! Which keys overlap, where, and the properties of patterns.

use super::*;

/// The overlap of two keys, checked in both orders.
fn overlap(a: &Key, b: &Key) -> Option<Option<String>> {
    let there = a.overlaps(b);
    assert_eq!(there, b.overlaps(a), "{a:?} and {b:?}");
    there.map(|overlap| overlap.example)
}

fn glob(key: &Key) -> &Glob {
    let Claim::Glob(glob) = key.claim() else { panic!("{key:?} is no glob") };
    glob
}

#[test]
fn which_keys_overlap() {
    let apart = None;
    let meet = Some(None);
    let at = |example: &'static str| Some(Some(example));
    let table = [
        // Path and path.
        ("src/a.rs", "src/a.rs", meet),
        ("src/a.rs", "./src//a.rs", meet),
        ("src", "src/a.rs", meet),
        ("src", "srca", apart),
        ("src/a", "src/a.rs", apart),
        ("a/b", "a/c", apart),
        ("file:src/[id].ts", "file:src/[id].ts/x", meet),
        // Path and pattern.
        ("src/", "src/a.rs", at("src/a.rs")),
        ("src/**", "src", at("src/a")),
        ("src/**", "srcx", apart),
        ("src/api/**", "src", at("src/api/a")),
        ("src/*.rs", "src", at("src/.rs")),
        ("src/{a,b}/x", "src", at("src/a/x")),
        ("{src/a,src/b}/x", "src", at("src/a/x")),
        ("s[r]c/x?", "src", at("src/xa")),
        ("src*/x", "src", apart),
        ("**/*.rs", "README.md", apart),
        ("**/*.rs", "src", apart),
        ("**/*.rs", "main.rs", at("main.rs")),
        ("**", "src", at("src")),
        ("*", "src", at("src")),
        ("*", "src/a", apart),
        ("src/[id].ts", "file:src/[id].ts", at("file:src/[id].ts")),
        ("src/*", "file:src/[id].ts", at("file:src/[id].ts")),
        ("src/[id].ts", "src/i.ts", at("src/i.ts")),
        ("*.rs", "a.rs/b", apart),
        // Pattern and pattern.
        ("src/**", "src/**", at("src/a")),
        ("src/", "src/api/", at("src/api/a")),
        ("src/api/", "src/app/", apart),
        ("src/**/*.rs", "src/api/**", at("src/api/.rs")),
        ("src/*.rs", "src/api/**", apart),
        ("**/*.rs", "**/*.py", apart),
        ("*.rs", "**/*.rs", at(".rs")),
        ("a*", "*b", at("ab")),
        ("a*a", "a", apart),
        ("src/[ab].rs", "src/[bc].rs", at("src/b.rs")),
        ("src/[ab].rs", "src/[cd].rs", apart),
        ("{a,b}/x*", "{b,c}/*y", at("b/xy")),
        ("**/a/**", "b/**", at("b/a/a")),
        ("?", "??", apart),
        ("*", "*/*", apart),
        (".g*t", ".gi?", apart),
        ("é*", "*é", at("é")),
        ("[!a]b", "a*", apart),
        ("./foo:*", "*:bar", at("file:foo:bar")),
        // Names.
        ("db:schema:a", "db:schema:a", meet),
        ("db:schema:a", "db:schema:b", apart),
        ("db:schema:y", "db:schema:users", apart),
        ("api:GET /a", "api:POST /a", apart),
        ("flag:billing/*", "flag:billing/x", meet),
        ("flag:billing/*", "flag:billing/x/y", meet),
        ("flag:billing/*", "flag:billing", apart),
        ("flag:billing/*", "flag:billings/x", apart),
        ("flag:billing/*", "flag:billing/*", meet),
        ("flag:billing/*", "flag:billing/x/*", meet),
        ("flag:billing/*", "flag:other/*", apart),
        ("flag:a", "flag:a/b", apart),
        ("deploy://a", "DEPLOY://a", meet),
        ("deploy://a", "deploy://a/b", apart),
        ("flag://a/*", "flag://a/b", apart),
        // Never between different kinds.
        ("**", "db:schema:a", apart),
        ("**", "deploy://a", apart),
        ("contract:a/b", "a/b", apart),
        ("contract:a/b", "**", apart),
        ("file:db:schema:a", "db:schema:a", apart),
        ("flag:a", "event:a", apart),
    ];
    for (a, b, expected) in table {
        assert_eq!(overlap(&key(a), &key(b)).as_ref().map(|e| e.as_deref()), expected, "{a} and {b}");
    }
}

#[test]
fn names_that_are_not_utf8_overlap_patterns() {
    assert_eq!(overlap(&literal(b"src/\xff.rs"), &key("src/*.rs")), Some(Some("file:src/%FF.rs".to_owned())));
    assert_eq!(overlap(&literal(b"src/a\\b"), &key("src/**")), Some(Some("file:src/a\\b".to_owned())));
    assert_eq!(overlap(&literal(b"src/a\nb"), &key("src/?*")), Some(Some("file:src/a%0Ab".to_owned())));
    assert_eq!(overlap(&literal(b"src/\xff"), &literal(b"src/\xff/x")), Some(None));
    assert_eq!(overlap(&literal(b"src/\xff"), &literal(b"src/\xfe")), None);
    // If only such names match, the example is one.
    assert_eq!(overlap(&key("[! -~]"), &key("?")), Some(Some("file:%80".to_owned())));
}

#[test]
fn case_is_folded_in_patterns_too() {
    for (a, b, meets) in [
        ("SRC/*.RS", "src/main.rs", true),
        ("src/[A-C].rs", "src/b.rs", true),
        ("src/[!A].rs", "src/a.rs", false),
        ("src/[Z-a].rs", "src/z.rs", true),
        ("É/**", "é/x", true),
        ("É/**", "e\u{301}", true),
        ("SRC/**", "Src", true),
        ("SRC/{A,B}*", "src/?x", true),
        ("STRASSE/*", "straße/x", true),
        ("SRC/*.rs", "src/*.RSX", false),
    ] {
        assert_eq!(overlap(&folding_key(a), &folding_key(b)).is_some(), meets, "{a} and {b}");
    }
    assert_eq!(overlap(&folding_key("SRC/*.RS"), &folding_key("*/Main.*")), Some(Some("src/main.rs".to_owned())));
    assert_eq!(glob(&folding_key("SRC/Api/*.RS")).anchor(), b"src/api");
    assert_eq!(glob(&folding_key("SRC/Api/*.RS")).suffix(), b".rs");
}

#[test]
fn prefix_suffix_and_shortest_match_of_a_pattern() {
    for (text, anchor, suffix) in [
        ("**", "", ""),
        ("src/**", "src", ""),
        ("src/api/*.rs", "src/api", ".rs"),
        ("src/**/*.rs", "src", ".rs"),
        ("**/mod.rs", "", "mod.rs"),
        ("src/**/mod.rs", "src", "mod.rs"),
        ("src/a*/b", "src", "/b"),
        ("src/{a,b}.rs", "src", ".rs"),
        ("{src/a,src/b}/x", "", "/x"),
        ("src/[a]/x?", "src", ""),
        ("src/{a,b}{c,d}", "src", ""),
        ("*.{rs,ts}", "", ""),
        ("src*/x", "", "/x"),
        ("a/*a*", "a", ""),
    ] {
        let key = key(text);
        let glob = glob(&key);
        let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!((&*text_of(glob.anchor()), &*text_of(glob.suffix())), (anchor, suffix), "{text}");
    }
}

#[test]
fn which_directories_a_pattern_claims() {
    for (text, path, claims) in [
        ("src/**", "src", true),
        ("src/**", "src/a", false),
        ("src/api/**", "src", true),
        ("src/api/**", "src/api", true),
        ("src/api/**", "src/ap", false),
        ("src/{ab,ac}/x", "src", true),
        ("src/{ab,ac}/x", "src/a", false),
        ("src/[a]/x", "src/a", true),
        ("src/[a]/x", "src/a/x", false),
        ("src/[a]/x", "src/[a]", true),
        ("src/[a]/x", "src/[b]", false),
        ("{src/a,src/b}/x", "src", true),
        ("{src/a,src/b}/x", "{src", true),
        ("**/x", "a", false),
        ("src*/x", "src", false),
        ("src/**", "", false),
    ] {
        assert_eq!(glob(&key(text)).claims_directory(path.as_bytes()), claims, "{text} and {path}");
    }
}

#[test]
fn a_walk_continues_while_a_match_is_possible() {
    for (text, walk, goes_on, accepted) in [
        ("src/api/*.rs", "", true, false),
        ("src/api/*.rs", "src", true, false),
        ("src/api/*.rs", "src/api", true, false),
        ("src/api/*.rs", "src/app", false, false),
        ("src/api/*.rs", "src/api/", true, false),
        ("src/api/*.rs", "src/api/a.r", true, false),
        ("src/api/*.rs", "src/api/a.rs", true, true),
        ("src/api/*.rs", "src/api/a/", false, false),
        ("src/api/*.rs", "src/api/a.rsx", true, false),
        ("src/**", "src/", true, false),
        ("src/**", "src//", false, false),
        ("src/**", "src/a/", true, false),
        ("src/**", "src/..", true, false),
        ("src/**", "src/../", false, false),
        ("**", "", true, false),
        ("**", "/", false, false),
        ("a?", "ab", true, true),
        ("a?", "abc", false, false),
        ("{a,b}/c", "a/", true, false),
        ("{a,b}/c", "c", false, false),
    ] {
        let key = key(text);
        let glob = glob(&key);
        let state = glob.step(glob.start(), walk.as_bytes());
        assert_eq!(state.is_some(), goes_on, "{text} on {walk}");
        assert_eq!(state.is_some_and(|state| glob.accepts(state)), accepted, "{text} on {walk}");
    }
}

#[test]
fn a_glob_is_shared_between_threads() {
    // The engine is on one thread, and requests are parsed on others.
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Key>();
    let keys: Vec<Key> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| key("shared/{by,many}/**/*.threads"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1] && pair[0].overlaps(&pair[1]).is_some()));
}

/// Regression: a file that was reserved by its name was granted as a pattern, and its own commit was not protected.
#[test]
fn a_pattern_covers_its_own_text() {
    for fold_case in [false, true] {
        let rules = KeyRules { fold_case, ..KeyRules::default() };
        for text in [
            "app/[id]/page.tsx",
            "[id]",
            "app/[...slug]/x",
            "{a,b}",
            "src/{a,b}.rs",
            "a/{b/c,d}/[!e]",
            "Lib/[A-Z]*.rs",
            "é/[id]/{ß,x}",
            "**/[id].ts",
            "*[ab]*{c,d}?",
            "src/",
            "*.rs",
        ] {
            let pattern = Key::parse(text, &rules).unwrap();
            let name = pattern.spelling().to_vec();
            let file = Key::literal(&name, &rules).unwrap();
            let (Claim::Glob(glob), Claim::Path(path)) = (pattern.claim(), file.claim()) else { panic!("{text}") };
            assert!(glob.matches(path), "{text}");
            assert!(pattern.overlaps(&file).is_some() && file.overlaps(&pattern).is_some(), "{text}");
            let example = pattern.overlaps(&pattern).unwrap().example.unwrap();
            assert!(!example.contains(['[', '{']), "{text}: {example} is not the shortest example");
            let other = Key::literal(&[&name[..], b"x"].concat(), &rules).unwrap();
            let Claim::Path(other) = other.claim() else { panic!("{text}") };
            assert!(!glob.matches(other) || text.ends_with(['/', '?', '*']), "{text}");
            assert_eq!(Key::recall(&pattern.text(), fold_case).unwrap(), pattern);
        }
    }
    let key = |text: &str| Key::parse(text, &KeyRules::default()).unwrap();
    // Two patterns that meet only in the text of one of them, or in neither.
    assert_eq!(key("app/[id]/x").overlaps(&key("app/[[]id]/x")).unwrap().example.unwrap(), "file:app/[id]/x");
    assert_eq!(key("app/[id]/x").overlaps(&key("app/?id?/*")).unwrap().example.unwrap(), "file:app/[id]/x");
    assert!(key("app/[id]/x").overlaps(&key("app/[xy]/x")).is_none());
    assert!(key("{a,b}").overlaps(&key("{c,d}")).is_none());
    // Both readings need their directories.
    assert_eq!(key("app/[i]/x").overlaps(&key("app/i")).unwrap().example.unwrap(), "app/i/x");
    assert_eq!(key("app/[i]/x").overlaps(&key("file:app/[i]")).unwrap().example.unwrap(), "file:app/[i]/x");
    assert!(key("app/[i]/x").overlaps(&key("app/j")).is_none());
}

#[test]
fn a_long_pattern_with_brackets_is_not_too_complex_because_of_its_own_text() {
    for text in [format!("[a]{}", "b".repeat(250)), format!("{{{}}}", vec!["abcdefghijklmnopqrst"; 100].join(","))] {
        Key::parse(&text, &KeyRules::default()).unwrap_or_else(|bad| panic!("{bad}"));
    }
}
