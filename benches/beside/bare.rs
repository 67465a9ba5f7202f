//! The least a server can be: a bare axum handler that reads the same bodies and answers the same bytes, and an echo
//! that does not even read. Each is this program, started again.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use socket2::{Domain, Socket, Type};

use crate::common::http::canned;
use crate::common::{inside, load};

/// A server in a process of its own, until this is dropped.
pub struct Bare {
    child: Child,
    pub address: SocketAddr,
}

impl Bare {
    /// `bare-handler` or `echo`.
    pub fn start(name: &str) -> Bare {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program).arg(name).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where it is");
        Bare { child, address: line.trim().parse().expect("an address") }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// With room for everybody who connects at once; the standard library's listener has less, and whoever does not fit
/// waits for a fifth of a second.
fn listen() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    socket.listen(1024).expect("it listens");
    socket.into()
}
