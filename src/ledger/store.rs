//! The ledger's directory: a bare git repository, marked as a ledger in its configuration, with one writer at a time.
//!
//! A flush becomes visible when the file of the branch is renamed. Everything it points to is on disk by then, so a power
//! failure leaves either the new flush or the one before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::LedgerError;
use super::message::{self, Trailers};
use super::pack::PackFiles;
use crate::journal::lock_soon;

/// The branch that the ledger is written to.
pub const BRANCH: &str = "refs/heads/ledger";

/// The ref under which a ledger is pushed, and into which one is fetched.
pub const SHARED: &str = "refs/dibs/ledger";

/// The format version, in the repository's configuration.
const VERSION: i64 = 1;
const VERSION_NAME: &str = "dibs.ledgerversion";

/// The prefix of unfinished files in the directory of packs.
const UNFINISHED: &str = "tmp_dibs_";

/// A ledger that is open for writing.
pub struct LedgerStore {
    path: PathBuf,
    repo: Repository,
    _lock: File,
}

/// A commit of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: Oid,
    pub tree: Oid,
    /// The commit before: its parent, or for the first of a year the last of the year before.
    pub before: Option<Oid>,
    /// The time of the commit, in seconds since 1970.
    pub seconds: i64,
    pub trailers: Trailers,
}

impl LedgerStore {
    /// Opens the ledger at `path` for writing, or creates one there.
    pub fn open(path: &Path) -> Result<LedgerStore, LedgerError> {
        if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            create(path)?;
        }
        let repo = open(path)?;
        let lock = path.join("dibs.lock");
        let file = File::options().write(true).create(true).truncate(false).open(&lock);
        let file = file.map_err(LedgerError::io("write", &lock))?;
        lock_soon(&file).map_err(|_| LedgerError::InUse { path: path.to_owned() })?;
        let store = LedgerStore { path: path.to_owned(), repo, _lock: file };
        store.remove_leftovers();
        Ok(store)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The repository, for reading.
    pub fn repo(&self) -> &Repository {
        &self.repo
    }

    pub fn tip(&self) -> Result<Option<Commit>, LedgerError> {
        tip(&self.repo, &self.path, BRANCH)
    }

    /// The number of packs.
    pub fn packs(&self) -> usize {
        packs(&self.path)
    }

    /// Stores the objects of a flush durably. No ref points to them yet.
    pub fn store(&self, packed: &PackFiles) -> Result<(), LedgerError> {
        let dir = self.path.join("objects/pack");
        // The index comes last, because git only sees a pack that has one.
        for (ending, bytes) in [("pack", &packed.pack), ("idx", &packed.index)] {
            let unfinished = dir.join(format!("{UNFINISHED}{ending}"));
            let write = || -> io::Result<()> {
                let mut file = File::create(&unfinished)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                fs::rename(&unfinished, dir.join(format!("pack-{}.{ending}", packed.name)))
            };
            write().map_err(LedgerError::io("write", &unfinished))?;
        }
        sync_directory(&dir)
    }

    /// Moves a ref to `to`. Fails if it does not point to `from`.
    pub fn move_ref(&self, name: &str, from: Option<Oid>, to: Oid) -> Result<(), LedgerError> {
        let current_id = match self.repo.refname_to_id(name) {
            Ok(id) => Some(id),
            Err(error) if error.code() == git2::ErrorCode::NotFound => None,
            Err(error) => return Err(LedgerError::damaged(&self.path, error.message())),
        };
        if current_id != from {
            return Err(LedgerError::damaged(&self.path, format!("another program has moved {name}")));
        }
        let file = self.path.join(name);
        let lock = self.path.join(format!("{name}.lock"));
        let dir = file.parent().expect("a ref is in a directory");
        let write = || -> io::Result<()> {
            fs::create_dir_all(dir)?;
            let mut new = File::options().write(true).create_new(true).open(&lock)?;
            new.write_all(format!("{to}\n").as_bytes())?;
            new.sync_all()?;
            fs::rename(&lock, &file)
        };
        if let Err(error) = write() {
            let _ = fs::remove_file(&lock);
            return Err(LedgerError::io("write", &file)(error));
        }
        sync_directory(dir)
    }

