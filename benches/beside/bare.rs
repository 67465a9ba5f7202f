//! Minimal servers: a bare axum handler that reads the same bodies and sends the same bytes, and an echo
//! that does not even read. Each is this program, started again.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};

use crate::common::http::canned;
use crate::common::support::process::Process;
use crate::common::{inside, load};

/// A server in a process of its own, until this is dropped.
pub struct Bare {
    _process: Process,
    pub address: SocketAddr,
}

impl Bare {
    /// `bare-handler` or `echo`.
    pub fn start(name: &str) -> Bare {
        let program = std::env::current_exe().expect("this program");
        let mut process = Process::start(Command::new(program).arg(name).stdin(Stdio::null())).expect("it starts");
        let address = process.line().parse().expect("it prints its address");
        Bare { _process: process, address }
    }
}

/// Serves until it is killed, if the word is the name of one of these servers.
pub fn serve(name: &str) -> bool {
    if name != "bare-handler" && name != "echo" {
        return false;
    }
    let listener = listen();
    println!("{}", listener.local_addr().expect("its address"));
    if name == "echo" {
        load::echo(&listener, &canned());
    }
    listener.set_nonblocking(true).expect("a socket can");
    inside::runtime().block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        axum::serve(listener, inside::bare()).await.expect("it serves");
    });
    true
}

/// With a backlog for all connections at once. The standard library's is shorter, and a connection that does not fit
/// waits for a fifth of a second.
fn listen() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    socket.listen(1024).expect("it listens");
    socket.into()
}
