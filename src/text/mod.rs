//! Text as others need it: safe on a terminal or in a log, quoted for a shell, percent-coded, in hexadecimal.
//!
//! Every other room uses these functions instead of its own. Nothing here knows a key, a reservation or a file.

pub mod hex;
pub mod percent;
pub mod shell;
pub mod terminal;
