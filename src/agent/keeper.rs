//! The keeper: a process that stays while the agent does, keeps its session alive, and ends it when the agent is gone.
//!
//! The first hook of a session starts it. It renews what the session holds while the agent was active within the last 15
//! minutes, releases what is committed and clean, and ends the session when the agent's process ends in any way. If it is
//! killed, the next hook starts another one; without a next hook, what is held expires five minutes after the last one.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process_watch::ProcessWatch;
use super::settle::settle;
use super::state::SessionState;
use crate::local::agent_file::{self, KeptSession};
use crate::local::{heartbeat, notices};
use crate::wire::{Code, EndSession, EndState};

/// An agent that has not called a hook for this long is idle, and its session is no longer kept alive.
const ACTIVE_MAX: Duration = Duration::from_secs(15 * 60);

/// The word that stands for an agent's name on the command line of a keeper.
pub const KEEPER: &str = "keeper";

/// How often the end of a session is tried if the server does not answer, with longer and longer pauses.
const END_ATTEMPTS: u32 = 6;

/// What a keeper needs of its environment: to find git and git's settings. Nothing secret stays in a process that lives
/// for days.
const VARIABLES: [&str; 8] = [
    "PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "TMPDIR",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "LANG",
];

/// Starts a keeper for the session in this session file. If that fails, there is none, and the session expires.
pub fn start(common_dir: &Path, file_name: &str) {
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(["agent-hook", KEEPER]).arg(common_dir).arg(file_name).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // SAFETY: setsid and close_range may be called between fork and exec. An agent waits until all ends of a hook's pipes
    // are closed, and may end what is left of the hook's process group.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            #[cfg(target_os = "linux")]
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
    // It is not waited for: the hook ends before it.
    drop(command.spawn());
}

/// Keeps a session until its agent ends, or the agent's last hook has ended it.
pub fn run(common_dir: &Path, file_name: &str) {
    let Some(kept) = KeptSession::read(common_dir, file_name) else { return };
    let Some(state) = SessionState::of(common_dir, &kept.session) else { return };
    let Some(_lock) = state.lock_keeper() else { return };
    let mut pause = heartbeat::MIN;
    while let Some(watch) = ProcessWatch::new(kept.owner) {
        if watch.wait(pause) {
            break;
        }
        if !kept.is_open() {
            return;
        }
        settle(&state, &kept.session, &[], || kept.client(common_dir));
        pause = heartbeat::MAX;
        if state.idle() < ACTIVE_MAX
            && let Some(mut client) = kept.client(common_dir)
            && let Ok(reply) = client.heartbeat(&kept.session)
        {
            notices::save(common_dir, &kept.session, &reply.notices);
            state.note_requests(&reply.notices);
            pause = heartbeat::until_next(reply.expires_at, client.server_time());
        }
    }
    end(common_dir, &kept, &state);
}

/// Ends the session of an agent that is gone. If the server does not answer, its file stays for the next command.
fn end(common_dir: &Path, kept: &KeptSession, state: &SessionState) {
    for attempt in 0..END_ATTEMPTS {
        // The agent's own last hook may have ended it.
        if !kept.is_open() {
            return;
        }
        let how = EndSession { state: Some(EndState::Stopped) };
        let ended = kept.client(common_dir).map(|mut client| client.end(&kept.session, &how));
        let is_dead =
            |code: Option<Code>| matches!(code, Some(Code::SessionEnded | Code::Unauthenticated | Code::NotFound));
        match ended {
            Some(Ok(_)) => break,
            Some(Err(error)) if is_dead(error.code()) => break,
            _ if attempt + 1 == END_ATTEMPTS => return,
            _ => std::thread::sleep(Duration::from_millis(200) * 2u32.pow(attempt)),
        }
    }
    agent_file::remove(common_dir, kept.credential.token());
    notices::take(common_dir, &kept.session);
    state.remove();
}
