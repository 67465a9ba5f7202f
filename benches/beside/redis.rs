//! Redis: `SET key holder NX PX 60000`, and `DEL`.

use std::io::Write;

use crate::common::lines::{Dialect, Line, Step};

pub struct Redis;

impl Dialect for Redis {
    fn ask(&self, line: &Line, step: Step, out: &mut Vec<u8>) {
        let (path, holder) = (line.path(), format!("bench-{}", line.connection));
        match step {
            Step::Reserve => words(&["SET", &path, &holder, "NX", "PX", "60000"], out),
            Step::Release => words(&["DEL", &path], out),
        }
    }

    fn answer(&self, step: Step, bytes: &[u8]) -> Option<usize> {
        let yes: &[u8] = match step {
            Step::Reserve => b"+OK\r\n",
            Step::Release => b":1\r\n",
        };
        assert!(bytes.starts_with(yes) || yes.starts_with(bytes), "{}", String::from_utf8_lossy(bytes));
        (bytes.len() >= yes.len()).then_some(yes.len())
    }
}

fn words(words: &[&str], out: &mut Vec<u8>) {
    write!(out, "*{}\r\n", words.len()).expect("memory");
    for word in words {
        write!(out, "${}\r\n{word}\r\n", word.len()).expect("memory");
    }
}
