//! Which remotes are the protected repository, and which commits they have.
//!
//! Tracking refs tell it without a network, but only what was true at the last fetch. [`commits`] asks the remote.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use super::known_refs::{Except, KnownRefs};
use super::range::Update;
use super::{Git, GitError, Oid, Repo};

/// How long a remote may take to answer.
pub const REMOTE_LIMIT: Duration = Duration::from_secs(2);

/// The remotes whose commits are not new in a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    /// What is pushed to, and the other names of the protected repository.
    pub addresses: Vec<OsString>,
    /// Their tracking refs.
    pub tracking: Vec<KnownRefs>,
    /// The same for the remote that is pushed to, alone.
    pub own_tracking: Vec<KnownRefs>,
    /// The names of the protected repository.
    pub names: Vec<String>,
    /// What is pushed to is none of them.
    pub is_elsewhere: bool,
}

/// The name and the URLs of a remote.
type Remote = (String, Vec<String>);

impl Protected {
    /// For a push to a remote of this name and URL (both are the URL if it has no name).
    ///
    /// Beside it count the remotes that `dibs.protected` names. Without that setting these are `upstream`, to which a fork
    /// belongs, and `origin` for a push to some other place. A remote of any other name may be the repository of a
    /// colleague, whose commits were never checked.
    pub fn of_push(repo: &Repo, remote: &OsStr, url: &OsStr, updates: &[Update]) -> Result<Protected, GitError> {
        let remotes = remotes(repo)?;
        let is_here = |one: &&Remote| match remote == url {
            true => one.1.iter().any(|known| is_same_address(known, &url.to_string_lossy())),
            false => *remote == *one.0,
        };
        let target = remotes.iter().find(is_here).map(|one| one.0.as_str());
        let mut names: Vec<&str> = target.into_iter().collect();
        let chosen = repo.library().and_then(|library| library.setting("dibs.protected"));
        let by_name: Vec<&str> = match &chosen {
            Some(chosen) => chosen.split([' ', ',']).filter(|name| !name.is_empty()).collect(),
            None if target == Some("upstream") => vec!["upstream"],
            None => vec!["upstream", "origin"],
        };
        let is_home = target.is_some_and(|target| by_name.contains(&target) || target == "origin");
        names.extend(&by_name);
        let mut known: Vec<&Remote> = Vec::new();
        for name in names {
            known.extend(remotes.iter().find(|one| one.0 == name && !known.contains(one)));
        }
        let address = if target.is_some() { None } else { Some(url.to_owned()) };
        let addresses = address.into_iter().chain(known.iter().map(|one| one.0.clone().into())).collect();
        let (mut tracking, mut own_tracking) = (Vec::new(), Vec::new());
        for (name, _) in known {
            let except = misleading(repo, name, &remotes, updates.iter().filter(|_| target == Some(name)));
            for prefix in ["refs/remotes/", "refs/original/refs/remotes/"] {
                tracking.push(KnownRefs::Below { prefix: format!("{prefix}{name}/"), except: except.clone() });
            }
            if target == Some(name) {
                own_tracking.clone_from(&tracking);
            }
        }
        let names = target.into_iter().filter(|_| is_home).chain(by_name).map(str::to_owned).collect();
        Ok(Protected { addresses, tracking, own_tracking, names, is_elsewhere: !is_home })
    }
}

/// Tracking refs of a remote that do not tell what it has.
fn misleading<'a>(
    repo: &Repo,
    name: &str,
    remotes: &[Remote],
    updates: impl Iterator<Item = &'a Update>,
) -> Vec<Except> {
    let own = format!("refs/remotes/{name}/");
    let longer = remotes.iter().map(|(other, _)| format!("refs/remotes/{other}/"));
    // The remote `origin/fork` keeps its refs among those of `origin`.
    let mut all: Vec<Except> =
        longer.filter(|other| *other != own && other.starts_with(&own)).map(Except::Below).collect();
    // The remote has just told what the pushed branches are there, or that it has deleted them.
    for update in updates.filter(|update| update.old.is_zero() || repo.has(&update.old)) {
        all.extend(update.name.strip_prefix("refs/heads/").map(|branch| Except::Ref(format!("{own}{branch}"))));
    }
    // `git filter-branch` rewrites tracking refs too, and keeps the real ones here.
    let original = "refs/original/";
    let rewritten = repo.library().and_then(|library| library.refs(&format!("{original}{own}"))).unwrap_or_default();
    all.extend(
        rewritten.iter().filter_map(|name| name.strip_prefix(original)).map(|name| Except::Ref(name.to_owned())),
    );
    all
}

