//! What a million live reservations weigh: measured by the allocator, not estimated.
//!
//! `cargo bench --bench memory`

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use git_dibs::engine::{
    Actor, Command, Engine, Intro, Mode, Outcome, Owner, Policy, ReservationId, Reserve, SessionId, Timestamp, Ttl,
    Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

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
    println!("bytes per live reservation at a million: {}", (after - before) / live);
    drop(engine);
}

fn filled(count: usize) -> Engine {
    let mut engine = Engine::new(Policy::default());
    let mut records = Vec::new();
    for n in 0..count {
        let session = SessionId::parse(&format!("session-{}", n % 100)).unwrap();
        let intro = Intro { id: session.clone(), name: None, feature: None, owner: Owner::Itself };
        let text = format!("src/area_{}/part_{}/file_{n}.rs", n % 97, n % 1009);
        let key = Key::parse(&text, &KeyRules::default()).unwrap();
        let reserve = Reserve {
            session,
            wants: [Want { id: ReservationId(Uuid::from_u128(n as u128)), key, ttl: Ttl(60) }].into(),
            mode: Mode::Exclusive,
            reason: Some("moving the parser into a crate of its own".into()),
            wait: None,
            if_version: None,
        };
        let now = Timestamp(1_800_000_000_000);
        let outcome = engine.execute(&Actor::Session(intro), Command::Reserve(reserve), now, &mut records);
        assert!(matches!(outcome, Outcome::Granted(_)));
        records.clear();
    }
    engine
}
