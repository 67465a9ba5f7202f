//! `install --lfs`: git's settings that make Git LFS lock at our server.
//!
//! All worktrees share them. Which session locks is decided by the credential helper, each time it is called: it finds the
//! session of the worktree, or of the process, that called git.

use std::path::Path;

use crate::git::{GitError, Repo, worktrees};
use crate::local::lfs::LfsAddress;
use crate::text::shell;

use super::{Report, local, set};

/// The address that was installed, and the `lfs.url` that was there before. Not in `dibs.*`, which `uninstall --all` deletes
/// first.
const INSTALLED: &str = "dibs-lfs.url";
const BEFORE: &str = "dibs-lfs.urlBefore";

/// The address that was installed in this repository; none if none was.
pub fn installed(repo: &Repo) -> Option<String> {
    get(repo, INSTALLED).ok().flatten()
}

pub fn is_installed(repo: &Repo) -> bool {
    installed(repo).is_some()
}

/// The value of git's setting that calls us as a credential helper.
pub fn helper(program: &Path) -> String {
    let word = shell::quote(program.as_os_str().as_encoded_bytes());
    format!("!{} credential", String::from_utf8_lossy(&word))
}

/// The names of git's settings for this server.
pub fn helper_key(origin: &str) -> String {
    format!("credential.{origin}.helper")
}

fn access_key(url: &str) -> String {
    format!("lfs.{url}.access")
}

/// What clients write when they switch their check off.
pub fn verify_key(url: &str) -> String {
    format!("lfs.{url}.locksverify")
}

/// Writes the settings for a server. Doing it again changes nothing; for another address, the old settings go first.
pub fn install(repo: &Repo, program: &Path, server: &LfsAddress, report: &mut Report) -> Result<(), GitError> {
    let before = installed(repo);
    if before.as_ref().is_some_and(|before| *before != server.url) {
        remove(repo, before.as_deref().unwrap_or_default())?;
    }
    if before.is_none()
        && let Some(other) = get(repo, "lfs.url")?.filter(|other| *other != server.url)
    {
        set(repo, BEFORE, &other)?;
        report.by_hand.push(format!(
            "lfs.url was {other}. If objects are stored there, tell the git-dibs server so that it sends clients on, in its \
             configuration:\n  [lfs]\n  forward = \"{other}\""
        ));
    }
    let helpers = format!("\n{}", helper(program));
    let wanted = [("lfs.url", &*server.url), ("lfs.locksverify", "true"), (&access_key(&server.url), "basic")];
    for (name, value) in wanted {
        if get(repo, name)?.as_deref() != Some(value) {
            local(repo, &["--replace-all", name, value]).output()?;
            report.done.push(format!("{name}={value}"));
        }
    }
    let key = helper_key(&server.origin);
    if all(repo, &key)?.as_deref() != Some(&helpers) {
        // An empty value makes git forget the helpers before it, so that none of them stores the token.
        local(repo, &["--replace-all", &key, ""]).output()?;
        local(repo, &["--add", &key, &helper(program)]).output()?;
        report.done.push(format!("{key}={}, and no other helper for this address", helper(program)));
    }
    if unset(repo, &verify_key(&server.url))? {
        report.done.push(format!("{} unset: a client had switched its check off", verify_key(&server.url)));
    }
    set(repo, INSTALLED, &server.url)?;
    worktree_caches(repo, report)?;
    report.by_hand.push(format!(
        "To set up every clone at once, commit these lines as .lfsconfig; a clone then needs only git dibs install --lfs \
         for its token:\n  [lfs]\n    url = {}\n    locksverify = true",
        server.url
    ));
    Ok(())
}

/// Removes what [`install`] wrote.
pub fn uninstall(repo: &Repo, report: &mut Report) -> Result<(), GitError> {
    let Some(url) = installed(repo) else { return Ok(()) };
    remove(repo, &url)?;
    report.done.push(format!("lfs.url={url} and the settings for it removed"));
    if let Some(before) = get(repo, BEFORE)? {
        set(repo, "lfs.url", &before)?;
        unset(repo, BEFORE)?;
        report.done.push(format!("lfs.url={before} again"));
    }
    Ok(())
}

fn remove(repo: &Repo, url: &str) -> Result<(), GitError> {
    let origin_end = url.find("://").and_then(|at| url[at + 3..].find('/').map(|slash| at + 3 + slash));
    let origin = &url[..origin_end.unwrap_or(url.len())];
    let keys = [access_key(url), verify_key(url), helper_key(origin)];
    for name in keys.iter().map(String::as_str).chain([INSTALLED, "lfs.url", "lfs.locksverify"]) {
        unset(repo, name)?;
    }
    Ok(())
}

/// Git LFS remembers the locks of "this clone" in one file for all worktrees. Where git has settings for each worktree, and
/// no objects are stored, each gets a file of its own.
fn worktree_caches(repo: &Repo, report: &mut Report) -> Result<(), GitError> {
    let linked: Vec<_> = worktrees(repo)?.into_iter().skip(1).filter(|worktree| !worktree.gone).collect();
    if linked.is_empty() || repo.common_dir.join("lfs/objects").is_dir() {
        return Ok(());
    }
    let per_worktree = repo.git().args(["config", "--bool", "extensions.worktreeConfig"]).answer()?;
    if per_worktree.as_deref().map(<[u8]>::trim_ascii) != Some(b"true") {
        report.by_hand.push(
            "The worktrees share what git lfs locks --local shows. If they have different sessions: git config \
             extensions.worktreeConfig true, then git dibs install --lfs again."
                .to_owned(),
        );
        return Ok(());
    }
    for worktree in linked {
        let Ok(one) = Repo::at(&worktree.path) else { continue };
        let storage = one.git_dir.join("lfs");
        let storage = storage.to_string_lossy();
        let known = one.git().args(["config", "--worktree", "lfs.storage"]).answer()?;
        if known.is_none() {
            one.git().args(["config", "--worktree", "lfs.storage", &storage]).output()?;
            report.done.push(format!("lfs.storage={storage} in {}", worktree.path.display()));
        }
    }
    Ok(())
}

/// The effective value of a setting of this repository.
fn get(repo: &Repo, name: &str) -> Result<Option<String>, GitError> {
    let value = local(repo, &["--get", name]).answer()?;
    Ok(value.map(|value| String::from_utf8_lossy(value.strip_suffix(b"\n").unwrap_or(&value)).into_owned()))
}

/// All values, a line each.
fn all(repo: &Repo, name: &str) -> Result<Option<String>, GitError> {
    let values = local(repo, &["--get-all", name]).answer()?;
    Ok(values.map(|values| String::from_utf8_lossy(values.strip_suffix(b"\n").unwrap_or(&values)).into_owned()))
}

/// Removes a setting; returns whether there was one.
fn unset(repo: &Repo, name: &str) -> Result<bool, GitError> {
    Ok(local(repo, &["--unset-all", name]).everything()?.status.success())
}
