//! A scratch repository with a remote, and the program's real hooks in it.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use serde_json::Value;

use crate::record;

/// The program that is tried.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_git-dibs");

/// What every world begins with: a clone `work` of `origin.git`, with these files pushed.
const BEGINNING: &str = r#"
    git init -q --bare origin.git
    git clone -q "$TOP/origin.git" work 2>/dev/null
    cd work
    mkdir dir
    for name in a b c dir/x dir/y run.sh; do printf '%s\n' $name 1 2 3 4 5 6 7 8 9 >$name; done
    git add . && git commit -q -m beginning && git push -q -u origin main
    git repack -adq && git -C ../origin.git repack -adq
"#;

/// Git as somebody has it who changed nothing, but for a name and what makes tests quick.
const SETTINGS: &str = "\
    [user]\nname = Bo\nemail = bo@example.com\n[init]\ndefaultBranch = main\ntemplateDir =\n\
    [protocol \"file\"]\nallow = always\n[advice]\ndetachedHead = false\n[gc]\nauto = 0\n[maintenance]\nauto = false\n";

/// A directory with `work` and `origin.git` in it, and an environment that knows nothing of this machine's user.
///
/// `$TOP` is the directory, `$TOP/bin/git-dibs` the program, under a name that can be taken away.
pub struct World {
    dir: tempfile::TempDir,
}

/// Which hooks there are in `work` to begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hooks {
    None,
    Usual,
    Strict,
}

impl World {
    /// A world without hooks.
    pub fn new() -> World {
        World::copied(Hooks::None)
    }

    /// With our hooks in `work`, `reference-transaction` among them when `strict`.
    pub fn with_hooks(strict: bool) -> World {
        World::copied(if strict { Hooks::Strict } else { Hooks::Usual })
    }

    /// Made once and then copied, because making one takes thirty processes.
    fn copied(hooks: Hooks) -> World {
        static BEGUN: [OnceLock<(PathBuf, Things)>; 3] = [const { OnceLock::new() }; 3];
        let (begun, things) = BEGUN[hooks as usize].get_or_init(|| {
            let world = World::begun(hooks);
            (world.dir.path().to_owned(), things_in(world.dir.path()))
        });
        let world = World { dir: tempfile::tempdir().unwrap() };
        for (path, thing) in things {
            let path = world.dir.path().join(path.strip_prefix(begun).unwrap());
            thing.make(&path, |text| replaced(text, begun, world.dir.path()));
        }
        world
    }

    fn begun(hooks: Hooks) -> World {
        if hooks != Hooks::None {
            let world = World::new();
            world.install("work", if hooks == Hooks::Strict { &["--strict"] } else { &[] });
            return world;
        }
        let world = World { dir: tempfile::tempdir().unwrap() };
        for dir in ["home", "bin"] {
            std::fs::create_dir(world.path(dir)).unwrap();
        }
        std::fs::write(world.path("home/.gitconfig"), SETTINGS).unwrap();
        symlink(PROGRAM, world.path("bin/git-dibs")).unwrap();
        // For scripts that make repositories of their own.
        script(&world.path("install"), "#!/bin/sh\nPATH=$TOP/bin:$PATH exec git-dibs install >/dev/null 2>&1\n");
        world.shell("", BEGINNING);
        world
    }

