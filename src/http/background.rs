//! Work that takes long because of what a client sent: large bodies, many patterns, long lists.
//!
//! It runs on a few threads of lower priority. So the threads that decide and that serve other connections go first wherever
//! there are fewer processors than threads, and other clients do not notice it.

use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::thread;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

use crate::threads;

/// How many requests do long work at once. The others wait, and take no more memory than their bodies meanwhile.
static AT_ONCE: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(processors.max(2))
});

/// The lower priority, as a nice value: such a thread yields to an ordinary one, and still has a tenth of a processor that is
/// busy with one.
const NICE: i32 = 10;

/// Runs `work`. If it is long, it waits for its turn and has a thread of lower priority; the other tasks of this thread move
/// to another one meanwhile.
pub async fn without_blocking<T: Send>(long: bool, work: impl FnOnce() -> T + Send) -> T {
    // A runtime of one thread has no other thread.
    if !long || Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
        return work();
    }
    let _turn = AT_ONCE.acquire().await;
    tokio::task::block_in_place(|| at_low_priority(work))
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_has_a_lower_priority_and_the_caller_keeps_its_own() {
        let (before, text) = (nice(), "borrowed".to_owned());
        assert_eq!(without_blocking(false, || (text.len(), nice())).await, (8, before));
        assert_eq!(without_blocking(true, || (text.len(), nice())).await, (8, before.max(NICE)));
        assert_eq!(nice(), before);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| at_low_priority(|| panic!("on purpose")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
