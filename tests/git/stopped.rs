//! A holder that slept through its time: what it does when it wakes up is refused, as if it had never held anything.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::server::Server;
use crate::world::World;

/// What the holder does: commits while it holds `a`, prepares a second commit, says so, and goes on once it is told to.
const HOLDER: &str = r#"
    export PATH="$TOP/bin:$PATH"
    git dibs reserve a --ttl 1 >/dev/null
    echo mine >>a; git commit -qam first
    echo mine >>a; git add a
    echo ready
    read -r go
    git commit -qm second 2>&1 && echo committed
    git push 2>&1 && echo pushed
    echo over
"#;

#[test]
fn a_holder_stopped_past_its_time_neither_commits_nor_pushes() {
    let world = World::with_hooks(true);
    let server = Server::start(&world);
    let mut bo = server.session("bo", &["--name", "Bo"]);
    let mut command = world.program("work");
    command.args(["run", "--quiet", "--id", "ana", "--", "sh", "-c", HOLDER]).env("DIBS_URL", &server.url);
    // A group of its own: the command, its children and whoever keeps its session alive are stopped together.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let group = holder.id().cast_signed();
    let signal = |signal: i32| {
        // SAFETY: plain numbers; nobody has waited for the leader of the group, so it is still ours.
        assert_eq!(unsafe { libc::kill(-group, signal) }, 0);
    };
    let (mut stdin, mut stdout) = (holder.stdin.take().unwrap(), BufReader::new(holder.stdout.take().unwrap()));
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    if line != "ready\n" {
        signal(libc::SIGKILL);
        panic!("{line}{:?}", holder.wait_with_output().unwrap());
    }

    signal(libc::SIGSTOP);
    // In the queue until the time of whoever sleeps has run out.
    bo.wait_for("a");
    let before = world.shell("origin.git", "git rev-parse main");
    std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
    signal(libc::SIGCONT);
    let mut told = String::new();
    stdout.read_to_string(&mut told).unwrap();
    let ended = holder.wait_with_output().unwrap();
    let told = format!("{told}{}", String::from_utf8_lossy(&ended.stderr));

    assert!(told.contains("this commit is blocked: it changes a path that another session holds"), "{told}");
    assert!(told.contains("this push is blocked: it changes a path that another session holds"), "{told}");
    assert_eq!(told.matches("  a: held by Bo (bo), ").count(), 2, "{told}");
    assert!(told.contains("over\n") && !told.contains("committed") && !told.contains("pushed"), "{told}");
    assert_eq!(world.shell("origin.git", "git rev-parse main"), before);
    assert_eq!(world.shell("work", "git log --format=%s -1"), "first\n");
}
