//! A repository as a user has it after `git dibs init`, and an agent at work in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::calls::{Act, calls};
use crate::make::Make;
use crate::model::{Model, Request};
use crate::support::http::{Address, Connection};
use crate::support::mint;
use crate::support::process::{Process, Run, printed, until};
use crate::support::world::{PROGRAM, World, secret_in, skip, text};

/// Every file that agents edit.
pub const HELLO: &str = "hello\nworld\n";
pub const EDITED: &str = "HELLO\nworld\n";

/// Runs a test with this agent, if it is installed.
pub fn with_agent(name: &str, test: fn(&mut Checkout, Make)) {
    let make = Make::named(name);
    if let Some(mut checkout) = Checkout::with(&[make]) {
        test(&mut checkout, make);
    }
}

/// A repository `app` that is set up for agents, with its server.
pub struct Checkout {
    pub world: World,
}

/// An agent that was started.
pub struct Running {
    pub process: Process,
    pub model: Model,
    make: Make,
}

impl Checkout {
    /// None, and a sentence, if one of the agents is not installed.
    pub fn with(makes: &[Make]) -> Option<Checkout> {
        for make in makes {
            if make.program().is_none() {
                skip(&format!("{} as a real agent, because only ./test --agents installs it", make.name()));
                return None;
            }
        }
        let mut world = World::empty("app");
        for dir in ["bin", "agent-bin"] {
            fs::create_dir(world.path(dir)).unwrap();
        }
        symlink(PROGRAM, world.path("bin/git-dibs")).unwrap();
        for make in makes {
            symlink(make.program().unwrap(), world.path("agent-bin").join(make.name())).unwrap();
        }
        let mut path = vec![world.path("bin"), world.path("agent-bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        world.set_variable("PATH", std::env::join_paths(path).unwrap());
        world.git_init("app");
        for file in ["a.txt", "b.txt", "old.txt"] {
            fs::write(world.path("app").join(file), HELLO).unwrap();
        }
        world.autostart();
        let checkout = Checkout { world };
        // Gemini's shell does not see the user's own configuration of git.
        for (name, value) in [("user.name", "Test"), ("user.email", "test@example.com")] {
            checkout.git(&["config", name, value]);
        }
        checkout.git(&["add", "."]);
        checkout.git(&["commit", "--quiet", "--message=first"]);
        checkout.dibs(&["init"]);
        // So that other worktrees and clones have them too.
        checkout.git(&["add", "."]);
        checkout.git(&["commit", "--quiet", "--message=agents"]);
        Some(checkout)
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.world.git_in("app", args)
    }

    /// `git dibs` in the repository; it must succeed.
    #[track_caller]
    pub fn dibs(&self, args: &[&str]) -> String {
        let output = self.world.command("git-dibs", "app").args(args).run();
        assert!(output.status.success(), "{args:?}: {}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.world.path("app").join(file)).unwrap()
    }

    /// Another session, Ana's, reserves a file for as long as a test takes.
    pub fn ana_holds(&self, file: &str) {
        let token = self.dibs(&["token", "ana", "--name", "Ana"]);
        let mut command = self.world.command("git-dibs", "app");
        command.args(["reserve", file, "--ttl", "300", "--reason", "splitting \"it\""]).env("DIBS_TOKEN", token.trim());
        let output = command.run();
        assert!(output.status.success(), "{}", printed(&output));
    }

    /// What is held now, as `SESSION PATH`.
    pub fn held(&self) -> Vec<String> {
        held_in(&self.dibs_dir())
    }

    pub fn dibs_dir(&self) -> PathBuf {
        self.world.path("app/.git/dibs")
    }

    /// A shell command that lasts until [`open_gate`](Self::open_gate).
    pub fn gate(&self) -> Act {
        let gate = self.world.path("gate");
        Act::Shell(format!("for n in $(seq 600); do test -e {} && break; sleep 0.1; done", gate.display()))
    }

    pub fn open_gate(&self) {
        fs::write(self.world.path("gate"), "").unwrap();
    }

    /// Starts an agent whose model acts like this.
    pub fn start(&self, make: Make, acts: &[Act]) -> Running {
        self.start_with(make, None, &[("main", acts)], |_| ())
    }

    /// The same with a certain model, several scripts, and changes of the command.
    pub fn start_with(
        &self,
        make: Make,
        model_name: Option<&str>,
        scripts: &[(&str, &[Act])],
        change: impl Fn(&mut Command),
    ) -> Running {
        let repo = self.world.path("app").display().to_string();
        let script = |acts: &[Act]| acts.iter().flat_map(|act| calls(make, &repo, act)).collect::<Vec<_>>();
        let scripts: BTreeMap<_, _> = scripts.iter().map(|(name, acts)| ((*name).to_owned(), script(acts))).collect();
        let dibs_dir = self.dibs_dir();
        let model = Model::start(scripts, move || held_in(&dibs_dir));
        let mut command = make.command(&self.world, model.address, model_name, "[[script:main]] please do it");
        change(&mut command);
        let process = Process::start_group(&mut command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Running { process, model, make }
    }

    /// Starts an agent and waits until it has done everything.
    #[track_caller]
    pub fn run(&self, make: Make, acts: &[Act]) -> Conversation {
        self.start(make, acts).finish()
    }

    /// Waits until only Ana holds something.
    #[track_caller]
    pub fn until_nothing_is_held_by_agents(&self) {
        let is_anas = |one: &String| session_of(one) == "ana";
        until("no agent holds anything", || self.held().iter().all(is_anas).then_some(()));
    }

    /// Waits until nothing is held.
    #[track_caller]
    pub fn until_nothing_is_held(&self) {
        until("nothing is held", || self.held().is_empty().then_some(()));
    }
}

impl Running {
    /// Waits until the agent has ended.
    #[track_caller]
    pub fn finish(self) -> Conversation {
        let output = self.process.finish();
        let requests = self.model.requests("main");
        assert!(!requests.is_empty(), "{} asked its model nothing: {}", self.make.name(), printed(&output));
        assert!(output.status.success(), "{} ended with {}: {}", self.make.name(), output.status, printed(&output));
        Conversation { requests, model: self.model }
    }
}

/// What an agent and its model said.
pub struct Conversation {
    pub requests: Vec<Request>,
    pub model: Model,
}

impl Conversation {
    pub fn first(&self) -> &Request {
        &self.requests[0]
    }

    /// The last request, after everything was done.
    pub fn last(&self) -> &Request {
        self.requests.last().unwrap()
    }

    /// What the last tool answered.
    #[track_caller]
    pub fn last_result(&self) -> &str {
        self.last().results.last().expect("a tool was called")
    }
}

/// The session in `SESSION PATH`.
pub fn session_of(held: &str) -> &str {
    held.split(' ').next().unwrap()
}

/// Whether a session of this agent holds this path.
pub fn holds(held: &[String], make: Make, path: &str) -> bool {
    held.iter().any(|one| one.starts_with(&format!("{}-", make.name())) && one.ends_with(&format!(" {path}")))
}

/// What the server that keeps its data in this directory says is held. Nothing if no server runs.
fn held_in(dibs_dir: &Path) -> Vec<String> {
    let Ok(record) = fs::read(dibs_dir.join("server.json")) else { return Vec::new() };
    let record: Value = serde_json::from_slice(&record).unwrap_or_default();
    let address = record["url"].as_str().and_then(|url| url.strip_prefix("http://")?.parse().ok());
    let connection = address.and_then(|address| Connection::open(&Address::Tcp(address)).ok());
    let Some(mut connection) = connection else { return Vec::new() };
    let claims = mint::claims(json!({ "sub": "reader", "scope": "read" }));
    let bearer = format!("Bearer {}", mint::hs256(&claims, &secret_in(dibs_dir)));
    let response = connection.call("GET", "/api/reservations?limit=1000", &[("authorization", &bearer)], b"");
    let Ok(response) = response else { return Vec::new() };
    let list = response.ok();
    let line = |one: &Value| format!("{} {}", text(&one["sessionId"]), text(&one["filePath"]));
    list["reservations"].as_array().unwrap().iter().map(line).collect()
}
