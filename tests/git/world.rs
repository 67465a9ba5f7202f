//! A scratch repository with a remote, and real hooks that record what they would be judged by.

use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use git_dibs::git::{Repo, Settings};
use git_dibs::hook::collect::{Told, plan};
use git_dibs::hook::doctor::{Finding, examine};
use git_dibs::hook::install::{self, Wish};
use git_dibs::hook::{Call, Environment, Moment, Policy, main, text};
use serde_json::json;

/// What every world begins with: a clone `work` of `origin.git`, with these files pushed.
const BEGINNING: &str = r#"
    git init -q --bare origin.git
    git clone -q origin.git work 2>/dev/null
    cd work
    mkdir dir
    for name in a b c dir/x dir/y run.sh; do printf '%s\n' $name 1 2 3 4 5 6 7 8 9 >$name; done
    git add . && git commit -q -m beginning && git push -q -u origin main
"#;

/// A directory with `work` and `origin.git` in it, and an environment that knows nothing of this machine's user.
pub struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// A world with the hooks of a strict installation.
    pub fn new() -> World {
        static BEGUN: OnceLock<World> = OnceLock::new();
        let begun = BEGUN.get_or_init(|| {
            let world = World { dir: tempfile::tempdir().unwrap() };
            std::fs::create_dir(world.path("home")).unwrap();
            script(&world.path("program"), &program());
            script(&world.path("install"), &installer());
            let config = "[user]\nname = Bo\nemail = bo@example.com\n[init]\ndefaultBranch = main\n\
                          [protocol \"file\"]\nallow = always\n[advice]\ndetachedHead = false\n";
            std::fs::write(world.path("home/.gitconfig"), config).unwrap();
            world.shell("", BEGINNING);
            world
        });
        // Copied, because making one takes twenty git processes.
        let world = World { dir: tempfile::tempdir().unwrap() };
        let copied = Command::new("cp").arg("-a").arg(begun.path(".")).arg(world.path(".")).status().unwrap();
        assert!(copied.success());
        let origin = world.path("origin.git");
        world.shell("work", &format!("git remote set-url origin '{}'", origin.display()));
        world
    }

    /// With our hooks in `work`, `reference-transaction` among them when `strict`.
    pub fn with_hooks(strict: bool) -> World {
        let world = World::new();
        world.install("work", strict, false);
        world
    }

    /// Installs, and nothing may be left to do by hand.
    pub fn install(&self, dir: &str, strict: bool, server: bool) {
        let wish = Wish { program: self.path("program"), strict, server };
        assert_eq!(self.try_install(dir, &wish).unwrap().by_hand, Vec::<String>::new());
    }

    pub fn try_install(&self, dir: &str, wish: &Wish) -> Result<Report, String> {
        let wish = json!({"program": wish.program, "strict": wish.strict, "server": wish.server});
        serde_json::from_value(self.inside(dir, "install", &wish)).unwrap()
    }

    pub fn uninstall(&self, dir: &str) -> Report {
        serde_json::from_value(self.inside(dir, "uninstall", &json!({}))).unwrap()
    }

    /// What the doctor finds where nobody answers: level, what, advice.
    pub fn examine(&self, dir: &str) -> Vec<(String, String, Option<String>)> {
        self.examine_with(dir, &[("DIBS_URL", "http://127.0.0.1:1")])
    }

    /// What the doctor finds with these variables.
    pub fn examine_with(&self, dir: &str, variables: &[(&str, &str)]) -> Vec<(String, String, Option<String>)> {
        serde_json::from_value(self.inside_with(dir, "doctor", &json!({}), variables)).unwrap()
    }

    /// Calls the library in a process that has this world's environment.
    fn inside(&self, dir: &str, what: &str, how: &serde_json::Value) -> serde_json::Value {
        self.inside_with(dir, what, how, &[])
    }

    fn inside_with(
        &self,
        dir: &str,
        what: &str,
        how: &serde_json::Value,
        variables: &[(&str, &str)],
    ) -> serde_json::Value {
        let result = self.path("result");
        let mut command = self.command(dir, std::env::current_exe().unwrap().to_str().unwrap());
        command.args(["--exact", "world::as_a_hook", "--nocapture"]);
        command.env("DIBS_TEST_ARGS", format!("{what}\n{how}\n{}", result.display())).envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command with git's environment and no other.
    pub fn command(&self, dir: &str, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path(dir)).env_clear();
        for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.path("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_EDITOR", "true").env("TOP", self.dir.path());
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_DATE"), "2030-01-01T00:00:00Z");
        }
        command
    }

    /// Runs a script; it must succeed.
    pub fn shell(&self, dir: &str, script: &str) -> String {
        let output = self.try_shell(dir, script, &[]);
        assert!(output.status.success(), "{script}\n{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a script with more variables; it may fail.
    pub fn try_shell(&self, dir: &str, script: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(dir, "sh");
        command.args(["-eu", "-c", script]).envs(variables.iter().copied());
        command.output().unwrap()
    }

    /// Runs a script and gives what each hook would have been judged by, in the order they ran:
    /// `pre-commit a b | prepare-commit-msg a b`. `~` marks a path that only undoes a change, `-` stands for "nothing
    /// to judge at this moment".
    pub fn judged(&self, dir: &str, script: &str) -> String {
        let record = self.path("record");
        let _ = std::fs::remove_file(&record);
        let output = self.try_shell(dir, script, &[("DIBS_TEST_RECORD", record.to_str().unwrap())]);
        assert!(output.status.success(), "{script}\n{}", said(&output));
        let lines = std::fs::read_to_string(&record).unwrap_or_default();
        lines.lines().collect::<Vec<_>>().join(" | ")
    }
}

/// Writes an executable file.
pub fn script(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Both outputs, for messages.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What the shims hand over to: this test binary, which goes on in [`as_a_hook`]. Without one of our variables it is
/// silent, so that a world can be set up.
fn program() -> String {
    let binary = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh\n\
         [ -n \"$DIBS_TEST_RECORD$DIBS_TEST_JUDGE$DIBS_PROBE\" ] || exit 0\n\
         DIBS_TEST_ARGS=$(printf '%s\\n' \"$@\") exec '{}' --exact world::as_a_hook --nocapture\n",
        binary.display()
    )
}

/// Installs the hooks in the current directory, for scripts that make repositories of their own.
fn installer() -> String {
    let binary = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh\n\
         export DIBS_TEST_ARGS=\"install\n{{\\\"program\\\": \\\"$TOP/program\\\"}}\n$TOP/result\"\n\
         exec '{}' --exact world::as_a_hook >/dev/null\n",
        binary.display()
    )
}

/// A report as it travels between two processes of a test.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    pub done: Vec<String>,
    pub by_hand: Vec<String>,
}

