//! Ports: a session gets a block of ports that no other session has.
//!
//! A port is a reservation of the key `port:NUMBER`, so it is renewed, expires and ends like any other. Only an allocation
//! makes one. Which ports are in use outside of git-dibs is told by the caller.

use std::collections::BTreeSet;

use super::command::{AllocatePorts, Outcome, Refusal};
use super::ids::{SessionId, Text};
use super::record::{Mode, Want};
use super::reserve::KeyRequest;
use super::slab::{ReservationSlot, SessionSlot, Slot};
use super::state::{Engine, Lookup};
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

impl Engine {
    /// Gives a session this many ports, or renews those it has.
    pub(super) fn allocate_ports(
        &mut self,
        turn: &mut Turn,
        ask: &AllocatePorts,
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(&ask.session);
        let mut wants: Vec<Want> = self.ports_at(slot).map(|(port, held)| self.port_want(port, held, ask)).collect();
        let more = ask.ids.len().saturating_sub(wants.len());
        self.refuse_if_paused(slot, feature, more)?;
        self.within_numbers(slot, more)?;
        let first = match more {
            0 => 0,
            more => self.free_ports(more, ask.range, &ask.busy).ok_or_else(|| too_few(ask.range))?,
        };
        for (port, id) in (first..).zip(&ask.ids[..more]) {
            wants.push(Want { id: *id, key: port_key(port), ttl: ask.ttl });
        }
        wants.sort_by_key(|want| port_of(&want.key));
        let lookups: Vec<Lookup> = wants.iter().map(|want| self.lookup(slot, &want.key)).collect();
        let (id, mode, reason) = (&ask.session, Mode::Exclusive, ask.reason.as_ref());
        self.within_quota(slot, &wants, &lookups, reason)?;
        let request = KeyRequest { session: slot, id, wants: &wants, lookups: &lookups, mode, reason };
        Ok(Outcome::Granted(self.grant(turn, &request)))
    }

    fn port_want(&self, port: u16, held: ReservationSlot, ask: &AllocatePorts) -> Want {
        Want { id: self.reservations[held].id, key: port_key(port), ttl: ask.ttl }
    }

    /// The new ports that a session would get if it asked for this many now.
    pub fn propose_ports(&self, session: &SessionId, count: usize, range: PortRange, busy: &BTreeSet<u16>) -> Vec<u16> {
        let slot = self.session_ids.get(session).copied().unwrap_or(SessionSlot::NONE);
        let more = count.saturating_sub(self.ports_at(slot).count());
        let first = if more == 0 { None } else { self.free_ports(more, range, busy) };
        first.map_or_else(Vec::new, |first| (first..).take(more).collect())
    }

    pub(super) fn ports_at(&self, session: SessionSlot) -> impl Iterator<Item = (u16, ReservationSlot)> + '_ {
        let ports = self.ports.iter().map(|(port, held)| (*port, *held));
        let is_own = move |held: ReservationSlot| self.is_live(held) && self.reservations[held].session == session;
        ports.filter(move |(_, held)| session.some().is_some() && is_own(*held))
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
            let taken =
                self.ports.range(low..=high).rev().find(|(_, held)| self.is_live(**held)).map(|(port, _)| *port);
            match taken.max(busy.range(low..=high).next_back().copied()) {
                Some(port) => from = usize::from(port) + 1,
                None => return Some(low),
            }
        }
        None
    }

    /// A key was granted: if it is a port, it is taken.
    pub(super) fn apply_port(&mut self, slot: ReservationSlot) {
        if let Some(port) = port_of(&self.reservations[slot].key) {
            self.ports.insert(port, slot);
        }
    }

    /// A reservation has ended: if it is a port, and no newer reservation has it, it is free.
    pub(super) fn apply_port_end(&mut self, key: &Key, slot: ReservationSlot) {
        if let Some(port) = port_of(key)
            && self.ports.get(&port) == Some(&slot)
        {
            self.ports.remove(&port);
        }
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
