//! What keys promise to everybody else.

use super::*;

fn key(text: &str) -> Key {
    Key::parse(text, &KeyRules::default()).unwrap_or_else(|bad| panic!("{text}: {bad}"))
}

fn overlap(a: &str, b: &str) -> Option<Option<String>> {
    let there = key(a).overlaps(&key(b));
    let back = key(b).overlaps(&key(a));
    assert_eq!(there.is_some(), back.is_some(), "{a} {b}");
    there.map(|overlap| overlap.example)
}

#[test]
fn overlaps_first() {
    let some = |text: &str| Some(Some(text.to_owned()));
    assert_eq!(overlap("src/**/*.rs", "src/api/**"), some("src/api/.rs"));
    assert_eq!(overlap("src/", "src/api/"), some("src/api/a"));
    assert_eq!(overlap("src/*.rs", "src/api/**"), None);
    assert_eq!(overlap("src/", "src/a.rs"), some("src/a.rs"));
    assert_eq!(overlap("src/", "src"), some("src/a"));
    assert_eq!(overlap("**/*.rs", "src"), None);
    assert_eq!(overlap("**/*.rs", "README.md"), None);
    assert_eq!(overlap("src", "src/a.rs"), Some(None));
    assert_eq!(overlap("src", "srca"), None);
    assert_eq!(overlap("flag:billing/*", "flag:billing/x"), Some(None));
    assert_eq!(overlap("flag:billing/*", "flag:billing"), None);
}
