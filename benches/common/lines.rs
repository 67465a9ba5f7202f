//! Connections to a server of any protocol, and the numbers of the paths that are reserved on them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::ready::Ready;

/// The protocol of a lock server: how to request a lock and recognize the grant.
pub trait Dialect {
    /// Starts a connection. The result is available to every request of that connection.
    fn greet(&self, _stream: &mut TcpStream) -> String {
        String::new()
    }

    /// Writes the request that reserves the path with this number, or releases it.
    fn ask(&self, line: &Line, step: Step, out: &mut Vec<u8>);

    /// The length of the response the bytes begin with, if it is complete. Panics on a refusal: refusals are not
    /// worth measuring.
    fn answer(&self, step: Step, bytes: &[u8]) -> Option<usize>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Reserve,
    Release,
}

/// One connection; it reserves and releases one path after the other.
pub struct Line {
    pub connection: usize,
    /// The result of [`Dialect::greet`].
    pub greeting: String,
    /// The number of the path, which no other connection uses.
    pub n: u64,
    /// The last request.
    pub step: Step,
    /// When it was sent, or should have been.
    pub asked: Instant,
    stream: TcpStream,
    request: Vec<u8>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Line {
    /// Reserves a new path, or releases the one it has.
    pub fn ask(&mut self, dialect: &dyn Dialect, asked: Instant) {
        // Far from what the benches hold already.
        static NEXT: AtomicU64 = AtomicU64::new(10_000_000);
        self.step = match self.step {
            Step::Reserve => Step::Release,
            Step::Release => {
                self.n = NEXT.fetch_add(1, Ordering::Relaxed);
                Step::Reserve
            }
        };
        self.asked = asked;
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        dialect.ask(self, self.step, &mut request);
        // An empty socket buffer accepts a small request whole.
        self.stream.write_all(&request).expect("the server listens");
        self.request = request;
    }

    /// Reads what has arrived. Returns whether the response is complete.
    pub fn hear(&mut self, dialect: &dyn Dialect) -> bool {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        let read = self.stream.read(&mut self.buffer[self.filled..]).expect("the server answers");
        assert!(read > 0, "the server hung up");
        self.filled += read;
        let Some(length) = dialect.answer(self.step, &self.buffer[..self.filled]) else { return false };
        assert_eq!(length, self.filled, "one answer to one request");
        self.filled = 0;
        true
    }

    /// The path of the current request.
    pub fn path(&self) -> String {
        super::commands::path(usize::try_from(self.n).expect("it is small"))
    }
}

/// Opens connections, and watches them under their numbers.
pub fn open(address: SocketAddr, dialect: &dyn Dialect, connections: usize) -> (Vec<Line>, Ready) {
    let ready = Ready::new();
    let open = |connection| {
        let mut stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_nodelay(true).expect("TCP has it");
        let greeting = dialect.greet(&mut stream);
        ready.watch(&stream, connection);
        let (request, buffer) = (Vec::new(), vec![0; 8192]);
        let (n, step, asked) = (0, Step::Release, Instant::now());
        Line { connection, greeting, n, step, asked, stream, request, buffer, filled: 0 }
    };
    let lines = (0..connections).map(open).collect();
    (lines, ready)
}
