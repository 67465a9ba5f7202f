//! Reading and replacing a file of configuration.
//!
//! A file is replaced as a whole, keeps its mode and owner, and is copied first. A link is followed to where it leads, if
//! that is still below the directory whose configuration is written; a link that leads elsewhere is refused.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// The largest file that is edited, in bytes: far more than any configuration has.
const BYTES_MAX: u64 = 4 << 20;

/// How many setups keep copies of what they changed; older copies are removed.
const BACKUPS_MAX: usize = 20;

/// How many directories a setup makes for one file at most.
const NEW_DIRECTORIES_MAX: usize = 3;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path} could not be {verb}: {error}")]
    Io { path: PathBuf, verb: &'static str, error: std::io::Error },
    #[error("{path} leads to {target}, outside of {root}; nothing was changed")]
    Outside { path: PathBuf, target: PathBuf, root: PathBuf },
    #[error("{0} is not a file; nothing was changed")]
    NotAFile(PathBuf),
    #[error("{0} is not UTF-8 text; nothing was changed")]
    NotText(PathBuf),
    #[error("{0} is larger than {BYTES_MAX} bytes; nothing was changed")]
    TooLarge(PathBuf),
    #[error("{0} was changed by another program in the meantime; run this again")]
    Raced(PathBuf),
}

/// A file as it was when it was read.
#[derive(Debug)]
pub struct Original {
    /// The path as the user knows it.
    path: PathBuf,
    /// Where links lead.
    real: PathBuf,
    /// None if there is no such file yet.
    found: Option<Found>,
}

#[derive(Debug)]
struct Found {
    bytes: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
}

impl Original {
    /// Reads a file below `root`. It need not exist.
    pub fn read(path: &Path, root: &Path) -> Result<Original, FileError> {
        let real = resolved(path, root)?;
        let found = read(&real).map_err(|error| match error {
            FileError::Io { error, verb, .. } => FileError::Io { path: path.to_owned(), verb, error },
            other => other,
        })?;
        Ok(Original { path: path.to_owned(), real, found })
    }

    /// The text; none if there is no such file yet.
    pub fn text(&self) -> Result<Option<String>, FileError> {
        let text = self.found.as_ref().map(|found| String::from_utf8(found.bytes.clone()));
        text.transpose().map_err(|_| FileError::NotText(self.path.clone()))
    }

    /// Where the file is, without links.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Replaces the file by this text, or removes it and the directories above it that are then empty, if `is_made` says that
    /// setup made them. The old file is copied to `backups` first; returns the copy.
    pub fn replace(
        &self,
        text: Option<&str>,
        is_made: impl Fn(&Path) -> bool,
        backups: &Path,
    ) -> Result<Option<PathBuf>, FileError> {
        let bytes = |found: &Option<Found>| found.as_ref().map(|found| found.bytes.clone());
        if bytes(&read(&self.real)?) != bytes(&self.found) {
            return Err(FileError::Raced(self.path.clone()));
        }
        let backup = self.found.as_ref().map(|found| back_up(&self.real, found, backups)).transpose()?;
        match text {
            Some(text) => self.write(text.as_bytes())?,
            None => {
                fs::remove_file(&self.real).map_err(failed(&self.path, "removed"))?;
                remove_empty_directories(&self.real, is_made);
            }
        }
        Ok(backup)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), FileError> {
        let dir = self.real.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(dir).map_err(failed(dir, "created"))?;
        let new = with_suffix(&self.real, &format!(".dibs-new-{}", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&new)?;
            if let Some(found) = &self.found {
                let now = file.metadata()?;
                if (now.uid(), now.gid()) != found.owner {
                    std::os::unix::fs::fchown(&file, Some(found.owner.0), Some(found.owner.1))?;
                }
                file.set_permissions(fs::Permissions::from_mode(found.mode))?;
            }
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &self.real)
        };
        write().inspect_err(|_| drop(fs::remove_file(&new))).map_err(failed(&self.path, "written"))
    }
}

/// Follows links, also of directories above and to files that do not exist yet, and stays below `root`.
fn resolved(path: &Path, root: &Path) -> Result<PathBuf, FileError> {
    let real_root = fs::canonicalize(root).map_err(failed(root, "found"))?;
    // What exists of the path, and the rest of it. A link that leads nowhere exists.
    let mut there = path;
    while fs::symlink_metadata(there).is_err() {
        match there.parent() {
            Some(parent) => there = parent,
            None => break,
        }
    }
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    let real = fs::canonicalize(there).map_err(failed(path, "followed"))?;
    let real = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    if !real.starts_with(&real_root) || rest.components().any(|part| part == Component::ParentDir) {
        return Err(FileError::Outside { path: path.to_owned(), target: real, root: root.to_owned() });
    }
    Ok(real)
}

fn read(path: &Path) -> Result<Option<Found>, FileError> {
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, "read")(error)),
    };
    if !about.is_file() {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    file.map_err(failed(path, "read"))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    Ok(Some(Found { bytes, mode: about.mode() & 0o7777, owner: (about.uid(), about.gid()) }))
}