    /// Remembers everything as it is now.
    pub fn remembered(&self) -> Memory<'_> {
        Memory { world: self, things: things_in(self.dir.path()) }
    }

    /// Installs, and nothing may be left to do by hand.
    pub fn install(&self, dir: &str, options: &[&str]) {
        assert_eq!(self.try_install(dir, options).by_hand, Vec::<String>::new());
    }

    /// Installs, and says what was done.
    pub fn try_install(&self, dir: &str, options: &[&str]) -> Report {
        Report::read(&self.dibs(dir, &[&["install", "--json"], options].concat()))
    }

    pub fn uninstall(&self, dir: &str) -> Report {
        Report::read(&self.dibs(dir, &["uninstall", "--json"]))
    }

    /// What the program prints as JSON; it must succeed.
    pub fn dibs(&self, dir: &str, args: &[&str]) -> Value {
        let output = self.program(dir).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}\n{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The program by the name it has on this world's PATH.
    pub fn program(&self, dir: &str) -> Command {
        let mut command = self.command(dir, self.path("bin/git-dibs").to_str().unwrap());
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path);
        command
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command with git's environment and no other.
    pub fn command(&self, dir: &str, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path(dir)).env_clear().stdin(Stdio::null());
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

    /// Runs a script to set something up, with the hooks switched off; it must succeed.
    pub fn shell(&self, dir: &str, script: &str) -> String {
        let output = self.try_shell(dir, script, &[("DIBS_ENFORCE", "off")]);
        assert!(output.status.success(), "{script}\n{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a script with more variables; it may fail.
    pub fn try_shell(&self, dir: &str, script: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(dir, "sh");
        command.args(["-eu", "-c", script]).envs(variables.iter().copied());
        guarded(command)
    }

    /// Runs a script and gives what each hook would have been judged by, in the order they ran:
    /// `pre-commit a b | prepare-commit-msg a b`. `~` marks a path that only undoes a change, `-` stands for "nothing
    /// to judge at this moment".
    pub fn judged(&self, dir: &str, script: &str) -> String {
        let (program, aside, record) = (self.path("bin/git-dibs"), self.path("bin/aside"), self.path("record"));
        let _ = std::fs::remove_file(&record);
        std::fs::rename(&program, &aside).unwrap();
        self::script(&program, &record::program());
        let output = self.try_shell(dir, script, &[("DIBS_TEST_RECORD", record.to_str().unwrap())]);
        std::fs::rename(&aside, &program).unwrap();
        assert!(output.status.success(), "{script}\n{}", said(&output));
        let lines = std::fs::read_to_string(&record).unwrap_or_default();
        lines.lines().collect::<Vec<_>>().join(" | ")
    }
}

/// A world as it once was.
pub struct Memory<'a> {
    world: &'a World,
    things: Things,
}

/// Everything below a directory; what is inside of another comes after it.
type Things = BTreeMap<PathBuf, Thing>;

/// A file, a directory or a link.
struct Thing {
    what: What,
    about: Metadata,
}

enum What {
    Directory,
    Link(PathBuf),
    File(Vec<u8>),
}

impl Memory<'_> {
    /// Makes it so again. Most of it has not changed since: git and its hooks touch little.
    pub fn bring_back(&self) {
        let mut now = BTreeMap::new();
        stamps(self.world.dir.path(), &mut now);
        let changed = |path: &PathBuf| match (self.things.get(path), now.get(path)) {
            (Some(Thing { what: What::Directory, .. }), Some(about)) => !about.is_dir(),
            (Some(thing), Some(about)) => stamp(&thing.about) != stamp(about),
            _ => true,
        };
        // What is inside of a directory comes after it, so that this is empty when its turn comes.
        for (path, about) in now.iter().rev().filter(|(path, _)| changed(path)) {
            match about.is_dir() {
                true => std::fs::remove_dir(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
        for (path, thing) in self.things.iter().filter(|(path, _)| changed(path)) {
            thing.make(path, <[u8]>::to_vec);
        }
    }
}

impl Thing {
    /// Makes another one like it, with a file's text as `edited` makes it.
    fn make(&self, path: &Path, edited: impl Fn(&[u8]) -> Vec<u8>) {
        match &self.what {
            What::Directory => std::fs::create_dir(path).unwrap(),
            What::Link(to) => symlink(to, path).unwrap(),
            What::File(text) => {
                std::fs::write(path, edited(text)).unwrap();
                std::fs::set_permissions(path, self.about.permissions()).unwrap();
            }
        }
    }
}

fn stamp(about: &Metadata) -> [i64; 7] {
    let kind = i64::from(about.mode());
    [
        kind,
        about.ino().cast_signed(),
        about.mtime(),
        about.mtime_nsec(),
        about.ctime(),
        about.ctime_nsec(),
        about.size().cast_signed(),
    ]
}

fn stamps(dir: &Path, all: &mut BTreeMap<PathBuf, Metadata>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let (path, about) = (entry.path(), entry.metadata().unwrap());
        if about.is_dir() {
            stamps(&path, all);
        }
        all.insert(path, about);
    }
}

fn things_in(dir: &Path) -> Things {
    let mut all = BTreeMap::new();
    stamps(dir, &mut all);
    let thing = |(path, about): (PathBuf, Metadata)| {
        let what = match about.file_type() {
            kind if kind.is_dir() => What::Directory,
            kind if kind.is_symlink() => What::Link(std::fs::read_link(&path).unwrap()),
            _ => What::File(std::fs::read(&path).unwrap()),
        };
        (path, Thing { what, about })
    };
    all.into_iter().map(thing).collect()
}

/// What `install` and `uninstall` print.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub done: Vec<String>,
    pub by_hand: Vec<String>,
}

impl Report {
    fn read(document: &Value) -> Report {
        let list = |name: &str| {
            let lines = document[name].as_array().unwrap().iter();
            lines.map(|line| line.as_str().unwrap().to_owned()).collect()
        };
        Report { done: list("done"), by_hand: list("byHand") }
    }
}

/// Writes an executable file.
pub fn script(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // A link must not lead the text elsewhere.
    let _ = std::fs::remove_file(file);
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Far more than anything here may take on a busy machine; whatever is still running then hangs.
const GUARD: Duration = Duration::from_secs(60);

/// Runs a command to its end. One that hangs is killed, with all it has started, and the test has failed.
pub fn guarded(mut command: Command) -> Output {
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let group = child.id().cast_signed();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output().unwrap()));
    ended.recv_timeout(GUARD).unwrap_or_else(|_| {
        // SAFETY: plain numbers. The group is not reaped, or its output would have come.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        panic!("this hangs: {command:?}");
    })
}

/// Both outputs, for messages.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a script when this process is gone, however it ended.
#[expect(clippy::zombie_processes, reason = "it outlives us on purpose")]
pub fn at_the_end(script: &str) {
    let waiting = format!("read -r nothing; {script}");
    let mut command = Command::new("sh");
    command.args(["-c", &waiting]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    // The other end closes with us.
    std::mem::forget(child.stdin);
}

/// Puts another path in the place of one, wherever it is named.
fn replaced(text: &[u8], from: &Path, to: &Path) -> Vec<u8> {
    let (from, to) = (from.as_os_str().as_encoded_bytes(), to.as_os_str().as_encoded_bytes());
    let mut rest = text;
    let mut out = Vec::new();
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}
