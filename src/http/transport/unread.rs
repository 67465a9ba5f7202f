//! Which connections have something unread, so that the desk can hear everything before anything expires.
//!
//! Every connection and every listener is registered with its file descriptor, and counts how often its task ran. A
//! connection's task reads what has arrived and submits it to the desk in one run. The system tells which sockets have
//! input; such a connection is read once its task has run since.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::RawFd;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::desk::Intake;

/// All connections and listeners of a server.
#[derive(Default)]
pub struct OpenSockets(Mutex<Registry>);

#[derive(Default)]
struct Registry {
    entries: HashMap<u64, Arc<Entry>>,
    next: u64,
}

struct Entry {
    socket: RawFd,
    /// A listener has accepted everything when it has no input; one run may not be enough for that.
    is_listener: bool,
    /// How often its task began to run, and how often it came to an end.
    begun: AtomicU64,
    finished: AtomicU64,
}

/// A connection or listener while it is registered.
pub struct Registration {
    connections: Arc<OpenSockets>,
    number: u64,
    entry: Arc<Entry>,
}

impl OpenSockets {
    pub fn register_connection(self: &Arc<Self>, socket: RawFd) -> Registration {
        self.register(socket, false)
    }

    pub fn register_listener(self: &Arc<Self>, socket: RawFd) -> Registration {
        self.register(socket, true)
    }

    fn register(self: &Arc<Self>, socket: RawFd, is_listener: bool) -> Registration {
        let (begun, finished) = (AtomicU64::new(0), AtomicU64::new(0));
        let entry = Arc::new(Entry { socket, is_listener, begun, finished });
        let mut registry = self.lock();
        registry.next += 1;
        let number = registry.next;
        registry.entries.insert(number, entry.clone());
        drop(registry);
        Registration { connections: self.clone(), number, entry }
    }

