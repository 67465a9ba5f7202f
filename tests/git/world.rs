//! A clone `work` of `origin.git`, and the program's real hooks in it.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::record;
pub use crate::support::process::{Process, Run, printed as said};
pub use crate::support::world::{PROGRAM, World, scratch_dir};

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

/// The hooks that `work` has at the start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hooks {
    None,
    Usual,
    Strict,
}

/// `$TOP` is the scratch directory, `$TOP/bin/git-dibs` the program under a name that can be removed.
impl World {
    /// A world without hooks.
    pub fn new() -> World {
        World::copied(Hooks::None)
    }

    /// With our hooks in `work`, `reference-transaction` among them when `strict`.
    pub fn with_hooks(strict: bool) -> World {
        World::copied(if strict { Hooks::Strict } else { Hooks::Usual })
    }

    /// The same with a server for `work`.
    pub fn served(mut self) -> World {
        self.start();
        self
    }

    /// Made once and then copied, because making one takes thirty processes.
    fn copied(hooks: Hooks) -> World {
        static TEMPLATES: [OnceLock<(PathBuf, Entries)>; 3] = [const { OnceLock::new() }; 3];
        let (template, entries) = TEMPLATES[hooks as usize].get_or_init(|| {
            let world = World::template(hooks);
            (world.dir().to_owned(), entries_in(world.dir()))
        });
        let dir = scratch_dir(&std::env::temp_dir());
        for (path, entry) in entries {
            let path = dir.path().join(path.strip_prefix(template).unwrap());
            entry.make(&path, |text| replaced(text, template, dir.path()));
        }
        World::at(dir, "work").with_variables()
    }

    fn template(hooks: Hooks) -> World {
        if hooks != Hooks::None {
            let world = World::new();
            world.install("work", if hooks == Hooks::Strict { &["--strict"] } else { &[] });
            return world;
        }
        let world = World::empty("work").with_variables();
        std::fs::create_dir(world.path("bin")).unwrap();
        symlink(PROGRAM, world.path("bin/git-dibs")).unwrap();
        // For scripts that make repositories of their own.
        script(&world.path("install"), "#!/bin/sh\nPATH=$TOP/bin:$PATH exec git-dibs install >/dev/null 2>&1\n");
        world.shell("", BEGINNING);
        world
    }

    fn with_variables(mut self) -> World {
        let top = self.dir().to_owned();
        self.set_variable("TOP", top);
        self.set_variable("GIT_EDITOR", "true");
        for role in ["AUTHOR", "COMMITTER"] {
            self.set_variable(&format!("GIT_{role}_DATE"), "2030-01-01T00:00:00Z");
        }
        self
    }

    /// The state of everything in it now.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { world: self, entries: entries_in(self.dir()) }
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
        let output = self.program(dir).args(args).run();
        assert!(output.status.success(), "{args:?}\n{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The program by the name it has on this world's PATH.
    pub fn program(&self, dir: &str) -> Command {
        let mut command = self.command(self.path("bin/git-dibs"), dir);
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path);
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
        let mut command = self.command("sh", dir);
        command.args(["-eu", "-c", script]).envs(variables.iter().copied()).run()
    }

    /// Runs a script and returns the paths each hook would have been judged by, in the order they ran:
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

/// The state of a world at one moment.
pub struct Snapshot<'a> {
    world: &'a World,
    entries: Entries,
}

/// Everything below a directory, each directory before its content.
type Entries = BTreeMap<PathBuf, Entry>;

/// A file, a directory or a link.
struct Entry {
    content: Content,
    about: Metadata,
}

enum Content {
    Directory,
    Link(PathBuf),
    File(Vec<u8>),
}

impl Snapshot<'_> {
    /// Restores that state. Only what has changed since is written.
    pub fn restore(&self) {
        let mut now = BTreeMap::new();
        stamps(self.world.dir(), &mut now);
        let changed = |path: &PathBuf| match (self.entries.get(path), now.get(path)) {
            (Some(Entry { content: Content::Directory, .. }), Some(about)) => !about.is_dir(),
            (Some(entry), Some(about)) => stamp(&entry.about) != stamp(about),
            _ => true,
        };
        // In reverse order the content of a directory comes first, so that it is empty when it is removed.
        for (path, about) in now.iter().rev().filter(|(path, _)| changed(path)) {
            match about.is_dir() {
                true => std::fs::remove_dir(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
        for (path, entry) in self.entries.iter().filter(|(path, _)| changed(path)) {
            entry.make(path, <[u8]>::to_vec);
        }
    }
}

impl Entry {
    /// Makes a copy of it; `edited` may change the text of a file.
    fn make(&self, path: &Path, edited: impl Fn(&[u8]) -> Vec<u8>) {
        match &self.content {
            Content::Directory => std::fs::create_dir(path).unwrap(),
            Content::Link(to) => symlink(to, path).unwrap(),
            Content::File(text) => {
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

fn entries_in(dir: &Path) -> Entries {
    let mut all = BTreeMap::new();
    stamps(dir, &mut all);
    let entry = |(path, about): (PathBuf, Metadata)| {
        let content = match about.file_type() {
            kind if kind.is_dir() => Content::Directory,
            kind if kind.is_symlink() => Content::Link(std::fs::read_link(&path).unwrap()),
            _ => Content::File(std::fs::read(&path).unwrap()),
        };
        (path, Entry { content, about })
    };
    all.into_iter().map(entry).collect()
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
    // Must not be written through a link.
    let _ = std::fs::remove_file(file);
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Runs a script when this process has ended, however that happens.
#[expect(clippy::zombie_processes, reason = "it outlives us on purpose")]
pub fn at_the_end(script: &str) {
    let waiting = format!("read -r nothing; {script}");
    let mut command = Command::new("sh");
    command.args(["-c", &waiting]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    // The other end closes when this process ends.
    std::mem::forget(child.stdin);
}

/// Replaces one path by another, wherever it is named.
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
