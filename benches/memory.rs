//! The memory of a million live reservations, measured by the allocator.
//!
//! `cargo bench --bench memory`

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::commands::{NOW, actor, parse, path, reserve, roomy};
use common::table;
use git_dibs::engine::{Command, Engine, Outcome, SessionId, Turn};

/// Counts allocated bytes.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let live = 1_000_000;
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let engine = filled(live);
    let after = LIVE_BYTES.load(Ordering::Relaxed);
    table::head("Memory");
    let each = (after - before) / live;
    table::fact("bytes per live reservation at a million, as counted by the allocator", &each.to_string());
    drop(engine);
}

/// Held by a hundred sessions, each with a reason.
fn filled(count: usize) -> Engine {
    let mut engine = Engine::new(roomy());
    let mut turn = Turn::at(NOW);
    for n in 0..count {
        let session = SessionId::parse(&format!("session-{}", n % 100)).unwrap();
        let Command::Reserve(mut ask) = reserve(&session, parse(&path(n))) else { unreachable!() };
        ask.reason = Some("moving the parser into a crate of its own".into());
        let outcome = engine.execute(&mut turn, &actor(&session), Command::Reserve(ask));
        assert!(matches!(outcome, Ok(Outcome::Granted(_))));
        turn.records.clear();
    }
    engine
}
