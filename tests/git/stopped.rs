//! A holder that was stopped until its reservation expired: what it does afterwards is refused.

use std::process::Stdio;

use serde_json::json;

use crate::world::{Process, World, said};

/// The holder commits while it holds `a`, prepares a second commit, prints `ready`, and continues after a line of
/// input.
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
fn a_holder_stopped_until_it_expired_neither_commits_nor_pushes() {
    let world = World::with_hooks(true).served();
    let bo = world.session_with("bo", json!({ "name": "Bo" }));
    let mut command = world.program("work");
    command.args(["run", "--quiet", "--id", "ana", "--", "sh", "-c", HOLDER]).env("DIBS_URL", world.url());
    // A group: the command, its children and the heartbeat of its session are stopped together.
    let mut holder = Process::start_group(command.stdin(Stdio::piped())).unwrap();
    assert_eq!(holder.line(), "ready", "{}", holder.stderr().text());

    holder.signal(libc::SIGSTOP);
    // In the queue until the reservation of the stopped session has expired.
    bo.wait_for("a");
    let before = world.shell("origin.git", "git rev-parse main");
    holder.send("go\n");
    holder.signal(libc::SIGCONT);
    let told = said(&holder.finish());

    assert!(told.contains("this commit is blocked: it changes a path that another session holds"), "{told}");
    assert!(told.contains("this push is blocked: it changes a path that another session holds"), "{told}");
    assert_eq!(told.matches("  a: held by Bo (bo), ").count(), 2, "{told}");
    assert!(told.contains("over\n") && !told.contains("committed") && !told.contains("pushed"), "{told}");
    assert_eq!(world.shell("origin.git", "git rev-parse main"), before);
    assert_eq!(world.shell("work", "git log --format=%s -1"), "first\n");
}
