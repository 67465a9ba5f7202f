//! Following a server's events for as long as a person wants: connects again after the connection is lost, and continues
//! where it was, so that no event is missed and none is seen twice.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::Result;

use super::context::Context;
use super::failure::{exit_of, sentence_of};
use super::{Exit, backoff, talk};
use crate::client::{ClientError, Heard};

/// What a follower learns.
pub enum News<'a> {
    /// There is a connection, for the first time or again.
    Connected,
    /// An event, as JSON.
    Event(&'a str),
    /// The stream could not continue where it was: events are missing.
    Missed,
    /// Nothing happened for a while.
    Quiet,
}

/// What a follower does with news. Breaking ends the command.
pub type Next = ControlFlow<Result<()>>;

/// Follows from now on, until `learn` breaks or the reader of stdout has gone. While nothing happens, `learn` is called
/// after each `pause`. A lost connection is opened again; the server is not started for that, because it may have been
/// stopped on purpose.
pub fn follow(context: &mut Context, pause: Duration, mut learn: impl FnMut(News<'_>) -> Next) -> Result<()> {
    let (mut last, mut failures, mut is_lost) = (None, 0, false);
    loop {
        let mut end = Ok(());
        let outcome = context.client.follow(last, pause, |heard| {
            let next = match heard {
                Heard::Position(id) => {
                    last = Some(id);
                    Next::Continue(())
                }
                Heard::Connected => {
                    failures = 0;
                    if std::mem::take(&mut is_lost) {
                        talk::say("connected again");
                    }
                    learn(News::Connected)
                }
                Heard::Event { name, .. } if name == "notices" => Next::Continue(()),
                Heard::Event { name, .. } if name == "reset" => learn(News::Missed),
                Heard::Event { data, .. } => learn(News::Event(&data)),
                Heard::Quiet if reader_has_gone() => Next::Break(Ok(())),
                Heard::Quiet => learn(News::Quiet),
            };
            match next {
                Next::Continue(()) => ControlFlow::Continue(()),
                Next::Break(result) => {
                    end = result;
                    ControlFlow::Break(())
                }
            }
        });
        match outcome {
            Ok(()) => return end,
            Err(error) if !is_temporary(&error) => return Err(context.failure(&error).into()),
            Err(error) => {
                if !std::mem::replace(&mut is_lost, true) {
                    let why = sentence_of(&error);
                    talk::say(&format!("the connection is lost: {why}; trying again until the server is back"));
                }
            }
        }
        context.start_no_server()?;
        failures += 1;
        if reader_has_gone() {
            return Ok(());
        }
        std::thread::sleep(backoff::pause(failures));
    }
}

/// Whether the same call can succeed later.
fn is_temporary(error: &ClientError) -> bool {
    exit_of(error) == Exit::Unreachable
}

/// Whether nothing reads stdout any more. A command that prints rarely would otherwise run on unseen.
fn reader_has_gone() -> bool {
    let mut state = libc::pollfd { fd: io::stdout().as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one live value, and its number.
    let changed = unsafe { libc::poll(&raw mut state, 1, 0) };
    changed > 0 && state.revents & (libc::POLLERR | libc::POLLHUP) != 0
}
