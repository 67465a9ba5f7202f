//! Finds damaged packs while the ledger is written.
//!
//! A flush reads nothing of what is already in the ledger, so damage there would show only when a person reads it. Every
//! pack and every index ends with a checksum of the rest. A file is checked when it is new or changed, and again from time
//! to time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::LedgerError;

/// How often a file that looks unchanged is read again.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// How much is read at one time, in bytes; a larger file is read alone.
const BYTES_PER_TURN: u64 = 64 << 20;

/// The length of a checksum.
const SHA1_BYTES: usize = 20;

/// What is known of a file: length, time of the last change, inode.
type Stamp = (u64, i64, i64, u64);

/// Checks the packs of one ledger, a few at a time.
#[derive(Default)]
pub struct PackCheck {
    intact: HashMap<PathBuf, (Stamp, Instant)>,
    /// The damage that the last turn found.
    suspected: Option<String>,
}

impl PackCheck {
    /// Checks what is due, at most so many bytes. A file is damaged only if two turns say so: git may be about to replace or
    /// remove it.
    pub fn check(&mut self, ledger: &Path) -> Result<(), LedgerError> {
        let found = self.turn(&ledger.join("objects/pack"));
        let before = std::mem::replace(&mut self.suspected, found);
        match &self.suspected {
            Some(what) if before.as_ref() == Some(what) => Err(LedgerError::damaged(ledger, what)),
            _ => Ok(()),
        }
    }

    fn turn(&mut self, dir: &Path) -> Option<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            entries.filter(|file| file.extension().is_some_and(|ending| ending == "idx")).collect();
        files.sort();
        // Git only uses a pack that has an index.
        let files: Vec<PathBuf> = files.into_iter().flat_map(|index| [index.with_extension("pack"), index]).collect();
        self.intact.retain(|file, _| files.contains(file));
        let mut left = BYTES_PER_TURN;
        for file in files {
            match self.check_file(&file, &mut left) {
                Ok(()) if left == 0 => break,
                Ok(()) => {}
                Err(error) => {
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    return Some(format!("{name}: {error}"));
                }
            }
        }
        None
    }

    /// Reads one file, unless that was done lately. Takes what it reads from `left`.
    fn check_file(&mut self, path: &Path, left: &mut u64) -> io::Result<()> {
        let about = fs::metadata(path)?;
        let stamp = (about.len(), about.mtime(), about.mtime_nsec(), about.ino());
        let is_known = |(known, when): &(Stamp, Instant)| *known == stamp && when.elapsed() < AGAIN_AFTER;
        if self.intact.get(path).is_some_and(is_known) {
            return Ok(());
        }
        *left = left.saturating_sub(about.len().max(1));
        verify(path)?;
        self.intact.insert(path.to_owned(), (stamp, Instant::now()));
        Ok(())
    }
}

/// Compares the checksum at the end of a file with the rest.
fn verify(path: &Path) -> io::Result<()> {
    let damaged = || io::Error::other("its checksum is wrong");
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    // The last bytes read so far may be the checksum, so they are kept back.
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        let kept = bytes.len();
        let read = Read::by_ref(&mut file).take((64 << 10) - kept as u64).read_to_end(&mut bytes)?;
        if read == 0 {
            break;
        }
        let body = bytes.len().saturating_sub(SHA1_BYTES);
        context.update(&bytes[..body]);
        bytes.drain(..body);
    }
    if bytes.len() == SHA1_BYTES && context.finish().as_ref() == bytes { Ok(()) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::pack::{ObjectKind, Pack};

    fn ledger() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("objects/pack")).unwrap();
        let mut pack = Pack::new();
        pack.add(ObjectKind::Blob, &b"content ".repeat(30_000));
        let files = pack.finish();
        let path = dir.path().join("objects/pack").join(format!("pack-{}.pack", files.name));
        fs::write(&path, files.pack).unwrap();
        fs::write(path.with_extension("idx"), files.index).unwrap();
        (dir, path)
    }

    #[test]
    fn damage_is_reported_until_it_is_gone() {
        let (dir, pack) = ledger();
        let mut check = PackCheck::default();
        assert!((0..3).all(|_| check.check(dir.path()).is_ok()));
        for file in [pack.clone(), pack.with_extension("idx")] {
            let whole = fs::read(&file).unwrap();
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 1;
            for damage in [Some(flipped), Some(whole[..whole.len() - 1].to_vec()), Some(Vec::new()), None] {
                match &damage {
                    Some(bytes) => fs::write(&file, bytes).unwrap(),
                    None if file == pack => fs::remove_file(&file).unwrap(),
                    // Without an index it is not a pack.
                    None => continue,
                }
                assert!(check.check(dir.path()).is_ok(), "git may be at work");
                for _ in 0..2 {
                    let error = check.check(dir.path()).unwrap_err().to_string();
                    assert!(error.contains("is damaged: pack-"), "{error}");
                }
                fs::write(&file, &whole).unwrap();
                assert!((0..2).all(|_| check.check(dir.path()).is_ok()));
            }
        }
    }

    #[test]
    fn a_file_is_read_once() {
        let (dir, pack) = ledger();
        let mut check = PackCheck::default();
        check.check(dir.path()).unwrap();
        let seen = check.intact.clone();
        check.check(dir.path()).unwrap();
        assert!(check.intact == seen && seen.len() == 2);
        fs::remove_file(pack.with_extension("idx")).unwrap();
        check.check(dir.path()).unwrap();
        assert!(check.intact.is_empty(), "nothing is remembered of removed files");
    }
}
