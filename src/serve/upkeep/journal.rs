//! The journal's file: back it up, check it, compact it, restore a backup; and what a start does with an old one.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::engine::{Seq, Timestamp};
use crate::journal::{Journal, begin_generation, db};
use crate::ledger;
use crate::local::{data_dir, nothing_held};

/// Copies the journal at `path` to the new file `to`, then reads the copy. Returns the number of its last record.
pub fn backup(path: &Path, to: &Path) -> Result<Seq> {
    require(path)?;
    if to.symlink_metadata().is_ok() {
        bail!(
            "{} exists already, and a backup never replaces a file; name a new one, or remove it first",
            to.display()
        );
    }
    db::backup(path, to)?;
    let copy = db::check(to).context("the copy is damaged; delete it and make another one")?;
    Ok(copy.head)
}

/// Reads the whole journal at `path`.
pub fn check(path: &Path) -> Result<db::JournalReport> {
    require(path)?;
    Ok(db::check(path)?)
}

/// Makes the file smaller. Returns its size in bytes before and after.
pub fn compact(path: &Path) -> Result<(u64, u64)> {
    require(path)?;
    Ok(db::compact(path)?)
}

/// Replaces the journal of a stopped server, in its directory `dir`, by a backup. The replaced one is kept. New records get
/// numbers above all those that the replaced journal, its predecessors or the ledger have.
pub fn restore(dir: &Path, backup: &Path) -> Result<db::RestoreReport> {
    let path = data_dir::journal(dir);
    if !backup.exists() {
        bail!("there is no file {}; nothing was changed", backup.display());
    }
    db::check(backup).context("this backup cannot be restored")?;
    let is_same =
        |other: &Path| other.canonicalize().is_ok_and(|other| backup.canonicalize().is_ok_and(|it| it == other));
    if is_same(&path) {
        bail!("{} is the journal itself; name a backup of it", backup.display());
    }
    data_dir::make_private(dir)?;
    // A ledger that cannot be read tells nothing. The replaced journal does.
    let used = ledger::end(&data_dir::ledger(dir)).ok().flatten().unwrap_or_default();
    // The backup may have reservations.
    nothing_held::take_back(dir)?;
    Ok(db::restore(&path, backup, used, Timestamp(super::unix_millis()))?)
}

/// A journal that ends before its ledger is an earlier copy, or a new one in the place of one that was lost. The ledger's
/// numbers were given out, so the journal begins a new generation.
///
/// Fails if the journal is empty and the ledger cannot be read: then no file tells which numbers were given out. A journal
/// with records goes on without the ledger, which is only a copy of it as long as no other journal was put in its place.
pub fn continue_after_ledger(journal: &mut dyn Journal, head: Seq, ledger: &Path) -> Result<()> {
    let end = match ledger::end(ledger) {
        Ok(end) => end.unwrap_or_default(),
        Err(error) if head == Seq::ZERO => {
            return Err(error).context(
                "the journal is lost, and the ledger cannot tell which fences were given out; restore a backup with \
                 git dibs db restore FILE, or move the ledger away if no fence of this repository is remembered anywhere",
            );
        }
        // Its own thread reports it.
        Err(_) => Seq::ZERO,
    };
    if end <= head {
        return Ok(());
    }
    let begins = begin_generation(journal, end, Timestamp(super::unix_millis()))?;
    tracing::warn!(
        of = %ledger.display(),
        %head,
        ledger_end = %end,
        %begins,
        "the journal ends before the ledger: an earlier copy was restored, or the journal was lost; what happened since is \
         undone, and numbers continue above those of the ledger"
    );
    Ok(())
}

fn require(path: &Path) -> Result<()> {
    if !path.try_exists().unwrap_or(true) {
        bail!(
            "there is no journal at {}; go into a repository that is served, or give --data DIR, \
             and --repo NAME if that server has several repositories",
            path.display()
        );
    }
    Ok(())
}
