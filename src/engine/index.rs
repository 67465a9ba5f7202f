//! Finds the keys in use that overlap a given key, without looking at those that cannot.
//!
//! Keys form a tree of path components, with one hash table for all its edges. A path or a name is a node. A pattern is
//! anchored at the directory that contains all its matches. Sibling lists and counts contain only *live* keys (held or
//! waited for), so a walk does not visit *idle* keys, of which only the version is remembered. The result is always the
//! same as comparing each pair with [`Key::overlaps`]; a test checks that.

use std::cell::Cell;
use std::hash::BuildHasher;
use std::ops::{self, ControlFlow};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ids::{Seq, WaiterId};
use super::quota::LIVE_COPIES;
use super::record::Mode;
use super::slab::{NodeSlot, PlaceSlot, ReservationSlot, SessionSlot, Slab, Slot};
use super::work::{Met, Meter, NODE_WORK};
use crate::key::{Claim, Glob, GlobState, Key};

/// The roots: of the tree of paths, and of the tree of logical names.
const PATHS: NodeSlot = NodeSlot::new(0);
const NAMES: NodeSlot = NodeSlot::new(1);

/// About how many bytes a node takes besides its name, and a place besides its key, with their entries in the tables.
const NODE_BYTES: usize = 112;
const PLACE_BYTES: usize = 160;

/// One key that is held, waited for or remembered.
#[derive(Debug)]
pub struct Place {
    /// In its first spelling.
    pub key: Key,
    /// How often it was released.
    pub version: u64,
    /// In the order of the grants.
    pub holders: Holders,
    /// Waits for it, in the order of the queue.
    pub queue: Vec<QueueEntry>,
    /// It was held before, so its version must be remembered.
    pub was_held: bool,
    /// The record that last made it idle.
    idle_since: Seq,
    node: NodeSlot,
}

impl Place {
    /// Held or waited for.
    pub fn is_live(&self) -> bool {
        !self.holders.is_empty() || !self.queue.is_empty()
    }
}

/// A wait in the queue of one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueEntry {
    pub waiter: WaiterId,
    pub session: SessionSlot,
    pub mode: Mode,
}

/// The reservations of one key. Nearly always there is at most one, so the first needs no allocation.
#[derive(Debug)]
pub struct Holders {
    first: ReservationSlot,
    more: Vec<ReservationSlot>,
}

impl Holders {
    fn new() -> Self {
        Self { first: ReservationSlot::NONE, more: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.first == ReservationSlot::NONE
    }

    /// The oldest first.
    pub fn iter(&self) -> impl Iterator<Item = ReservationSlot> + '_ {
        self.first.some().into_iter().chain(self.more.iter().copied())
    }

    fn push(&mut self, reservation: ReservationSlot) {
        if self.first == ReservationSlot::NONE {
            self.first = reservation;
        } else {
            self.more.push(reservation);
        }
    }

    fn remove(&mut self, reservation: ReservationSlot) {
        if self.first == reservation {
            self.first = if self.more.is_empty() { ReservationSlot::NONE } else { self.more.remove(0) };
        } else {
            self.more.retain(|held| *held != reservation);
        }
    }
}

struct Node {
    parent: NodeSlot,
    /// The place of exactly this path or name.
    place: PlaceSlot,
    /// Live places at this node, anchored at it, or below it.
    live: u32,
    /// Child nodes, live or not. A node without children and places is removed.
    children: u32,
    /// Places at this node, live or not: its own and the anchored ones.
    places: u32,
    /// The list of live children.
    first_child: NodeSlot,
    next: NodeSlot,
    prev: NodeSlot,
    /// Live patterns anchored here.
    anchored: Vec<PlaceSlot>,
    name: Box<[u8]>,
}

/// All nodes, the free ones included.
struct Nodes(Vec<Node>);

impl ops::Index<NodeSlot> for Nodes {
    type Output = Node;

    fn index(&self, slot: NodeSlot) -> &Node {
        &self.0[slot.number() as usize]
    }
}

