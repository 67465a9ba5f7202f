//! What one client, or one accident, could do to the server and to the others, tried from outside. One file for each subject.
//!
//! The numbers are small, so that each test takes seconds. `DIBS_ATTACK=long` runs them with large numbers.

mod access;
mod durability;
mod stalls;
mod unlock_requests;

/// `long` where the long form of the tests was asked for, else `short`.
pub fn numbers<T>(short: T, long: T) -> T {
    if std::env::var("DIBS_ATTACK").is_ok_and(|form| form == "long") { long } else { short }
}
