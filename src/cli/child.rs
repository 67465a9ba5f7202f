//! Runs a command in a child process: signals to this process are forwarded, and its exit code is the child's.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};

/// The signals that are forwarded. The terminal itself stops and continues both processes.
const FORWARDED: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

/// Those of them that end a process that has nothing to forward them to.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildExit {
    /// With this exit code.
    Exited(u8),
    /// A signal killed it.
    Killed(i32),
}

/// Blocked signals, which wait until they are asked for, so that none can end this process half way.
pub struct Signals {
    blocked_signals: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals from now on, in this thread and in the threads it starts.
    pub fn block() -> Signals {
        let mut blocked_signals = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the pointers are to live sets, which sigemptyset and pthread_sigmask fill. A parent that ignores
        // SIGCHLD passes that on, and then the system would drop the child's exit status before it can be read.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(blocked_signals.as_mut_ptr());
            for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(blocked_signals.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked_signals.as_ptr(), before.as_mut_ptr());
            Signals { blocked_signals: blocked_signals.assume_init(), before: before.assume_init() }
        }
    }

    /// Runs a command to its end.
    pub fn run(&self, mut command: Command) -> io::Result<ChildExit> {
        if let Some(signal) = self.pending() {
            return Ok(ChildExit::Killed(signal));
        }
        let before = self.before;
        // SAFETY: pthread_sigmask may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(match (status.code(), status.signal()) {
                    (Some(code), _) => ChildExit::Exited(code as u8),
                    (None, Some(signal)) => ChildExit::Killed(signal),
                    (None, None) => ChildExit::Exited(1),
                });
            }
            let (signal, from_terminal) = self.next();
            // The terminal sends a signal to the child too; forwarded, it would arrive twice.
            if FORWARDED.contains(&signal) && !from_terminal {
                forward(&child, signal);
            }
        }
    }

    /// Waits for a signal that would end this process, and returns it.
    pub fn wait(&self) -> libc::c_int {
        loop {
            let (signal, _) = self.next();
            if ENDING.contains(&signal) {
                return signal;
            }
        }
    }

    /// A signal that arrived before the command was started.
    fn pending(&self) -> Option<libc::c_int> {
        let mut pending = MaybeUninit::uninit();
        // SAFETY: the pointer is to a live set, which is read only after it was filled.
        unsafe {
            if libc::sigpending(pending.as_mut_ptr()) != 0 {
                return None;
            }
            let pending = pending.assume_init();
            FORWARDED.into_iter().find(|&signal| libc::sigismember(&pending, signal) == 1)
        }
    }

    /// Waits for a signal. Returns it, and whether it came from the terminal.
    #[cfg(target_os = "linux")]
    fn next(&self) -> (libc::c_int, bool) {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the set is initialised and the pointer is to a live siginfo_t, which is read only after success.
        unsafe {
            let signal = libc::sigwaitinfo(&self.blocked_signals, info.as_mut_ptr());
            (signal, signal > 0 && info.assume_init().si_code == libc::SI_KERNEL)
        }
    }

    /// Waits for a signal. Other systems do not tell where it came from, so SIGINT and SIGQUIT count as the terminal's.
    #[cfg(not(target_os = "linux"))]
    fn next(&self) -> (libc::c_int, bool) {
        let mut signal = 0;
        // SAFETY: the set is initialised and the pointer is to a live integer.
        unsafe { libc::sigwait(&self.blocked_signals, &mut signal) };
        (signal, matches!(signal, libc::SIGINT | libc::SIGQUIT))
    }
}

fn forward(child: &Child, signal: libc::c_int) {
    // SAFETY: takes plain numbers; the child has not been waited for, so its process id is still valid.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}