impl ops::IndexMut<NodeSlot> for Nodes {
    fn index_mut(&mut self, slot: NodeSlot) -> &mut Node {
        &mut self.0[slot.number() as usize]
    }
}

/// A pattern whose overlaps are visited.
struct Asked<'a, C> {
    key: &'a Key,
    glob: &'a Glob,
    /// Which places with patterns matter to the caller.
    concerns: C,
}

/// See the module.
pub struct Index {
    nodes: Nodes,
    free_nodes: Vec<NodeSlot>,
    /// Child nodes by (parent, name).
    edges: HashTable<NodeSlot>,
    places: Slab<PlaceSlot, Place>,
    /// Places by key.
    keys: HashTable<PlaceSlot>,
    /// About how many bytes the live keys take: their text, and the nodes on the way to them.
    live_bytes: usize,
    /// The most bytes that the idle keys take.
    idle_bytes: usize,
    hasher: DefaultHashBuilder,
    /// The place that was found last: one command looks for the same key several times.
    recent: Cell<PlaceSlot>,
    /// Working memory: how much a visit may do. An exhausted visit ends early.
    pub meter: Meter,
}

impl Default for Index {
    fn default() -> Self {
        let root = || Node::new(NodeSlot::NONE, Box::default());
        Self {
            nodes: Nodes(vec![root(), root()]),
            free_nodes: Vec::new(),
            edges: HashTable::new(),
            places: Slab::default(),
            keys: HashTable::new(),
            live_bytes: 0,
            idle_bytes: 0,
            hasher: DefaultHashBuilder::default(),
            recent: Cell::new(PlaceSlot::NONE),
            meter: Meter::default(),
        }
    }
}

impl Node {
    fn new(parent: NodeSlot, name: Box<[u8]>) -> Self {
        Node {
            parent,
            place: PlaceSlot::NONE,
            live: 0,
            children: 0,
            places: 0,
            first_child: NodeSlot::NONE,
            next: NodeSlot::NONE,
            prev: NodeSlot::NONE,
            anchored: Vec::new(),
            name,
        }
    }
}

impl Index {
    /// The place of exactly this key.
    pub fn find(&self, key: &Key) -> Option<PlaceSlot> {
        let recent = self.recent.get();
        if self.places.get(recent).is_some_and(|place| place.key == *key) {
            return Some(recent);
        }
        let hash = self.hasher.hash_one(key);
        let id = self.keys.find(hash, |id| self.place(*id).key == *key).copied()?;
        self.recent.set(id);
        Some(id)
    }

    pub fn place(&self, id: PlaceSlot) -> &Place {
        &self.places[id]
    }

    fn place_mut(&mut self, id: PlaceSlot) -> &mut Place {
        &mut self.places[id]
    }

    /// How many keys are live or idle.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// About how many bytes the keys that are held or waited for take.
    pub fn live_bytes(&self) -> usize {
        LIVE_COPIES * self.live_bytes
    }

    /// The most bytes that the idle keys take.
    pub fn idle_bytes(&self) -> usize {
        self.idle_bytes
    }

    /// How many bytes this key would add to [`Index::live_bytes`], at most.
    pub fn bytes_max(&self, key: &Key) -> usize {
        LIVE_COPIES * unshared_bytes(key)
    }

    /// How many bytes this key alone would add to [`Index::live_bytes`].
    pub fn new_bytes(&self, key: &Key) -> usize {
        if self.find(key).is_some_and(|place| self.place(place).is_live()) {
            return 0;
        }
        let (root, path) = branch(key);
        let (mut at, mut bytes) = (Some(root), key.text_bytes());
        for name in path.split(|b| *b == b'/').filter(|_| !path.is_empty()) {
            at = at.and_then(|at| self.child(at, name)).filter(|child| self.nodes[*child].live > 0);
            if at.is_none() {
                bytes += NODE_BYTES + name.len();
            }
        }
        LIVE_COPIES * bytes
    }

