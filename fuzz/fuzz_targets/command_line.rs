//! See `bodies::command_line`.

#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "the other targets use the rest")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::command_line(data));