/// Not a test: the program that git's hooks run, and the library in a world's environment.
#[test]
fn as_a_hook() {
    let Ok(args) = std::env::var("DIBS_TEST_ARGS") else { return };
    let mut args = args.lines().map(str::to_owned);
    match args.next().as_deref() {
        Some("hook") => hook(args),
        Some(what) => {
            let how: serde_json::Value = serde_json::from_str(&args.next().unwrap()).unwrap();
            let result = call(what, &how);
            std::fs::write(args.next().unwrap(), result.to_string()).unwrap();
        }
        None => panic!("no arguments"),
    }
}

fn call(what: &str, how: &serde_json::Value) -> serde_json::Value {
    let repo = Repo::from_environment().unwrap();
    let told = |report: install::Report| Report { done: report.done, by_hand: report.by_hand };
    match what {
        "install" => {
            let program = PathBuf::from(how["program"].as_str().unwrap());
            let (strict, server) = (how["strict"] == true, how["server"] == true);
            let report = install::install(&repo, &Wish { program, strict, server });
            json!(report.map(told).map_err(|error| error.to_string()))
        }
        "uninstall" => json!(told(install::uninstall(&repo).unwrap())),
        "doctor" => {
            let findings = examine(&repo, &Environment::of_process());
            let told = |finding: Finding| (format!("{:?}", finding.level), finding.what, finding.advice);
            json!(findings.into_iter().map(told).collect::<Vec<_>>())
        }
        other => panic!("{other}"),
    }
}

fn hook(mut args: impl Iterator<Item = String>) -> ! {
    let mut call = Call { name: args.next().unwrap(), ..Call::default() };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--next" => call.next = args.next().map(PathBuf::from),
            "--" => break,
            other => panic!("{other}"),
        }
    }
    call.args = args.collect();
    match std::env::var_os("DIBS_TEST_RECORD") {
        Some(file) => record(&call, Path::new(&file)),
        None => std::process::exit(main(&call, &mut std::io::stdin())),
    }
    std::process::exit(0);
}

/// Collects as the hook would, and writes down what.
fn record(call: &Call, file: &Path) {
    git_dibs::git::trust_every_owner();
    let environment = Environment::of_process();
    let moment = Moment::parse(&call.name).unwrap();
    let mut stdin = Vec::new();
    if moment.reads_stdin() {
        std::io::stdin().read_to_end(&mut stdin).unwrap();
    }
    let repo = Repo::from_environment().unwrap();
    let told = Told { moment, args: &call.args, stdin: &stdin, environment: &environment };
    let mut line = moment.name().to_owned();
    match plan(&repo, told) {
        None => line.push_str(" -"),
        Some(plan) => {
            let collected = plan.collect(&repo).unwrap();
            let policy = Policy::read(moment, &environment, &Settings::of(&repo).unwrap());
            let forgiven = collected.forgiven(&repo, &policy, &collected.paths).unwrap();
            for path in &collected.paths {
                let mark = if forgiven.contains(path) { "~" } else { "" };
                write!(line, " {mark}{}", text::path(path)).unwrap();
            }
        }
    }
    line.push('\n');
    use std::io::Write as _;
    let mut out = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
    out.write_all(line.as_bytes()).unwrap();
}
