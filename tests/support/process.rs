//! Programs that are run. Nothing is waited for without a limit, and a wait that fails says what it waited for.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The longest wait of any test: far more than anything takes on a busy machine. The slowest is a coding agent that fetches
/// packages when it starts.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Looks again and again until there is something to see.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "waited {} s in vain until {what}", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command to its end, with everything it starts, and collects what it prints.
pub trait Run {
    #[track_caller]
    fn run(&mut self) -> Output;

    /// The same for a program that may not be installed.
    #[track_caller]
    fn try_run(&mut self) -> io::Result<Output>;
}

impl Run for Command {
    fn run(&mut self) -> Output {
        let name = format!("{self:?}");
        self.try_run().unwrap_or_else(|error| panic!("{name} does not start: {error}"))
    }

    fn try_run(&mut self) -> io::Result<Output> {
        Ok(Process::start_group(self.stdin(Stdio::null()))?.finish())
    }
}

/// A running program. What it prints is collected while it runs. It is killed when this is dropped.
pub struct Process {
    child: Child,
    command: String,
    /// Kill the whole process group, not only the program.
    group: bool,
    stdin: Option<ChildStdin>,
    stdout: Arc<Collector>,
    stderr: Arc<Collector>,
}

impl Process {
    /// Starts a program and pipes for what it prints; its stdin is what the command says.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = Collector::read(child.stdout.take().unwrap());
        let stderr = Collector::read(child.stderr.take().unwrap());
        Ok(Process { child, command: format!("{command:?}"), group: false, stdin, stdout, stderr })
    }

    /// Starts a program in a process group of its own: what it starts is killed with it.
    pub fn start_group(command: &mut Command) -> io::Result<Process> {
        let mut process = Process::start(command.process_group(0))?;
        process.group = true;
        Ok(process)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its stdin. A program that does not read may be gone already, which is no failure.
    pub fn send(&mut self, input: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("its stdin is a pipe that was not closed");
        let _ = stdin.write_all(input.as_ref());
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line it prints, without its end; an incomplete line if that is how its output ends.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let line = self.stdout.wait(|bytes, ended| {
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            end.or(ended.then_some(bytes.len())).map(|length| bytes.drain(..length).collect::<Vec<u8>>())
        });
        let line = line.unwrap_or_else(|| self.hangs("a line of"));
        let line = String::from_utf8(line).expect("lines are text");
        line.strip_suffix('\n').map(str::to_owned).unwrap_or(line)
    }

    /// What it has printed to stderr so far.
    pub fn stderr(&self) -> &Arc<Collector> {
        &self.stderr
    }

    pub fn signal(&self, signal: libc::c_int) {
        let id = self.child.id().cast_signed();
        let target = if self.group { -id } else { id };
        // SAFETY: takes plain numbers. The child was not waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(target, signal) }, 0);
    }

    /// Kills the program alone, as a crash would, and not what it started.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends. Closes its stdin first. The output lacks the lines that were read before.
    #[track_caller]
    pub fn finish(mut self) -> Output {
        self.close_stdin();
        let all = |bytes: &mut Vec<u8>, ended: bool| ended.then(|| std::mem::take(bytes));
        let stdout = self.stdout.wait(all).unwrap_or_else(|| self.hangs("the end of"));
        // The collector keeps stderr for others who hold it.
        let stderr = self.stderr.wait(|bytes, ended| ended.then(|| bytes.clone()));
        let stderr = stderr.unwrap_or_else(|| self.hangs("the end of"));
        let status = self.wait();
        Output { status, stdout, stderr }
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if start.elapsed() > LIMIT {
                self.hangs("the end of");
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn hangs(&self, what: &str) -> ! {
        let printed = format!("{}{}", self.stdout.text(), self.stderr.text());
        panic!("waited {} s in vain for {what} {}\n{printed}", LIMIT.as_secs(), self.command)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(libc::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Reads a pipe in a thread, so that the program never waits for a reader, and waits for its output have a limit.
#[derive(Default)]
pub struct Collector {
    state: Mutex<(Vec<u8>, bool)>,
    changed: Condvar,
}

impl Collector {
    pub fn read(mut pipe: impl Read + Send + 'static) -> Arc<Collector> {
        let collector = Arc::<Collector>::default();
        let shared = Arc::clone(&collector);
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut state = shared.state.lock().unwrap();
                state.0.extend_from_slice(&buffer[..count]);
                state.1 = count == 0;
                shared.changed.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        collector
    }

    /// Waits until `look` finds something in what was read and not taken yet; its second argument says whether the pipe has ended.
    fn wait<T>(&self, mut look: impl FnMut(&mut Vec<u8>, bool) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + LIMIT;
        let mut state = self.state.lock().unwrap();
        loop {
            let (bytes, ended) = &mut *state;
            let found = look(bytes, *ended);
            let left = deadline.saturating_duration_since(Instant::now());
            if found.is_some() || left.is_zero() {
                return found;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// What was read so far and not taken yet.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.state.lock().unwrap().0).into_owned()
    }

    /// Everything, once the pipe has ended.
    pub fn all(&self) -> String {
        self.wait(|bytes, ended| ended.then(|| String::from_utf8_lossy(bytes).into_owned()))
            .unwrap_or_else(|| self.text())
    }
}

/// Both outputs, for messages.
pub fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
