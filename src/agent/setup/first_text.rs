//! What files had in them before setup changed them, so that a removal restores them byte for byte.
//!
//! A record counts while the file is as setup left it. Once another program has changed the file, only our part is taken
//! out of it, and the rest stays as that program wrote it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};

use super::file::FileError;
use crate::local::data_dir;
use crate::text::hex;

/// The most records that are kept. Without its record, a file may be laid out in another way after a removal.
const RECORDS_MAX: usize = 200;

/// A file before the first setup that changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstText {
    /// What was in it; none if there was no such file.
    pub text: Option<String>,
    /// The hash of what setup left in it.
    left: String,
}

impl FirstText {
    /// Whether nothing but setup has changed the file, which has this text now.
    pub fn is_current(&self, now: &str) -> bool {
        self.left == hash(now.as_bytes())
    }
}

/// The records, in a directory that only the user can read: a configuration may have secrets in it.
#[derive(Debug, Clone)]
pub struct FirstTexts {
    dir: PathBuf,
}

impl FirstTexts {
    pub fn new(dir: PathBuf) -> FirstTexts {
        FirstTexts { dir }
    }

    /// What a file was; none if that is not known.
    pub fn find(&self, file: &Path) -> Option<FirstText> {
        serde_json::from_slice(&fs::read(self.record(file)).ok()?).ok()
    }

    /// Notes that setup changes a file from `before` to `after`. A second setup does not make its own text the first one.
    pub fn note(&self, file: &Path, before: Option<&str>, after: &str) -> Result<(), FileError> {
        let known = self.find(file).filter(|first| before.is_some_and(|before| first.is_current(before)));
        let left = hash(after.as_bytes());
        let text = known.map_or_else(|| before.map(str::to_owned), |first| first.text);
        let record = self.record(file);
        let write = || -> anyhow::Result<()> {
            data_dir::make_private(&self.dir)?;
            data_dir::write_private(&record, &serde_json::to_vec(&FirstText { text, left })?)?;
            let is_missing = |dir: &&Path| !dir.exists();
            file.ancestors()
                .skip(1)
                .take_while(is_missing)
                .try_for_each(|dir| data_dir::write_private(&self.mark(dir), b""))
        };
        let failed = |error: anyhow::Error| std::io::Error::other(format!("{error:#}"));
        write().map_err(|error| FileError::Io { path: record.clone(), verb: "written", error: failed(error) })?;
        self.forget_old();
        Ok(())
    }

    /// Whether setup made this directory.
    pub fn has_made(&self, dir: &Path) -> bool {
        self.mark(dir).exists()
    }

    /// Nothing of setup is in the file any more, and some of the directories above it may be gone.
    pub fn forget(&self, file: &Path) {
        // One that stays does not match what a later setup leaves.
        let _ = fs::remove_file(self.record(file));
        for dir in file.ancestors().skip(1).take_while(|dir| !dir.exists()) {
            let _ = fs::remove_file(self.mark(dir));
        }
    }

    fn mark(&self, dir: &Path) -> PathBuf {
        self.dir.join(format!("{}.dir", hash(dir.as_os_str().as_bytes())))
    }

    fn record(&self, file: &Path) -> PathBuf {
        self.dir.join(format!("{}.json", hash(file.as_os_str().as_bytes())))
    }

    fn forget_old(&self) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let written = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut records: Vec<_> = entries.filter_map(written).collect();
        records.sort();
        let surplus = records.len().saturating_sub(RECORDS_MAX);
        for (_, record) in &records[..surplus] {
            // One that stays is only a file too many.
            let _ = fs::remove_file(record);
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_stays_known_while_only_setup_changes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let texts = FirstTexts::new(dir.path().join("first"));
        let file = &dir.path().join("a/b/settings.json");
        assert_eq!(texts.find(file), None);
        texts.note(file, Some(""), "one").unwrap();
        texts.note(file, Some("one"), "two").unwrap();
        let first = texts.find(file).unwrap();
        assert_eq!((first.text.as_deref(), first.is_current("two"), first.is_current("one")), (Some(""), true, false));
        texts.note(file, Some("theirs"), "three").unwrap();
        assert_eq!(texts.find(file).unwrap().text.as_deref(), Some("theirs"), "another program has changed it");
        assert!(texts.has_made(&dir.path().join("a/b")) && texts.has_made(&dir.path().join("a")));
        assert!(!texts.has_made(dir.path()));
        texts.forget(file);
        assert!(texts.find(file).is_none() && !texts.has_made(&dir.path().join("a")));
        texts.note(file, None, "new").unwrap();
        assert_eq!(texts.find(file).unwrap().text, None);
    }
}
