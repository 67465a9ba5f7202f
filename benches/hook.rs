//! The cost of the hooks, compared with hooks that do nothing and with git's own reading.
//!
//! `cargo bench --bench hook` prints medians of runs that took turns, and how they compare; `-- small` and the other
//! words in [`main`] select some of the rows. Real git without any settings, real hooks, a real server on this machine.
//! Nothing is asserted; the ratios are what matters.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::http::token;
use common::place::{hook_url, import, scratch, serve};
use common::processes::{row, time, turns};
use common::support::process::Run;
use common::support::server::Server;
use common::support::world::{PROGRAM, World};
use common::table;
use git_dibs::client::{Client, Credential, Endpoint, Limits, Origin};
use git_dibs::wire;

const SMALL: usize = 30;
const LARGE: usize = 100_000;
const HUGE: usize = 300_000;
const COMMITS: usize = 5_000;

fn main() {
    let place = scratch();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    table::head("Hooks, in wall-clock time");
    let quiet = serve(&place, "quiet", &[]);
    if wants("commit") || wants("small") {
        commits(&place, &quiet, "small", SMALL, 200);
    }
    if wants("commit") || wants("large") {
        commits(&place, &quiet, "large", LARGE, 15);
    }
    if wants("push") || wants("small") {
        push_checks(&place, &quiet, "quiet-small", SMALL, 60);
    }
    if wants("push") || wants("large") {
        push_checks(&place, &quiet, "quiet-huge", HUGE, 15);
    }
    let busy = serve(&place, "busy", &[]);
    if wants("push") {
        hold(&busy, 10_000);
        pushes(&place, &busy);
    }
    if wants("range") {
        hold(&busy, 10_000);
        range(&place, &busy);
    }
    if wants("others") {
        hold(&busy, 100_000);
        others(&place, &quiet, &busy);
    }
}

/// A commit of one file, with our hooks and with hooks that do nothing.
fn commits(place: &World, server: &Server, name: &str, files: usize, rounds: usize) {
    let repo = repository(place, name, files);
    let change = |n: usize| {
        fs::write(repo.join("d0/f0"), format!("{n}\n")).expect("a file");
        place.git_in(&repo, &["add", "d0/f0"]);
    };
    let commit = |hooks: &str, n: usize| {
        change(n);
        use_hooks(&repo, hooks);
        time(place.command("git", &repo).args(["commit", "-q", "-m", "m"]).envs(variables(server)))
    };
    let mut n = 0;
    let samples = turns(rounds, &["dibs", "no-op", "no-op-pre-commit", "none"], |hooks| {
        n += 1;
        commit(hooks, n)
    });
    row(&format!("commit, {files} files, beside a no-op in the place of each hook"), &samples[0], &samples[1]);
    row(&format!("commit, {files} files, beside a no-op pre-commit alone"), &samples[0], &samples[2]);
    row(&format!("commit, {files} files, beside no hook at all"), &samples[0], &samples[3]);
}

/// The check of a push of one commit while nothing is held.
fn push_checks(place: &World, server: &Server, name: &str, files: usize, rounds: usize) {
    let repo = repository(place, name, files);
    use_hooks(&repo, "none");
    fs::write(repo.join("d0/f0"), "new\n").expect("a file");
    place.git_in(&repo, &["commit", "-q", "-a", "-m", "m"]);
    let samples = turns(rounds, &["dibs", "no-op"], |hooks| {
        use_hooks(&repo, hooks);
        time(place.command("git", &repo).args(["push", "-q", "--dry-run"]).envs(variables(server)))
    });
    row(&format!("push --dry-run of one commit, {files} files, beside a no-op hook"), &samples[0], &samples[1]);
}

/// A push of one commit while others hold 10,000 keys.
fn pushes(place: &World, server: &Server) {
    let repo = repository(place, "pushed", SMALL);
    let mut n = 0;
    let samples = turns(40, &["dibs", "no-op"], |hooks| {
        n += 1;
        use_hooks(&repo, "none");
        fs::write(repo.join("d0/f0"), format!("{n}\n")).expect("a file");
        place.git_in(&repo, &["commit", "-q", "-a", "-m", "m"]);
        use_hooks(&repo, hooks);
        time(place.command("git", &repo).args(["push", "-q"]).envs(variables(server)))
    });
    row("push of one commit, 10000 keys held by others, beside a no-op hook", &samples[0], &samples[1]);
}

