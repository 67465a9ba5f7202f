//! The doctor's look at Git LFS: is every lock checked, and with whose token.

use std::collections::BTreeMap;
use std::path::Path;

use super::doctor::Findings;
use super::install::lfs::{effective, helper_key, in_lfsconfig, installed, is_authority_known};
use super::next::is_on_path;
use crate::client::{Client, Limits};
use crate::git::Repo;
use crate::local::ServerAccess;
use crate::local::lfs::LfsAddress;

const INSTALL: &str = "Run: git dibs install --lfs";

/// Examines the settings of Git LFS, if this repository locks at our server.
pub fn examine(repo: &Repo, access: &ServerAccess, findings: &mut Findings) {
    let Some(url) = installed(repo) else { return not_installed(repo, access, findings) };
    let Some(server) = LfsAddress::of(access) else {
        findings
            .bad("Git LFS cannot reach a server that listens only on a socket".to_owned(), "Start it with --listen.");
        return;
    };
    if !is_on_path("git-lfs") {
        findings.note("there is no git-lfs program here".to_owned(), "Install it to use git lfs lock.");
    }
    if url != server.url {
        findings.bad(format!("Git LFS locks at {url}, but the server is at {} now", server.url), INSTALL);
        return;
    }
    if let Some(other) = effective(repo, "lfs.url").filter(|other| *other != url) {
        findings.bad(format!("lfs.url is {other}, so Git LFS does not lock at this server"), INSTALL);
    }
    if let Some(other) = effective(repo, "lfs.pushurl").filter(|other| *other != url) {
        let what = format!("lfs.pushurl is {other}, so Git LFS neither locks at this server nor asks it before a push");
        findings.bad(what, INSTALL);
    }
    if !is_authority_known(repo, &server) {
        findings.bad(format!("git does not know the authority of the certificate of {}", server.origin), INSTALL);
    }
    switched_off(repo, findings);
    helpers(repo, &server, findings);
    verify(access, &server, findings);
}

/// The repository itself may name our server, in a file of every clone.
fn not_installed(repo: &Repo, access: &ServerAccess, findings: &mut Findings) {
    let url = in_lfsconfig(repo, "lfs.url");
    if let Some(server) = LfsAddress::of(access).filter(|server| url.as_ref() == Some(&server.url)) {
        let what = format!(".lfsconfig makes Git LFS lock at {}, but this clone has no token for it", server.url);
        findings.bad(what, INSTALL);
    }
}

/// A client that once got 404 or 501 writes `false`, and never checks again.
fn switched_off(repo: &Repo, findings: &mut Findings) {
    let call = ["config", "--show-scope", "--type=bool", "--get-regexp", r"^lfs\.(.*\.)?locksverify$"];
    let lines = repo.git().args(call).answer().ok().flatten().unwrap_or_default();
    let lines = String::from_utf8_lossy(&lines).into_owned();
    // The last value of a name counts: that of the clone, not that of the user.
    let mut settings = BTreeMap::new();
    for (scope, setting) in lines.lines().filter_map(|line| line.split_once('\t')) {
        let (name, value) = setting.rsplit_once(' ').unwrap_or((setting, ""));
        settings.insert(name, (scope, value));
    }
    let mut off = settings.iter().filter(|(_, (_, value))| *value == "false").peekable();
    if off.peek().is_none() && settings.get("lfs.locksverify").is_some_and(|(_, value)| *value == "true") {
        findings.good("Git LFS checks locks before every push (lfs.locksverify=true)".to_owned());
        return;
    }
    if off.peek().is_none() {
        findings.bad("lfs.locksverify is not true, so Git LFS only warns".to_owned(), INSTALL);
    }
    for (name, (scope, _)) in off {
        let advice = format!("Remove it: git config --{scope} --unset-all {name}; then: git dibs install --lfs");
        findings.bad(format!("{name} is false: a client switched the check of locks before a push off"), &advice);
    }
}

fn helpers(repo: &Repo, server: &LfsAddress, findings: &mut Findings) {
    let call = ["config", "--get-all", &helper_key(&server.origin)];
    let values = repo.git().args(call).answer().ok().flatten().unwrap_or_default();
    let values = String::from_utf8_lossy(&values).into_owned();
    // What comes before an empty value does not count.
    let active = values.lines().rev().take_while(|value| !value.is_empty()).collect::<Vec<_>>();
    let reset = values.lines().any(str::is_empty);
    let program =
        |value: &str| value.strip_prefix("!'")?.strip_suffix("' credential").map(|path| path.replace("'\\''", "'"));
    match &*active {
        [one] if reset && program(one).is_some_and(|program| Path::new(&program).exists()) => {
            findings.good(format!("git-lfs gets its token from git-dibs, for {} only", server.origin));
        }
        [one] if reset && program(one).is_some() => {
            findings.bad(format!("the credential helper {one} does not exist any more"), INSTALL);
        }
        _ => findings.bad(format!("git-lfs does not get its token from git-dibs for {}", server.origin), INSTALL),
    }
}

/// What a client is told before a push.
fn verify(access: &ServerAccess, server: &LfsAddress, findings: &mut Findings) {
    let client = Client::new(vec![server.endpoint.clone()], access.credential.clone(), Limits::default());
    let mut client = match client {
        Ok(client) => client.trusting(access.ca_file.clone()),
        Err(error) => return findings.bad(error.to_string(), "Check the server's address."),
    };
    match client.verify_locks(&server.path("/locks/verify")) {
        Ok(page) => {
            let (ours, theirs) = (page.ours.len(), page.theirs.len());
            let more = if page.next_cursor.is_some() { " on the first page" } else { "" };
            findings.good(format!(
                "the server answers Git LFS at {} ({ours} own locks, {theirs} of others{more})",
                server.url
            ));
            if let Some(count) = page.unlisted.reservations {
                let what = format!("{count} reservations cover more files than Git LFS clients are told of");
                findings.note(what, "Our hooks enforce them all the same; git dibs status shows them.");
            }
        }
        Err(error) => findings.bad(format!("the server does not answer Git LFS at {}: {error}", server.url), INSTALL),
    }
}
