//! The connections of one listener: how many there may be, and which one makes room for a new one.
//!
//! * One peer may have `connections-per-peer` of them: an IP address (a /64 network with IPv6), or on a Unix socket a user.
//!   Loopback addresses and the server's own user are not limited, because on one machine all clients come from there.
//! * All together may be `connections`. Beyond that, the connection that has been idle longest is closed for each new
//!   one. Its client connects again when it needs to.
//! * If none is idle, [`RESERVED_SLOTS`] more are served, but only their health checks and the requests of admins. So a
//!   server that is full of waiting clients can still be looked at and repaired.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::progress::RequestProgress;

/// Connections beyond the limit that are served for health checks and admins.
const RESERVED_SLOTS: usize = 64;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A client on this machine that is not told apart from the others.
    Local,
    Address(IpAddr),
    /// A user of this machine, on a Unix socket.
    User(u32),
}

impl Peer {
    pub fn at(address: IpAddr) -> Peer {
        match address.to_canonical() {
            address if address.is_loopback() => Peer::Local,
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                Peer::Address(Ipv6Addr::from(network).into())
            }
            address => Peer::Address(address),
        }
    }

    pub fn user(uid: u32) -> Peer {
        // SAFETY: takes nothing and returns a number.
        let own = unsafe { libc::geteuid() };
        if uid == own || uid == 0 { Peer::Local } else { Peer::User(uid) }
    }
}

/// The connections of one listener. Cheap to clone.
#[derive(Clone, Default)]
pub struct Connections(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    open: HashMap<u64, Entry>,
    peers: HashMap<Peer, usize>,
    next: u64,
}

struct Entry {
    peer: Peer,
    progress: RequestProgress,
    /// Ends the task of the connection; none for the moment until it runs.
    task: Option<AbortHandle>,
}

/// Whether a new connection is served.
pub enum Admission {
    Served(ConnectionSlot),
    /// Only for health checks and admins.
    Reserved(ConnectionSlot),
    /// Not at all, for this reason.
    Refused(&'static str),
}

/// The place of one connection in the table, until it is dropped.
pub struct ConnectionSlot {
    connections: Connections,
    number: u64,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().remove(self.number);
    }
}

impl ConnectionSlot {
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Connections {
    /// Finds a place for a new connection. It may close an idle one for it.
    pub fn admit(&self, peer: Peer, progress: &RequestProgress, max: usize, per_peer_max: usize) -> Admission {
        let mut table = self.lock();
        let of_peer = table.peers.get(&peer).copied().unwrap_or(0);
        if peer != Peer::Local && of_peer >= per_peer_max && !table.close_idle(Some(peer)) {
            return Admission::Refused("this address has reached its limit of connections; try again in a moment");
        }
        // Those in reserved slots count too, so there may be more than one to close.
        while table.open.len() >= max && table.close_idle(None) {}
        let is_full = table.open.len() >= max;
        if is_full && table.open.len() >= max.saturating_add(RESERVED_SLOTS) {
            return Admission::Refused("this server has reached its limit of connections; try again in a moment");
        }
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Entry { peer, progress: progress.clone(), task: None });
        *table.peers.entry(peer).or_default() += 1;
        let slot = ConnectionSlot { connections: self.clone(), number };
        if is_full { Admission::Reserved(slot) } else { Admission::Served(slot) }
    }

    /// The connection with this number runs in this task.
    pub fn set_task(&self, number: u64, task: AbortHandle) {
        if let Some(entry) = self.lock().open.get_mut(&number) {
            entry.task = Some(task);
        }
    }

