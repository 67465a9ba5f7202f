//! Waits until a pause ends. A pause may end at any moment, so the server is asked again and again, at most once a second.

use std::thread;
use std::time::Instant;

use super::backoff;
use super::context::Context;
use super::failure::Failure;
use crate::client::ReservationFilter;
use crate::wire::Reservation;

/// Waits until the session's feature is not paused. False if it still is at `end`.
pub fn wait_for_session(context: &mut Context, session: &str, end: Instant) -> Result<bool, Failure> {
    repeat(end, || {
        let result = context.client.held(Some(session));
        Ok(!context.checked(result)?.paused)
    })
}

/// Waits until no session holds this key. Returns the holder if one still does at `end`. `tell` is called with the first
/// holder.
pub fn wait_for_key(
    context: &mut Context,
    key: &str,
    end: Instant,
    tell: impl Fn(&Context, &Reservation),
) -> Result<Option<Reservation>, Failure> {
    let filter = ReservationFilter { prefix: Some(key.to_owned()), session: None };
    let (mut holder, mut is_told) = (None, false);
    repeat(end, || {
        let held = context.look(|client, _| client.reservations(&filter))?;
        holder = held.into_iter().find(|one| one.file_path == key);
        if let Some(holder) = holder.as_ref().filter(|_| !is_told) {
            tell(context, holder);
            is_told = true;
        }
        Ok(holder.is_none())
    })?;
    Ok(holder)
}

fn repeat(end: Instant, mut is_over: impl FnMut() -> Result<bool, Failure>) -> Result<bool, Failure> {
    let mut rounds = 0;
    loop {
        if is_over()? {
            return Ok(true);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        rounds += 1;
        thread::sleep(backoff::pause(rounds).min(left));
    }
}
