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

/// The same for `lfs.pushurl`, which Git LFS prefers for locks and for the check before a push.
const PUSH_BEFORE: &str = "dibs-lfs.pushurlBefore";

/// The file of certificate authorities that was installed for git's own connections to the server.
const CA_FILE: &str = "dibs-lfs.caFile";

/// The address that was installed in this repository; none if none was.
pub fn installed(repo: &Repo) -> Option<String> {
    get(repo, INSTALLED).ok().flatten()
}

/// Whether there is such an address. Each push asks this.
pub fn is_installed(repo: &Repo) -> bool {
    repo.has_local_setting(INSTALLED).unwrap_or_else(|| installed(repo).is_some())
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

/// The setting with which git trusts the authority of a server's certificate.
fn ca_key(origin: &str) -> String {
    format!("http.{origin}/.sslCAInfo")
}

/// Writes the settings for a server. Doing it again changes nothing; for another address, the old settings go first.
pub fn install(repo: &Repo, program: &Path, server: &LfsAddress, report: &mut Report) -> Result<(), GitError> {
    let before = installed(repo);
    if before.as_ref().is_some_and(|before| *before != server.url) {
        remove(repo, before.as_deref().unwrap_or_default())?;
    }
    if before.is_none() {
        objects_elsewhere(repo, server, report)?;
        if let Some(other) = get(repo, "lfs.url")?.filter(|other| *other != server.url) {
            set(repo, BEFORE, &other)?;
        }
    }
    let helpers = format!("\n{}", helper(program));
    let access = access_key(&server.url);
    let mut wanted = vec![("lfs.url", &*server.url), ("lfs.locksverify", "true"), (&*access, "basic")];
    if effective(repo, "lfs.pushurl").is_some_and(|other| other != server.url) {
        if let Some(other) = get(repo, "lfs.pushurl")? {
            set(repo, PUSH_BEFORE, &other)?;
        }
        wanted.push(("lfs.pushurl", &server.url));
    }
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
    trust_authority(repo, server, report)?;
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
    if let Some(before) = get(repo, PUSH_BEFORE)? {
        set(repo, "lfs.pushurl", &before)?;
        unset(repo, PUSH_BEFORE)?;
        report.done.push(format!("lfs.pushurl={before} again"));
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
    if get(repo, "lfs.pushurl")?.as_deref() == Some(url) {
        unset(repo, "lfs.pushurl")?;
    }
    if unset(repo, CA_FILE)? {
        unset(repo, &ca_key(origin))?;
    }
    Ok(())
}

/// Says where clients sent objects until now, because from now on they send them to our server, which stores none.
fn objects_elsewhere(repo: &Repo, server: &LfsAddress, report: &mut Report) -> Result<(), GitError> {
    let named = effective(repo, "lfs.url");
    if named.as_ref() == Some(&server.url) || (named.is_none() && !stores_objects(repo)?) {
        return Ok(());
    }
    let (what, place) = match named {
        Some(url) => (format!("lfs.url was {url}. If objects are stored there, tell"), url),
        None => {
            let what = "This repository has files in Git LFS, whose objects are stored at its remote. Tell".to_owned();
            (what, remote_objects(repo))
        }
    };
    report.by_hand.push(format!(
        "{what} the git-dibs server so that it sends clients on, in its configuration:\n  [lfs]\n  forward = \"{place}\""
    ));
    Ok(())
}

/// Whether a file of this repository is stored as an object of Git LFS.
fn stores_objects(repo: &Repo) -> Result<bool, GitError> {
    let attributes = ":(top,glob)**/.gitattributes";
    let found = repo.git().args(["grep", "--cached", "-q", "-e", "filter=lfs", "--", attributes]).everything()?;
    Ok(found.status.success() || repo.common_dir.join("lfs/objects").is_dir())
}

/// Where Git LFS stores the objects of a repository if no setting says so: below the address of its remote.
fn remote_objects(repo: &Repo) -> String {
    let remote = effective(repo, "remote.origin.url").filter(|url| url.starts_with("http")).unwrap_or_default();
    match remote.trim_end_matches('/') {
        "" => "https://HOST/REPOSITORY.git/info/lfs".to_owned(),
        url => format!("{}.git/info/lfs", url.strip_suffix(".git").unwrap_or(url)),
    }
}

/// Git does not know `dibs.caFile`: without a setting of its own, it would not trust the server.
fn trust_authority(repo: &Repo, server: &LfsAddress, report: &mut Report) -> Result<(), GitError> {
    let Some(file) = server.ca_file.as_ref().filter(|_| !is_authority_known(repo, server)) else { return Ok(()) };
    let (key, file) = (ca_key(&server.origin), file.to_string_lossy());
    set(repo, &key, &file)?;
    set(repo, CA_FILE, &file)?;
    report.done.push(format!("{key}={file}"));
    Ok(())
}

/// Whether git has a setting for the authority of the server's certificate, or needs none that we know of.
pub fn is_authority_known(repo: &Repo, server: &LfsAddress) -> bool {
    let call = repo.git().args(["config", "--get-urlmatch", "http.sslCAInfo", &server.url]);
    server.ca_file.is_none() || !server.url.starts_with("https:") || call.answer().is_ok_and(|value| value.is_some())
}

/// The value of a setting as Git LFS sees it: from every configuration of git, then from `.lfsconfig`.
pub fn effective(repo: &Repo, name: &str) -> Option<String> {
    let value = repo.git().args(["config", "--get", name]).answer().ok().flatten();
    value.map(setting_text).or_else(|| in_lfsconfig(repo, name))
}

/// The value of a setting in the file that is committed for every clone.
pub fn in_lfsconfig(repo: &Repo, name: &str) -> Option<String> {
    let file = repo.work_dir.as_ref().map(|top| top.join(".lfsconfig")).filter(|file| file.is_file())?;
    let call = repo.git().args(["config", "--file"]).arg(&file).args(["--get", name]);
    call.answer().ok().flatten().map(setting_text)
}

fn setting_text(value: Vec<u8>) -> String {
    String::from_utf8_lossy(value.trim_ascii_end()).into_owned()
}

/// Git LFS remembers the locks of "this clone" in one file for all worktrees. Where git has settings for each worktree, and
/// no objects are stored, each gets a file of its own.
fn worktree_caches(repo: &Repo, report: &mut Report) -> Result<(), GitError> {
    let linked: Vec<_> = worktrees(repo)?.into_iter().skip(1).filter(|worktree| !worktree.gone).collect();
    if linked.is_empty() || stores_objects(repo)? {
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
