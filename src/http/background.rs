//! Work that takes long because of what a client sent: large bodies, many patterns, long lists.
//!
//! It runs on a few threads of lower priority. So the threads that decide and that serve other connections go first wherever
//! there are fewer processors than threads, and other clients do not notice it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::sync::{Semaphore, oneshot};

use crate::threads;

/// How many requests do long work at once. The others wait, and take no more memory than their bodies meanwhile.
static AT_ONCE: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).max(2));
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(*AT_ONCE));

/// The threads that do it. They end with the process.
static WORKERS: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let (sender, receiver) = channel();
    let jobs = Arc::new(Mutex::new(receiver));
    for _ in 0..*AT_ONCE {
        let jobs = jobs.clone();
        // Without any of these threads the jobs are returned, and done where they are needed.
        let _ = thread::Builder::new().name("long work".to_owned()).spawn(move || work_off(&jobs));
    }
    sender
});

/// The lower priority, as a nice value: such a thread yields to an ordinary one, and still has a tenth of a processor that is
/// busy with one.
const NICE: i32 = 10;

/// Runs `work`. If it is long, it waits for its turn and has a thread of lower priority; this thread serves others meanwhile.
pub async fn without_blocking<T: Send>(long: bool, work: impl FnOnce() -> T + Send) -> T {
    if !long {
        return work();
    }
    let _turn = TURNS.acquire().await;
    let (mut work, mut result) = (Some(work), None);
    let mut run = || {
        let work = work.take().expect("it runs once");
        result = Some(catch_unwind(AssertUnwindSafe(work)));
    };
    {
        let run: &mut (dyn FnMut() + Send) = &mut run;
        // SAFETY: only the lifetime changes. What `run` points to lives in this future, and so does `Waiting`, which is dropped
        // first and returns from its drop only when no thread has `run` any more. No future of a handler is leaked.
        let run = unsafe { std::mem::transmute::<&mut (dyn FnMut() + Send), &'static mut (dyn FnMut() + Send)>(run) };
        Waiting::start(run).await;
    }
    match result.expect("it has run") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs `work` on one of the same threads. It is done also if the request is over before; none if it panics.
pub async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    start(Box::new(move || drop(sender.send(work()))));
    receiver.await.ok()
}

/// Work on its way to a thread.
type Job = Box<dyn FnOnce() + Send>;

fn start(job: Job) {
    if let Err(returned) = WORKERS.send(job) {
        (returned.0)();
    }
}

fn work_off(jobs: &Mutex<Receiver<Job>>) {
    threads::go_last(NICE);
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            // Who waits for a job that panics is told by the job itself.
            Ok(job) => drop(catch_unwind(AssertUnwindSafe(job))),
            Err(_) => return,
        }
    }
}

/// How far a job of [`without_blocking`] is.
#[derive(Default)]
struct Progress {
    state: Mutex<JobState>,
    done: Condvar,
}

#[derive(Default)]
struct JobState {
    is_done: bool,
    waker: Option<Waker>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, JobState> {
        // No panic leaves a half-changed value behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self) {
        let waker = {
            let mut state = self.lock();
            state.is_done = true;
            state.waker.take()
        };
        self.done.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Waits for a job. If it is dropped before, because the request is over, it blocks until the job is done.
struct Waiting(Arc<Progress>);

impl Waiting {
    /// `run` must not panic.
    fn start(run: &'static mut (dyn FnMut() + Send)) -> Waiting {
        let progress = Arc::<Progress>::default();
        let waiting = Waiting(progress.clone());
        start(Box::new(move || {
            run();
            progress.finish();
        }));
        waiting
    }
}

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.is_done {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        while !state.is_done {
            state = self.0.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs `work` on a thread of lower priority, and waits for it.
pub fn at_low_priority<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut run = || work.take().expect("it runs once")();
    let done = thread::scope(|scope| {
        let run_low = || {
            threads::go_last(NICE);
            run()
        };
        Some(thread::Builder::new().name("long work".to_owned()).spawn_scoped(scope, run_low).ok()?.join())
    });
    match done {
        Some(Ok(value)) => value,
        Some(Err(panic)) => resume_unwind(panic),
        // There is no thread to be had.
        None => run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> libc::c_int {
        // SAFETY: only reads the priority of this thread.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[tokio::test]
    async fn long_work_has_a_lower_priority_and_the_caller_keeps_its_own() {
        let (before, text) = (nice(), "borrowed".to_owned());
        assert_eq!(without_blocking(false, || (text.len(), nice())).await, (8, before));
        assert_eq!(without_blocking(true, || (text.len(), nice())).await, (8, before.max(NICE)));
        assert_eq!(nice(), before);
    }

    #[tokio::test]
    async fn other_tasks_run_while_long_work_is_done() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = without_blocking(true, move || receiver.recv().unwrap());
        let other = async { sender.send(7).unwrap() };
        assert_eq!(tokio::join!(work, other).0, 7);
    }

    #[tokio::test]
    async fn a_request_that_is_over_waits_for_its_work() {
        let (begun, mut is_begun) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, goes_on) = std::sync::mpsc::channel();
        let mut borrowed = vec![1];
        let list = &mut borrowed;
        let work = without_blocking(true, move || {
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
            list.push(2);
        });
        let helper = thread::spawn(move || go_on.send(()));
        tokio::select! {
            biased;
            () = work => {}
            _ = is_begun.recv() => {}
        }
        assert_eq!(borrowed, [1, 2]);
        helper.join().unwrap().unwrap();
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_done_and_a_panic_ends_only_itself() {
        for _ in 0..3 * *AT_ONCE {
            assert_eq!(in_background(|| -> u32 { panic!("on purpose") }).await, None);
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut work = Box::pin(in_background(move || sender.send(7)));
        assert!(
            work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() || receiver.try_recv().is_ok()
        );
        drop(work);
        assert_eq!(in_background(|| 8).await, Some(8));
    }

    #[tokio::test]
    #[should_panic(expected = "in the background")]
    async fn a_panic_of_long_work_reaches_its_request() {
        without_blocking(true, || panic!("in the background")).await
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| at_low_priority(|| panic!("on purpose")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
