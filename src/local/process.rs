//! Which process is meant: an id alone would also fit a later process, so its start time belongs to it.

/// When a running process started, in the kernel's clock ticks since boot, as far as the system tells; none if there is no
/// such process.
pub fn start_of(pid: u32) -> Option<Option<u64>> {
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name of the program is in parentheses and may contain anything.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        // A zombie has ended; only its parent has not noticed yet.
        if matches!(fields.next(), Some("Z" | "X")) {
            return None;
        }
        return Some(fields.nth(18).and_then(|ticks| ticks.parse().ok()));
    }
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: takes plain numbers; signal 0 is only a test.
    let exists =
        unsafe { libc::kill(pid, 0) } == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    exists.then_some(None)
}
