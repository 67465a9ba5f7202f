//! Journals that are copied into a cluster and out of it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::proxy::{Fate, Proxy};
use crate::support::process::Process;
use crate::support::server::Server;
use crate::world::{Run, World, has_etcd, until};

fn reserve(path: &str) -> Value {
    json!({ "filePath": path, "ttlSeconds": 300 })
}

/// The journal of a server of its own, in which ana holds these paths. Returns its directory and the last fence.
fn alone(world: &World, paths: &[&str]) -> (String, u64) {
    let dir = world.path("alone");
    let repository = world.repository(0).display().to_string();
    let mut serve =
        world.dibs(&["serve", "--json", "--listen", "127.0.0.1:0", "--repo", &format!("repo={repository}")]);
    serve.arg("--data").arg(&dir).arg("--secret-file").arg(world.path("secret"));
    let server = Server::start(&mut serve).unwrap_or_else(|ended| panic!("{}", ended.stderr));
    let (at, token) = (crate::http::Address::Tcp(server.tcp()), world.session("ana").token());
    let mut fence = 0;
    for path in paths {
        let answer = world.call_at(&at, "POST", "/api/sessions/ana/files/reserve", &token, Some(&reserve(path)));
        fence = answer.unwrap().ok()["fence"].as_u64().unwrap();
    }
    server.signal(libc::SIGTERM);
    server.wait();
    (dir.display().to_string(), fence)
}

fn import(world: &World, data: &str, address: &str) -> Command {
    world.dibs(&["cluster", "import", data, "--repo", "repo", "--cluster", address])
}

#[test]
fn an_import_that_was_killed_is_never_led_and_can_be_repeated() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    let (data, fence) = alone(&world, &["a", "b", "c"]);
    // The first import has locked its own.
    let copy = world.path("copy").display().to_string();
    assert!(world.command("cp").args(["-r", &data, &copy]).run().status.success());
    // Everything arrives but the last transaction, which makes the journal valid.
    let is_held = Arc::<AtomicBool>::default();
    let keep_the_last = {
        let is_held = is_held.clone();
        move |path: &str, message: &[u8]| {
            let has = |text: &[u8]| message.windows(text.len()).any(|found| found == text);
            let is_last =
                path.ends_with("/Txn") && has(b"live/repo/import") && !has(b"unfinished") && !has(b"journals/");
            is_held.fetch_or(is_last, Ordering::SeqCst);
            if is_last { Fate::IsHeld } else { Fate::Passes }
        }
    };
    let proxy = Proxy::start(&world.members, Box::new(keep_the_last));
    let mut killed = Process::start(&mut import(&world, &data, &proxy.address("dibs"))).unwrap();
    until("all of the journal is copied", || is_held.load(Ordering::SeqCst).then_some(()));

    world.start_node(0);
    world.readyz(0, 503, "is being imported");
    let second = import(&world, &copy, &world.address()).run();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && said.contains("an import of repo runs"), "{said}");
    killed.kill();

    // The lease of the killed import is over soon, and nothing leads what it has left.
    world.readyz(0, 503, "was not finished");
    world.logged(0, "repeat git dibs cluster import");
    let status = world.status_text();
    assert!(status.contains("an import of the journal of repo was not finished"), "{status}");
    let refused = world.session("bo").post_at(0, "files/reserve", reserve("x")).unwrap();
    assert!(refused.status == 503 && refused.to_string().contains("was not finished"), "{refused}");
    let out = world.path("out").display().to_string();
    let exported = world.cluster(&["export", &out, "--repo", "repo"]).run();
    let said = String::from_utf8_lossy(&exported.stderr).into_owned();
    assert!(!exported.status.success() && said.contains("was not finished"), "{said}");

    let again = import(&world, &data, &world.address()).run();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    world.readyz(0, 200, "leader");
    let held = world.reservations();
    assert_eq!(held.len(), 3, "{held:?}");
    assert_eq!(held.iter().filter_map(|one| one["fence"].as_u64()).max(), Some(fence));
    let next = world.session("bo").post("files/reserve", reserve("d")).ok()["fence"].as_u64().unwrap();
    assert!(next > 1 << 40, "{next}");
    let imported_again = import(&world, &data, &world.address()).run();
    let said = String::from_utf8_lossy(&imported_again.stderr).into_owned();
    assert!(said.contains("a node leads repo now"), "{said}");
}

#[test]
fn an_export_that_was_killed_leaves_no_journal_and_can_be_repeated() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(1);
    world.start_node(0);
    world.session("ana").post("files/reserve", reserve("a")).ok();
    let is_held = Arc::<AtomicBool>::default();
    let keep_records = {
        let is_held = is_held.clone();
        move |path: &str, message: &[u8]| {
            let is_record = path.ends_with("/Range") && message.windows(18).any(|text| text == b"journals/repo/log/");
            is_held.fetch_or(is_record, Ordering::SeqCst);
            if is_record { Fate::IsHeld } else { Fate::Passes }
        }
    };
    let proxy = Proxy::start(&world.members, Box::new(keep_records));
    let out = world.path("out");
    let export = |address: &str| {
        world.dibs(&["cluster", "export", out.to_str().unwrap(), "--repo", "repo", "--cluster", address])
    };
    let mut killed = Process::start(&mut export(&proxy.address("dibs"))).unwrap();
    until("it reads the records", || is_held.load(Ordering::SeqCst).then_some(()));
    killed.kill();
    let names = |dir: &std::path::Path| {
        let entries = std::fs::read_dir(dir).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!names(&out).contains("journal.db"), "{:?}", names(&out));
    let again = export(&world.address()).run();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(names(&out).into_iter().collect::<Vec<_>>(), ["journal.db"]);
    let checked = world.dibs(&["db", "check", "--data", out.to_str().unwrap()]).run();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
