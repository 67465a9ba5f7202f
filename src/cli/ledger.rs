//! `git-dibs ledger`: the history in git, as a directory: where it is, whether it is whole, and sharing it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::data_dir::DataDir;
use super::{Exit, talk};
use crate::git::{Git, Repo};
use crate::hook::text::clean;
use crate::key::{Key, KeyRules};
use crate::ledger::{BRANCH, Reading, SHARED, create, git, shelf_of, verify};
use crate::local::{Cwd, Names, data_dir};

/// Works on the ledger's directory; needs no server.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    data: DataDir,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Go through all of it: every event is there, and every tree is what the events add up to
    Verify {
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Share it: push it to a remote of this repository, or a URL, as refs/dibs/ledger
    Push {
        /// A remote's name or a URL
        remote: String,
    },
    /// Bring a shared ledger here, beside one that is written here
    Fetch {
        /// A remote's name or a URL
        remote: String,
    },
    /// Print where it is, for git --git-dir; with keys, where in its tree each of them lies
    ShowPath {
        /// Files, directories, patterns, logical keys or URIs
        #[arg(value_name = "KEY")]
        keys: Vec<OsString>,
    },
}

pub fn run(args: Args) -> Result<Exit> {
    let path = std::path::absolute(data_dir::ledger(&args.data.find()?))?;
    match args.command {
        Command::Verify { json } => check(&path, json),
        Command::Push { remote } => push(&path, &remote),
        Command::Fetch { remote } => fetch(&path, &remote),
        Command::ShowPath { keys } => show(&path, &keys),
    }
}

fn check(path: &Path, json: bool) -> Result<Exit> {
    let found = verify(path)?;
    git(path).args(["fsck", "--no-dangling", "--no-progress"]).output()?;
    if json {
        let gaps: Vec<_> = found.gaps.iter().map(|(first, last)| json!({ "first": first, "last": last })).collect();
        let found = json!({ "commits": found.commits, "events": found.events, "last": found.last, "held": found.held, "missing": gaps });
        talk::document(found.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    let (commits, events) =
        (talk::count(found.commits as usize, "commit"), talk::count(found.events as usize, "event"));
    talk::data(&format!("whole: {events} up to {} in {commits}, {} held\n", found.last, found.held))?;
    for (first, last) in &found.gaps {
        talk::say(&format!("the events {first} to {last} are not in it, and it says so"));
    }
    Ok(Exit::Ok)
}

fn push(path: &Path, remote: &str) -> Result<Exit> {
    let reading = Reading::open(path)?;
    if reading.tip()?.is_none() {
        bail!("the ledger {} has no commit yet; there is nothing to share", path.display());
    }
    let url = url(remote, true)?;
    let refspec = format!("{BRANCH}:{SHARED}");
    let pushed = elsewhere(path).args(["push", "--quiet", "--"]).arg(&url).arg(&refspec).output();
    let shown = clean(remote, 200);
    pushed.with_context(|| format!("the ledger was not pushed to {shown}; if another one is there, fetch it first"))?;
    talk::say(&format!("pushed to {SHARED} of {shown}"));
    Ok(Exit::Ok)
}

fn fetch(path: &Path, remote: &str) -> Result<Exit> {
    let url = url(remote, false)?;
    if !path.exists() {
        data_dir::make_private(path.parent().unwrap_or(Path::new(".")))?;
        create(path)?;
    }
    Reading::open(path)?;
    let refspec = format!("+{SHARED}:{SHARED}");
    let fetched = elsewhere(path).args(["fetch", "--quiet", "--no-tags", "--"]).arg(&url).arg(&refspec).output();
    let shown = clean(remote, 200);
    fetched.with_context(|| {
        format!("no ledger could be fetched from {shown}; share one there with: git dibs ledger push")
    })?;
    talk::say(&format!("fetched from {shown} into {SHARED} of {}", path.display()));
    Ok(Exit::Ok)
}

fn show(path: &Path, keys: &[OsString]) -> Result<Exit> {
    if keys.is_empty() {
        talk::data(&format!("{}\n", path.display()))?;
        return Ok(Exit::Ok);
    }
    let repo = Repo::from_environment().ok();
    for text in Names::typed(&Cwd::of(repo.as_ref()), keys)?.texts() {
        let key = Key::parse_percent(&text, &KeyRules::default())?;
        talk::data(&format!("{}\n", String::from_utf8_lossy(&shelf_of(&key))))?;
    }
    Ok(Exit::Ok)
}

/// Git for the ledger, where the user is: a URL that is a relative path counts from there.
fn elsewhere(path: &Path) -> Git {
    Git::elsewhere(Path::new(".")).env("GIT_DIR", path)
}

/// Where a remote of this repository is, or what was given if it is none.
fn url(remote: &str, pushing: bool) -> Result<OsString> {
    if remote.is_empty() || remote.starts_with('-') {
        bail!("{remote:?} is no remote and no URL");
    }
    let Ok(repo) = Repo::from_environment() else { return Ok(remote.into()) };
    let mut git = repo.git().args(["remote", "get-url"]);
    if pushing {
        git = git.arg("--push");
    }
    match git.args(["--", remote]).output() {
        Ok(mut url) => {
            url.pop_if(|last| *last == b'\n');
            Ok(OsString::from_vec(url))
        }
        Err(_) => Ok(remote.into()),
    }
}