    /// Restores a key from an image.
    pub fn restore(&mut self, key: &Key, version: u64, was_held: bool) {
        let id = self.find_or_insert(key, version);
        self.place_mut(id).was_held = was_held;
    }

    /// Raises the version of every key to at least this one.
    pub fn raise_versions(&mut self, floor: u64) {
        self.places.iter_mut().for_each(|(_, place)| place.version = place.version.max(floor));
    }

    /// Marks a place as idle since this record.
    pub fn set_idle(&mut self, id: PlaceSlot, since: Seq) {
        self.place_mut(id).idle_since = since;
    }

    /// Whether the place still exists and has been idle since exactly this record.
    pub fn is_idle_since(&self, id: PlaceSlot, since: Seq) -> bool {
        self.places.get(id).is_some_and(|place| place.idle_since == since && !place.is_live())
    }

    /// Every place, live or idle, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().map(|(_, place)| place)
    }

    /// Makes room for about so many more keys at once. To grow with them takes a third of the time of inserting them.
    pub fn reserve(&mut self, keys: usize) {
        let (nodes, places, hasher) = (&self.nodes, &self.places, &self.hasher);
        self.edges.reserve(keys, |id| hasher.hash_one((nodes[*id].parent, &*nodes[*id].name)));
        self.keys.reserve(keys, |id| hasher.hash_one(&places[*id].key));
        self.nodes.0.reserve(keys);
        self.places.reserve(keys);
    }

    /// The place of this key. A new one gets the given version.
    pub fn find_or_insert(&mut self, key: &Key, version: u64) -> PlaceSlot {
        if let Some(id) = self.find(key) {
            return id;
        }
        let (root, path) = branch(key);
        let node = self.insert_node(root, path);
        self.idle_bytes += idle_cost(key);
        let (holders, queue) = (Holders::new(), Vec::new());
        let (was_held, idle_since) = (false, Seq::ZERO);
        let place = Place { key: key.clone(), version, holders, queue, was_held, idle_since, node };
        let id = self.places.insert(place);
        if is_one_node(key) {
            self.nodes[node].place = id;
        }
        self.nodes[node].places += 1;
        let hash = self.hasher.hash_one(key);
        let (places, hasher) = (&self.places, &self.hasher);
        self.keys.insert_unique(hash, id, |id| hasher.hash_one(&places[*id].key));
        id
    }

    /// Forgets an idle place and its version.
    pub fn forget(&mut self, id: PlaceSlot) {
        let place = self.places.take(id);
        assert!(!place.is_live(), "a live place is never forgotten");
        self.idle_bytes -= idle_cost(&place.key);
        let hash = self.hasher.hash_one(&place.key);
        let entry = self.keys.find_entry(hash, |other| *other == id).expect("every place is listed under its key");
        entry.remove();
        let node = &mut self.nodes[place.node];
        if node.place == id {
            node.place = PlaceSlot::NONE;
        }
        node.places -= 1;
        self.prune(place.node);
    }

    pub fn add_holder(&mut self, id: PlaceSlot, reservation: ReservationSlot) {
        self.change(id, |place| place.holders.push(reservation));
    }

    pub fn remove_holder(&mut self, id: PlaceSlot, reservation: ReservationSlot) {
        self.change(id, |place| {
            place.holders.remove(reservation);
            place.version += 1;
            place.was_held = true;
        });
    }

    /// Adds a wait to the queue of a place. A wait that names the key twice is added once.
    pub fn enqueue(&mut self, id: PlaceSlot, waiter: QueueEntry) {
        self.change(id, |place| {
            if place.queue.last() != Some(&waiter) {
                place.queue.push(waiter);
            }
        });
    }

    pub fn dequeue(&mut self, id: PlaceSlot, waiter: WaiterId) {
        self.change(id, |place| place.queue.retain(|other| other.waiter != waiter));
    }

    /// Calls `visit` with every live place whose key overlaps `key`, until it breaks. Of the patterns only those that
    /// `concerns` accepts are compared, because a comparison may take long; `visit` may get other places too.
    pub fn visit_overlaps<B>(
        &self,
        key: &Key,
        concerns: impl Fn(&Place) -> bool,
        visit: impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.visit_overlaps_at(self.find(key), key, concerns, visit)
    }

    /// The same for a caller that has already looked for the key's place.
    pub fn visit_overlaps_at<B>(
        &self,
        place: Option<PlaceSlot>,
        key: &Key,
        concerns: impl Fn(&Place) -> bool,
        mut visit: impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match key.claim() {
            Claim::Path(path) => match place {
                Some(id) => self.visit_known_path(self.place(id).node, path, &mut visit),
                None => self.visit_path(path, &mut visit),
            },
            Claim::Glob(glob) => self.visit_glob(&Asked { key, glob, concerns }, &mut visit),
            Claim::Name(name) => self.visit_name(name, &mut visit),
            Claim::Below(name) => self.visit_below(name, &mut visit),
        }
    }

    fn visit_path<B>(&self, path: &[u8], visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut at = PATHS;
        if self.nodes[PATHS].live == 0 {
            return ControlFlow::Continue(());
        }
        for name in path.split(|b| *b == b'/') {
            self.visit_above(&self.nodes[at], path, visit)?;
            match self.child(at, name) {
                Some(child) if self.nodes[child].live > 0 => at = child,
                _ => return ControlFlow::Continue(()),
            }
        }
        self.visit_node(at, visit)
    }

    /// The same for a path that has a node: goes up from there, without looking up names.
    fn visit_known_path<B>(
        &self,
        node: NodeSlot,
        path: &[u8],
        visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.visit_node(node, visit)?;
        let mut at = self.nodes[node].parent;
        while at != NodeSlot::NONE {
            let node = &self.nodes[at];
            self.visit_above(node, path, visit)?;
            at = node.parent;
        }
        ControlFlow::Continue(())
    }

    /// At the node of a path: the path itself, and everything below, which needs the path to be a directory.
    fn visit_node<B>(&self, at: NodeSlot, visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>) -> ControlFlow<B> {
        let node = &self.nodes[at];
        self.visit_own(node, visit)?;
        node.anchored.iter().try_for_each(|id| visit(*id))?;
        self.visit_all_below(at, visit)
    }

    /// At a node above a path: a held file where the path needs a directory, and patterns that reach down to it.
    fn visit_above<B>(
        &self,
        node: &Node,
        path: &[u8],
        visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.visit_own(node, visit)?;
        for id in &node.anchored {
            let glob = self.glob(*id);
            let ends_so = path.ends_with(glob.suffix());
            if !self.meter.spend(if ends_so { path.len() as u64 } else { 2 }) {
                break;
            }
            if (ends_so && glob.matches(path)) || glob.claims_directory(path) {
                visit(*id)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn visit_glob<B>(
        &self,
        asked: &Asked<'_, impl Fn(&Place) -> bool>,
        visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let glob = asked.glob;
        let mut at = PATHS;
        let mut state = Some(glob.start());
        if !glob.anchor().is_empty() {
            for name in glob.anchor().split(|b| *b == b'/') {
                let node = &self.nodes[at];
                self.visit_own(node, visit)?;
                self.visit_meeting(node, asked, visit)?;
                match self.child(at, name) {
                    Some(child) if self.nodes[child].live > 0 => at = child,
                    _ => return ControlFlow::Continue(()),
                }
            }
            // A held path where the pattern has a directory.
            self.visit_own(&self.nodes[at], visit)?;
            state = state.and_then(|state| glob.step(state, glob.anchor())).and_then(|state| glob.step(state, b"/"));
        }
        self.visit_meeting(&self.nodes[at], asked, visit)?;
        match state {
            Some(state) => self.walk_glob(at, asked, state, &mut glob.anchor().to_vec(), visit),
            None => ControlFlow::Continue(()),
        }
    }

    /// Walks the nodes below `at`. `state` is the state of the pattern after the path to `at` and a slash.
    fn walk_glob<B>(
        &self,
        at: NodeSlot,
        asked: &Asked<'_, impl Fn(&Place) -> bool>,
        state: GlobState,
        path: &mut Vec<u8>,
        visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let (glob, length) = (asked.glob, path.len());
        for child in self.live_children(at) {
            let node = &self.nodes[child];
            if !self.meter.spend(NODE_WORK + node.name.len() as u64) {
                break;
            }
            let Some(state) = glob.step(state, &node.name) else { continue };
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&node.name);
            if node.place != PlaceSlot::NONE && (glob.accepts(state) || glob.claims_directory(path)) {
                self.visit_own(node, visit)?;
            }
            self.visit_meeting(node, asked, visit)?;
            if let Some(state) = glob.step(state, b"/") {
                self.walk_glob(child, asked, state, path, visit)?;
            }
            path.truncate(length);
        }
        ControlFlow::Continue(())
    }

    fn visit_name<B>(&self, name: &[u8], visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut at = NAMES;
        for part in name.split(|b| *b == b'/') {
            self.nodes[at].anchored.iter().try_for_each(|id| visit(*id))?;
            match self.child(at, part) {
                Some(child) if self.nodes[child].live > 0 => at = child,
                _ => return ControlFlow::Continue(()),
            }
        }
        self.visit_own(&self.nodes[at], visit)
    }

    fn visit_below<B>(&self, name: &[u8], visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut at = NAMES;
        for part in name.split(|b| *b == b'/') {
            self.nodes[at].anchored.iter().try_for_each(|id| visit(*id))?;
            match self.child(at, part) {
                Some(child) if self.nodes[child].live > 0 => at = child,
                _ => return ControlFlow::Continue(()),
            }
        }
        self.nodes[at].anchored.iter().try_for_each(|id| visit(*id))?;
        self.visit_all_below(at, visit)
    }

    fn visit_own<B>(&self, node: &Node, visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>) -> ControlFlow<B> {
        if node.place != PlaceSlot::NONE && self.place(node.place).is_live() {
            visit(node.place)?;
        }
        ControlFlow::Continue(())
    }

    fn visit_meeting<B>(
        &self,
        node: &Node,
        asked: &Asked<'_, impl Fn(&Place) -> bool>,
        visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for id in &node.anchored {
            let place = self.place(*id);
            if !self.meter.spend(NODE_WORK) {
                break;
            }
            if (asked.concerns)(place) && matches!(self.meter.meet(asked.key, &place.key), Met::Yes) {
                visit(*id)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn visit_all_below<B>(&self, at: NodeSlot, visit: &mut impl FnMut(PlaceSlot) -> ControlFlow<B>) -> ControlFlow<B> {
        for child in self.live_children(at) {
            let node = &self.nodes[child];
            if !self.meter.spend(NODE_WORK + node.anchored.len() as u64) {
                break;
            }
            self.visit_own(node, visit)?;
            node.anchored.iter().try_for_each(|id| visit(*id))?;
            self.visit_all_below(child, visit)?;
        }
        ControlFlow::Continue(())
    }

    fn glob(&self, id: PlaceSlot) -> &Glob {
        match self.place(id).key.claim() {
            Claim::Glob(glob) => glob,
            _ => unreachable!("only patterns are anchored in the tree of paths"),
        }
    }

    fn live_children(&self, at: NodeSlot) -> impl Iterator<Item = NodeSlot> + '_ {
        std::iter::successors(self.nodes[at].first_child.some(), |child| self.nodes[*child].next.some())
    }

    fn child(&self, parent: NodeSlot, name: &[u8]) -> Option<NodeSlot> {
        let hash = self.hasher.hash_one((parent, name));
        let same = |id: &NodeSlot| {
            let node = &self.nodes[*id];
            node.parent == parent && *node.name == *name
        };
        self.edges.find(hash, same).copied()
    }

    fn insert_node(&mut self, root: NodeSlot, path: &[u8]) -> NodeSlot {
        let mut at = root;
        if path.is_empty() {
            return at;
        }
        for name in path.split(|b| *b == b'/') {
            at = match self.child(at, name) {
                Some(child) => child,
                None => self.insert_child(at, name),
            };
        }
        at
    }

    fn insert_child(&mut self, parent: NodeSlot, name: &[u8]) -> NodeSlot {
        let node = Node::new(parent, name.into());
        let id = match self.free_nodes.pop() {
            Some(id) => {
                self.nodes[id] = node;
                id
            }
            None => {
                self.nodes.0.push(node);
                NodeSlot::from_number(u32::try_from(self.nodes.0.len() - 1).expect("fewer than four billion nodes"))
            }
        };
        self.nodes[parent].children += 1;
        let hash = self.hasher.hash_one((parent, name));
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.edges.insert_unique(hash, id, |id| {
            let node = &nodes[*id];
            hasher.hash_one((node.parent, &*node.name))
        });
        id
    }

    /// Removes a node without children and places, and then its parents likewise.
    fn prune(&mut self, mut id: NodeSlot) {
        while id != PATHS && id != NAMES {
            let node = &mut self.nodes[id];
            if node.children > 0 || node.places > 0 {
                return;
            }
            let (parent, name) = (node.parent, std::mem::take(&mut node.name));
            let hash = self.hasher.hash_one((parent, &*name));
            self.edges.find_entry(hash, |other| *other == id).expect("every node hangs on an edge").remove();
            self.free_nodes.push(id);
            self.nodes[parent].children -= 1;
            id = parent;
        }
    }

    /// Changes a place. If that makes it live or idle, updates the counts and lists of the nodes above it.
    fn change(&mut self, id: PlaceSlot, change: impl FnOnce(&mut Place)) {
        let place = self.place_mut(id);
        let was_live = place.is_live();
        change(place);
        let (is_live, mut at, anchored) = (place.is_live(), place.node, !is_one_node(&place.key));
        if was_live == is_live {
            return;
        }
        let key = &self.places[id].key;
        let (text, cost) = (key.text_bytes(), idle_cost(key));
        if is_live {
            (self.live_bytes, self.idle_bytes) = (self.live_bytes + text, self.idle_bytes - cost);
        } else {
            (self.live_bytes, self.idle_bytes) = (self.live_bytes - text, self.idle_bytes + cost);
        }
        if anchored {
            let list = &mut self.nodes[at].anchored;
            if is_live { list.push(id) } else { list.retain(|other| *other != id) }
        }
        while at != NodeSlot::NONE {
            let node = &mut self.nodes[at];
            node.live = if is_live { node.live + 1 } else { node.live - 1 };
            let (live, parent) = (node.live, node.parent);
            if is_live && live == 1 {
                self.link(at);
            } else if !is_live && live == 0 {
                self.unlink(at);
            }
            at = parent;
        }
    }

    fn link(&mut self, id: NodeSlot) {
        let parent = self.nodes[id].parent;
        if parent == NodeSlot::NONE {
            return;
        }
        self.live_bytes += NODE_BYTES + self.nodes[id].name.len();
        let next = std::mem::replace(&mut self.nodes[parent].first_child, id);
        self.nodes[id].next = next;
        self.nodes[id].prev = NodeSlot::NONE;
        if next != NodeSlot::NONE {
            self.nodes[next].prev = id;
        }
    }

    fn unlink(&mut self, id: NodeSlot) {
        let Node { parent, next, prev, .. } = self.nodes[id];
        if parent == NodeSlot::NONE {
            return;
        }
        self.live_bytes -= NODE_BYTES + self.nodes[id].name.len();
        if prev == NodeSlot::NONE {
            self.nodes[parent].first_child = next;
        } else {
            self.nodes[prev].next = next;
        }
        if next != NodeSlot::NONE {
            self.nodes[next].prev = prev;
        }
    }
}

/// How many bytes a key takes if it shares no node with another one.
fn unshared_bytes(key: &Key) -> usize {
    let (_, path) = branch(key);
    let nodes = if path.is_empty() { 0 } else { path.split(|b| *b == b'/').count() };
    key.text_bytes() + path.len() + nodes * NODE_BYTES
}

/// What an idle key takes at most.
fn idle_cost(key: &Key) -> usize {
    PLACE_BYTES + unshared_bytes(key)
}

/// The root of a key's tree, and the way from there to its node.
fn branch(key: &Key) -> (NodeSlot, &[u8]) {
    match key.claim() {
        Claim::Path(path) => (PATHS, path),
        Claim::Glob(glob) => (PATHS, glob.anchor()),
        Claim::Name(name) | Claim::Below(name) => (NAMES, name),
    }
}

/// Whether the key has a node of its own. Patterns are anchored at the node of a directory.
fn is_one_node(key: &Key) -> bool {
    matches!(key.claim(), Claim::Path(_) | Claim::Name(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyRules;

    /// xorshift64*: the same numbers in every run.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
        }

        fn key(&mut self) -> Key {
            const PARTS: [&str; 12] = ["a", "b", "ab", "a.rs", "b.rs", "*", "**", "*.rs", "a*", "[ab]", "{a,b}", "?"];
            let (parts, namespace) = match self.below(8) {
                0..3 => (&PARTS[..5], ""),
                3..7 => (&PARTS[..], ""),
                _ => (&PARTS[..5], "flag:"),
            };
            let depth = 1 + self.below(4);
            let path: Vec<&str> = (0..depth).map(|_| parts[self.below(parts.len())]).collect();
            let end = if !namespace.is_empty() && self.below(2) == 0 { "/*" } else { "" };
            Key::parse(&format!("{namespace}{}{end}", path.join("/")), &KeyRules::default()).unwrap()
        }
    }

    #[test]
    fn a_visit_finds_exactly_the_keys_that_overlap() {
        for seed in 1..=8 {
            let mut chance = Chance(seed);
            let mut keys: Vec<Key> = (0..150).map(|_| chance.key()).collect();
            keys.sort_by_key(Key::text);
            keys.dedup();
            let overlaps: Vec<Vec<bool>> =
                keys.iter().map(|a| keys.iter().map(|b| a.overlaps(b).is_some()).collect()).collect();
            let mut index = Index::default();
            // Whether each key is held and waited for, by the reservation and the wait of its own number.
            let mut used = vec![(false, false); keys.len()];
            for _ in 0..3_000 {
                let number = chance.below(keys.len());
                let (reservation, waiter) = (ReservationSlot::from_number(number as u32), WaiterId(number as u64 + 1));
                let place = index.find_or_insert(&keys[number], 0);
                let (held, waited) = &mut used[number];
                match (chance.below(5), *held, *waited) {
                    (0 | 1, false, _) => index.add_holder(place, reservation),
                    (0 | 1, true, _) => index.remove_holder(place, reservation),
                    (2 | 3, _, false) => {
                        index.enqueue(
                            place,
                            QueueEntry { waiter, session: SessionSlot::from_number(0), mode: Mode::Exclusive },
                        );
                    }
                    (2 | 3, _, true) => index.dequeue(place, waiter),
                    (_, false, false) => index.forget(place),
                    _ => {}
                }
                let place = index.find(&keys[number]).map(|place| index.place(place));
                *held = place.is_some_and(|place| !place.holders.is_empty());
                *waited = place.is_some_and(|place| !place.queue.is_empty());
                let asked = chance.below(keys.len());
                let mut met = Vec::new();
                index.meter.begin(u64::MAX, false);
                let _: ControlFlow<()> = index.visit_overlaps(
                    &keys[asked],
                    |_| true,
                    |place| {
                        met.push(keys.iter().position(|key| *key == index.place(place).key).unwrap());
                        ControlFlow::Continue(())
                    },
                );
                met.sort_unstable();
                let in_use = |number: &usize| used[*number].0 || used[*number].1;
                let expected: Vec<usize> = (0..keys.len()).filter(in_use).filter(|key| overlaps[asked][*key]).collect();
                assert_eq!(met, expected, "seed {seed}: what overlaps {:?}", keys[asked]);
            }
        }
    }
}
