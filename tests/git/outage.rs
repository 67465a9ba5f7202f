//! A server that freezes while git runs many hooks, or whose reply does not arrive completely.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::json;

use crate::support::process::until;
use crate::world::{World, said};

/// Three commits to pick, each of which runs hooks.
const COMMITS: &str =
    "git switch -q -c side; for n in 1 2 3; do echo $n >>b; git commit -qam \"side $n\"; done; git switch -q main";

#[test]
fn a_frozen_server_is_reported_once_for_a_cherry_pick() {
    let world = World::with_hooks(false).served();
    world.shell("work", COMMITS);
    world.signal(libc::SIGSTOP);
    let output = world.try_shell("work", "git cherry-pick main..side", &[]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("was not checked").count(), 1, "{text}");
    // Another command says it again, and a push is blocked with the reason.
    let text = said(&world.try_shell("work", "echo 1 >>c; git commit -qam c", &[]));
    assert_eq!(text.matches("was not checked").count(), 1, "{text}");
    let output = world.try_shell("work", "git push", &[]);
    assert!(!output.status.success() && said(&output).contains("did not reply within"), "{}", said(&output));
    world.signal(libc::SIGCONT);
}

#[test]
fn a_server_that_is_back_is_asked_at_once() {
    let world = World::with_hooks(false).served();
    let ana = world.session("ana");
    ana.hold("a");
    world.signal(libc::SIGSTOP);
    let text = said(&world.try_shell("work", "echo 1 >>b; git commit -qam b", &[]));
    assert!(text.contains("was not checked"), "{text}");
    assert!(world.path("work/.git/dibs/outage").exists());
    world.signal(libc::SIGCONT);
    until("the server answers", || (world.get("/healthz", "").status == 200).then_some(()));
    let output = world.try_shell("work", "echo 1 >>a; git commit -qam a", &[]);
    assert!(said(&output).contains("this commit is blocked"), "{}", said(&output));
    assert!(!world.path("work/.git/dibs/outage").exists());
}

/// What arrives of each reply of a server that is slow or fails: its head and a few conflicts, but not all of them.
const ARRIVES: usize = 1500;

/// Passes requests on to the server, and the beginning of each reply back. Then closes, or keeps silent.
fn cut_replies(server: SocketAddr, closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut to_server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (mut requests, mut replies) = (client.try_clone().unwrap(), to_server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut requests, &mut to_server));
            std::thread::spawn(move || {
                let mut begin = Vec::new();
                let _ = (&mut replies).take(ARRIVES as u64).read_to_end(&mut begin);
                let _ = client.write_all(&begin);
                // The client leaves when it has waited long enough.
                if !closes {
                    let _ = client.read(&mut [0]);
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

/// A slowed server let a commit pass that should have been refused.
#[test]
fn a_reply_that_is_cut_short_still_blocks() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let paths: Vec<String> = (0..30).map(|n| format!("many/{n}")).collect();
    ana.reserve(json!({ "filePaths": paths })).ok();
    world.shell("work", "mkdir many; for n in $(seq 0 29); do echo 1 >many/$n; done; git add many");
    let server = world.url().strip_prefix("http://").unwrap().parse().unwrap();
    for closes in [true, false] {
        let url = format!("http://{}", cut_replies(server, closes));
        let variables = [("DIBS_URL", &*url), ("DIBS_TOKEN", &*bo.token)];
        let output = world.try_shell("work", "git commit -qm many", &variables);
        let text = said(&output);
        assert!(!output.status.success() && text.contains("this commit is blocked"), "{closes}: {text}");
        assert!(text.contains("many/0: held by ana"), "{closes}: {text}");
    }
}
