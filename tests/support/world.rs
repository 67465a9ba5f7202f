//! A real server on a real repository, spoken to over real sockets.
//!
//! Every [`World`] has a directory of its own, so that tests run beside each other; nothing of the user's git
//! configuration or environment reaches it. It can be killed, stopped and started again on the same data.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::document::Document;
use super::http::{Answer, Connection, Door};
use super::mint;

/// How long something observable may take to come about before the test gives up.
const DEADLINE: Duration = Duration::from_secs(30);

pub struct World {
    home: TempDir,
    args: Vec<String>,
    env: Vec<(String, String)>,
    server: Option<Server>,
    starts: u32,
}

struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// What it said about itself on its first line.
    record: Value,
    tcp: Door,
    unix: Door,
}

/// A session with its token.
pub struct Session<'w> {
    pub world: &'w World,
    pub id: String,
    pub token: String,
}

/// What a server left behind when it ended by itself.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    /// One repository, called `repo`, and its server.
    pub fn new() -> World {
        World::with(&[])
    }

    /// The same with more arguments.
    pub fn with(args: &[&str]) -> World {
        let mut world = World::not_started();
        world.git_init("repo");
        world.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        world.start();
        world
    }

    /// One repository whose server has this configuration file.
    pub fn configured(config: &str) -> World {
        let mut world = World::not_started();
        world.git_init("repo");
        world.configure(config);
        world.start();
        world
    }

    /// Writes the configuration file, which the next server reads.
    pub fn configure(&mut self, config: &str) {
        let path = self.path("dibs.toml");
        fs::write(&path, config).unwrap();
        let args = ["--config".to_owned(), path.to_str().unwrap().to_owned()];
        if !self.args.contains(&args[0]) {
            self.args(&args);
        }
    }

    /// A home without a repository in it; whoever wants something special begins here.
    pub fn not_started() -> World {
        let home = tempfile::Builder::new().prefix("dibs").tempdir().unwrap();
        World { home, args: Vec::new(), env: Vec::new(), server: None, starts: 0 }
    }

    /// A server of two repositories with these names, and the directory of its data.
    pub fn of_two(names: [&str; 2]) -> (World, PathBuf) {
        let mut world = World::not_started();
        names.iter().for_each(|name| world.git_init(name));
        let data = world.path("data");
        let repos = names.map(|name| format!("{name}={}", world.path(name).display()));
        world.args(&["--repo", &repos[0], "--repo", &repos[1], "--data", data.to_str().unwrap()]);
        world.start();
        (world, data)
    }

    pub fn args<S: AsRef<str>>(&mut self, args: &[S]) {
        self.args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
    }

    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// A path in the scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn git_init(&self, name: &str) {
        let done = self.command("git").args(["init", "--quiet", name]).status().unwrap();
        assert!(done.success());
    }

    /// A program that sees nothing of the environment the tests run in.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home.path()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.current_dir(self.home.path());
        command
    }

    /// `git-dibs` with these arguments, in the repository.
    pub fn dibs(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_git-dibs"));
        let repo = self.path("repo");
        command.current_dir(if repo.is_dir() { repo } else { self.home.path().to_owned() }).args(args);
        command
    }

    fn serve(&mut self) -> Child {
        self.starts += 1;
        let stderr = File::create(self.path(&format!("stderr-{}", self.starts))).unwrap();
        let mut command = self.dibs(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.args(&self.args).envs(self.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
    }

    /// Starts a server and waits until it says where it listens.
    #[track_caller]
    pub fn start(&mut self) {
        if let Err(ended) = self.try_start() {
            panic!("the server did not start ({}): {}{}", ended.status, ended.stdout, ended.stderr);
        }
    }

    /// The same for one that may give up before it listens.
    pub fn try_start(&mut self) -> Result<(), Ended> {
        assert!(self.server.is_none());
        let mut child = self.serve();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut stdout = String::new();
        out.read_line(&mut stdout).unwrap();
        let Ok(record) = serde_json::from_str::<Value>(&stdout) else {
            let status = child.wait().unwrap();
            return Err(Ended { status, stdout, stderr: self.stderr() });
        };
        let address = record["url"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        let unix = Door::Unix(record["socket"].as_str().unwrap().into());
        self.server = Some(Server { child, stdout: out, record, tcp: Door::Tcp(address), unix });
        Ok(())
    }

    /// Starts a server that is expected to give up.
    pub fn start_in_vain(&mut self) -> Ended {
        let child = self.serve();
        let done = child.wait_with_output().unwrap();
        Ended { status: done.status, stdout: String::from_utf8(done.stdout).unwrap(), stderr: self.stderr() }
    }

    pub fn signal(&self, signal: i32) {
        let pid = self.server().child.id() as i32;
        // SAFETY: the process is a child of ours that nobody has waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Pulls the plug.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }

    /// Tells the server to stop, and waits until it has.
    pub fn stop(&mut self) -> Ended {
        self.signal(libc::SIGTERM);
        self.wait()
    }

    /// Waits for the server to end by itself.
    pub fn wait(&mut self) -> Ended {
        let mut server = self.server.take().unwrap();
        let status = until("the server ends", || server.child.try_wait().unwrap());
        let mut stdout = String::new();
        server.stdout.read_to_string(&mut stdout).unwrap();
        Ended { status, stdout, stderr: self.stderr() }
    }

    /// What the latest server has said on stderr so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.path(&format!("stderr-{}", self.starts))).unwrap()
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    /// What the server said about itself when it started.
    pub fn record(&self) -> &Value {
        &self.server().record
    }

    pub fn tcp(&self) -> Door {
        self.server().tcp.clone()
    }

    pub fn unix(&self) -> Door {
        self.server().unix.clone()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.server().tcp).unwrap()
    }

    /// The secret the server made for itself.
    pub fn secret(&self) -> Vec<u8> {
        secret_in(&self.path("repo/.git/dibs"))
    }

    /// A token of the server's secret with these claims; see [`mint::claims`].
    pub fn token(&self, claims: Value) -> String {
        mint::hs256(&mint::claims(claims), &self.secret())
    }

    pub fn admin(&self) -> String {
        self.token(json!({ "sub": "ops", "scope": "admin", "name": "Ops" }))
    }

    /// Good for a month, so that it outlives a clock that is moved.
    pub fn reader(&self) -> String {
        self.token(json!({ "sub": "looker", "scope": "read", "exp": mint::now() + 30 * 24 * 3600 }))
    }

    /// A session that has not called yet.
    pub fn session(&self, id: &str) -> Session<'_> {
        self.session_with(id, json!({}))
    }

    /// A session whose token says more.
    pub fn session_with(&self, id: &str, mut claims: Value) -> Session<'_> {
        claims["sub"] = id.into();
        Session { world: self, id: id.to_owned(), token: self.token(claims) }
    }

    #[track_caller]
    pub fn get(&self, target: &str, token: &str) -> Answer {
        self.ask("GET", target, token, None)
    }

    #[track_caller]
    pub fn post(&self, target: &str, token: &str, body: Value) -> Answer {
        self.ask("POST", target, token, Some(body))
    }

    #[track_caller]
    pub fn delete(&self, target: &str, token: &str, body: Value) -> Answer {
        self.ask("DELETE", target, token, Some(body))
    }

    /// One call on a connection of its own; no token where that is empty.
    #[track_caller]
    pub fn ask(&self, method: &str, target: &str, token: &str, body: Option<Value>) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", &*bearer), ("content-type", "application/json")];
        if token.is_empty() {
            headers.remove(0);
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.send(method, target, &headers, &body)
    }

    /// The same with whatever headers and body.
    #[track_caller]
    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let answer = self.connect().ask(method, target, headers, body);
        let answer = answer.unwrap_or_else(|error| panic!("{method} {target}: {error}\n{}", self.stderr()));
        if method != "HEAD" {
            answer.keeps_the_ground_rules();
            Document::checked_in().knows(method, target, &answer);
        }
        answer
    }

    /// Everything that is held, the oldest first.
    #[track_caller]
    pub fn reservations(&self) -> Vec<Value> {
        let mut list = self.get("/api/reservations?limit=1000", &self.reader()).ok();
        assert!(list.get("nextCursor").is_none(), "there is more than one page");
        serde_json::from_value(list["reservations"].take()).unwrap()
    }

    /// What is held, as `session key`.
    #[track_caller]
    pub fn held(&self) -> Vec<String> {
        let text = |one: &Value| format!("{} {}", text(&one["sessionId"]), text(&one["filePath"]));
        self.reservations().iter().map(text).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        if std::thread::panicking() && self.starts > 0 {
            eprintln!("the server said: {}", self.stderr());
        }
    }
}

