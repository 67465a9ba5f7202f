//! What the hooks cost, beside what one would have instead: hooks that do nothing, and git's own reading.
//!
//! `cargo bench --bench hook` prints medians of runs that took turns, and how they compare; `-- small` and the other words
//! in [`main`] pick some of the rows. Real git as it is without any settings, real hooks, a real server on this machine.
//! Nothing is asserted; the ratios are what matters.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use git_dibs::client::{Client, Credential, Endpoint, Limits, Origin};
use git_dibs::wire;

const PROGRAM: &str = env!("CARGO_BIN_EXE_git-dibs");
const SMALL: usize = 30;
const LARGE: usize = 100_000;
const COMMITS: usize = 5_000;

fn main() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let place = Place { dir: scratch.path().to_owned() };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    println!(
        "{:<66} {:>9} {:>9} {:>7} {:>7}",
        "median ms, and ratio by wall and by CPU time", "here", "beside", "wall", "CPU"
    );
    let quiet = Server::start(&place, "quiet");
    if wants("commit") || wants("small") {
        commits(&place, &quiet, "small", SMALL, 200);
    }
    if wants("commit") || wants("large") {
        commits(&place, &quiet, "large", LARGE, 15);
    }
    let busy = Server::start(&place, "busy");
    if wants("push") {
        busy.hold(10_000);
        pushes(&place, &busy);
    }
    if wants("range") {
        busy.hold(10_000);
        range(&place, &busy);
    }
    if wants("others") {
        busy.hold(100_000);
        others(&place, &quiet, &busy);
    }
}

/// A commit of one file, with our hooks and with hooks that do nothing.
fn commits(place: &Place, server: &Server, name: &str, files: usize, rounds: usize) {
    let repo = place.repository(name, files);
    let change = |n: usize| {
        fs::write(repo.join("d0/f0"), format!("{n}\n")).expect("a file");
        place.git(&repo, &["add", "d0/f0"]);
    };
    let commit = |hooks: &str, n: usize| {
        change(n);
        place.use_hooks(&repo, hooks);
        time(place.command(&repo, "git").args(["commit", "-q", "-m", "m"]).envs(server.variables()))
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

/// A push of one commit while others hold 10,000 keys.
fn pushes(place: &Place, server: &Server) {
    let repo = place.repository("pushed", SMALL);
    let mut n = 0;
    let samples = turns(40, &["dibs", "no-op"], |hooks| {
        n += 1;
        place.use_hooks(&repo, "none");
        fs::write(repo.join("d0/f0"), format!("{n}\n")).expect("a file");
        place.git(&repo, &["commit", "-q", "-a", "-m", "m"]);
        place.use_hooks(&repo, hooks);
        time(place.command(&repo, "git").args(["push", "-q"]).envs(server.variables()))
    });
    row("push of one commit, 10000 keys held by others, beside a no-op hook", &samples[0], &samples[1]);
}

/// The hook of a push of 5,000 commits, beside git reading them.
fn range(place: &Place, server: &Server) {
    let repo = place.repository("range", LARGE);
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
    place.import(&repo, &script);
    let tips = [place.git(&repo, &["rev-parse", "main"]), place.git(&repo, &["rev-parse", "origin/main"])];
    let updates = place.dir.join("updates");
    fs::write(&updates, format!("refs/heads/main {} refs/heads/main {}\n", tips[0], tips[1])).expect("a file");
    place.use_hooks(&repo, "dibs");
    let origin = place.dir.join("range.git");
    let (stdin, origin) = (format!("--to-stdin={}", updates.display()), origin.to_str().expect("text"));
    let samples = turns(9, &["hook", "log"], |what| {
        let mut command = place.command(&repo, "git");
        match what {
            "hook" => {
                command.args(["hook", "run", &stdin, "pre-push", "--", "origin", origin]).envs(server.variables())
            }
            _ => command.args(["log", "--name-only", "origin/main..main"]),
        };
        time(&mut command)
    });
    row(&format!("hook of a push of {COMMITS} commits, beside git log --name-only"), &samples[0], &samples[1]);
}

/// The same commit while nobody holds anything, and while others hold 100,000 keys that are not in its way.
fn others(place: &Place, quiet: &Server, busy: &Server) {
    let repo = place.repository("others", SMALL);
    place.use_hooks(&repo, "dibs");
    let mut n = 0;
    let samples = turns(60, &["busy", "quiet"], |server| {
        n += 1;
        fs::write(repo.join("d0/f0"), format!("{n}\n")).expect("a file");
        place.git(&repo, &["add", "d0/f0"]);
        let server = if server == "busy" { busy } else { quiet };
        time(place.command(&repo, "git").args(["commit", "-q", "-m", "m"]).envs(server.variables()))
    });
    row("commit, 100000 keys held by others, beside none", &samples[0], &samples[1]);
}

// ---- measuring ----

/// How long something took, and how much of it the processors worked for it.
#[derive(Clone, Copy)]
struct Sample {
    wall: Duration,
    cpu: Duration,
}

/// Runs each in turn, so that whatever else this machine does meets all of them.
fn turns(rounds: usize, names: &[&str], mut run: impl FnMut(&str) -> Sample) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); names.len()];
    for round in 0..=rounds {
        for (at, name) in names.iter().enumerate() {
            let sample = run(name);
            // The first round only warms up.
            if round > 0 {
                samples[at].push(sample);
            }
        }
    }
    samples
}

