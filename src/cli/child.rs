//! A command that runs in our place: signals sent to us reach it, and how it ends is how we end.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};

/// What is passed on. Stopping and going on again are left alone: the terminal does that to both of us.
const PASSED_ON: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// Signals held back until somebody looks for them, so that none can end us halfway.
pub struct Signals {
    held: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Holds signals back from now on, in this thread and those it starts.
    pub fn hold() -> Signals {
        let mut held = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the pointers are to live sets, which sigemptyset and pthread_sigmask fill. If whoever started us ignores
        // SIGCHLD, so do we, and the system would forget how our child ended before we can ask.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(held.as_mut_ptr());
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(held.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, held.as_ptr(), before.as_mut_ptr());
            Signals { held: held.assume_init(), before: before.assume_init() }
        }
    }

    /// Runs a command to its end.
    pub fn run(&self, mut command: Command) -> io::Result<Ending> {
        if let Some(signal) = self.pending() {
            return Ok(Ending::Killed(signal));
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
                    (Some(code), _) => Ending::Exited(code as u8),
                    (None, Some(signal)) => Ending::Killed(signal),
                    (None, None) => Ending::Exited(1),
                });
            }
            let (signal, from_terminal) = self.next();
            // What the terminal sends, it sends to the child too; passed on it would arrive twice.
            if PASSED_ON.contains(&signal) && !from_terminal {
                pass_on(&child, signal);
            }
        }
    }

    /// A signal that came before there was a command to pass it on to.
    fn pending(&self) -> Option<libc::c_int> {
        let mut pending = MaybeUninit::uninit();
        // SAFETY: the pointer is to a live set, which is read only after it was filled.
        unsafe {
            if libc::sigpending(pending.as_mut_ptr()) != 0 {
                return None;
            }
            let pending = pending.assume_init();
            PASSED_ON.into_iter().find(|&signal| libc::sigismember(&pending, signal) == 1)
        }
    }

    /// Waits for a signal; says which, and whether it came from the terminal.
    #[cfg(target_os = "linux")]
    fn next(&self) -> (libc::c_int, bool) {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the set is initialised and the pointer is to a live siginfo_t, which is read only after success.
        unsafe {
            let signal = libc::sigwaitinfo(&self.held, info.as_mut_ptr());
            (signal, signal > 0 && info.assume_init().si_code == libc::SI_KERNEL)
        }
    }

    /// Waits for a signal. Elsewhere nobody says where it came from, so what Ctrl-C and Ctrl-\ send counts as theirs.
    #[cfg(not(target_os = "linux"))]
    fn next(&self) -> (libc::c_int, bool) {
        let mut signal = 0;
        // SAFETY: the set is initialised and the pointer is to a live integer.
        unsafe { libc::sigwait(&self.held, &mut signal) };
        (signal, matches!(signal, libc::SIGINT | libc::SIGQUIT))
    }
}

fn pass_on(child: &Child, signal: libc::c_int) {
    // SAFETY: takes plain numbers; the child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}