    /// No panic leaves a half-changed table behind, so a poisoned lock is taken as it is.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Closes the connection that has been idle longest, of this peer or of any. False if none is idle.
    fn close_idle(&mut self, peer: Option<Peer>) -> bool {
        let is_idle = |entry: &Entry| {
            entry.task.is_some() && entry.progress.is_idle() && peer.is_none_or(|peer| entry.peer == peer)
        };
        let idle = self.open.iter().filter(|(_, entry)| is_idle(entry));
        let longest = idle.min_by_key(|(number, entry)| (entry.progress.last_activity_ms(), **number));
        let Some(number) = longest.map(|(number, _)| *number) else { return false };
        // A request that arrives in this moment is lost with its connection, as with every idle connection that a server
        // closes. Its client sends it again.
        if let Some(task) = self.remove(number).and_then(|entry| entry.task) {
            task.abort();
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.open.remove(&number)?;
        if let Some(count) = self.peers.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::at(text.parse().unwrap())
    }

    /// Opens a connection that was last active `after` milliseconds later than the first.
    fn open(connections: &Connections, peer: Peer, after: u64, max: usize) -> (Admission, RequestProgress) {
        let progress = RequestProgress::default();
        progress.note_activity(Instant::now() + Duration::from_millis(1000 + after));
        let admission = connections.admit(peer, &progress, max, 2);
        if let Admission::Served(slot) | Admission::Reserved(slot) = &admission {
            connections.set_task(slot.number(), tokio::spawn(std::future::pending::<()>()).abort_handle());
        }
        (admission, progress)
    }

    #[test]
    fn peers_are_told_apart_by_address_or_network_and_local_ones_are_not() {
        assert_eq!(peer("127.0.0.1"), Peer::Local);
        assert_eq!(peer("::1"), Peer::Local);
        assert_eq!(peer("::ffff:127.0.0.1"), Peer::Local);
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(Peer::user(0), Peer::Local);
        assert_eq!(Peer::user(u32::MAX - 2), Peer::User(u32::MAX - 2));
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_makes_room() {
        let connections = Connections::default();
        let (first, _) = open(&connections, Peer::Local, 50, 2);
        let (second, second_progress) = open(&connections, Peer::Local, 10, 2);
        second_progress.begin();
        let (third, third_progress) = open(&connections, Peer::Local, 60, 2);
        assert!(matches!(
            (&first, &second, &third),
            (Admission::Served(_), Admission::Served(_), Admission::Served(_))
        ));
        let numbers = |connections: &Connections| {
            let mut numbers: Vec<u64> = connections.lock().open.keys().copied().collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(&connections), [1, 2], "the second has a request, so the first had to go");
        third_progress.begin();
        let (reserved, _) = open(&connections, Peer::Local, 70, 2);
        assert!(matches!(reserved, Admission::Reserved(_)));
        second_progress.end();
        assert!(matches!(open(&connections, Peer::Local, 75, 2).0, Admission::Reserved(_)), "its reply is not written");
        second_progress.note_written();
        let (fifth, _) = open(&connections, Peer::Local, 80, 2);
        assert!(matches!(fifth, Admission::Served(_)));
        drop((first, second, third, reserved, fifth));
        assert_eq!((numbers(&connections).len(), connections.lock().peers.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_peer_at_its_limit_takes_no_room_from_others() {
        let connections = Connections::default();
        let guest = peer("10.0.0.1");
        let (one, one_progress) = open(&connections, guest, 0, 10);
        let (two, two_progress) = open(&connections, guest, 1, 10);
        one_progress.begin();
        two_progress.begin();
        assert!(matches!(open(&connections, guest, 2, 10).0, Admission::Refused(_)));
        assert!(matches!(open(&connections, peer("10.0.0.2"), 3, 10).0, Admission::Served(_)));
        one_progress.end();
        one_progress.note_written();
        let (three, _) = open(&connections, guest, 4, 10);
        assert!(matches!(three, Admission::Served(_)), "its own idle one is closed for it");
        drop((one, two, three));
        assert!(connections.lock().peers.is_empty());
    }

    #[tokio::test]
    async fn there_is_an_end_of_reserved_slots() {
        let connections = Connections::default();
        let all: Vec<_> = (0..=RESERVED_SLOTS).map(|n| open(&connections, Peer::Local, n as u64, 1)).collect();
        all.iter().for_each(|(_, progress)| progress.begin());
        // The first one is still idle when the second is opened, and so on: each closes the one before it.
        assert!(all.iter().all(|(admission, _)| matches!(admission, Admission::Served(_))));
        let more: Vec<_> = (0..=RESERVED_SLOTS)
            .map(|n| {
                let (admission, progress) = open(&connections, Peer::Local, n as u64, 1);
                progress.begin();
                admission
            })
            .collect();
        let reserved = more.iter().filter(|admission| matches!(admission, Admission::Reserved(_))).count();
        assert_eq!(reserved, RESERVED_SLOTS);
        assert!(matches!(more[RESERVED_SLOTS], Admission::Refused(_)));
    }
}