fn time(command: &mut Command) -> Sample {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let (begun, cpu) = (Instant::now(), children_cpu());
    assert!(command.status().expect("it starts").success(), "{command:?}");
    Sample { wall: begun.elapsed(), cpu: children_cpu() - cpu }
}

fn children_cpu() -> Duration {
    // SAFETY: zeros are a value of this struct of numbers, which getrusage then fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

fn row(what: &str, here: &[Sample], beside: &[Sample]) {
    let median = |samples: &[Sample], of: fn(&Sample) -> Duration| {
        let mut all: Vec<f64> = samples.iter().map(|sample| of(sample).as_secs_f64() * 1000.0).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let wall: fn(&Sample) -> Duration = |sample| sample.wall;
    let cpu: fn(&Sample) -> Duration = |sample| sample.cpu;
    let (here_wall, beside_wall) = (median(here, wall), median(beside, wall));
    let by_cpu = median(here, cpu) / median(beside, cpu);
    println!("{what:<66} {here_wall:>9.1} {beside_wall:>9.1} {:>6.2}x {by_cpu:>6.2}x", here_wall / beside_wall);
}

// ---- the place ----

struct Place {
    dir: PathBuf,
}

impl Place {
    fn command(&self, dir: &Path, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).env("HOME", &self.dir).env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "B").env(format!("GIT_{who}_EMAIL"), "b@x");
        }
        command
    }

    fn git(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.command(dir, "git").args(args).output().expect("git starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn import(&self, repo: &Path, script: &[u8]) {
        let mut command = self.command(repo, "git");
        let mut child = command.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().expect("git starts");
        child.stdin.take().expect("a pipe").write_all(script).expect("git reads");
        assert!(child.wait().expect("git ends").success());
    }

    /// A repository with so many files, a remote that has them, and sets of hooks to choose from.
    fn repository(&self, name: &str, files: usize) -> PathBuf {
        let (repo, remote) = (self.dir.join(name), format!("{name}.git"));
        self.git(&self.dir, &["init", "-q", "--template=", "-b", "main", name]);
        self.git(&self.dir, &["init", "-q", "--template=", "--bare", "-b", "main", &remote]);
        let mut script = b"commit refs/heads/main\ncommitter B <b@x> 1 +0000\ndata 1\nm\n".to_vec();
        for file in 0..files {
            write!(script, "M 100644 inline {}\ndata 2\nx\n\n", path(file)).expect("memory");
        }
        self.import(&repo, &script);
        self.git(&repo, &["reset", "-q", "--hard"]);
        self.git(&repo, &["remote", "add", "origin", &format!("../{remote}")]);
        self.git(&repo, &["push", "-q", "-u", "origin", "main"]);

        let hooks = |name: &str| repo.join(".git").join(format!("hooks-{name}"));
        let installed = self.command(&repo, PROGRAM).arg("install").output().expect("the program starts");
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

    fn use_hooks(&self, repo: &Path, name: &str) {
        let hooks = repo.join(".git/hooks");
        let _ = fs::remove_file(&hooks);
        std::os::unix::fs::symlink(format!("hooks-{name}"), hooks).expect("a link");
    }
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

struct Server {
    child: Child,
    url: String,
    token: String,
    /// The repository it believes to serve.
    repo: PathBuf,
    home: PathBuf,
}

impl Server {
    fn start(place: &Place, name: &str) -> Server {
        place.git(&place.dir, &["init", "-q", name]);
        let repo = place.dir.join(name);
        let mut command = place.command(&repo, PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where it is");
        let told: serde_json::Value = serde_json::from_str(&line).expect("as JSON");
        let socket = told["socket"].as_str().map(|path| format!("unix:{path}"));
        let url = socket.unwrap_or_else(|| told["url"].as_str().expect("an address").to_owned());
        let mut server = Server { child, url, token: String::new(), repo, home: place.dir.clone() };
        server.token = server.token_of("bo");
        server
    }

    fn token_of(&self, session: &str) -> String {
        let mut command = Command::new(PROGRAM);
        let output = command.args(["token", session]).current_dir(&self.repo).env("HOME", &self.home).output();
        String::from_utf8(output.expect("the program starts").stdout).expect("a token").trim().to_owned()
    }

    /// What makes hooks ask this server, as a session that holds nothing.
    fn variables(&self) -> [(&str, &str); 2] {
        [("DIBS_URL", &self.url), ("DIBS_TOKEN", &self.token)]
    }

    /// Sees to it that others hold so many keys, none of which the benchmarks touch: files, directories, patterns.
    fn hold(&self, keys: usize) {
        const EACH: usize = 5_000;
        for begin in (0..keys).step_by(EACH) {
            let session = format!("ana-{begin}");
            let credential = Credential::new(&self.token_of(&session), Origin::Environment).expect("a token");
            let endpoint = Endpoint::parse(&self.url).expect("an address");
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
            client.reserve_many(&session, &ask).expect("nobody is in the way");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