/// The hook of a push of 5,000 commits, beside git reading them.
fn range(place: &World, server: &Server) {
    let repo = repository(place, "range", LARGE);
    let mut script = Vec::new();
    for n in 1..=COMMITS {
        let from = if n == 1 { "refs/heads/main^0".to_owned() } else { format!(":{}", n - 1) };
        write!(script, "commit refs/heads/main\nmark :{n}\ncommitter B <b@x> {n} +0000\ndata 1\nm\nfrom {from}\n")
            .expect("memory");
        for file in 0..3 {
            let file = (n * 7919 + file * 104_729) % LARGE;
            write!(script, "M 100644 inline {}\ndata {}\n{n}\n", path(file), n.to_string().len()).expect("memory");
        }
    }
    import(place, &repo, &script);
    let tips = ["main", "origin/main"].map(|name| place.git_in(&repo, &["rev-parse", name]));
    let updates = place.path("updates");
    fs::write(&updates, format!("refs/heads/main {} refs/heads/main {}\n", tips[0].trim(), tips[1].trim()))
        .expect("a file");
    use_hooks(&repo, "dibs");
    let origin = place.path("range.git");
    let (stdin, origin) = (format!("--to-stdin={}", updates.display()), origin.to_str().expect("text"));
    let samples = turns(9, &["hook", "log"], |what| {
        let mut command = place.command("git", &repo);
        match what {
            "hook" => command.args(["hook", "run", &stdin, "pre-push", "--", "origin", origin]).envs(variables(server)),
            _ => command.args(["log", "--name-only", "origin/main..main"]),
        };
        time(&mut command)
    });
    row(&format!("hook of a push of {COMMITS} commits, beside git log --name-only"), &samples[0], &samples[1]);
}

/// The same commit while nothing is held, and while others hold 100,000 keys that do not conflict.
fn others(place: &World, quiet: &Server, busy: &Server) {
    let repo = repository(place, "others", SMALL);
    use_hooks(&repo, "dibs");
    let mut n = 0;
    let samples = turns(60, &["busy", "quiet"], |server| {
        n += 1;
        fs::write(repo.join("d0/f0"), format!("{n}\n")).expect("a file");
        place.git_in(&repo, &["add", "d0/f0"]);
        let server = if server == "busy" { busy } else { quiet };
        time(place.command("git", &repo).args(["commit", "-q", "-m", "m"]).envs(variables(server)))
    });
    row("commit, 100000 keys held by others, beside none", &samples[0], &samples[1]);
}

// ---- the place ----

/// A repository with this many files, a remote that has them, and sets of hooks to choose from.
fn repository(place: &World, name: &str, files: usize) -> PathBuf {
    let (repo, remote) = (place.path(name), format!("{name}.git"));
    place.git_in("", &["init", "-q", "--template=", "-b", "main", name]);
    place.git_in("", &["init", "-q", "--template=", "--bare", "-b", "main", &remote]);
    let mut script = b"commit refs/heads/main\ncommitter B <b@x> 1 +0000\ndata 1\nm\n".to_vec();
    for file in 0..files {
        write!(script, "M 100644 inline {}\ndata 2\nx\n\n", path(file)).expect("memory");
    }
    import(place, &repo, &script);
    place.git_in(&repo, &["reset", "-q", "--hard"]);
    place.git_in(&repo, &["remote", "add", "origin", &format!("../{remote}")]);
    place.git_in(&repo, &["push", "-q", "-u", "origin", "main"]);

    let hooks = |name: &str| repo.join(".git").join(format!("hooks-{name}"));
    let installed = place.command(PROGRAM, &repo).arg("install").run();
    assert!(installed.status.success());
    fs::rename(repo.join(".git/hooks"), hooks("dibs")).expect("the hooks are there");
    for (name, some) in [("none", &[][..]), ("no-op-pre-commit", &["pre-commit"])] {
        do_nothing(&hooks(name), some);
    }
    do_nothing(
        &hooks("no-op"),
        &["pre-commit", "pre-merge-commit", "prepare-commit-msg", "pre-applypatch", "pre-push"],
    );
    repo
}

fn use_hooks(repo: &Path, name: &str) {
    let hooks = repo.join(".git/hooks");
    let _ = fs::remove_file(&hooks);
    std::os::unix::fs::symlink(format!("hooks-{name}"), hooks).expect("a link");
}

fn do_nothing(dir: &Path, hooks: &[&str]) {
    fs::create_dir(dir).expect("a directory");
    for hook in hooks {
        let file = dir.join(hook);
        fs::write(&file, "#!/bin/sh\nexit 0\n").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
}

/// A hundred files in each directory.
fn path(n: usize) -> String {
    format!("d{}/f{n}", n / 100)
}

// ---- the server ----

/// Variables that make hooks use this server, as a session that holds nothing.
fn variables(server: &Server) -> [(&str, String); 2] {
    [("DIBS_URL", hook_url(server)), ("DIBS_TOKEN", token("bo"))]
}

/// Makes other sessions hold this many keys, none of which the benchmarks touch: files, directories, patterns.
fn hold(server: &Server, keys: usize) {
    const EACH: usize = 5_000;
    for begin in (0..keys).step_by(EACH) {
        let session = format!("ana-{begin}");
        let credential = Credential::new(&token(&session), Origin::Environment).expect("a token");
        let endpoint = Endpoint::parse(&hook_url(server)).expect("an address");
        let limits = Limits { total: Duration::from_secs(60), ..Limits::default() };
        let mut client = Client::new(vec![endpoint], Some(credential), limits).expect("a client");
        let key = |n: usize| match n % 50 {
            0 => format!("other/{n}/"),
            1 => format!("other/{n}/*.rs"),
            _ => format!("other/d{}/f{n}", n % 50),
        };
        let ask = wire::Reserve {
            file_paths: Some((begin..begin + EACH.min(keys - begin)).map(key).collect()),
            ttl_seconds: Some(300),
            ..wire::Reserve::default()
        };
        // What is held already is renewed.
        client.reserve(&session, &ask).expect("nobody is in the way");
    }
}
