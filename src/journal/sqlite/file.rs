//! The file itself: its owner lock, its format, its creation, and connections to it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::journal::JournalError;

/// The format this version writes. A version that adds events or changes a table increments it, so that older versions
/// refuse the file with a clear message.
pub(in crate::journal) const FORMAT: i64 = 4;

/// "dibs" in ASCII; distinguishes journals from other SQLite files.
const APPLICATION_ID: i32 = 0x6469_6273;

/// The offsets of these two in SQLite's header, where they are big-endian numbers of four bytes.
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;
const HEADER_BYTES: usize = 100;

/// Our other connections write for milliseconds at a time. What blocks for longer than all these tries is another program.
const BUSY_PAUSE: Duration = Duration::from_micros(250);
const BUSY_TRIES: i32 = 20_000;

/// The write-ahead log is truncated to this size after a burst.
const LOG_KEEP_BYTES: i64 = 32 << 20;

const SCHEMA: &str = "
    -- What was appended together, as a JSON array of records numbered first to last.
    CREATE TABLE batch (
        first   INTEGER PRIMARY KEY,
        last    INTEGER NOT NULL CHECK (last >= first),
        records TEXT NOT NULL
    ) STRICT;

    -- What all records up to and including `at` add up to. At most one row; the pieces of others are leftovers.
    CREATE TABLE snapshot (
        at     INTEGER PRIMARY KEY,
        pieces INTEGER NOT NULL,
        bytes  INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE snapshot_piece (
        at    INTEGER NOT NULL,
        n     INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (at, n)
    ) STRICT;

    -- The number of the last record ever appended, whether or not it is still stored.
    CREATE VIEW head (seq) AS SELECT max(
        ifnull((SELECT last FROM batch ORDER BY first DESC LIMIT 1), 0),
        ifnull((SELECT max(at) FROM snapshot), 0)
    );

    -- For people with the sqlite3 tool: one row for each record.
    CREATE VIEW record (seq, at, event, body) AS
        SELECT one.value ->> '$.seq',
               strftime('%Y-%m-%dT%H:%M:%fZ', (one.value ->> '$.at') / 1000.0, 'unixepoch'),
               event.key,
               event.value
          FROM batch, json_each(batch.records) AS one, json_each(one.value, '$.event') AS event;
";

/// Marks the journal as owned by this process, until it is dropped or the process ends, also by a crash.
pub(in crate::journal) struct OwnerLock {
    _file: File,
}

impl OwnerLock {
    /// Takes the lock beside the journal, or reports which process has it. The lock file is never deleted: otherwise two
    /// processes could lock two files of the same name.
    pub(in crate::journal) fn take(journal: &Path) -> Result<OwnerLock, JournalError> {
        let path = beside(journal, ".lock");
        let failed = |error| JournalError::from_io("lock", &path, error);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).to_owned();
        let mut file = options.open(&path).map_err(failed)?;
        match lock_soon(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The owner may not have written its process id yet; then the error has none.
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(JournalError::InUse { path: journal.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(OwnerLock { _file: file })
    }
}

/// Locks a file. Retries for a moment while another process has the lock: if the owner has just ended while it was
/// starting a program, that program still has a copy of every open file, and with it the lock, until its `exec`.
pub(crate) fn lock_soon(file: &File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
    file.try_lock()
}

/// How often [`lock_soon`] retries, and how long it waits in between: half a second in total.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::journal) enum FileState {
    Missing,
    /// A journal in a format this version knows, which may be a later one according to the log.
    Journal {
        format: i64,
    },
}

/// The path without symbolic links, so that two paths to one file share one lock.
pub(in crate::journal) fn resolve(path: &Path) -> Result<PathBuf, JournalError> {
    let failed = |error| JournalError::from_io("find", path, error);
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let absolute = std::path::absolute(path).map_err(failed)?;
            let (Some(directory), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(failed(error));
            };
            Ok(fs::canonicalize(directory).map_err(failed)?.join(name))
        }
        found => found.map_err(failed),
    }
}

