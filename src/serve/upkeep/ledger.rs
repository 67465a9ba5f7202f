//! The ledger's directory: verify it, share it, and read the history and the holders from it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::client::HistoryFilter;
use crate::engine::{SessionId, Timestamp};
use crate::git::{Git, Repo};
use crate::http::event_json;
use crate::key::{Key, KeyRules};
use crate::ledger::{self, BRANCH, HistoryReader, Holding, LedgerReader, Query};
use crate::local::data_dir;
use crate::text::terminal::clean;
use crate::wire;

/// The ref under which ledgers are shared.
pub use crate::ledger::SHARED;

/// Checks that every event is there, that every tree is what the events add up to, and that git finds no damage.
pub fn verify(path: &Path) -> Result<ledger::VerifyReport> {
    let report = ledger::verify(path)?;
    ledger::git(path).args(["fsck", "--no-dangling", "--no-progress"]).output()?;
    Ok(report)
}

/// Pushes the ledger to a remote of the repository that contains the current directory, or to a URL.
pub fn push(path: &Path, remote: &str) -> Result<()> {
    if LedgerReader::open(path)?.tip()?.is_none() {
        bail!("the ledger {} has no commit yet, so there is nothing to push", path.display());
    }
    let url = remote_url(remote, true)?;
    let result = git_at(path).args(["push", "--quiet", "--"]).arg(&url).arg(format!("{BRANCH}:{SHARED}")).output();
    result.with_context(|| {
        let remote = clean(remote, 200);
        format!(
            "could not push the ledger to {remote}; if it has another ledger, fetch that first: git dibs ledger fetch"
        )
    })?;
    Ok(())
}

/// Fetches a shared ledger from a remote or URL, beside the one that is written here. Creates the directory if needed.
pub fn fetch(path: &Path, remote: &str) -> Result<()> {
    let url = remote_url(remote, false)?;
    if !path.exists() {
        data_dir::make_private(path.parent().unwrap_or(Path::new(".")))?;
        ledger::create(path)?;
    }
    LedgerReader::open(path)?;
    let refspec = format!("+{SHARED}:{SHARED}");
    git_at(path).args(["fetch", "--quiet", "--no-tags", "--"]).arg(&url).arg(&refspec).output().with_context(|| {
        let remote = clean(remote, 200);
        format!("could not fetch a ledger from {remote}; if it has none, push one first: git dibs ledger push")
    })?;
    Ok(())
}

/// The path in the tree of the ledger at `path` at which a percent-encoded key is shown while it is held.
pub fn path_in_tree(path: &Path, key: &str) -> Result<String> {
    let key = Key::parse_percent(key, &KeyRules::default())?;
    Ok(String::from_utf8_lossy(&ledger::path_in_tree(path, &key)?).into_owned())
}

/// The events in the ledger, the latest first, at most `limit`.
pub fn history(path: &Path, filter: &HistoryFilter, limit: usize) -> Result<wire::HistoryReply> {
    let history = HistoryReader::of_ledger(path.to_owned());
    let session = match &filter.session {
        Some(id) => match SessionId::parse(id) {
            Some(session) => Some(session),
            None => bail!("{id:?} is not a session id"),
        },
        None => None,
    };
    let key = filter.key.as_deref().map(|text| parse_key(text, filter.percent)).transpose()?;
    let since = filter.since.map(|since| Timestamp(since.0));
    let mut all = wire::HistoryReply::default();
    let mut cursor = None;
    loop {
        let page = history.page(&Query {
            key: key.clone(),
            fold_case: false,
            session: session.clone(),
            reservation: None,
            since,
            limit: limit - all.events.len(),
            cursor,
        })?;
        all.events.extend(page.events.into_iter().map(|line| event_json(&line.record(), line.name.clone())));
        let missing =
            page.missing.into_iter().map(|(first, last)| wire::MissingEvents { first: first.0, last: last.0 });
        all.missing.extend(missing);
        cursor = page.next;
        if cursor.is_none() || all.events.len() >= limit {
            all.next_cursor = cursor.map(|cursor| cursor.to_string());
            return Ok(all);
        }
    }
}

/// The reservations in the ledger's latest tree that overlap a key.
pub fn holders(path: &Path, key: &str, percent: bool) -> Result<Vec<Holding>> {
    let key = parse_key(key, percent)?;
    let ledger = LedgerReader::open(path)?;
    let Some(tip) = ledger.tip()? else { return Ok(Vec::new()) };
    let holdings = ledger.holdings(&tip)?;
    Ok(holdings.iter().filter(|held| held.key.overlaps(&key).is_some()).cloned().collect())
}

fn parse_key(text: &str, percent: bool) -> Result<Key> {
    let rules = KeyRules::default();
    Ok(if percent { Key::parse_percent(text, &rules) } else { Key::parse(text, &rules) }?)
}

/// Git for the ledger, run in the current directory, so that a URL may be a relative path.
fn git_at(path: &Path) -> Git {
    Git::elsewhere(Path::new(".")).env("GIT_DIR", path)
}

/// The URL of a remote of the repository that contains the current directory. What is not the name of a remote is taken for a URL.
fn remote_url(remote: &str, pushing: bool) -> Result<OsString> {
    if remote.is_empty() || remote.starts_with('-') {
        bail!("{remote:?} is neither a remote nor a URL");
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
