//! Ports: a session gets a block of ports that no other session has.
//!
//! A port is a reservation of the key `port:NUMBER`, so it is renewed, expires and ends like any other. Only an allocation
//! makes one. Which ports are in use outside of this repository is told by the caller.
//!
//! A port has a rank among the ports of its session, which gives it its name in an environment. It keeps the rank for as
//! long as it is held; a new port gets the lowest rank that no port of the session has.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{AllocatePorts, Grant, Outcome, Refusal};
use super::ids::{SessionId, Text};
use super::record::{Mode, Want};
use super::reserve::KeyRequest;
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Lookup, Reservation};
use super::turn::Turn;
use crate::key::{Claim, Key, Kind, PORT};

/// The ports that the sessions of a repository may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    /// Included.
    pub last: u16,
    /// Where the search begins. After the last port it goes on with the first.
    pub start: u16,
}

/// The ports that sessions have.
#[derive(Debug, Default)]
pub(super) struct HeldPorts {
    by_number: BTreeMap<u16, HeldPort>,
    /// An entry counts only if the port has this rank and its reservation is live.
    by_rank: BTreeMap<(SessionSlot, u16), u16>,
}

#[derive(Debug, Clone, Copy)]
struct HeldPort {
    slot: ReservationSlot,
    session: SessionSlot,
    rank: u16,
}

/// A port of a session.
#[derive(Debug, Clone)]
pub struct PortGrant {
    pub port: u16,
    /// Its rank among the ports of the session; see the module.
    pub rank: u16,
    pub grant: Grant,
}

impl Engine {
    /// Gives a session this many ports, or renews those it has.
    pub(super) fn allocate_ports(
        &mut self,
        turn: &mut Turn,
        ask: &AllocatePorts,
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(&ask.session);
        let mut ranked: BTreeMap<u16, Want> = BTreeMap::new();
        for (port, held) in self.ports_at(slot) {
            let id = self.reservations[held.slot].id;
            ranked.insert(held.rank, Want { id, key: port_key(port), ttl: ask.ttl });
        }
        let more = ask.ids.len().saturating_sub(ranked.len());
        self.refuse_if_paused(slot, feature, more)?;
        self.within_numbers(slot, more)?;
        let first = match more {
            0 => 0,
            more => self.free_ports(more, ask.range, &ask.busy).ok_or_else(|| too_few(ask.range))?,
        };
        // The ranks in which these will be applied.
        let free_ranks: Vec<u16> = (0..).filter(|rank| !ranked.contains_key(rank)).take(more).collect();
        for ((port, id), rank) in (first..).zip(&ask.ids[..more]).zip(free_ranks) {
            ranked.insert(rank, Want { id: *id, key: port_key(port), ttl: ask.ttl });
        }
        let wants: Vec<Want> = ranked.into_values().collect();
        let lookups: Vec<Lookup> = wants.iter().map(|want| self.lookup(slot, &want.key)).collect();
        let (id, mode, reason) = (&ask.session, Mode::Exclusive, ask.reason.as_ref());
        self.within_quota(slot, &wants, &lookups, reason)?;
        let request = KeyRequest { session: slot, id, wants: &wants, lookups: &lookups, mode, reason };
        Ok(Outcome::Granted(self.grant(turn, &request)))
    }

    /// The new ports that a session would get if it asked for this many now.
    pub fn propose_ports(&self, session: &SessionId, count: usize, range: PortRange, busy: &BTreeSet<u16>) -> Vec<u16> {
        let slot = self.session_ids.get(session).copied().unwrap_or(SessionSlot::NONE);
        let more = count.saturating_sub(self.ports_at(slot).count());
        let first = if more == 0 { None } else { self.free_ports(more, range, busy) };
        first.map_or_else(Vec::new, |first| (first..).take(more).collect())
    }

    /// All ports that sessions have.
    pub fn taken_ports(&self) -> BTreeSet<u16> {
        self.live_ports().map(|(port, _)| port).collect()
    }

    /// The ports of a session, by rank.
    pub fn port_grants(&self, session: &SessionId) -> Vec<PortGrant> {
        let Some(slot) = self.session_ids.get(session) else { return Vec::new() };
        let grant =
            |(port, held): (u16, HeldPort)| PortGrant { port, rank: held.rank, grant: self.grant_of(held.slot) };
        self.ports_at(*slot).map(grant).collect()
    }

