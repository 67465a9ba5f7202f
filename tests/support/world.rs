//! A scratch directory with real repositories in it, and a real server.
//!
//! Every [`World`] has a directory of its own, so tests run side by side. Programs see nothing of the user's environment
//! or git configuration. The server can be killed, stopped and started again on the same data. What the repositories
//! look like at the start is up to each test binary: its `world.rs` adds constructors.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::document::Document;
use super::http::{Address, Connection, Response};
use super::mint;
use super::process::{Collector, Run, printed};
use super::server::{Ended, Server};
use super::session::Session;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_git-dibs");

/// Whether programs start a server if none runs.
const AUTOSTART: &str = "DIBS_AUTOSTART";

/// The user's git configuration: a name, and what makes tests fast and repeatable.
const SETTINGS: &str = "\
    [user]\nname = Bo\nemail = bo@example.com\n[init]\ndefaultBranch = main\ntemplateDir =\n\
    [protocol \"file\"]\nallow = always\n[advice]\ndetachedHead = false\n[gc]\nauto = 0\n[maintenance]\nauto = false\n";

pub struct World {
    // Dropped before the directory, which it works in.
    server: Option<Server>,
    dir: TempDir,
    /// The directory of the repository that is served and that `git-dibs` runs in.
    repository: String,
    /// Variables of every program.
    variables: Vec<(String, OsString)>,
    /// Where the next server listens.
    listen: String,
    server_args: Vec<String>,
    server_variables: Vec<(String, String)>,
    /// What the latest server has printed to stderr.
    log: Option<Arc<Collector>>,
}

impl World {
    /// A directory with nothing in it but `home`. `repository` is where the repository will be.
    pub fn empty(repository: &str) -> World {
        World::in_dir(scratch_dir(&std::env::temp_dir()), repository)
    }

    pub fn in_dir(dir: TempDir, repository: &str) -> World {
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::write(dir.path().join("home/.gitconfig"), SETTINGS).unwrap();
        World::at(dir, repository)
    }

