//! The server's log, on stderr: as text for people or as JSON for programs.
//!
//! Lines are written by a thread of their own. Whoever logs never waits for whoever reads: where nobody takes the lines
//! away, the newest are dropped, and how many is said once somebody does.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written: a few megabytes, and a second of a busy server.
const LINES_MAX: usize = 16_384;

/// How long the last lines may take when the server ends.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object on each line.
    Json,
    /// One readable line each.
    Text,
}

/// Keeps the log going; dropped, the last lines are written.
pub struct Log {
    lines: SyncSender<Message>,
    done: Receiver<()>,
    level: Level,
}

enum Message {
    Line(Vec<u8>),
    End,
}

#[derive(Clone)]
struct Writer {
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

/// How much is logged, which can change.
#[derive(Clone)]
pub struct Level {
    format: Option<Format>,
    set: Arc<dyn Fn(EnvFilter) + Send + Sync>,
}

impl Level {
    /// Whether this is one.
    pub fn check(&self, level: Option<&str>) -> Result<()> {
        filter(self.format, level).map(|_| ())
    }

    /// Logs so much from now on.
    pub fn set(&self, level: Option<&str>) {
        if let Ok(filter) = filter(self.format, level) {
            (self.set)(filter);
        }
    }
}

/// Which lines are written. Whoever names a format wants to read of every decision; else only trouble is told, unless
/// `level` says more exactly how much.
pub fn filter(format: Option<Format>, level: Option<&str>) -> Result<EnvFilter> {
    let level = level.unwrap_or(if format.is_some() { "info" } else { "warn" });
    EnvFilter::try_new(level)
        .with_context(|| format!("{level:?} is no log level; there are error, warn, info, debug and trace"))
}

/// Begins to log.
pub fn begin(format: Option<Format>, level: Option<&str>) -> Result<Log> {
    let filter = filter(format, level)?;
    let shape = format.unwrap_or(Format::Text);
    let (lines, waiting) = sync_channel(LINES_MAX);
    let (finished, done) = sync_channel(1);
    let lost = Arc::<AtomicU64>::default();
    let writer = Writer { lines: lines.clone(), lost: lost.clone() };
    let write = move || {
        write_lines(&waiting, &lost, shape, &mut io::stderr());
        let _ = finished.send(());
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(write).expect("a thread can be started");
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    let set: Arc<dyn Fn(EnvFilter) + Send + Sync> = match shape {
        Format::Json => {
            let log = log.json().flatten_event(true).with_current_span(false).with_span_list(false);
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Arc::new(move |filter| drop(handle.reload(filter)))
        }
        Format::Text => {
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Arc::new(move |filter| drop(handle.reload(filter)))
        }
    };
    Ok(Log { lines, done, level: Level { format, set } })
}

impl Log {
    /// How much is logged.
    pub fn level(&self) -> Level {
        self.level.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Where nobody reads, there may be no room even for this; then the end of the process is the end of the log.
        if self.lines.try_send(Message::End).is_ok() {
            let _ = self.done.recv_timeout(FLUSH_TIME_MAX);
        }
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Writer;

    fn make_writer(&'a self) -> Writer {
        self.clone()
    }
}

/// Every write is a whole line.
impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(lines: &Receiver<Message>, lost: &AtomicU64, format: Format, out: &mut impl Write) {
    let mut text = Vec::new();
    loop {
        let mut end = false;
        let first = match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::End),
        };
        // What came together is written together.
        for message in first.into_iter().chain(lines.try_iter().take(256)) {
            match message {
                Message::Line(line) => text.extend_from_slice(&line),
                Message::End => end = true,
            }
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let told = format!("{lost} lines of this log were lost, because nobody took them away fast enough");
            let line = match format {
                Format::Json => format!("{{\"level\":\"WARN\",\"message\":\"{told}\"}}\n"),
                Format::Text => format!("WARN {told}\n"),
            };
            text.extend_from_slice(line.as_bytes());
        }
        // Nobody may be there to read it any more; the server goes on without.
        let _ = out.write_all(&text);
        text.clear();
        if end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_logs_never_waits_and_lost_lines_are_told() {
        let (lines, waiting) = sync_channel(2);
        let lost = Arc::<AtomicU64>::default();
        let mut writer = Writer { lines: lines.clone(), lost: lost.clone() };
        for n in 0..5 {
            writer.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        drop((writer, lines));
        let mut out = Vec::new();
        write_lines(&waiting, &lost, Format::Text, &mut out);
        let told = "0\n1\nWARN 3 lines of this log were lost, because nobody took them away fast enough\n";
        assert_eq!(String::from_utf8(out).unwrap(), told);
    }
}
