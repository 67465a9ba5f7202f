//! The server's log, on stderr: as text for people or as JSON for programs.
//!
//! A thread of its own writes the lines, so that logging never waits for the reader of stderr. If the reader is too slow,
//! the newest lines are dropped, and the number of dropped lines is logged as soon as there is room again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written: a few megabytes, or what a busy server logs in a second.
const LINES_MAX: usize = 16_384;

/// How long the server waits at its end until the last lines are written.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// One readable line per event.
    Text,
}

/// The running log. Dropping it writes the last lines.
pub struct Log {
    lines: SyncSender<LogMessage>,
    done: Receiver<()>,
    level: LogLevel,
}

enum LogMessage {
    Line(Vec<u8>),
    End,
}

/// Passes lines to the thread that writes them.
#[derive(Clone)]
struct LineSender {
    lines: SyncSender<LogMessage>,
    dropped: Arc<AtomicU64>,
}

/// Changes how much is logged while the server runs.
#[derive(Clone)]
pub struct LogLevel {
    format: Option<LogFormat>,
    set: Arc<dyn Fn(EnvFilter) + Send + Sync>,
}

impl LogLevel {
    pub fn parse(&self, level: Option<&str>) -> Result<EnvFilter> {
        filter(self.format, level)
    }

    pub fn set(&self, filter: EnvFilter) {
        (self.set)(filter);
    }
}

/// Which events are logged. Without a level, this is every decision if a format is configured, and only warnings and errors
/// if not.
pub fn filter(format: Option<LogFormat>, level: Option<&str>) -> Result<EnvFilter> {
    let level = level.unwrap_or(if format.is_some() { "info" } else { "warn" });
    EnvFilter::try_new(level)
        .with_context(|| format!("{level:?} is not a log level; use error, warn, info, debug or trace"))
}

/// Starts to log to `out`, which is stderr.
pub fn start(format: Option<LogFormat>, level: Option<&str>, mut out: Box<dyn Write + Send>) -> Result<Log> {
    let filter = filter(format, level)?;
    let shape = format.unwrap_or(LogFormat::Text);
    let (lines, waiting) = sync_channel(LINES_MAX);
    let (finished, done) = sync_channel(1);
    let dropped = Arc::<AtomicU64>::default();
    let writer = LineSender { lines: lines.clone(), dropped: dropped.clone() };
    let write = move || {
        write_lines(&waiting, &dropped, shape, &mut out);
        let _ = finished.send(());
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(write).expect("a thread can be started");
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    let set: Arc<dyn Fn(EnvFilter) + Send + Sync> = match shape {
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_current_span(false).with_span_list(false);
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Arc::new(move |filter| drop(handle.reload(filter)))
        }
        LogFormat::Text => {
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Arc::new(move |filter| drop(handle.reload(filter)))
        }
    };
    Ok(Log { lines, done, level: LogLevel { format, set } })
}

impl Log {
    pub fn level(&self) -> LogLevel {
        self.level.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // If the queue is full, because stderr is not read, the lines in it are lost with the process.
        if self.lines.try_send(LogMessage::End).is_ok() {
            let _ = self.done.recv_timeout(FLUSH_TIME_MAX);
        }
    }
}

impl<'a> MakeWriter<'a> for LineSender {
    type Writer = LineSender;

    fn make_writer(&'a self) -> LineSender {
        self.clone()
    }
}

/// Each call of `write` passes one complete line.
impl Write for LineSender {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(LogMessage::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(lines: &Receiver<LogMessage>, dropped: &AtomicU64, format: LogFormat, out: &mut impl Write) {
    let mut text = Vec::new();
    loop {
        let mut end = false;
        let first = match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(LogMessage::End),
        };
        // Lines that are waiting already are written with one call.
        for message in first.into_iter().chain(lines.try_iter().take(256)) {
            match message {
                LogMessage::Line(line) => text.extend_from_slice(&line),
                LogMessage::End => end = true,
            }
        }
        let dropped = dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let message = format!("{dropped} lines of this log were dropped, because stderr was not read fast enough");
            let line = match format {
                LogFormat::Json => format!("{{\"level\":\"WARN\",\"message\":\"{message}\"}}\n"),
                LogFormat::Text => format!("WARN {message}\n"),
            };
            text.extend_from_slice(line.as_bytes());
        }
        // If stderr is closed, the server goes on without a log.
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
    fn logging_never_waits_and_dropped_lines_are_counted() {
        let (lines, waiting) = sync_channel(2);
        let dropped = Arc::<AtomicU64>::default();
        let mut writer = LineSender { lines: lines.clone(), dropped: dropped.clone() };
        for n in 0..5 {
            writer.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        drop((writer, lines));
        let mut out = Vec::new();
        write_lines(&waiting, &dropped, LogFormat::Text, &mut out);
        let expected = "0\n1\nWARN 3 lines of this log were dropped, because stderr was not read fast enough\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
