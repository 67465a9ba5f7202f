//! Which of the pushed commits changes a path, and who made it, for the text of a blocked push.
//!
//! Asked only if a push is about to be blocked, so it may start git.

use std::collections::HashMap;

use super::Moment;
use super::collect::{HookInput, updates};
use crate::git::{Path, Repo};
use crate::text::terminal;

/// The most paths that are looked up; a message lists no more.
const PATHS_MAX: usize = 10;
/// The longest author or subject that is shown, in characters.
const TEXT_MAX: usize = 80;

/// The latest pushed commit that changes each path: `1a2b3c4 of Bo: Tidy up`. What git cannot tell is left out.
pub fn of_paths(repo: &Repo, input: HookInput<'_>, paths: &[Path]) -> HashMap<Path, String> {
    // What the other side has already is not what this push changes.
    let known = match input.moment {
        Moment::PrePush => "--remotes",
        Moment::PreReceive | Moment::ReferenceTransaction => "--all",
        _ => return HashMap::new(),
    };
    let updates = updates(input);
    let new = updates.iter().filter(|update| update.brings_work()).map(|update| update.new.as_str());
    let old = updates.iter().filter(|update| !update.old.is_zero()).map(|update| update.old.as_str());
    let tips: Vec<&str> = new.chain(["--not", known]).chain(old).collect();
    let find = |path: &Path| {
        let pathspec = [b":(top,literal)", path.as_slice()].concat();
        let pathspec = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&pathspec);
        let log = repo.git().args(["log", "-1", "--format=%h%x00%an%x00%s"]).arg("--ignore-missing").args(&tips);
        let said = log.arg("--").arg(pathspec).output().ok()?;
        let text = String::from_utf8_lossy(&said).into_owned();
        let mut fields = text.trim_end().split('\0');
        let (commit, author, subject) = (fields.next()?, fields.next()?, fields.next()?);
        let clean = |text: &str| terminal::clean(text, TEXT_MAX);
        Some((path.clone(), format!("{} of {}: {}", clean(commit), clean(author), clean(subject))))
    };
    paths.iter().take(PATHS_MAX).filter_map(find).collect()
}
