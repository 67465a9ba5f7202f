//! A scratch repository with a server, and the binary to be tried in it.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_git-dibs");

/// A directory of its own with the repository `app` in it; nothing of the user's reaches inside.
pub struct World {
    pub dir: TempDir,
    server: Option<Child>,
    pub url: String,
}

/// A command that is being put together.
pub struct Call<'a> {
    world: &'a World,
    pub command: Command,
    input: Vec<u8>,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl World {
    /// A repository with one commit and no server.
    pub fn new() -> World {
        let world = World { dir: tempfile::tempdir().unwrap(), server: None, url: String::new() };
        std::fs::create_dir_all(world.path("home")).unwrap();
        std::fs::create_dir_all(world.path("app/src/deep")).unwrap();
        world.git(&["init", "--quiet", "--initial-branch=main", "."]);
        for file in ["README", "src/a.rs", "src/b.rs", "src/deep/c.rs"] {
            world.write(file, "one\n");
        }
        world.git(&["add", "."]);
        world.git(&["commit", "--quiet", "--message=first"]);
        world
    }

    /// The same with a server.
    pub fn served() -> World {
        World::new().serve(&[])
    }

    /// Starts the server.
    pub fn serve(mut self, args: &[&str]) -> World {
        let mut command = self.command(BINARY, "app");
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let record: Value = serde_json::from_str(&line).expect("the server says where it is");
        self.url = record["url"].as_str().unwrap().to_owned();
        self.server = Some(child);
        self
    }

    /// Ends the server as a crash would.
    pub fn crash(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: impl AsRef<OsStr>, text: &str) {
        let file = self.path("app").join(Path::new(name.as_ref()));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub fn git(&self, args: &[&str]) -> String {
        let output = self.command("git", "app").args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A program in a directory of this world, with an environment of its own.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path(dir)).env_clear().stdin(Stdio::null());
        let bin = Path::new(BINARY).parent().unwrap();
        let path = std::env::join_paths(
            [bin.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        command.env("PATH", path.unwrap()).env("HOME", self.path("home")).env("LC_ALL", "C.UTF-8");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@example.com");
        }
        command
    }

    /// `git-dibs` with these arguments, at the top of the repository, as nobody in particular.
    pub fn dibs<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Call<'_> {
        let mut command = self.command(BINARY, "app");
        command.args(args);
        Call { world: self, command, input: Vec::new() }
    }

    /// The same as a session of this name.
    pub fn as_session<S: AsRef<OsStr>>(&self, session: &str, args: impl IntoIterator<Item = S>) -> Call<'_> {
        self.dibs(args).token(session, "session")
    }

    /// A token from the local server's secret.
    pub fn token(&self, subject: &str, scope: &str) -> String {
        let said = self.dibs(["token", subject, "--scope", scope, "--name", &subject.to_uppercase()]).ok();
        said.out.trim().to_owned()
    }

    /// `git-dibs` as somebody who only looks: a session that looks is alive.
    fn bystander<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Call<'_> {
        let token = std::fs::read_to_string(self.path("app/.git/dibs/read-token")).unwrap();
        self.dibs(args).env("DIBS_TOKEN", token)
    }

    /// What somebody holds, by key.
    pub fn held(&self) -> Vec<(String, String)> {
        let list = self.bystander(["status", "--json"]).json();
        let row =
            |one: &Value| (one["filePath"].as_str().unwrap().to_owned(), one["sessionId"].as_str().unwrap().to_owned());
        let mut held: Vec<_> = list["reservations"].as_array().unwrap().iter().map(row).collect();
        held.sort();
        held
    }

    /// Asks until it is so. Nothing is measured; a test that waits for what never comes is ended by whoever runs it.
    pub fn until(&self, what: impl Fn(&World) -> bool) {
        while !what(self) {
            std::thread::yield_now();
        }
    }

    /// A session as the server sees it.
    pub fn session(&self, id: &str) -> Value {
        let list = self.bystander(["session", "list", "--all", "--json"]).json();
        let all = list["sessions"].as_array().unwrap();
        all.iter().find(|info| info["sessionId"] == id).cloned().unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Call<'_> {
    /// In a directory of the repository.
    pub fn at(mut self, dir: &str) -> Self {
        self.command.current_dir(self.world.path("app").join(dir));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn token(self, subject: &str, scope: &str) -> Self {
        let token = self.world.token(subject, scope);
        self.env("DIBS_TOKEN", token)
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Starts it and comes back.
    pub fn start(mut self) -> Child {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        // A command that does not read may be gone already.
        let _ = child.stdin.take().unwrap().write_all(&self.input);
        child
    }

    pub fn run(self) -> Said {
        Said::of(self.start())
    }

    /// Runs it; it must succeed.
    pub fn ok(self) -> Said {
        let said = self.run();
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    }

    /// Runs it; it must end so.
    pub fn fails(self, code: i32) -> Said {
        let said = self.run();
        assert_eq!(said.code, Some(code), "{said:?}");
        said
    }

    /// Runs it; it must succeed and print one JSON document and nothing else.
    pub fn json(self) -> Value {
        let said = self.ok();
        assert_eq!(said.err, "");
        serde_json::from_str(&said.out).unwrap()
    }
}

impl Said {
    pub fn of(child: Child) -> Said {
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).expect("nothing raw is printed");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// An argument of any bytes.
pub fn bytes(bytes: &[u8]) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
}