    /// The ports of a session, by rank.
    fn ports_at(&self, session: SessionSlot) -> impl Iterator<Item = (u16, HeldPort)> + '_ {
        let ports = self.ports.by_rank.range((session, 0)..=(session, u16::MAX));
        ports.filter_map(move |((_, rank), port)| {
            let held = *self.ports.by_number.get(port)?;
            let is_own = held.session == session && held.rank == *rank && self.is_live(held.slot);
            is_own.then_some((*port, held))
        })
    }

    fn live_ports(&self) -> impl Iterator<Item = (u16, HeldPort)> + '_ {
        let ports = self.ports.by_number.iter().map(|(port, held)| (*port, *held));
        ports.filter(|(_, held)| self.is_live(held.slot))
    }

    /// The first of `count` ports in a row, at least one, that no session has and that are not busy.
    fn free_ports(&self, count: usize, range: PortRange, busy: &BTreeSet<u16>) -> Option<u16> {
        let start = range.start.clamp(range.first, range.last);
        self.free_from(start, range.last, count, busy).or_else(|| self.free_from(range.first, range.last, count, busy))
    }

    fn free_from(&self, first: u16, last: u16, count: usize, busy: &BTreeSet<u16>) -> Option<u16> {
        let mut from = usize::from(first);
        while from + count <= usize::from(last) + 1 {
            let (low, high) = (from as u16, (from + count - 1) as u16);
            // A port of a session that has ended is free, although its release may not be recorded yet.
            let mut held = self.ports.by_number.range(low..=high).rev();
            let taken = held.find(|(_, held)| self.is_live(held.slot)).map(|(port, _)| *port);
            match taken.max(busy.range(low..=high).next_back().copied()) {
                Some(port) => from = usize::from(port) + 1,
                None => return Some(low),
            }
        }
        None
    }

    /// A key was granted: if it is a port, it is taken.
    pub(super) fn apply_port(&mut self, slot: ReservationSlot) {
        let Reservation { session, ref key, .. } = self.reservations[slot];
        let Some(port) = port_of(key) else { return };
        let used: BTreeSet<u16> = self.ports_at(session).map(|(_, held)| held.rank).collect();
        let rank = (0..).find(|rank| !used.contains(rank)).expect("there are more ranks than ports");
        self.ports.insert(port, HeldPort { slot, session, rank });
    }

    /// A reservation has ended: if it is a port, and no newer reservation has it, it is free.
    pub(super) fn apply_port_end(&mut self, key: &Key, slot: ReservationSlot) {
        if let Some(port) = port_of(key)
            && self.ports.by_number.get(&port).is_some_and(|held| held.slot == slot)
        {
            self.ports.remove(port);
        }
    }

    /// The ranks of all ports, for an image.
    pub(super) fn port_ranks(&self) -> Vec<(u16, u16)> {
        self.live_ports().map(|(port, held)| (port, held.rank)).collect()
    }

    /// Sets the ranks of an image. Its reservations are restored before.
    pub(super) fn restore_port_ranks(&mut self, ranks: &[(u16, u16)]) {
        for (port, rank) in ranks {
            let Some(held) = self.ports.remove(*port) else { continue };
            self.ports.by_number.insert(*port, HeldPort { rank: *rank, ..held });
        }
        // A port that is over may have the rank of a live one.
        self.ports.by_rank = self.live_ports().map(|(port, held)| ((held.session, held.rank), port)).collect();
    }
}

impl HeldPorts {
    fn insert(&mut self, port: u16, held: HeldPort) {
        self.remove(port);
        self.by_number.insert(port, held);
        self.by_rank.insert((held.session, held.rank), port);
    }

    fn remove(&mut self, port: u16) -> Option<HeldPort> {
        let held = self.by_number.remove(&port)?;
        let rank = (held.session, held.rank);
        if self.by_rank.get(&rank) == Some(&port) {
            self.by_rank.remove(&rank);
        }
        Some(held)
    }
}

fn too_few(range: PortRange) -> Refusal {
    let limit = usize::from(range.last) - usize::from(range.first) + 1;
    Refusal::OverQuota { what: "ports in the range of this repository", limit }
}

fn port_key(port: u16) -> Key {
    Key::recall(&format!("{PORT}:{port}"), false).expect("a key")
}

/// The number of a key that is a port.
pub(super) fn port_of(key: &Key) -> Option<u16> {
    if key.kind() != Kind::Logical {
        return None;
    }
    let Claim::Name(name) = key.claim() else { return None };
    let number = name.strip_prefix(PORT.as_bytes())?.strip_prefix(b":")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}
