//! The cost of an agent's hooks: the edit hook beside the start of the program, the look after a shell command beside
//! `git status`.
//!
//! `cargo bench --bench agent` prints medians of runs that took turns. Real processes, real git, a real server on this
//! machine, and this process as the agent. Nothing is asserted; the ratios are what matters.

mod common;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::place::{import, scratch};
use common::processes::{Sample, row, time, time_with, turns};
use common::support::server::Server;
use common::support::world::{PROGRAM, World};
use common::table;
use serde_json::{Value, json};

const SMALL: usize = 30;
const LARGE: usize = 100_000;

fn main() {
    let place = scratch();
    table::head("Hooks of agents, in wall-clock time");
    let small = Repository::new(&place, "small", SMALL);
    let large = Repository::new(&place, "large", LARGE);
    edits(&small, 300);
    edits(&large, 60);
    looks(&large);
}

/// The hook before an edit, of a file that the session holds already and of one that it does not.
fn edits(repo: &Repository<'_>, rounds: usize) {
    let files = repo.files;
    repo.hook(&repo.edit("d0/f0"));
    let mut n = 0;
    let samples = turns(rounds, &["held", "new", "version"], |what| {
        n += 1;
        match what {
            "held" => repo.hook(&repo.edit("d0/f0")),
            "new" => repo.hook(&repo.edit(&format!("new/{n}"))),
            _ => time(repo.place.command(PROGRAM, &repo.dir).arg("--version")),
        }
    });
    row(&format!("edit of a file that is held already, {files} files, beside --version"), &samples[0], &samples[2]);
    row(&format!("edit of a file that is free, {files} files, beside --version"), &samples[1], &samples[2]);
}

/// The look after a shell command that changed nothing.
fn looks(repo: &Repository<'_>) {
    let git = |args: &[&str]| time(repo.place.command("git", &repo.dir).args(args));
    git(&["config", "core.untrackedCache", "true"]);
    git(&["update-index", "--untracked-cache"]);
    git(&["status"]);
    repo.hook(&repo.event("SessionStart", json!({ "source": "startup" })));
    let after = repo.event("PostToolUse", json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } }));
    let samples = turns(20, &["look", "status"], |what| match what {
        "look" => repo.hook(&after),
        _ => git(&["status"]),
    });
    row(&format!("look after a shell command, {} files, beside git status", repo.files), &samples[0], &samples[1]);
}

/// A repository with this many files, and a server for it.
struct Repository<'w> {
    place: &'w World,
    dir: PathBuf,
    files: usize,
    _server: Server,
}

impl Repository<'_> {
    fn new<'w>(place: &'w World, name: &str, files: usize) -> Repository<'w> {
        let dir = place.path(name);
        place.git_in("", &["init", "-q", "--template=", "-b", "main", name]);
        let mut script = b"commit refs/heads/main\ncommitter B <b@x> 1 +0000\ndata 1\nm\n".to_vec();
        for file in 0..files {
            write!(script, "M 100644 inline d{}/f{file}\ndata 2\nx\n\n", file / 100).expect("memory");
        }
        import(place, &dir, &script);
        place.git_in(&dir, &["reset", "-q", "--hard"]);
        let server = Server::start(&mut place.serve_command(name, &[]));
        let server = server.unwrap_or_else(|ended| panic!("the server does not start: {}", ended.stderr));
        Repository { place, dir: dir.canonicalize().expect("it exists"), files, _server: server }
    }

    fn event(&self, name: &str, more: Value) -> Value {
        let mut event = json!({
            "session_id": "6f1e7b9a-4d0c-4f3e-9a52-1c8d7e6f5a4b",
            "transcript_path": "/x",
            "cwd": self.dir,
            "hook_event_name": name,
        });
        for (field, value) in more.as_object().expect("fields") {
            event[field] = value.clone();
        }
        event
    }

    fn edit(&self, file: &str) -> Value {
        let input = json!({ "file_path": self.dir.join(file), "old_string": "a", "new_string": "b" });
        self.event("PreToolUse", json!({ "tool_name": "Edit", "tool_input": input }))
    }

    /// Calls the hook as an agent does.
    fn hook(&self, event: &Value) -> Sample {
        let input = self.place.path("event.json");
        std::fs::write(&input, event.to_string()).expect("a file");
        let mut command = self.place.command(PROGRAM, &self.dir);
        time_with(command.args(["agent-hook", "claude"]), stdin_of(&input))
    }
}

fn stdin_of(file: &Path) -> Stdio {
    File::open(file).expect("it was just written").into()
}
