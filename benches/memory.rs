//! What a million live reservations weigh: measured by the allocator, not estimated.
//!
//! `cargo bench --bench memory`

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::commands::{NOW, actor, parse, path, reserve};
use common::table;
use git_dibs::engine::{Command, Engine, Outcome, Policy, SessionId, Turn};

/// Counts what is allocated, so that memory is measured and not guessed.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed to the system's allocator as it came.
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
    table::fact("bytes of a live reservation at a million, asked of the allocator", &each.to_string());
    drop(engine);
}

/// With a hundred sessions that say why.
fn filled(count: usize) -> Engine {
    let mut engine = Engine::new(Policy::default());
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
