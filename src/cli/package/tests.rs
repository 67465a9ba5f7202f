//! Packages as people write them, and as they should not.

use std::path::Path;

use super::*;

fn parse(text: &str) -> Package {
    let mut packages = parse::packages(text.as_bytes()).unwrap();
    assert_eq!(packages.len(), 1);
    packages.remove(0)
}

/// Every problem, as `line: what`.
fn problems(text: &str) -> Vec<String> {
    let problems = parse::packages(text.as_bytes()).unwrap_err();
    problems.iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
}

#[test]
fn a_package_is_what_it_lists() {
    let text = "\
title: users
steps: [{a: [1, 2]}, {b: }]
text: |
  tabs\tare fine in here
locks:
  files:
  - src/api/
  - \"src/[id].ts\"
  keys: [db:migration-slot, 'feature:F-1:freeze', deploy://x]
  ttl_minutes: 5 # short
  reason: move users
more: ~
";
    let package = parse(text);
    let names = ["src/api/", "src/[id].ts", "db:migration-slot", "feature:F-1:freeze", "deploy://x"];
    assert_eq!(package.names().texts(), names);
    assert_eq!((package.idle_seconds(), package.reason()), (300, Some("move users")));
    assert_eq!(parse("{locks: {files: [a]}}").names().texts(), ["a"]);
    assert_eq!(parse("\u{feff}---\nlocks:\n  files: [a]\n...\n").idle_seconds(), 7200);
}

#[test]
fn every_problem_is_told_with_its_line() {
    let text = "\
locks:
  files:
    - src/a.rs
    - ../b.rs
    - db:x
    - 17
    - [c]
    - ./src//a.rs
    - ~
  keys:
    - src/x.rs
    - db:Not Good
  ttl_minutes: soon
  reason: [a, b]
  file: d
  keys: [db:schema:y]
";
    let expected = [
        "4: \"../b.rs\" is not a path that can be reserved: it has a \"..\" component; write the path without it, relative to the top of the repository.",
        "5: \"db:x\" is not a file; put it under keys",
        "6: 17 is a number; if it is a name, write it in quotes",
        "7: files must list text, but this is a list",
        "8: \"./src//a.rs\" appears twice; the first is on line 3",
        "9: files must list text, but this is nothing",
        "11: \"src/x.rs\" is a file or a pattern; put it under files",
        "12: \"db:Not Good\" is not a key: write one literal like db:migration-slot or lower-case identifiers like db:schema:users.",
        "13: ttl_minutes is text and should be a whole number",
        "14: reason is a list and should be text",
        "15: locks has no field \"file\"; did you mean files?",
        "16: keys appears twice; the first is on line 10",
    ];
    assert_eq!(problems(text), expected);
}

#[test]
fn what_is_no_package_is_said_to_be_none() {
    assert_eq!(problems(""), ["1: locks is missing; see git dibs reserve --help"]);
    assert_eq!(problems("title: x\nlock: {}\n"), ["1: locks is missing; see git dibs reserve --help"]);
    assert_eq!(problems("- a\n- b\n"), ["1: expected a mapping with locks, found a list"]);
    assert_eq!(problems("just text"), ["1: expected a mapping with locks, found text"]);
    assert_eq!(
        problems("a: 1\nlocks: [a]\n"),
        ["2: locks is a list and should be a mapping with files, keys, ttl_minutes and reason"]
    );
    assert_eq!(problems("locks: {}"), ["1: locks is empty; list something under files or keys"]);
    assert_eq!(problems("locks:\n  files: []"), ["1: locks is empty; list something under files or keys"]);
    assert_eq!(
        problems("locks: {files: [a]}\nlocks: {files: [b]}\n"),
        ["2: locks appears twice; the first is on line 1"]
    );
    assert_eq!(
        problems("locks: {files: [a]}\n---\nlocks: {files: [b]}\n"),
        ["3: a second document begins here; a work package is one document"]
    );
    let latin = parse::packages(b"a: b\nlocks: {files: [caf\xe9]}\n").unwrap_err();
    assert_eq!((latin[0].line, latin[0].what.as_str()), (2, "it is not UTF-8"));
}

#[test]
fn tabs_anchors_aliases_and_tags_are_refused() {
    assert_eq!(
        problems("locks:\n\tfiles:\n\t- a\n"),
        [
            "2: it starts with a tab; YAML is indented with spaces",
            "3: it starts with a tab; YAML is indented with spaces"
        ]
    );
    assert_eq!(
        problems("base: &x [a]\nlocks:\n  files: *x\n"),
        [
            "1: an anchor (&name) is not allowed here; write the value where it is needed",
            "3: an alias (*name) is not allowed here; write the value itself",
            "3: files is an alias and should be a list",
        ]
    );
    assert_eq!(problems("locks:\n  files: [!!binary YQ==]\n"), ["2: a tag (!name) is not allowed here; remove it"]);
    assert_eq!(problems("locks: {files: [a]\nx: y\n").len(), 1, "what is not closed is one problem");
}

#[test]
fn numbers_and_reasons_have_bounds() {
    let ttl = |value: &str| problems(&format!("locks: {{files: [a], ttl_minutes: {value}}}")).remove(0);
    assert_eq!(ttl("0"), "1: ttl_minutes is 0 and should be 1 to 480");
    assert_eq!(ttl("-5"), "1: ttl_minutes is -5 and should be 1 to 480");
    assert_eq!(ttl("9223372036854775807"), "1: ttl_minutes is 9223372036854775807 and should be 1 to 480");
    assert_eq!(ttl("99999999999999999999"), "1: ttl_minutes is a number and should be a whole number");
    assert_eq!(ttl("1.5"), "1: ttl_minutes is a number and should be a whole number");
    assert_eq!(ttl("\"5\""), "1: ttl_minutes is text and should be a whole number");
    let long = format!("locks: {{files: [a], reason: {}}}", "x".repeat(1001));
    assert_eq!(problems(&long), ["1: reason is longer than 1000 characters"]);
    let many: String = (0..10_001).map(|n| format!("  - f{n}\n")).collect();
    let many = problems(&format!("locks:\n  files:\n{many}"));
    assert_eq!(many, ["1: locks lists 10001 keys, but one request can have at most 10000"]);
}

#[test]
fn a_huge_file_is_not_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![b'#'; 10 << 20]).unwrap();
    let failure = read(file.path(), false).unwrap_err();
    assert!(failure.sentence.contains("larger than 1048576 bytes"), "{failure}");
    let failure = read(Path::new("/nowhere/package.yaml"), false).unwrap_err();
    assert!(failure.sentence.contains("cannot read the work package /nowhere/package.yaml"), "{failure}");
}

