//! Programs that know several nodes go on at the next one when one is gone.

use std::process::{Command, Output};

use serde_json::json;

use crate::support::process::Process;
use crate::world::{Run, World, has_etcd, until};

/// `git dibs` in a clone that knows nothing of a server, as the session ana.
fn ana(world: &World, args: &[&str]) -> Command {
    let mut command = world.dibs(args);
    command.current_dir(world.path("clone")).env("DIBS_TOKEN", world.token(json!({ "sub": "ana", "repo": "repo" })));
    command
}

fn clone(world: &World) {
    assert!(world.command("git").args(["init", "--quiet", "clone"]).run().status.success());
}

fn urls(world: &World, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|node| world.node(*node).url().to_owned()).collect()
}

#[track_caller]
fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn is_held(world: &World, path: &str) -> bool {
    world.reservations().iter().any(|one| one["filePath"] == path)
}

#[test]
fn a_client_with_several_urls_goes_on_at_the_next_node() {
    if !has_etcd() {
        return;
    }
    let mut world = World::with(2);
    clone(&world);
    let (leader, follower) = (world.leader(), world.follower());
    let urls = urls(&world, &[follower, leader]);
    let both = urls.join(",");
    succeeded(ana(&world, &["reserve", "a"]).env("DIBS_URL", &both).run());
    for url in &urls {
        let args = ["config", "--global", "--add", "dibs.url", url];
        assert!(world.command("git").args(args).run().status.success());
    }
    succeeded(ana(&world, &["reserve", "b"]).run());

    // It accepts connections and answers nothing.
    world.node(follower).signal(libc::SIGSTOP);
    succeeded(ana(&world, &["reserve", "c"]).env("DIBS_URL", &both).run());
    succeeded(ana(&world, &["reserve", "d"]).run());
    world.node(follower).signal(libc::SIGCONT);

    world.kill_node(follower);
    succeeded(ana(&world, &["reserve", "e"]).env("DIBS_URL", &both).run());
    let listed = succeeded(ana(&world, &["status", "--json"]).run());
    for path in ["a", "b", "c", "d", "e"] {
        assert!(listed.contains(&format!("\"filePath\":\"{path}\"")), "{path} in {listed}");
    }
    let alone = ana(&world, &["status"]).env("DIBS_URL", &urls[0]).run();
    assert!(!alone.status.success(), "the killed node is gone");
}

#[test]
fn a_client_leaves_a_node_that_cannot_serve() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    clone(&world);
    // Other nodes cannot reach the leader, so they cannot serve.
    let mut command = world.changed(&world.serve(0), "--advertise", Some("http://127.0.0.1:1"));
    world.start_node_with(0, &mut command);
    world.leader();
    world.start_node(1);
    world.readyz(1, 503, "cannot be reached");
    let both = urls(&world, &[1, 0]);
    succeeded(ana(&world, &["reserve", "a"]).env("DIBS_URL", both.join(",")).run());
    assert_eq!(
        world.session("bo").post_at(0, "files/check-conflicts", json!({ "paths": ["a"] })).unwrap().ok()["conflicts"]
            [0]["filePath"],
        "a"
    );
    let alone = ana(&world, &["reserve", "b"]).env("DIBS_URL", &both[0]).run();
    assert!(String::from_utf8_lossy(&alone.stderr).contains("node n0 cannot be reached"), "{alone:?}");
}

#[test]
fn a_command_in_a_session_goes_on_at_the_next_node() {
    if !has_etcd() {
        return;
    }
    let mut world = World::with(2);
    clone(&world);
    let (leader, follower) = (world.leader(), world.follower());
    let both = urls(&world, &[follower, leader]).join(",");
    // The command waits for a file, then reserves once more; git-dibs ends its session afterwards.
    let script = "git-dibs reserve first && until [ -e ../go ]; do sleep 0.05; done && git-dibs reserve second && touch ../done \
                  && until [ -e ../end ]; do sleep 0.05; done";
    let mut run = ana(&world, &["run", "--", "sh", "-c", script]);
    let program = std::path::Path::new(crate::world::PROGRAM).parent().unwrap();
    let path = std::env::join_paths(
        [program.into()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    run.env("DIBS_URL", &both).env("PATH", path.unwrap()).env("DIBS_TOKEN", world.admin());
    let process = Process::start_group(&mut run).unwrap();
    until("the first is held", || is_held(&world, "first").then_some(()));
    world.kill_node(follower);
    std::fs::write(world.path("go"), "").unwrap();
    until("the second is held", || is_held(&world, "second").then_some(()));
    std::fs::write(world.path("end"), "").unwrap();
    succeeded(process.finish());
    assert!(world.reservations().is_empty(), "the session has ended");
}