/// Inspects a file without changing it. SQLite would change a foreign file as soon as it is asked for a log.
pub(in crate::journal) fn inspect(path: &Path) -> Result<FileState, JournalError> {
    let failed = |error| JournalError::from_io("read", path, error);
    let foreign = || JournalError::Foreign { path: path.to_owned() };
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(foreign()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A new file would inherit the log of the lost one.
            if fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0) {
                return Err(JournalError::corrupt(
                    path,
                    "the file is gone, but what was written to it last is in the -wal beside it",
                ));
            }
            return Ok(FileState::Missing);
        }
        Err(error) => return Err(failed(error)),
    }
    let mut header = Vec::with_capacity(HEADER_BYTES);
    File::open(path).and_then(|file| file.take(HEADER_BYTES as u64).read_to_end(&mut header)).map_err(failed)?;
    let number = |at: usize| header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
    if !header.starts_with(b"SQLite format 3\0") || number(APPLICATION_ID_AT) != Some(APPLICATION_ID) {
        return Err(foreign());
    }
    let format = number(USER_VERSION_AT).unwrap_or_default().into();
    check_format(path, format)?;
    Ok(FileState::Journal { format })
}

/// Creates an empty journal under another name and renames it once it is complete, so that a crash leaves nothing that
/// looks like a damaged journal. Only for the owner of the lock.
pub(in crate::journal) fn create(path: &Path) -> Result<(), JournalError> {
    let new = beside(path, ".new");
    for leftover in [new.clone(), beside(&new, "-wal"), beside(&new, "-shm"), beside(&new, "-journal")] {
        match fs::remove_file(&leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(JournalError::from_io("remove", &leftover, error));
            }
            _ => {}
        }
    }
    // SQLite creates the files beside it with the same mode.
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).to_owned();
    let file = options.open(&new).map_err(|error| JournalError::from_io("create", &new, error))?;
    fill(&new).map_err(|error| JournalError::from_sqlite("create", path, error))?;
    file.sync_all()
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| sync_directory(path))
        .map_err(|error| JournalError::from_io("create", path, error))
}

/// Opens a connection to an existing journal, with the settings that a server needs.
pub(in crate::journal) fn connect(path: &Path) -> Result<Connection, JournalError> {
    let failed = |error| JournalError::from_sqlite("open", path, error);
    let db = connect_to_read(path)?;
    if db.is_readonly("main").map_err(failed)? {
        return Err(JournalError::ReadOnly { path: path.to_owned() });
    }
    // A new file and a backup have no log, so it is requested each time.
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(JournalError::Io {
            doing: "keep a write-ahead log beside",
            path: path.to_owned(),
            source: format!("SQLite answered {mode:?}, as on a network file system").into(),
        });
    }
    // `checkpoint` copies the log, beside the thread that appends.
    let settings = format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_KEEP_BYTES}"
    );
    db.execute_batch(&settings).map_err(failed)?;
    Ok(db)
}

/// Marks a journal of an earlier format as one of this format: from now on it may have records that earlier versions do
/// not know. Only for the owner of the lock.
pub(in crate::journal) fn raise_format(db: &Connection, path: &Path) -> Result<(), JournalError> {
    let failed = |error| JournalError::from_sqlite("open", path, error);
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    if found < FORMAT {
        db.execute_batch(&format!("PRAGMA user_version = {FORMAT}")).map_err(failed)?;
    }
    Ok(())
}

/// The format of an existing journal, by its log too.
pub(in crate::journal) fn format(path: &Path) -> Result<i64, JournalError> {
    let failed = |error| JournalError::from_sqlite("open", path, error);
    open(path).and_then(|db| db.query_row("PRAGMA user_version", [], |row| row.get(0))).map_err(failed)
}

/// Opens a connection that does not change the file's settings. Works for files that cannot be written, too.
pub(in crate::journal) fn connect_to_read(path: &Path) -> Result<Connection, JournalError> {
    let failed = |error| JournalError::from_sqlite("open", path, error);
    let db = open(path).map_err(failed)?;
    let format = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    check_format(path, format)?;
    Ok(db)
}

/// The path with `suffix` appended to the file name.
pub(in crate::journal) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the creation or renaming of a file durable.
pub(in crate::journal) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let mut db =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // SQLite's own handler sleeps up to tenths of a second, which would delay appends during a snapshot.
    db.busy_handler(Some(|tries| {
        std::thread::sleep(BUSY_PAUSE);
        tries < BUSY_TRIES
    }))?;
    Ok(db)
}

/// Uses no log file: if a log could not be copied into the file for lack of space, the rename would leave it behind, and
/// half of the content with it.
fn fill(path: &Path) -> rusqlite::Result<()> {
    let db = open(path)?;
    db.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; BEGIN; {SCHEMA};
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT"
    ))?;
    db.close().map_err(|(_, error)| error)
}

fn check_format(path: &Path, found: i64) -> Result<(), JournalError> {
    match found {
        1..=FORMAT => Ok(()),
        ..1 => Err(JournalError::corrupt(path, format!("its format is {found}"))),
        _ => Err(JournalError::Newer { path: path.to_owned(), found, known: FORMAT }),
    }
}