    /// In a directory that has a `home` already.
    pub fn at(dir: TempDir, repository: &str) -> World {
        World {
            server: None,
            dir,
            repository: repository.to_owned(),
            variables: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
            server_args: Vec::new(),
            server_variables: Vec::new(),
            log: None,
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Sets a variable of every program that runs from now on.
    pub fn set_variable(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// From now on programs start a server if none runs. The world kills such servers when it ends.
    pub fn autostart(&mut self) {
        self.set_variable(AUTOSTART, "1");
    }

    /// The processes of servers in the background that work in this world.
    pub fn background_servers(&self) -> Vec<i32> {
        let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<i32>().ok();
        let all = fs::read_dir("/proc").unwrap().filter_map(number);
        all.filter(|pid| self.is_background_server(*pid)).collect()
    }

    fn is_background_server(&self, pid: i32) -> bool {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !command.split(|&b| b == 0).any(|arg| arg == b"--detached") {
            return false;
        }
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut open = files.filter_map(|file| fs::read_link(file.path()).ok());
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        cwd.starts_with(self.dir()) || open.any(|file| file.starts_with(self.dir()))
    }

    /// A program in a directory of this world, with an environment of its own and nothing on stdin.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path().join(dir)).env_clear().stdin(Stdio::null());
        for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.path("home")).env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8");
        // A test has a server if it starts one, unless it is about servers that start by themselves.
        command.env(AUTOSTART, "0");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs git in a directory of this world; it must succeed.
    #[track_caller]
    pub fn git_in(&self, dir: impl AsRef<Path>, args: &[&str]) -> String {
        let output = self.command("git", dir).args(args).run();
        assert!(output.status.success(), "git {args:?}: {}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn git_init(&self, name: &str) {
        self.git_in("", &["init", "--quiet", name]);
    }

    /// `git-dibs` with these arguments, in the repository if there is one.
    pub fn dibs_command(&self, args: &[&str]) -> Command {
        let dir = if self.path(&self.repository).is_dir() { &*self.repository } else { "" };
        let mut command = self.command(PROGRAM, dir);
        command.args(args);
        command
    }

    // ---- the server ----

    /// More arguments of the next server.
    pub fn args<S: AsRef<str>>(&mut self, args: &[S]) {
        self.server_args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
    }

    /// Writes the configuration file, which the next server reads.
    pub fn configure(&mut self, config: &str) {
        let path = self.path("dibs.toml");
        fs::write(&path, config).unwrap();
        let args = ["--config".to_owned(), path.to_str().unwrap().to_owned()];
        if !self.server_args.contains(&args[0]) {
            self.args(&args);
        }
    }

    /// The next servers listen where this one does: clients that reconnect find them.
    pub fn keep_address(&mut self) {
        self.listen = self.server().tcp().to_string();
    }

    /// Sets a variable of the next server.
    pub fn env(&mut self, name: &str, value: &str) {
        self.server_variables.push((name.to_owned(), value.to_owned()));
    }

    /// The command that serves the repository in this directory on any free port.
    pub fn serve_command(&self, repository: &str, args: &[&str]) -> Command {
        let mut command = self.command(PROGRAM, repository);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(args);
        command
    }

    fn server_command(&self) -> Command {
        let mut command = self.dibs_command(&["serve", "--listen", &self.listen, "--json"]);
        command.args(&self.server_args).envs(self.server_variables.iter().cloned());
        command
    }

    /// Starts the server and waits until it says where it listens.
    #[track_caller]
    pub fn start(&mut self) {
        if let Err(ended) = self.try_start() {
            panic!("the server did not start ({}): {}{}", ended.status, ended.stdout, ended.stderr);
        }
    }

    /// Starts a server that may give up before it listens.
    #[track_caller]
    pub fn try_start(&mut self) -> Result<(), Ended> {
        assert!(self.server.is_none());
        let server = Server::start(&mut self.server_command())?;
        self.log = Some(server.log());
        self.server = Some(server);
        Ok(())
    }

    /// Starts a server that must give up.
    #[track_caller]
    pub fn start_and_fail(&mut self) -> Ended {
        self.server_command().run().into()
    }

    pub fn signal(&self, signal: i32) {
        self.server().signal(signal);
    }

    /// Kills the server, as a power failure would.
    pub fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// Tells the server to stop, and waits until it has.
    #[track_caller]
    pub fn stop(&mut self) -> Ended {
        self.signal(libc::SIGTERM);
        self.wait()
    }

    /// Waits for the server to end by itself.
    #[track_caller]
    pub fn wait(&mut self) -> Ended {
        self.server.take().unwrap().wait()
    }

    /// What the latest server has printed to stderr so far.
    pub fn stderr(&self) -> String {
        self.log.as_ref().map_or_else(String::new, |log| log.text())
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    /// What the server said about itself when it started.
    pub fn record(&self) -> &Value {
        &self.server().record
    }

    pub fn url(&self) -> &str {
        self.server().url()
    }

    pub fn tcp(&self) -> Address {
        Address::Tcp(self.server().tcp())
    }

    pub fn unix(&self) -> Address {
        self.server().unix().expect("the server has a socket in the file system")
    }

    // ---- tokens ----

    /// The secret the server made for itself.
    pub fn secret(&self) -> Vec<u8> {
        secret_in(&self.path(&self.repository).join(".git/dibs"))
    }

    /// A token of the server's secret with these claims; see [`mint::claims`].
    pub fn token(&self, claims: Value) -> String {
        mint::hs256(&mint::claims(claims), &self.secret())
    }

    pub fn admin(&self) -> String {
        self.token(json!({ "sub": "ops", "scope": "admin", "name": "Ops" }))
    }

    /// A token that only reads. Valid for a month, so that it outlives a clock that is moved.
    pub fn reader(&self) -> String {
        self.token(json!({ "sub": "reader", "scope": "read", "exp": mint::now() + 30 * 24 * 3600 }))
    }

    /// A session that has not called yet.
    pub fn session(&self, id: &str) -> Session<'_> {
        self.session_with(id, json!({}))
    }

    /// A session whose token has more claims.
    pub fn session_with(&self, id: &str, mut claims: Value) -> Session<'_> {
        claims["sub"] = id.into();
        Session { world: self, id: id.to_owned(), token: self.token(claims) }
    }

    // ---- calls ----

    pub fn connect(&self) -> Connection {
        // This client speaks no TLS; a server that does has a socket too.
        let address = if self.url().starts_with("https:") { self.unix() } else { self.tcp() };
        Connection::open(&address).unwrap()
    }

    #[track_caller]
    pub fn get(&self, target: &str, token: &str) -> Response {
        self.call("GET", target, token, None)
    }

    #[track_caller]
    pub fn post(&self, target: &str, token: &str, body: Value) -> Response {
        self.call("POST", target, token, Some(body))
    }

    #[track_caller]
    pub fn delete(&self, target: &str, token: &str, body: Value) -> Response {
        self.call("DELETE", target, token, Some(body))
    }

    /// One call on a connection of its own; without a token where that is empty.
    #[track_caller]
    pub fn call(&self, method: &str, target: &str, token: &str, body: Option<Value>) -> Response {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", &*bearer), ("content-type", "application/json")];
        if token.is_empty() {
            headers.remove(0);
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.send(method, target, &headers, &body)
    }

    /// One call with any headers and body. Checks what must be true of every response.
    #[track_caller]
    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let response = self.connect().call(method, target, headers, body);
        let response = response.unwrap_or_else(|error| panic!("{method} {target}: {error}\n{}", self.stderr()));
        if method != "HEAD" {
            response.check_ground_rules();
            Document::checked_in().check_describes(method, target, &response);
        }
        response
    }

    /// Everything that is held, the oldest first.
    #[track_caller]
    pub fn reservations(&self) -> Vec<Value> {
        let (reader, mut all, mut cursor) = (self.reader(), Vec::new(), String::new());
        loop {
            let mut page = self.get(&format!("/api/reservations?limit=1000{cursor}"), &reader).ok();
            all.extend(serde_json::from_value::<Vec<Value>>(page["reservations"].take()).unwrap());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// What is held, as `session key`, the oldest first.
    #[track_caller]
    pub fn held(&self) -> Vec<String> {
        let text = |one: &Value| format!("{} {}", text(&one["sessionId"]), text(&one["filePath"]));
        self.reservations().iter().map(text).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Ends the server first, so that nothing of its log is missing.
        drop(self.server.take());
        if self.variables.iter().any(|(name, _)| name == AUTOSTART) {
            for pid in self.background_servers() {
                // SAFETY: takes plain numbers. The process works in our directory.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        if std::thread::panicking()
            && let Some(log) = &self.log
        {
            eprintln!("the server's log: {}", log.all());
        }
    }
}

pub fn scratch_dir(parent: &Path) -> TempDir {
    tempfile::Builder::new().prefix("dibs").tempdir_in(parent).unwrap()
}

/// The secret in a server's directory.
pub fn secret_in(dir: &Path) -> Vec<u8> {
    fs::read_to_string(dir.join("secret")).unwrap().trim_end().as_bytes().to_vec()
}

/// Writes a file that only this user can read, as the program does with tokens.
pub fn write_private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// A value that must be text.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}"))
}

/// A time as the contract writes it, in milliseconds since 1970.
#[track_caller]
pub fn time(value: &Value) -> i64 {
    let written = text(value);
    assert!(written.ends_with('Z'), "not UTC: {written}");
    written.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{written}: {error}")).as_millisecond()
}

/// A file or directory that `./test` fetches from a registry, into the target directory.
pub fn fetched(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(target).join(path)
}

/// Reports that a test could not run on this machine; `./test` repeats it in its last line.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(file) = std::env::var_os("DIBS_TEST_SKIPS") {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
        writeln!(file, "{why}").unwrap();
    }
}
