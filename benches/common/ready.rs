//! Finds the sockets that can be read: a thin layer over epoll.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::support::process::LIMIT;

pub struct Ready {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Ready {
    pub fn new() -> Ready {
        // SAFETY: the call takes no pointer, and the descriptor it returns has no other owner.
        let epoll = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        Ready { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; 512] }
    }

    /// Watches a socket under a number.
    pub fn watch(&self, socket: &impl AsRawFd, number: usize) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number as u64 };
        // SAFETY: both descriptors are open, and the event lives through the call.
        let done =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }

    /// Waits until some can be read, and says which: none after `patience`, or after [`LIMIT`] without one.
    pub fn wait(&mut self, patience: Option<Duration>) -> impl Iterator<Item = usize> + '_ {
        let mut wait_ms = i32::try_from(LIMIT.as_millis()).expect("it is small");
        if let Some(patience) = patience {
            // Only this call takes less than milliseconds.
            let limit = libc::timespec {
                tv_sec: patience.as_secs().cast_signed(),
                tv_nsec: i64::from(patience.subsec_nanos()),
            };
            let mut poll = libc::pollfd { fd: self.epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd and one timespec, both alive.
            unsafe { libc::ppoll(&raw mut poll, 1, &raw const limit, std::ptr::null()) };
            wait_ms = 0;
        }
        let room = i32::try_from(self.events.len()).expect("it is small");
        // SAFETY: the kernel writes at most as many events as there is room for.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, wait_ms) };
        let count = usize::try_from(count).unwrap_or(0);
        self.events[..count].iter().map(|event| event.u64 as usize)
    }
}

/// Wakes this thread up with microsecond precision; by default the kernel may add 50 µs.
pub fn be_punctual() {
    // SAFETY: the call takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000) };
}
