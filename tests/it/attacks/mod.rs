//! What one client, one repository or one server could do to others, tried on the real program.
//!
//! Each test has small numbers by default, and those of a real attack with `DIBS_ATTACK=long`.

mod access;

/// `long` where `DIBS_ATTACK=long`, else `short`.
#[allow(dead_code, reason = "not every subject has numbers")]
pub fn numbers<T>(short: T, long: T) -> T {
    if std::env::var("DIBS_ATTACK").is_ok_and(|size| size == "long") { long } else { short }
}