#[test]
fn a_contract_is_listed_or_generated() {
    let file =
        |contracts: &str| format!("locks: {{keys: ['contract:api/v1.yaml', 'contract:gen/a/m.py']}}\n{contracts}");
    let unlisted = |key: &str| {
        format!(
            "1: \"contract:{key}\" is neither listed in contracts.openapi.files nor a generated artifact (contracts.generated)"
        )
    };
    assert_eq!(problems(&file("")), [unlisted("api/v1.yaml"), unlisted("gen/a/m.py")]);
    assert_eq!(problems(&file("contracts: {openapi: {files: [./api/v1.yaml]}}")), [unlisted("gen/a/m.py")]);
    for contracts in [
        "contracts: {openapi: {files: [api/v1.yaml, gen/a/m.py]}}",
        "contracts: {openapi: {primary: api/v1.yaml, files: [api/v2.yaml]}, generated: {models: gen/a/m.py}}",
        "contracts: {openapi: {files: [api/v1.yaml], generated: [gen/]}}",
        "contracts: {generated: {dirs: [{x: gen/a}, api]}}",
    ] {
        parse(&file(contracts));
    }
    assert_eq!(
        problems(&file("contracts: {openapi: {files: [api/v1.yaml], generated: [ge]}}")),
        [unlisted("gen/a/m.py")]
    );
    let wrong = problems(&file("contracts: {openapi: {files: api/v1.yaml}, generated: gen}"));
    assert_eq!(wrong[1], "2: contracts.openapi.files is text and should be a list");
}

#[test]
fn a_list_of_packages_has_names_and_no_overlaps() {
    let file = |packages: &str| problems(&format!("packages: [{packages}]"));
    assert_eq!(file(""), ["1: packages is empty; list at least one package"]);
    assert_eq!(file("{locks: {files: [a]}}"), ["1: the package has no name; give it a package_id"]);
    assert_eq!(file("{id: x}"), ["1: package \"x\" has no locks"]);
    assert_eq!(file("x"), ["1: a package is text and should be a mapping with a name and locks"]);
    let twice = file("{id: x, locks: {files: [a]}}, {id: x, locks: {files: [b]}}");
    assert_eq!(twice, ["1: there are two packages called \"x\""]);
    let overlap = |one: &str, other: &str| {
        let text = format!("packages:\n- {{id: p, locks: {one}}}\n- {{name: q, locks: {other}}}\n");
        parse::packages(text.as_bytes()).err().map(|problems| problems.len())
    };
    for (one, other, count) in [
        ("{files: [a]}", "{files: [b]}", None),
        ("{files: [a]}", "{files: [a]}", Some(1)),
        ("{files: [a/b/c]}", "{files: [a]}", Some(1)),
        ("{files: [a/b, c/]}", "{files: ['a/*', c/d]}", Some(2)),
        ("{files: ['*.rs']}", "{files: ['a.*']}", Some(1)),
        ("{keys: ['flag:x/*']}", "{keys: ['flag:x/y', 'flag:z']}", Some(1)),
        ("{keys: ['db:schema:a']}", "{keys: ['db:schema:a']}", Some(1)),
        ("{keys: ['db:schema:a']}", "{files: ['file:db:schema:a']}", None),
    ] {
        assert_eq!(overlap(one, other), count, "{one} {other}");
        assert_eq!(overlap(other, one), count, "{one} {other}");
    }
    let both = problems("locks: {files: [a]}\npackages: [{id: x, locks: {files: [b]}}]\n");
    assert_eq!(both, ["2: a file has either locks or packages; move locks into one of the packages"]);
    let many: String =
        (0..200).map(|n| format!("- {{id: p{n}, locks: {{files: ['a{n}/*.rs', 'b{n}/*.rs']}}}}\n")).collect();
    assert_eq!(problems(&format!("packages:\n{many}")).len(), 1, "too many patterns to compare");
}

proptest::proptest! {
    #[test]
    fn no_package_is_too_strange(text in "(locks|packages|id|contracts|generated|openapi|files|keys|ttl_minutes|[-a1:{}\\[\\]&*!|\"#,? \n\t]){0,40}") {
        let _ = parse::packages(text.as_bytes());
    }
}
