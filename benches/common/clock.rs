//! Clocks, and how long to measure.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether to measure only briefly, to see that everything works: `DIBS_BENCH_QUICK=1`. The figures mean little.
pub fn quick() -> bool {
    std::env::var_os("DIBS_BENCH_QUICK").is_some_and(|value| !value.is_empty() && value != "0")
}

/// This many rounds, or a few if the run is quick.
pub fn rounds(rounds: usize) -> usize {
    if quick() { rounds.min(3) } else { rounds }
}

/// This long, or an eighth of it if the run is quick.
pub fn long(time: Duration) -> Duration {
    if quick() { time / 8 } else { time }
}

/// The CPU time of this thread; other programs on the machine do not count.
pub fn thread_cpu() -> Duration {
    cpu(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time of this process.
pub fn process_cpu() -> Duration {
    cpu(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and the call writes nothing else.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The CPU time of the child processes that have ended.
pub fn children_cpu() -> Duration {
    // SAFETY: zeros are a value of this struct of numbers, which getrusage then fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// The CPU time that `work` takes on this thread, in seconds.
pub fn computed(work: impl FnOnce()) -> f64 {
    let begin = thread_cpu();
    work();
    (thread_cpu() - begin).as_secs_f64()
}

/// The wall-clock time that `work` takes, in seconds.
pub fn took(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// The wall clock in seconds, as in tokens.
pub fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs().cast_signed()
}
