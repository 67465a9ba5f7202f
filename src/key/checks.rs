//! Properties of every text and every pair of texts. The tests check them with random texts, the fuzz targets with texts
//! they find; both have `Key` and its related types in scope above this module.

use super::{Claim, Key, KeyRules, Kind};

/// Parses the text in every way; the result can be written and parsed again.
pub fn parse_holds(text: &str) {
    for fold_case in [false, true] {
        let rules = KeyRules { fold_case, ..KeyRules::default() };
        if let Ok(key) = Key::parse(text, &rules) {
            round_trip(&key, fold_case);
            let again = Key::parse(&key.shown(), &rules);
            assert_eq!(again.as_ref(), Ok(&key), "{text:?} is shown as {:?}", key.shown());
            assert_eq!(again.unwrap().shown(), key.shown(), "{text:?}");
            assert!(!key.is_percent(), "{text:?}");
            assert!(key.overlaps(&key).is_some(), "{text:?}");
        }
        if let Ok(key) = Key::parse_percent(text, &rules) {
            round_trip(&key, fold_case);
        }
        if let Ok(key) = Key::recall(text, fold_case) {
            round_trip(&key, fold_case);
        }
        literal_holds(text.as_bytes(), &rules);
    }
}

/// A name from git becomes a path, which can be written and parsed again.
pub fn literal_holds(name: &[u8], rules: &KeyRules) {
    let Ok(key) = Key::literal(name, rules) else { return };
    assert_eq!(key.kind(), Kind::Path, "{name:?}");
    round_trip(&key, rules.fold_case);
    if key.is_percent() {
        let again = Key::parse_percent(&key.shown(), rules).expect("what is shown can be parsed");
        assert_eq!(again, key, "{name:?}");
        assert_eq!(again.shown(), key.shown(), "{name:?}");
    }
}

fn round_trip(key: &Key, fold_case: bool) {
    let text = key.text();
    let again = Key::recall(&text, fold_case).unwrap_or_else(|bad| panic!("{text:?}: {bad}"));
    assert_eq!(&again, key, "{text:?}");
    assert_eq!(again.shown(), key.shown(), "{text:?}");
    assert_eq!(again.text(), text);
    assert_eq!(again.is_percent(), key.is_percent(), "{text:?}");
    assert!(!text.bytes().any(|b| b.is_ascii_control()) || key.kind() != Kind::Path, "{text:?}");
    assert_eq!(&key.folded(fold_case), key, "{text:?}");
    assert_eq!(key.folded(!fold_case).folded(fold_case), *key, "{text:?}");
    assert_eq!(key.folded(!fold_case).text(), text, "folding does not change the spelling");
}

/// Compares two keys in both orders. Checks the result against the pattern, and that an example really matches both.
pub fn overlap_holds(a: &str, b: &str) {
    for fold_case in [false, true] {
        let rules = KeyRules { fold_case, ..KeyRules::default() };
        let (Ok(a), Ok(b)) = (Key::parse(a, &rules), Key::parse(b, &rules)) else { return };
        let there = a.overlaps(&b);
        assert_eq!(there, b.overlaps(&a), "{a:?} and {b:?}");
        let ((Claim::Glob(glob), other) | (other, Claim::Glob(glob))) = (a.claim(), b.claim()) else { continue };
        match (other, &there) {
            (Claim::Path(path), Some(_)) => {
                assert!(glob.matches(path) || glob.claims_directory(path), "{a:?} and {b:?}");
            }
            (Claim::Path(path), None) => {
                assert!(!glob.matches(path) && !glob.claims_directory(path), "{a:?} and {b:?}");
            }
            (Claim::Glob(_), _) => {}
            _ => assert_eq!(there, None, "{a:?} and {b:?}"),
        }
        if let Some(overlap) = there {
            let shown = overlap.example.unwrap_or_else(|| panic!("{a:?} and {b:?} overlap without an example"));
            // A name that is not UTF-8 is shown percent-encoded, and nothing beside an example says so.
            let name = shown.strip_prefix("file:").unwrap_or(&shown).as_bytes();
            let example = Key::literal(name, &rules).ok().filter(|example| covers(&a, example) && covers(&b, example));
            let example = example.or(Key::recall(&shown, fold_case).ok());
            let example =
                example.unwrap_or_else(|| panic!("{a:?} and {b:?} overlap in {shown:?}, which is not a path"));
            assert!(covers(&a, &example) && covers(&b, &example), "{a:?} and {b:?} do not overlap in {example:?}");
            [&a, &b].iter().for_each(|key| walk_holds(key, &example));
        }
    }
}

fn covers(key: &Key, example: &Key) -> bool {
    match (key.claim(), example.claim()) {
        (Claim::Glob(glob), Claim::Path(path)) => glob.matches(path),
        _ => key.overlaps(example).is_some(),
    }
}

/// Checks the properties of a glob against a path that matches it.
fn walk_holds(key: &Key, example: &Key) {
    let (Claim::Glob(glob), Claim::Path(path)) = (key.claim(), example.claim()) else { return };
    assert!(path.starts_with(glob.anchor()) && path.ends_with(glob.suffix()), "{example:?} and {key:?}");
    for cut in 0..=path.len() {
        let state = glob.step(glob.start(), &path[..cut]).expect("a beginning of a match leads on");
        let end = glob.step(state, &path[cut..]).expect("a match can be walked");
        assert!(glob.accepts(end), "{example:?} and {key:?} at {cut}");
    }
    assert!(glob.matches(&glob.shortest_match().expect("a new glob matches something")), "{key:?}");
}
