//! Who runs the server at the other end of a connection on this machine.
//!
//! A socket's path or a port says nothing about that: any user can listen on a free port, and a file in a repository can
//! name any socket.

use std::net::IpAddr;
use std::os::fd::AsFd;

use socket2::SockRef;

use super::{Credential, Endpoint};

/// Whether the token may be sent over this connection to the endpoint.
pub fn may_get(credential: Option<&Credential>, endpoint: &Endpoint, connection: &impl AsFd) -> bool {
    let needs_own_server = |credential: &Credential| {
        endpoint.own_server_only
            && !credential.from.is_repository()
            && !credential.addresses.contains(&endpoint.address)
    };
    !credential.is_some_and(needs_own_server) || is_own_server(connection)
}

/// Whether the server at the other end runs on this machine, as this user or as root.
fn is_own_server(connection: &impl AsFd) -> bool {
    let socket = SockRef::from(connection);
    let (Ok(peer), Ok(local)) = (socket.peer_addr(), socket.local_addr()) else { return false };
    match (peer.as_socket(), local.as_socket()) {
        (Some(peer), Some(local)) => {
            // A connection to an address of this machine also comes from that address.
            let is_here = peer.ip().is_loopback() || peer.ip() == local.ip();
            is_here && listener_uids(peer.ip(), peer.port()).is_some_and(|uids| uids.into_iter().all(is_trusted))
        }
        // A Unix socket.
        _ => peer_uid(connection).is_some_and(is_trusted),
    }
}

/// Root could read every token anyway.
fn is_trusted(uid: u32) -> bool {
    // SAFETY: geteuid has no arguments and always succeeds.
    uid == 0 || uid == unsafe { libc::geteuid() }
}

/// The user that listens on a Unix socket.
#[cfg(target_os = "linux")]
fn peer_uid(connection: &impl AsFd) -> Option<u32> {
    use std::os::fd::AsRawFd;

    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the value and its size are valid for the whole call, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            connection.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    (result == 0).then_some(peer.uid)
}

#[cfg(not(target_os = "linux"))]
fn peer_uid(connection: &impl AsFd) -> Option<u32> {
    use std::os::fd::AsRawFd;

    let (mut uid, mut gid) = (0, 0);
    // SAFETY: both values are valid for the whole call, and the descriptor is open.
    let result = unsafe { libc::getpeereid(connection.as_fd().as_raw_fd(), &raw mut uid, &raw mut gid) };
    (result == 0).then_some(uid)
}

/// The users that listen on this port of this machine; none if no process does, or if the system does not tell.
fn listener_uids(ip: IpAddr, port: u16) -> Option<Vec<u32>> {
    let uids: Vec<u32> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|file| std::fs::File::open(file).ok())
        .flat_map(|file| listeners(std::io::BufReader::new(file)))
        .filter(|listener| listener.port == port && (listener.ip == ip || listener.ip.is_unspecified()))
        .map(|listener| listener.uid)
        .collect();
    (!uids.is_empty()).then_some(uids)
}

/// A socket that accepts connections.
#[derive(Debug, PartialEq, Eq)]
struct Listener {
    ip: IpAddr,
    port: u16,
    uid: u32,
}

/// The listening sockets in the kernel's table, which begins with them.
fn listeners(table: impl std::io::BufRead) -> Vec<Listener> {
    let rows = table.lines().skip(1).map_while(Result::ok);
    rows.map_while(|row| listener(&row)).collect()
}

/// Reads `sl local_address rem_address st tx:rx tr:when retrnsmt uid …`; none if the socket does not listen.
fn listener(row: &str) -> Option<Listener> {
    let mut words = row.split_ascii_whitespace().skip(1);
    let (ip, port) = words.next()?.split_once(':')?;
    if words.nth(1)? != "0A" {
        return None;
    }
    // Each group of eight digits is a number in this machine's byte order.
    let group = |n: usize| -> Option<[u8; 4]> {
        Some(u32::from_str_radix(ip.get(8 * n..8 * (n + 1))?, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::from(group(0)?),
        32 => {
            let bytes: Vec<u8> = (0..4).map(group).collect::<Option<Vec<_>>>()?.concat();
            IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some(Listener { ip, port: u16::from_str_radix(port, 16).ok()?, uid: words.nth(3)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_server_of_this_process_is_an_own_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let _socket = UnixListener::bind(&path).unwrap();
        assert!(is_own_server(&UnixStream::connect(path).unwrap()));
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let ip = if address.starts_with('[') { "::1" } else { "127.0.0.1" };
            assert!(is_own_server(&TcpStream::connect((ip, port)).unwrap()), "{address}");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn listeners_are_read_from_the_kernels_table() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0D63 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0100007F:A000 0100007F:0D63 01 00000000:00000000 00:00000000 00000000  1001        0 3 1 0 100 0 0 10 0
   3: 0100007F:0D64 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 4 1 0 100 0 0 10 0
";
        let ip = |text: &str| text.parse().unwrap();
        let expected =
            [Listener { ip: ip("127.0.0.1"), port: 3427, uid: 1000 }, Listener { ip: ip("0.0.0.0"), port: 80, uid: 0 }];
        assert_eq!(listeners(table.as_bytes()), expected);
        let six = "0: 00000000000000000000000001000000:0D63 0:0 0A 0:0 00:0 0  1000 0 1";
        assert_eq!(listener(six), Some(Listener { ip: ip("::1"), port: 3427, uid: 1000 }));
        for odd in ["", "0:", "0: x:y z 0A a b c 1", "0: 0100007F:0D63 0:0 0A 0:0 00:0 0 x"] {
            assert_eq!(listener(odd), None, "{odd}");
        }
    }
}