    /// What a desk asks whether everything is read.
    pub fn intake(self: &Arc<Self>) -> Box<dyn Intake> {
        Box::new(SocketIntake { connections: self.clone(), marks: HashMap::new(), ignored: HashMap::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // No panic leaves a half-changed value behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// Runs the task of the connection or listener to its end.
    pub async fn run<F: Future>(self, task: F) -> F::Output {
        let mut task = pin!(task);
        // Moved here, so that it is dropped before the task closes its socket.
        let registration = self;
        std::future::poll_fn(|context| {
            registration.entry.begun.fetch_add(1, Ordering::SeqCst);
            let result = Pin::as_mut(&mut task).poll(context);
            registration.entry.finished.fetch_add(1, Ordering::SeqCst);
            result
        })
        .await
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.lock().entries.remove(&self.number);
    }
}

struct SocketIntake {
    connections: Arc<OpenSockets>,
    /// How often each task had begun to run at the mark.
    marks: HashMap<u64, u64>,
    /// OpenSockets that were not read in time, with how often their task had begun to run by then.
    ignored: HashMap<u64, u64>,
}

impl SocketIntake {
    /// The connections that are not read yet.
    fn unread_entries(&self) -> Vec<(u64, Arc<Entry>)> {
        let is_read = |number: &u64, entry: &Entry| {
            let mark = self.marks.get(number).copied().unwrap_or(0);
            let has_run = entry.finished.load(Ordering::SeqCst) > mark;
            let is_ignored = self.ignored.get(number) == Some(&entry.begun.load(Ordering::SeqCst));
            (has_run && !entry.is_listener) || is_ignored
        };
        let registry = self.connections.lock();
        let candidates = registry.entries.iter().filter(|(number, entry)| !is_read(number, entry));
        let mut entries: Vec<(u64, Arc<Entry>)> = candidates.map(|(number, entry)| (*number, entry.clone())).collect();
        drop(registry);
        let mut sockets: Vec<libc::pollfd> = entries
            .iter()
            .map(|(_, entry)| libc::pollfd { fd: entry.socket, events: libc::POLLIN, revents: 0 })
            .collect();
        if sockets.is_empty() {
            return Vec::new();
        }
        let count = libc::nfds_t::try_from(sockets.len()).expect("the system allows fewer open files");
        // SAFETY: the pointer and the length are those of one live list, and the call writes nothing else.
        let polled = unsafe { libc::poll(sockets.as_mut_ptr(), count, 0) };
        let mut socket = sockets.iter();
        entries.retain(|(_, entry)| {
            let has_input = polled > 0 && socket.next().is_some_and(|socket| socket.revents & libc::POLLIN != 0);
            // A run that has not ended may have read something and not submitted it yet.
            let is_running = entry.finished.load(Ordering::SeqCst) != entry.begun.load(Ordering::SeqCst);
            has_input || is_running
        });
        entries
    }
}

impl Intake for SocketIntake {
    fn mark(&mut self) {
        let registry = self.connections.lock();
        let begun = |(number, entry): (&u64, &Arc<Entry>)| (*number, entry.begun.load(Ordering::SeqCst));
        self.marks = registry.entries.iter().map(begun).collect();
        self.ignored.retain(|number, _| registry.entries.contains_key(number));
    }

    fn unread(&mut self) -> usize {
        self.unread_entries().len()
    }

    fn give_up(&mut self) {
        for (number, entry) in self.unread_entries() {
            self.ignored.insert(number, entry.begun.load(Ordering::SeqCst));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Runs the task of a registration once, as a runtime would.
    fn run_once(registration: &Registration, during: impl FnOnce()) {
        registration.entry.begun.fetch_add(1, Ordering::SeqCst);
        during();
        registration.entry.finished.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_connection_with_input_is_unread_until_its_task_has_run() {
        let connections = Arc::<OpenSockets>::default();
        let mut intake = connections.intake();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (idle, _their_idle) = UnixStream::pair().unwrap();
        let registration = connections.register_connection(ours.as_raw_fd());
        let _idle = connections.register_connection(idle.as_raw_fd());
        intake.mark();
        assert_eq!(intake.unread(), 0, "nothing has arrived");
        theirs.write_all(b"x").unwrap();
        assert_eq!(intake.unread(), 1);
        run_once(&registration, || assert_eq!(intake.unread(), 1, "it may have read and not submitted yet"));
        assert_eq!(intake.unread(), 0, "its task has run since the mark");
        intake.mark();
        assert_eq!(intake.unread(), 1, "the run was before this mark");
        intake.give_up();
        assert_eq!(intake.unread(), 0);
        intake.mark();
        assert_eq!(intake.unread(), 0, "a connection that was given up stays so until it is read");
        run_once(&registration, || ());
        intake.mark();
        assert_eq!(intake.unread(), 1);
        drop(registration);
        assert_eq!(intake.unread(), 0);
    }

    #[test]
    fn a_listener_is_unread_as_long_as_a_client_waits_to_be_accepted() {
        let connections = Arc::<OpenSockets>::default();
        let mut intake = connections.intake();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let registration = connections.register_listener(listener.as_raw_fd());
        let clients = [UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap()];
        intake.mark();
        run_once(&registration, || drop(listener.accept().unwrap()));
        assert_eq!(intake.unread(), 1, "one run may not have accepted all");
        run_once(&registration, || drop(listener.accept().unwrap()));
        assert_eq!(intake.unread(), 0);
        drop(clients);
    }

    #[test]
    fn a_task_is_registered_as_long_as_it_runs() {
        let connections = Arc::<OpenSockets>::default();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let registration = connections.register_connection(ours.as_raw_fd());
        let mut first = true;
        let task = std::future::poll_fn(|_| {
            if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(connections.lock().entries.len()) }
        });
        let mut running = pin!(registration.run(task));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(running.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(running.as_mut().poll(&mut context), Poll::Ready(1));
        assert!(connections.lock().entries.is_empty());
    }
}