/// Copies a file into a new directory of `backups`, readable by its owner only: a configuration may have secrets in it.
fn back_up(path: &Path, found: &Found, backups: &Path) -> Result<PathBuf, FileError> {
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S.%6f").to_string();
    let name: Vec<_> = path.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    let name = name.into_iter().rev().collect::<Vec<_>>().join("-").replace('/', "");
    let copy = backups.join(format!("{stamp}-{name}"));
    let write = || -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).create(backups)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy)?;
        file.write_all(&found.bytes)?;
        file.sync_all()
    };
    write().map_err(failed(&copy, "written"))?;
    forget_old(backups);
    Ok(copy)
}

fn forget_old(backups: &Path) {
    let entries = fs::read_dir(backups).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let surplus = files.len().saturating_sub(BACKUPS_MAX);
    for old in &files[..surplus] {
        // One that stays is only a file too many.
        let _ = fs::remove_file(old);
    }
}

/// Removes the directories that a removed file leaves empty: `.opencode/plugins`, `.claude/skills/git-dibs`.
fn remove_empty_directories(file: &Path, is_made: impl Fn(&Path) -> bool) {
    let is_agents_own = |dir: &&Path| dir.file_name().is_some_and(|name| name != ".git") && is_made(dir);
    for dir in file.ancestors().skip(1).take(NEW_DIRECTORIES_MAX).take_while(is_agents_own) {
        // Fails if there is anything in it.
        if fs::remove_dir(dir).is_err() {
            return;
        }
    }
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn failed(path: &Path, verb: &'static str) -> impl Fn(std::io::Error) -> FileError {
    move |error| FileError::Io { path: path.to_owned(), verb, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scratch() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (root, backups) = (dir.path().join("root"), dir.path().join("backups"));
        fs::create_dir(&root).unwrap();
        (dir, root, backups)
    }

    #[test]
    fn a_file_keeps_its_mode_and_leaves_a_copy() {
        let (_dir, root, backups) = scratch();
        let path = root.join("a/b.json");
        let new = Original::read(&path, &root).unwrap();
        assert_eq!(new.text().unwrap(), None);
        assert_eq!(new.replace(Some("one"), |_| true, &backups).unwrap(), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let there = Original::read(&path, &root).unwrap();
        let copy = there.replace(Some("two"), |_| true, &backups).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_to_string(&copy).unwrap(), "one");
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(root.join("a")).unwrap().count(), 1, "nothing else is left");
        Original::read(&path, &root).unwrap().replace(None, |_| true, &backups).unwrap();
        assert!(!root.join("a").exists());
    }

    #[test]
    fn a_link_is_followed_below_the_root_and_refused_outside() {
        let (dir, root, backups) = scratch();
        fs::create_dir(root.join("dotfiles")).unwrap();
        fs::write(root.join("dotfiles/x"), "one").unwrap();
        symlink("dotfiles/x", root.join("x")).unwrap();
        Original::read(&root.join("x"), &root).unwrap().replace(Some("two"), |_| true, &backups).unwrap();
        assert_eq!(fs::read_to_string(root.join("dotfiles/x")).unwrap(), "two");
        assert!(fs::symlink_metadata(root.join("x")).unwrap().is_symlink());
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("y"), "theirs").unwrap();
        symlink(outside.join("y"), root.join("y")).unwrap();
        symlink(&outside, root.join("d")).unwrap();
        symlink(outside.join("nothing"), root.join("nowhere")).unwrap();
        for name in ["y", "d/y", "d/new/deep", "nowhere"] {
            let error = Original::read(&root.join(name), &root).unwrap_err();
            assert!(!matches!(error, FileError::NotText(_)), "{name}: {error}");
        }
        assert!(matches!(Original::read(&root.join("y"), &root), Err(FileError::Outside { .. })));
    }

    #[test]
    fn a_change_in_the_meantime_is_not_overwritten() {
        let (_dir, root, backups) = scratch();
        let path = root.join("a");
        fs::write(&path, "one").unwrap();
        let read = Original::read(&path, &root).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(read.replace(Some("ours"), |_| true, &backups), Err(FileError::Raced(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn what_is_no_small_text_is_refused() {
        let (_dir, root, _) = scratch();
        fs::write(root.join("bytes"), b"\xff\xfe").unwrap();
        assert!(matches!(Original::read(&root.join("bytes"), &root).unwrap().text(), Err(FileError::NotText(_))));
        fs::create_dir(root.join("dir")).unwrap();
        assert!(matches!(Original::read(&root.join("dir"), &root), Err(FileError::NotAFile(_))));
        fs::File::create(root.join("large")).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(matches!(Original::read(&root.join("large"), &root), Err(FileError::TooLarge(_))));
    }

    #[test]
    fn only_the_latest_copies_are_kept() {
        let (_dir, root, backups) = scratch();
        let path = root.join("a");
        fs::write(&path, "0").unwrap();
        for n in 1..=BACKUPS_MAX + 5 {
            Original::read(&path, &root).unwrap().replace(Some(&n.to_string()), |_| true, &backups).unwrap();
        }
        assert_eq!(fs::read_dir(&backups).unwrap().count(), BACKUPS_MAX);
    }
}
