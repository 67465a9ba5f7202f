//! Real servers, and sessions that hold things.

use std::io::{BufRead, BufReader};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Stdio};
use std::sync::Mutex;

use git_dibs::client::{Client, Credential, Endpoint, Limits, Origin};
use git_dibs::wire;

use crate::world::{World, at_the_end};

/// A server for the repository `work` of a world; ends when it is dropped.
pub struct Server<'a> {
    world: &'a World,
    child: Child,
    pub url: String,
}

/// Somebody with a token.
pub struct Session {
    pub id: String,
    pub token: String,
    client: Client,
}

impl Server<'_> {
    pub fn start(world: &World) -> Server<'_> {
        let mut command = world.program("work");
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Server { world, child, url: told["url"].as_str().unwrap().to_owned() }
    }

    /// A session called after its id, `more` as options of `git-dibs token`.
    pub fn session(&self, id: &str, more: &[&str]) -> Session {
        let output = self.world.program("work").args(["token", id]).args(more).output().unwrap();
        let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let credential = Credential::new(&token, Origin::Environment).unwrap();
        let endpoint = Endpoint::parse(&self.url).unwrap();
        let client = Client::new(vec![endpoint], Some(credential), Limits::default()).unwrap();
        Session { id: id.to_owned(), token, client }
    }

    /// Variables that make git and its hooks act for somebody.
    pub fn variables<'a>(&'a self, session: Option<&'a Session>) -> Vec<(&'a str, &'a str)> {
        let mut all = vec![("DIBS_URL", self.url.as_str())];
        all.extend(session.map(|session| ("DIBS_TOKEN", session.token.as_str())));
        all
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with two sessions that many situations use, one after the other: starting one for each would take longer
/// than everything else.
pub struct Shared {
    server: Server<'static>,
    pub ana: Session,
    pub bo: Session,
}

/// A shared server while one test has it to itself; nothing is held when it is handed on.
pub struct Lent(ManuallyDrop<Shared>);

static IDLE: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

impl Shared {
    /// Takes an idle one, or starts one.
    pub fn lend() -> Lent {
        let idle = IDLE.lock().unwrap().pop();
        Lent(ManuallyDrop::new(idle.unwrap_or_else(Shared::start)))
    }

    fn start() -> Shared {
        let world: &World = Box::leak(Box::new(World::new()));
        let server = Server::start(world);
        at_the_end(&format!("kill {}; rm -rf '{}'", server.child.id(), world.path("").display()));
        let (ana, bo) = (server.session("ana", &["--name", "Ana"]), server.session("bo", &[]));
        Shared { server, ana, bo }
    }

    /// Variables that make git and its hooks act for bo.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        self.server.variables(Some(&self.bo))
    }
}

impl Deref for Lent {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Shared {
        &mut self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After a failure nobody knows what is held; that server is left alone until the end.
        if !std::thread::panicking() {
            self.ana.release();
            // SAFETY: it is not used any more.
            IDLE.lock().unwrap().push(unsafe { ManuallyDrop::take(&mut self.0) });
        }
    }
}

impl Session {
    /// Reserves `key` for five minutes.
    pub fn hold(&mut self, key: &str, mode: wire::Mode) {
        let ask = wire::Reserve {
            file_path: Some(key.to_owned()),
            ttl_seconds: Some(300),
            mode: Some(mode),
            reason: Some("a good reason".into()),
            ..wire::Reserve::default()
        };
        self.client.reserve(&self.id, &ask).unwrap();
    }

    /// Reserves all of these.
    pub fn hold_all(&mut self, keys: &[&str]) {
        let ask = wire::Reserve {
            file_paths: Some(keys.iter().map(|key| (*key).to_owned()).collect()),
            ttl_seconds: Some(300),
            reason: Some("a good reason".into()),
            ..wire::Reserve::default()
        };
        self.client.reserve(&self.id, &ask).unwrap();
    }

    /// Reserves a name as git has it; false where it can never be reserved.
    pub fn try_hold_literally(&mut self, name: &[u8]) -> bool {
        let ask = wire::Reserve {
            file_path: Some(format!("file:{}", git_dibs::text::percent::encode(name))),
            encoding: Some(wire::Encoding::Percent),
            ..wire::Reserve::default()
        };
        match self.client.reserve(&self.id, &ask) {
            Ok(_) => true,
            Err(error) if error.code() == Some(wire::Code::InvalidPath) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reserves `key` for so many seconds.
    pub fn hold_for(&mut self, key: &str, seconds: i64) {
        let ask =
            wire::Reserve { file_path: Some(key.to_owned()), ttl_seconds: Some(seconds), ..wire::Reserve::default() };
        self.client.reserve(&self.id, &ask).unwrap();
    }

    /// Waits for `key` until it is free.
    pub fn wait_for(&mut self, key: &str) {
        let ask = wire::Reserve { file_path: Some(key.to_owned()), wait_seconds: Some(60), ..wire::Reserve::default() };
        self.client.reserve(&self.id, &ask).unwrap();
    }

    /// Lets go of everything.
    pub fn release(&mut self) {
        self.client.release_all(&self.id).unwrap();
    }

    /// Ends.
    pub fn end(&mut self) {
        self.client.end(&self.id, &wire::EndSession { state: None }).unwrap();
    }
}
