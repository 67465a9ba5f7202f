//! A repository `app` with one commit, its server, and the commands to be tried in it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::process::Collector;
pub use crate::support::process::{Process, Run, until};
pub use crate::support::world::{PROGRAM, World, time};

/// A command that is being put together.
pub struct Call<'a> {
    world: &'a World,
    pub command: Command,
    input: Vec<u8>,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl World {
    /// A repository with one commit and no server. `git dibs` works in it.
    pub fn new() -> World {
        let mut world = World::empty("app");
        let mut path = vec![Path::new(PROGRAM).parent().unwrap().to_owned()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        world.set_variable("PATH", std::env::join_paths(path).unwrap());
        world.git_init("app");
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
        self.args(args);
        self.start();
        self
    }

    pub fn write(&self, name: impl AsRef<OsStr>, text: &str) {
        let file = self.path("app").join(Path::new(name.as_ref()));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in("app", args)
    }

    /// `git-dibs` with these arguments, at the top of the repository, without a session.
    pub fn dibs<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Call<'_> {
        let mut command = self.dibs_command(&[]);
        command.args(args);
        Call { world: self, command, input: Vec::new() }
    }

    /// The same as a session of this name.
    pub fn as_session<S: AsRef<OsStr>>(&self, session: &str, args: impl IntoIterator<Item = S>) -> Call<'_> {
        self.dibs(args).token(session, "session")
    }

    /// A token of the local server's secret, with the subject in capitals as its name.
    pub fn token_of(&self, subject: &str, scope: &str) -> String {
        self.token(json!({ "sub": subject, "scope": scope, "name": subject.to_uppercase() }))
    }

    /// A session as the server sees it; null if there was never one.
    pub fn session_info(&self, id: &str) -> Value {
        match self.get(&format!("/api/sessions/{id}"), &self.reader()) {
            response if response.status == 404 => Value::Null,
            response => response.ok(),
        }
    }

    /// What the program shows on a terminal of this width.
    pub fn on_terminal(&self, columns: u16, args: &[&str]) -> String {
        let (mut here, mut there) = (0, 0);
        let size = libc::winsize { ws_row: 25, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: two live integers and a live size, and neither a name nor settings.
        let opened = unsafe { libc::openpty(&mut here, &mut there, std::ptr::null_mut(), std::ptr::null_mut(), &size) };
        assert_eq!(opened, 0);
        // SAFETY: both were just opened and have no other owner.
        let (here, there) = unsafe { (OwnedFd::from_raw_fd(here), OwnedFd::from_raw_fd(there)) };
        let screen = Collector::read(std::fs::File::from(here));
        let mut command = self.dibs_command(args);
        let end = || Stdio::from(there.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        let status = command.spawn().unwrap().wait().unwrap();
        drop((command, there));
        assert!(status.success(), "{}", screen.all());
        screen.all()
    }

    /// Waits until a session waits for these keys.
    #[track_caller]
    pub fn until_waits_for(&self, session: &str, keys: &[&str]) {
        until(&format!("{session} waits for {keys:?}"), || {
            (self.session_info(session)["waitingFor"] == json!(keys)).then_some(())
        });
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
        let token = self.world.token_of(subject, scope);
        self.env("DIBS_TOKEN", token)
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Starts it and returns.
    pub fn start(mut self) -> Process {
        let mut process = Process::start_group(self.command.stdin(Stdio::piped())).unwrap();
        process.send(&self.input);
        process
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> Said {
        self.start().finish().into()
    }

    /// Runs it; it must succeed.
    #[track_caller]
    pub fn ok(self) -> Said {
        self.fails(0)
    }

    /// Runs it; it must end with this code.
    #[track_caller]
    pub fn fails(self, code: i32) -> Said {
        let said = self.run();
        assert_eq!(said.code, Some(code), "{said:?}");
        said
    }

    /// Runs it; it must succeed and print one JSON document and nothing else.
    #[track_caller]
    pub fn json(self) -> Value {
        let said = self.ok();
        assert_eq!(said.err, "");
        serde_json::from_str(&said.out).unwrap()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes| String::from_utf8(bytes).expect("nothing raw is printed");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// An argument of any bytes.
pub fn bytes(bytes: &[u8]) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
}
