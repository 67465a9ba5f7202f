//! A directory with repositories in it, and the real program serving one of them.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::http::SECRET;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_git-dibs");

pub struct Place {
    pub dir: PathBuf,
}

impl Place {
    pub fn command(&self, dir: &Path, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).env("HOME", &self.dir).env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "B").env(format!("GIT_{who}_EMAIL"), "b@x");
        }
        command
    }

    pub fn git(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.command(dir, "git").args(args).output().expect("git starts");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub fn import(&self, repo: &Path, script: &[u8]) {
        let mut command = self.command(repo, "git");
        let mut child = command.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().expect("git starts");
        child.stdin.take().expect("a pipe").write_all(script).expect("git reads");
        assert!(child.wait().expect("git ends").success());
    }
}

/// The program itself, in a process of its own, until this is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// For hooks: its socket if it has one.
    pub url: String,
}

impl Server {
    /// Serves a repository of this name, which is made if it is not there.
    pub fn start(place: &Place, name: &str, args: &[&str]) -> Server {
        place.git(&place.dir, &["init", "-q", name]);
        let mut command = place.command(&place.dir.join(name), PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(args);
        let mut child = command.env("DIBS_JWT_SECRET", SECRET).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where it is");
        let told: serde_json::Value = serde_json::from_str(&line).expect("as JSON");
        let url = told["url"].as_str().expect("an address").to_owned();
        let address = url.trim_start_matches("http://").trim_end_matches('/').parse().expect("a number and a port");
        let url = told["socket"].as_str().map_or(url, |path| format!("unix:{path}"));
        Server { child, address, url }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