impl Session<'_> {
    /// `POST /api/sessions/{id}/{call}`
    #[track_caller]
    pub fn post(&self, call: &str, body: Value) -> Answer {
        self.world.post(&self.url(call), &self.token, body)
    }

    /// `GET /api/sessions/{id}/{call}`
    #[track_caller]
    pub fn get(&self, call: &str) -> Answer {
        self.world.get(&self.url(call), &self.token)
    }

    #[track_caller]
    pub fn reserve(&self, body: Value) -> Answer {
        self.post("files/reserve", body)
    }

    /// Reserves one key, which must be free.
    #[track_caller]
    pub fn hold(&self, key: &str) -> Value {
        self.reserve(json!({ "filePath": key })).ok()
    }

    /// Releases one key.
    #[track_caller]
    pub fn release(&self, key: &str) -> Value {
        self.post("files/release", json!({ "filePath": key })).ok()
    }

    #[track_caller]
    pub fn end(&self) -> Value {
        self.post("end", json!({})).ok()
    }

    pub fn url(&self, call: &str) -> String {
        format!("/api/sessions/{}/{call}", self.id)
    }

    /// Asks, and waits in a thread for the answer; comes back once the request is in the queue.
    #[track_caller]
    pub fn queue<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, body: Value) -> Waiting<'s> {
        let (reader, target) = (self.world.reader(), format!("/api/sessions/{}", self.id));
        let waits = || match self.world.get(&target, &reader) {
            answer if answer.status == 404 => 0,
            answer => answer.ok()["waitingFor"].as_array().unwrap().len(),
        };
        let before = waits();
        let waiting = scope.spawn(move || self.reserve(body));
        until("the request waits", || (waits() > before).then_some(()));
        waiting
    }
}

/// The answer that will come to a request that waits.
pub type Waiting<'s> = std::thread::ScopedJoinHandle<'s, Answer>;

/// The secret in a server's directory.
pub fn secret_in(dir: &Path) -> Vec<u8> {
    fs::read_to_string(dir.join("secret")).unwrap().trim_end().as_bytes().to_vec()
}

/// Looks again and again until there is something to see.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < DEADLINE, "it never came about that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A value that must be text.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}"))
}

/// A time as the contract writes them, in milliseconds since 1970.
#[track_caller]
pub fn time(value: &Value) -> i64 {
    let written = text(value);
    assert!(written.ends_with('Z'), "not UTC: {written}");
    written.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{written}: {error}")).as_millisecond()
}

/// Tells whoever runs the tests that this one could not be done here; `./test` repeats it in its last line.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(file) = std::env::var_os("DIBS_TEST_SKIPS") {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
        writeln!(file, "{why}").unwrap();
    }
}