/// Commits that were fetched from a configured remote by its URL, so that only `FETCH_HEAD` names them. What came from
/// elsewhere, such as a bundle or this repository itself, may be anything.
pub fn fetched_by_url(repo: &Repo) -> Vec<Oid> {
    let Ok(text) = std::fs::read(repo.git_dir.join("FETCH_HEAD")) else { return Vec::new() };
    let Ok(remotes) = remotes(repo) else { return Vec::new() };
    let text = String::from_utf8_lossy(&text);
    // `OID <tab> [not-for-merge] <tab> branch 'main' of URL`
    let fetched = |line: &str| {
        let (oid, from) = (line.split('\t').next()?, line.rsplit(" of ").next()?.trim_end());
        let from = if from.contains('\t') { line.rsplit('\t').next()?.trim_end() } else { from };
        let is_known = remotes.iter().any(|(_, urls)| urls.iter().any(|url| is_same_address(url, from)));
        Oid::parse(oid.as_bytes()).filter(|_| is_known)
    };
    text.lines().filter_map(fetched).collect()
}

/// That a remote did not say which commits it has, as a sentence.
pub fn no_answer(address: &OsStr, why: &str) -> String {
    format!("{} did not say which commits it has, so its tracking refs decided ({why}).", address.to_string_lossy())
}

/// Asks a remote for its branches, and for the newest commits below `tips` that it has. Nothing is fetched, and
/// there is no prompt for a password. Empty if the remote has no branch.
pub fn commits(repo: &Repo, address: &OsStr, tips: &[Oid], limit: Duration) -> Result<Vec<Oid>, GitError> {
    let start = Instant::now();
    let listed = silent(repo).args(["ls-remote", "--heads", "--"]).arg(address).output_within(limit)?;
    let oids = listed.split(|&b| b == b'\n').filter_map(|line| line.split(|&b| b == b'\t').next());
    let mut all: Vec<Oid> = oids.filter_map(Oid::parse).collect();
    // If all its branches are known here, they tell everything. A remote may also have commits that no branch of it has
    // any more, so it is asked about commits only if it has moved on.
    if !all.iter().all(|branch| repo.has(branch)) {
        all.extend(negotiate(repo, address, tips, limit.saturating_sub(start.elapsed()))?);
    }
    Ok(all)
}

fn negotiate(repo: &Repo, address: &OsStr, tips: &[Oid], limit: Duration) -> Result<Vec<Oid>, GitError> {
    let call = silent(repo).with(["protocol.version=2"]).args(["fetch", "--negotiate-only"]);
    let call = call.arg("--no-recurse-submodules").args(tips.iter().map(|tip| format!("--negotiation-tip={tip}")));
    let listed = call.arg("--end-of-options").arg(address).output_within(limit)?;
    Ok(listed.split(|&b| b == b'\n').filter_map(Oid::parse).collect())
}

/// A call that fails where it would have to ask for a password, on the terminal or in a window.
fn silent(repo: &Repo) -> Git {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let git = repo
        .git()
        .with(["core.askPass=", "credential.interactive=false"])
        .env("GIT_ASKPASS", "")
        .env("SSH_ASKPASS", "");
    let git = git.env("SSH_ASKPASS_REQUIRE", "never").env("GCM_INTERACTIVE", "never");
    // A program that the user chose may not know the option.
    let configured = || repo.library().and_then(|library| library.setting("core.sshCommand"));
    match set("GIT_SSH_COMMAND").or_else(|| set("GIT_SSH")).or_else(configured) {
        Some(_) => git,
        None => git.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    }
}

fn remotes(repo: &Repo) -> Result<Vec<Remote>, GitError> {
    if let Some(remotes) = repo.library().and_then(super::library::Library::remotes) {
        return Ok(remotes);
    }
    let listed = repo.git().args(["config", "-z", "--get-regexp", r"^remote\..*\.(push)?url$"]).answer()?;
    let mut all: Vec<Remote> = Vec::new();
    for entry in super::split_nul(&listed.unwrap_or_default()) {
        let text = String::from_utf8_lossy(&entry);
        let Some((key, url)) = text.split_once('\n') else { continue };
        let name = key.strip_prefix("remote.").and_then(|key| key.rsplit_once('.')).map_or("", |(name, _)| name);
        match all.iter_mut().find(|one| one.0 == name) {
            Some(one) => one.1.push(url.to_owned()),
            None => all.push((name.to_owned(), vec![url.to_owned()])),
        }
    }
    Ok(all)
}

fn is_same_address(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url.trim_end_matches('/');
        url.strip_suffix(".git").unwrap_or(url).to_owned()
    };
    let file = |url: &str| std::fs::canonicalize(url.strip_prefix("file://").unwrap_or(url)).ok();
    plain(one) == plain(other) || file(one).is_some_and(|one| file(other) == Some(one))
}
