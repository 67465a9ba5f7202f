//! A data directory that is full or read-only.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::world::{Run, World, skip};

/// A small file system, mounted for one test.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Disk> {
        std::fs::create_dir_all(at).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]).arg(at).try_run();
        done.is_ok_and(|done| done.status.success()).then(|| Disk(at.to_owned()))
    }

    fn remount(&self, options: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).run();
        assert!(done.status.success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).try_run();
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    // Declared first, so that the server ends before its disk is unmounted.
    let disk;
    let mut world = World::not_started();
    world.git_init("repo");
    match Disk::mount(&world.path("repo/.git/dibs")) {
        Some(mounted) => disk = mounted,
        None => return skip("a full disk and a read-only one, because a tmpfs cannot be mounted here"),
    }
    world.start();
    let mut acknowledged = Vec::new();
    let ana = world.session("ana");
    for n in 0.. {
        let key = format!("file{n}");
        let answer = ana.reserve(json!({ "filePath": key, "ttlSeconds": 300, "reason": "x".repeat(1000) }));
        if answer.status != 200 {
            answer.refused("UNAVAILABLE");
            break;
        }
        acknowledged.push(format!("ana {key}"));
        assert!(n < 10_000, "a megabyte never gets full");
    }
    let ended = world.wait();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("no room left") && ended.stderr.contains("free some space"), "{}", ended.stderr);
    assert!(acknowledged.len() > 10, "it was not full from the start");

    let full = world.start_and_fail();
    assert_eq!(full.status.code(), Some(1), "{}", full.stderr);
    // The ledger may have logged something before.
    let last = full.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("git-dibs: ") && full.stdout.is_empty(), "{}", full.stderr);

    disk.remount("size=16m");
    world.start();
    assert_eq!(world.held(), acknowledged);
    world.session("ana").hold("one more");
    assert_eq!(world.stop().status.code(), Some(0));

    disk.remount("ro");
    let read_only = world.start_and_fail();
    assert_eq!(read_only.status.code(), Some(1));
    assert!(read_only.stderr.contains("Read-only file system"), "{}", read_only.stderr);
    disk.remount("rw");
    world.start();
    assert_eq!(world.held().len(), acknowledged.len() + 1);
}
