//! A real server for one world, and sessions that hold things.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use git_dibs::client::{Client, Credential, Endpoint, Limits, Origin};
use git_dibs::wire;

use crate::world::World;

/// A server for the repository `work`; ends with the test.
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
        let mut command = world.command("work", env!("CARGO_BIN_EXE_git-dibs"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Server { world, child, url: told["url"].as_str().unwrap().to_owned() }
    }

    /// A session called after its id, `more` as options of `git-dibs token`.
    pub fn session(&self, id: &str, more: &[&str]) -> Session {
        let mut command = self.world.command("work", env!("CARGO_BIN_EXE_git-dibs"));
        let output = command.args(["token", id]).args(more).output().unwrap();
        let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let credential = Credential::new(&token, Origin::Environment).unwrap();
        let endpoint = Endpoint::parse(&self.url).unwrap();
        let client = Client::new(vec![endpoint], Some(credential), Limits::default()).unwrap();
        Session { id: id.to_owned(), token, client }
    }

    /// Variables that make git and its hooks act for somebody.
    pub fn variables<'a>(&'a self, session: Option<&'a Session>) -> Vec<(&'a str, &'a str)> {
        let mut all = vec![("DIBS_TEST_JUDGE", "1"), ("DIBS_URL", self.url.as_str())];
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
