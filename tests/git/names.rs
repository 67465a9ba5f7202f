//! Names that break programs: every byte git allows is kept from the index to the request.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use git_dibs::git::changed::{After, Change, between, staged};
use git_dibs::git::{Repo, range};

use crate::world::World;

pub const NAMES: [&[u8]; 22] = [
    b"with space",
    b"\"quoted\"",
    b"it's",
    b"new\nline",
    b"tab\there",
    b"comma,comma",
    b"[id].ts",
    b"{a,b}",
    b"star*",
    b"-rf",
    b"--help",
    b"#hash",
    b":(exclude)x",
    b"!bang",
    b"~tilde",
    b"back\\slash",
    b"trailing ",
    b"cafe\xcc\x81",
    b"caf\xc3\xa9",
    b"\xff\xfe not utf-8",
    b"\x01\x1b[2J",
    b"C:drive",
];

#[test]
fn unusual_names_are_returned_unchanged() {
    let world = World::new();
    let work = world.path("work");
    let odd = work.join(OsStr::from_bytes(b"odd \xff dir"));
    std::fs::create_dir(&odd).unwrap();
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for name in NAMES {
        std::fs::write(work.join(OsStr::from_bytes(name)), "1").unwrap();
        std::fs::write(odd.join(OsStr::from_bytes(name)), "1").unwrap();
        expected.push(name.to_vec());
        expected.push([b"odd \xff dir/", name].concat());
    }
    expected.sort();
    world.shell("work", "git config core.quotePath true; git add -A");
    let repo = Repo::at(&work).unwrap();
    assert_eq!(paths(staged(&repo).unwrap()), expected);
    world.shell("work", "git commit -qm odd");
    assert_eq!(paths(range::written(&repo, "origin/main..HEAD").unwrap().changes()), expected);
    let head = repo.commit("HEAD").unwrap().unwrap();
    assert_eq!(paths(between(&repo, "HEAD^", After::Commit(&head)).unwrap()), expected);
}

fn paths(changes: Vec<Change>) -> Vec<Vec<u8>> {
    changes.into_iter().map(|change| change.path).collect()
}

#[test]
fn an_invalid_range_is_an_error_and_not_an_empty_list() {
    let world = World::new();
    let repo = Repo::at(&world.path("work")).unwrap();
    for range in ["nowhere..HEAD", "--all", "HEAD..\n--all", ""] {
        let answer = range::written(&repo, range);
        assert!(answer.is_err(), "{range:?} gave {answer:?}");
    }
    assert_eq!(range::written(&repo, "HEAD..HEAD").unwrap().changes(), []);
}
