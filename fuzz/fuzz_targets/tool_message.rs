//! See `bodies::tool_message`.

#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "the other targets use the rest")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::tool_message(data));