    /// Removes what a killed writer left behind. Safe, because no other writer runs while we have the lock.
    fn remove_leftovers(&self) {
        let _ = fs::remove_file(self.path.join(format!("{BRANCH}.lock")));
        let Ok(files) = fs::read_dir(self.path.join("objects/pack")) else { return };
        for file in files.flatten() {
            if file.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// The number of packs of the ledger at `path`, whether or not it can be read.
pub fn packs(path: &Path) -> usize {
    let Ok(files) = fs::read_dir(path.join("objects/pack")) else { return 0 };
    files.flatten().filter(|file| file.path().extension().is_some_and(|ending| ending == "idx")).count()
}

/// Opens the ledger at `path`, for reading.
pub fn open(path: &Path) -> Result<Repository, LedgerError> {
    let foreign = || LedgerError::Foreign { path: path.to_owned() };
    if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(LedgerError::Missing { path: path.to_owned() });
    }
    let repo = Repository::open_bare(path).map_err(|_| foreign())?;
    let config = path.join("config");
    // Only this file: the user's own configuration must not turn a directory into a ledger.
    let version = git2::Config::open(&config).and_then(|config| config.get_i64(VERSION_NAME));
    match version {
        Ok(VERSION) => Ok(repo),
        Ok(version) if version > VERSION => {
            Err(LedgerError::Newer { path: path.to_owned(), version, newest_version: VERSION })
        }
        _ => Err(foreign()),
    }
}

/// Creates a new ledger, complete or not at all.
pub fn create(path: &Path) -> Result<(), LedgerError> {
    let new = path.with_extension("new");
    let failed = |error: git2::Error| LedgerError::Io {
        doing: "create",
        path: path.to_owned(),
        source: io::Error::other(error.message().to_owned()),
    };
    // Only we use this name, and it only becomes a ledger when it is renamed.
    let _ = fs::remove_dir_all(&new);
    let mut options = git2::RepositoryInitOptions::new();
    options.bare(true).external_template(false).initial_head("ledger");
    options.description("What was reserved with git-dibs, when and by whom.");
    let make = || -> Result<(), git2::Error> {
        Repository::init_opts(&new, &options)?;
        let mut config = git2::Config::open(&new.join("config"))?;
        // We repack ourselves; git's own maintenance would interfere.
        config.set_i32("gc.auto", 0)?;
        config.set_bool("maintenance.auto", false)?;
        config.set_i64(VERSION_NAME, VERSION)
    };
    make().map_err(failed)?;
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).map_err(LedgerError::io("restrict", &new))?;
    fs::rename(&new, path).map_err(LedgerError::io("create", path))?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// The commit a ref points to, if there is one.
pub fn tip(repo: &Repository, path: &Path, name: &str) -> Result<Option<Commit>, LedgerError> {
    match repo.refname_to_id(name) {
        Ok(id) => commit(repo, path, id).map(Some),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(LedgerError::damaged(path, error.message())),
    }
}

/// Reads a commit of the ledger.
pub fn commit(repo: &Repository, path: &Path, id: Oid) -> Result<Commit, LedgerError> {
    let commit = repo.find_commit(id);
    let commit = commit.map_err(|error| LedgerError::damaged(path, format!("commit {id}: {}", error.message())))?;
    let trailers = message::parse(&String::from_utf8_lossy(commit.message_bytes()));
    let Some(trailers) = trailers else {
        return Err(LedgerError::damaged(path, format!("commit {id} was not written by git-dibs")));
    };
    let before = commit.parent_ids().next().or(trailers.previous);
    Ok(Commit { id, tree: commit.tree_id(), before, seconds: commit.time().seconds(), trailers })
}

fn sync_directory(dir: &Path) -> Result<(), LedgerError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(LedgerError::io("write", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_and_newer_directories_are_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "Dear diary").unwrap();
        fs::create_dir(at("empty")).unwrap();
        Repository::init_bare(at("repo")).unwrap();
        create(&at("half")).unwrap();
        fs::remove_file(at("half/HEAD")).unwrap();
        for name in ["file", "empty", "repo", "half"] {
            let before = fs::metadata(at(name)).unwrap().modified().unwrap();
            let refused = LedgerStore::open(&at(name)).err().unwrap();
            assert!(matches!(refused, LedgerError::Foreign { .. }), "{name}: {refused}");
            assert_eq!(fs::metadata(at(name)).unwrap().modified().unwrap(), before, "{name}");
        }
        create(&at("newer")).unwrap();
        git2::Config::open(&at("newer/config")).unwrap().set_i64(VERSION_NAME, 2).unwrap();
        let refused = LedgerStore::open(&at("newer")).err().unwrap();
        assert!(refused.to_string().contains("version 2"), "{refused}");
        assert!(matches!(open(&at("nothing")).err().unwrap(), LedgerError::Missing { .. }));
    }

    #[test]
    fn there_is_one_writer_at_a_time_and_it_removes_leftovers_of_a_killed_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.git");
        fs::create_dir(dir.path().join("ledger.new")).unwrap();
        let store = LedgerStore::open(&path).unwrap();
        assert!(matches!(LedgerStore::open(&path).err().unwrap(), LedgerError::InUse { .. }));
        assert!(open(&path).is_ok(), "reading needs no lock");
        drop(store);
        fs::create_dir_all(path.join("refs/heads")).unwrap();
        fs::write(path.join("refs/heads/ledger.lock"), "half").unwrap();
        fs::write(path.join("objects/pack/tmp_dibs_pack"), "half").unwrap();
        let store = LedgerStore::open(&path).unwrap();
        assert_eq!(store.tip().unwrap(), None);
        assert!(!path.join("refs/heads/ledger.lock").exists() && !path.join("objects/pack/tmp_dibs_pack").exists());
    }
}
