//! Ends a server that is not used: no live session, nothing held, no event stream and no request for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::shutdown::Shutdown;
use crate::engine::Actor;
use crate::http::{App, Repository};

/// How long a server in the background goes on without being used, unless it is configured.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);

/// How often to look, at most and at least: ten times within the timeout.
const LOOK_INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

/// Stops the server when it was not used for this time.
pub async fn watch(app: Arc<App>, timeout: Duration, shutdown: Shutdown) {
    let interval = (timeout / 10).clamp(*LOOK_INTERVALS.start(), *LOOK_INTERVALS.end());
    let (mut last_use, mut answered) = (Instant::now(), app.answered_requests());
    loop {
        tokio::time::sleep(interval).await;
        let answered_now = app.answered_requests();
        let is_used = answered_now != answered || is_in_use(&app).await;
        answered = answered_now;
        if is_used {
            last_use = Instant::now();
        } else if last_use.elapsed() >= timeout {
            tracing::info!("the server was not used for {} s and ends", timeout.as_secs());
            shutdown.request();
            return;
        }
    }
}

async fn is_in_use(app: &App) -> bool {
    for repository in app.repositories.open() {
        if repository.desk.feed().followers() > 0 || !is_unused(&repository).await {
            return true;
        }
    }
    false
}

/// Whether there is no live session, and nothing is held. False if the desk does not tell.
pub async fn is_unused(repository: &Repository) -> bool {
    let (sender, receiver) = oneshot::channel();
    let read = repository.desk.read(
        Actor::Reader,
        Box::new(move |state| {
            let numbers = state.engine.numbers();
            let _ = sender.send(numbers.sessions == 0 && numbers.reservations == 0);
        }),
    );
    read.is_ok() && receiver.await == Ok(true)
}
