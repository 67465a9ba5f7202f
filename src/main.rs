//! The command `git-dibs`.
fn main() {}
