//! How the threads of the server share the processors: which go first, and which take what is left.

/// The slice of a thread that serves, in nanoseconds. The usual one is a few milliseconds.
#[cfg(target_os = "linux")]
const SHORT_SLICE_NS: u64 = 100_000;

/// From now on this thread runs for short times, and soon after it is woken: before threads that compute for long. Linux has
/// this since 6.12; elsewhere nothing changes. The thread keeps the priority that the process was started with.
pub fn go_first() {
    #[cfg(target_os = "linux")]
    SchedulerAttributes { nice: own_nice(), runtime: SHORT_SLICE_NS, ..SchedulerAttributes::default() }.set();
}

/// From now on this thread yields to ordinary ones. `nice` is 1 to 19; a higher value yields more.
pub fn go_last(nice: i32) {
    // A thread has the slice of the one that started it.
    #[cfg(target_os = "linux")]
    SchedulerAttributes { nice: nice.max(own_nice()), ..SchedulerAttributes::default() }.set();
    // Elsewhere a priority is that of the whole process.
    #[cfg(not(target_os = "linux"))]
    let _ = nice;
}

/// From now on this thread, and every program that it starts, only has the time that no other thread of the machine wants.
/// An ordinary thread that is woken takes its processor at once.
pub fn go_when_idle() {
    #[cfg(target_os = "linux")]
    SchedulerAttributes { policy: libc::SCHED_IDLE as u32, nice: 19, ..SchedulerAttributes::default() }.set();
}

#[cfg(target_os = "linux")]
fn own_nice() -> i32 {
    // SAFETY: takes plain numbers. Zero is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS as _, 0) }
}

/// `struct sched_attr` of Linux, in its first version.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct SchedulerAttributes {
    size: u32,
    /// By default that of an ordinary thread, `SCHED_OTHER`.
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

#[cfg(target_os = "linux")]
impl SchedulerAttributes {
    /// Changes the calling thread. If the system does not let it, the thread works as it did.
    fn set(mut self) {
        self.size = size_of::<SchedulerAttributes>() as u32;
        // SAFETY: the kernel reads `size` bytes of a live value.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const self, 0) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn attributes() -> SchedulerAttributes {
        let mut attributes = SchedulerAttributes::default();
        let size = size_of::<SchedulerAttributes>();
        // SAFETY: the kernel writes at most `size` bytes into a live value.
        let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        assert_eq!(failed, 0);
        attributes
    }

    #[test]
    fn only_the_calling_thread_changes() {
        let before = attributes();
        let serving = std::thread::spawn(|| {
            go_first();
            attributes()
        });
        let serving = serving.join().unwrap();
        // Older kernels have no slices to ask for.
        assert!(serving.runtime == SHORT_SLICE_NS || serving.runtime == before.runtime, "{}", serving.runtime);
        assert_eq!((serving.policy, serving.nice), (before.policy, before.nice));
        let computing = std::thread::spawn(|| {
            go_last(19);
            attributes()
        });
        assert_eq!(computing.join().unwrap().nice, 19);
        let idle = std::thread::spawn(|| {
            go_when_idle();
            attributes()
        });
        assert_eq!(idle.join().unwrap().policy, libc::SCHED_IDLE as u32);
        assert_eq!((attributes().runtime, attributes().nice), (before.runtime, before.nice));
    }
}
