//! What the server does at each signal.
//!
//! | signal | what happens |
//! |---|---|
//! | SIGTERM, SIGINT | the server stops: no new requests, the journal and the ledger are finished, exit 0 |
//! | SIGHUP | the configuration is read again, see `reload` |

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::reload::Reloader;
use super::shutdown::Shutdown;

/// Starts to handle signals, in tasks of their own.
pub fn handle(shutdown: Shutdown, mut reloader: Reloader) -> Result<()> {
    let mut terminate = listen(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = listen(SignalKind::interrupt(), "SIGINT")?;
    let mut hangup = listen(SignalKind::hangup(), "SIGHUP")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.request();
    });
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
