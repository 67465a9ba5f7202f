//! The log of a server in the background: a file that does not grow without end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// At this size, in bytes, the file becomes the old one, and a new one begins.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Appends to a file, and keeps at most one old file beside it.
pub struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    pub fn open(path: &Path) -> io::Result<LogFile> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path: path.to_owned(), file, bytes })
    }

    fn begin_new(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, self.path.with_extension("log.old"))?;
        *self = LogFile::open(&self.path)?;
        Ok(())
    }
}

/// Opens a private file for appending.
pub fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes >= FILE_BYTES_MAX {
            self.begin_new()?;
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_the_latest_lines_in_two_files_of_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        let line = [b'x'; 1000];
        for n in 0..5_000u32 {
            // Opened again from time to time, as by another server.
            let mut log = LogFile::open(&path).unwrap();
            log.write_all(&line).unwrap();
            log.write_all(&n.to_le_bytes()).unwrap();
        }
        let size = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
        assert!(size("server.log") <= FILE_BYTES_MAX + 2000 && size("server.log.old") <= FILE_BYTES_MAX + 2000);
        assert!(std::fs::read(&path).unwrap().ends_with(&4_999u32.to_le_bytes()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
