//! `git-dibs serve` in a process of its own.

use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Output};
use std::sync::Arc;

use serde_json::Value;

use super::http::Address;
use super::process::{Collector, Process};

/// A server that listens; it is killed when this is dropped.
pub struct Server {
    process: Process,
    /// What it printed when it was ready: its addresses, its process id, when it started.
    pub record: Value,
}

/// What a server left behind when it ended by itself.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes| String::from_utf8(bytes).expect("the server prints text");
        Ended { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Server {
    /// Starts `git-dibs serve --json …` and waits until it says where it listens, or gives up.
    #[track_caller]
    pub fn start(command: &mut Command) -> Result<Server, Ended> {
        let mut process = Process::start(command).expect("the program starts");
        let line = process.line();
        match serde_json::from_str(&line) {
            Ok(record) => Ok(Server { process, record }),
            Err(_) => {
                let mut ended = Ended::from(process.finish());
                ended.stdout.insert_str(0, &line);
                Err(ended)
            }
        }
    }

    /// Its address over HTTP.
    pub fn url(&self) -> &str {
        self.record["url"].as_str().expect("it listens on TCP")
    }

    pub fn tcp(&self) -> SocketAddr {
        self.url().strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Its socket in the file system; none where the path is too long for one.
    pub fn unix(&self) -> Option<Address> {
        self.record["socket"].as_str().map(|path| Address::Unix(path.into()))
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// What it prints to stderr, also after its end.
    pub fn log(&self) -> Arc<Collector> {
        Arc::clone(self.process.stderr())
    }

    /// Kills it, as a power failure would.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn wait(self) -> Ended {
        self.process.finish().into()
    }
}
