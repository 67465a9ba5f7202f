//! Keys compared with a second implementation, for many random pairs from a fixed seed.

use globset::GlobBuilder;

use super::super::checks;
use super::naive;
use super::random::Random;
use super::*;

fn glob_of(key: &Key) -> &Glob {
    let Claim::Glob(glob) = key.claim() else { panic!("{key:?} is no glob") };
    glob
}

/// Patterns are compiled once and paired often, because compiling is expensive.
fn patterns(random: &mut Random, count: usize) -> Vec<(String, Key)> {
    let mut patterns = Vec::new();
    while patterns.len() < count {
        let text = random.pattern();
        match Key::parse(&text, &KeyRules::default()) {
            Ok(key) => patterns.push((text, key)),
            // A few match nothing but their own text; the second implementation must agree.
            Err(BadKey::Form(_)) => {
                let net = naive::Net::new(&text);
                let shortest = naive::shortest_overlap(&net, &net);
                assert!(shortest.is_none_or(|len| len == naive::own_text(&text).len()), "{text}: {shortest:?}");
            }
            Err(bad) => panic!("{bad}"),
        }
    }
    patterns
}

#[test]
fn matching_agrees_with_the_naive_matcher() {
    let mut random = Random::new(1);
    let patterns = patterns(&mut random, 1_500);
    let naive: Vec<naive::Pattern> = patterns.iter().map(|(text, _)| naive::Pattern::new(text)).collect();
    let mut matched = 0;
    for _ in 0..150_000 {
        let at = random.below(patterns.len());
        let (text, key) = &patterns[at];
        // Now and then the pattern's own text, or another pattern's.
        let path = match random.below(10) {
            0 => naive::own_text(text),
            1 => naive::own_text(&patterns[random.below(patterns.len())].0),
            _ => random.path(),
        };
        let expected = naive[at].matches(&path);
        assert_eq!(glob_of(key).matches(path.as_bytes()), expected, "{text} on {path}");
        matched += usize::from(expected);
    }
    assert!(matched > 10_000, "only {matched} matches: the paths no longer fit the patterns");
}

#[test]
fn overlap_agrees_with_the_naive_search() {
    let mut random = Random::new(2);
    let patterns = patterns(&mut random, 1_000);
    let naive: Vec<naive::Pattern> = patterns.iter().map(|(text, _)| naive::Pattern::new(text)).collect();
    let nets: Vec<naive::Net> = patterns.iter().map(|(text, _)| naive::Net::new(text)).collect();
    let mut met = 0;
    for _ in 0..100_000 {
        let (at_a, at_b) = (random.below(patterns.len()), random.below(patterns.len()));
        let ((a_text, a), (b_text, b)) = (&patterns[at_a], &patterns[at_b]);
        let there = a.overlaps(b);
        assert_eq!(there, b.overlaps(a), "{a_text} and {b_text}");
        let example = there.map(|overlap| overlap.example.expect("globs meet in an example"));
        // A name with brackets is shown as a literal one.
        let example = example.map(|path| path.strip_prefix("file:").map(str::to_owned).unwrap_or(path));
        let expected = naive::shortest_overlap(&nets[at_a], &nets[at_b]);
        assert_eq!(example.as_ref().map(String::len), expected, "{a_text} and {b_text} meet in {example:?}");
        if let Some(example) = example {
            assert!(
                naive[at_a].matches(&example) && naive[at_b].matches(&example),
                "{a_text} and {b_text} in {example}"
            );
            met += 1;
        }
    }
    assert!((20_000..80_000).contains(&met), "{met} of the pairs overlap: too one-sided a sample");
}

#[test]
fn matching_agrees_with_globset_in_every_syntax() {
    let mut random = Random::new(3);
    let mut compared = 0;
    for _ in 0..20_000 {
        let fold_case = random.below(2) == 0;
        let pattern = random.wild_pattern();
        let rules = KeyRules { fold_case, ..KeyRules::default() };
        let Some(key) = Key::parse(&pattern, &rules).ok().filter(|key| key.kind() == Kind::Glob) else { continue };
        // globset folds the case of ASCII only.
        let theirs_folded = |text: &str| if fold_case { text.replace('É', "é") } else { text.to_owned() };
        let theirs = GlobBuilder::new(&theirs_folded(&key.shown()))
            .literal_separator(true)
            .backslash_escape(false)
            .case_insensitive(fold_case)
            .build()
            .unwrap_or_else(|error| panic!("{pattern}: {error}"))
            .compile_matcher();
        for _ in 0..20 {
            let path = random.wild_path();
            let name = Key::literal(path.as_bytes(), &rules).unwrap();
            let Claim::Path(canonical) = name.claim() else { panic!("{path} is no path") };
            let is_own = Key::literal(key.spelling(), &rules).is_ok_and(|own| own == name);
            assert_eq!(
                glob_of(&key).matches(canonical),
                is_own || theirs.is_match(theirs_folded(&path)),
                "{pattern} on {path}, {fold_case}"
            );
            compared += 1;
        }
    }
    assert!(compared > 100_000, "only {compared} compared");
}

#[test]
fn a_walk_ends_where_no_match_is_possible() {
    // Everything over two letters, the dot and the slash up to some length tells which beginnings lead somewhere.
    let mut random = Random::new(4);
    let words = words(5);
    for (text, key) in patterns(&mut random, 150) {
        let glob = glob_of(&key);
        let matches: Vec<&str> = words.iter().map(|w| &**w).filter(|w| glob.matches(w.as_bytes())).collect();
        for word in &words {
            let walked = glob.step(glob.start(), word.as_bytes());
            assert_eq!(walked.is_some_and(|state| glob.accepts(state)), matches.contains(&&**word), "{text} on {word}");
            if matches.iter().any(|m| m.starts_with(&**word)) {
                assert!(walked.is_some(), "{text} gives up at {word}");
            }
        }
        for word in matches {
            assert!(
                word.as_bytes().starts_with(glob.anchor()) && word.as_bytes().ends_with(glob.suffix()),
                "{text} on {word}"
            );
        }
        // Each state that a walk reaches is left by a real match, found by the same search with the rest of the pattern.
        let anchor = glob.anchor();
        assert!(anchor.is_empty() || glob.claims_directory(anchor), "{text}");
    }
}

/// All valid paths over a few characters.
fn words(max: usize) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut from = 0;
    for _ in 0..max {
        let to = words.len();
        for at in from..to {
            for c in ['a', 'b', '.', '/'] {
                words.push(format!("{}{c}", words[at]));
            }
        }
        from = to;
    }
    words.retain(|w| w.split('/').all(|c| !["", ".", ".."].contains(&c)));
    words
}

#[test]
fn any_text_can_be_read_and_written() {
    let mut random = Random::new(5);
    for _ in 0..30_000 {
        checks::parse_holds(&random.text());
        checks::literal_holds(&random.name(), &KeyRules::default());
    }
}

#[test]
fn any_two_texts_can_be_compared() {
    let mut random = Random::new(6);
    for _ in 0..40_000 {
        let (a, b) = (random.key_text(), random.key_text());
        checks::overlap_holds(&a, &b);
    }
}
