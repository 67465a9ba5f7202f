//! Durable reserve + release, as fast as each can: every request is answered after its sync.

use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;

use crate::common::clock::{long, rounds, took};
use crate::common::support::world::World;
use crate::common::table;
use crate::peers::{CONNECTIONS_MAX, Peers};

const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;

const CONNECTIONS: [usize; 4] = [1, 8, 64, CONNECTIONS_MAX];

/// With these numbers of connections, or with all that the table has.
pub fn measure(place: &World, peers: &Peers, numbers: &[usize]) {
    table::head("Requests answered: durable reserve + release over HTTP with JWT");
    for name in &peers.missing {
        table::note(&format!("left out, because it does not run: {name}"));
    }
    table::fact("what durable costs here: 4 KiB written in place and synced", &table::time(sync_time(place)));
    for connections in CONNECTIONS.into_iter().filter(|number| numbers.is_empty() || numbers.contains(number)) {
        let everybody = || peers.others.iter().chain([&peers.echo]);
        let mut rates = vec![Vec::new(); peers.others.len() + 1];
        for round in 0..=rounds(ROUNDS) {
            let here = peers.dibs.saturate(connections, long(ROUND));
            for (peer, rates) in everybody().zip(&mut rates) {
                let beside = peer.saturate(connections, long(ROUND));
                // The first round only warms up.
                if round > 0 {
                    rates.push((here, beside));
                }
            }
        }
        for (peer, rates) in everybody().zip(&rates) {
            let many = if connections == 1 { "connection" } else { "connections" };
            table::row(&format!("{connections} {many}, beside {}", peer.name), rates, table::rate);
        }
    }
}

/// The lower bound for one durable request at a time. The file has its final size already: if it grew,
/// the file system would have more to sync, and a good journal avoids that.
fn sync_time(place: &World) -> f64 {
    const PAGE: [u8; 4096] = [b'x'; 4096];
    const PAGES: usize = 100;
    let mut file = File::create(place.path("synced")).expect("a file");
    file.write_all(&PAGE.repeat(PAGES)).expect("room for it");
    file.sync_all().expect("a disk");
    file.rewind().expect("a file has a beginning");
    let mut write = || {
        file.write_all(&PAGE).expect("it has its room");
        file.sync_data().expect("a disk");
    };
    table::median((0..PAGES).map(|_| took(&mut write)))
}
