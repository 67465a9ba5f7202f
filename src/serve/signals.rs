//! What the server does at each signal.
//!
//! | signal | what happens |
//! |---|---|
//! | SIGTERM, SIGINT | the server stops: no new requests, the journal and the ledger are finished, exit 0 |
//! | SIGHUP | the configuration is read again, see `reload` |
//!
//! The signals that stop the server are awaited by a thread of their own, which also is the watchdog: whatever else the
//! process is doing, it ends within [`STOP_TIME_MAX`].

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::reload::Reloader;
use super::shutdown::Shutdown;

/// How long the server may take to stop. Service managers usually kill a service after 30 s or more.
const STOP_TIME_MAX: Duration = Duration::from_secs(11);

/// How long the sentence about a forced end may take: the log may be what is blocked.
const LAST_WORDS_TIME: Duration = Duration::from_millis(200);

/// The exit code of a server that did not stop in time.
const FORCED: i32 = 1;

/// Starts the thread that stops the server at SIGTERM and SIGINT. Must be called once, before the server serves.
pub fn handle_stop(shutdown: Shutdown) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the thread for signals")?;
    let (mut terminate, mut interrupt) = {
        let _runtime = runtime.enter();
        (listen(SignalKind::terminate(), "SIGTERM")?, listen(SignalKind::interrupt(), "SIGINT")?)
    };
    let watch = move || {
        let mut requested = shutdown.subscribe();
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = requested.wait_for(|stop| *stop) => {}
            }
        });
        shutdown.request();
        std::thread::sleep(STOP_TIME_MAX);
        force_end();
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("cannot start a thread")?;
    Ok(())
}

/// Ends a process that is still stopping. What was acknowledged is in the journal: a reply is sent only after its records
/// are durable. The next start writes what the ledger lacks.
fn force_end() -> ! {
    std::thread::spawn(|| {
        tracing::error!(
            "the server did not stop within {} s and was ended; nothing that was acknowledged is lost",
            STOP_TIME_MAX.as_secs()
        );
    });
    std::thread::sleep(LAST_WORDS_TIME);
    // SAFETY: ends the process at once. Exit handlers do not run, because they could wait for what is blocked.
    unsafe { libc::_exit(FORCED) }
}

/// Starts to reload the configuration at SIGHUP, in a task of its own.
pub fn handle_reload(mut reloader: Reloader) -> Result<()> {
    let mut hangup = listen(SignalKind::hangup(), "SIGHUP")?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reloader.reload();
        }
    });
    Ok(())
}

fn listen(kind: SignalKind, name: &str) -> Result<Signal> {
    signal(kind).with_context(|| format!("cannot listen for {name}"))
}
