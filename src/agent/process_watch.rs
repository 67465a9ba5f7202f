//! Waiting for the end of a process that is not a child.

#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::local::process::ProcessIdentity;

/// How often the process is looked for where the system cannot tell its end by itself.
const POLL: Duration = Duration::from_millis(500);

/// A process that is waited for.
pub struct ProcessWatch {
    process: ProcessIdentity,
    /// Becomes readable when the process ends; none where the system has no such thing.
    #[cfg(target_os = "linux")]
    descriptor: Option<OwnedFd>,
}

impl ProcessWatch {
    /// Watches a process; none if it has ended already.
    pub fn new(process: ProcessIdentity) -> Option<ProcessWatch> {
        #[cfg(target_os = "linux")]
        let descriptor = {
            // SAFETY: takes plain numbers, and returns a new descriptor or -1.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::pid_t::try_from(process.pid).ok()?, 0) };
            // SAFETY: the descriptor is new, so nothing else owns it.
            i32::try_from(fd).ok().filter(|fd| *fd >= 0).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        };
        let watch = ProcessWatch {
            process,
            #[cfg(target_os = "linux")]
            descriptor,
        };
        // After the descriptor is open, so that a later process with the same id is not mistaken for it.
        watch.process.is_running().then_some(watch)
    }

    /// Waits for the process, at most this long. Returns whether it has ended.
    pub fn wait(&self, time: Duration) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(descriptor) = &self.descriptor {
            let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
            // SAFETY: the pointer is to one live pollfd.
            return unsafe { libc::poll(&mut poll, 1, milliseconds) } > 0;
        }
        let mut left = time;
        while !left.is_zero() && self.process.is_running() {
            let pause = left.min(POLL);
            std::thread::sleep(pause);
            left -= pause;
        }
        !self.process.is_running()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = ProcessIdentity::of(child.id()).unwrap();
        let watch = ProcessWatch::new(process).unwrap();
        assert!(!watch.wait(Duration::from_millis(1)));
        child.kill().unwrap();
        assert!(watch.wait(Duration::from_secs(30)));
        child.wait().unwrap();
        assert!(ProcessWatch::new(process).is_none());
    }
}
