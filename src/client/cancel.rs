//! Cancels a call from another thread.

use std::sync::Arc;

use tokio::sync::watch;

/// Ends the calls of a client, also one that is under way. For the server, a request that waits in a queue then leaves it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is cancelled.
    pub(super) async fn cancelled(&self) {
        // The sender is in this value, so the channel is never closed.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}
