//! How the server stops: a signal asks for it, or a journal that cannot be written any more forces it.

use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use tokio::sync::watch;

/// Cheap to clone; all clones are the same switch.
#[derive(Clone)]
pub struct Shutdown {
    requested: watch::Sender<bool>,
    failure: Arc<OnceLock<String>>,
}

impl Shutdown {
    pub fn new() -> Self {
        Shutdown { requested: watch::Sender::new(false), failure: Arc::default() }
    }

    /// Asks the server to stop.
    pub fn request(&self) {
        self.requested.send_replace(true);
    }

    /// Asks the server to stop because of an error. Only the first error is reported.
    pub fn fail(&self, sentence: String) {
        let _ = self.failure.set(sentence);
        self.request();
    }

    /// Becomes `true` when the server is to stop.
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.requested.subscribe()
    }

    /// How the server ended: the error it stopped for, if there was one.
    pub fn result(&self) -> Result<()> {
        match self.failure.get() {
            Some(sentence) => bail!(sentence.clone()),
            None => Ok(()),
        }
    }
}
