//! Nodes whose calls to etcd go through a proxy: answers get lost, or only some of what etcd says arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::faults::some_answers;
use crate::http::Response;
use crate::kill::work_through_failures;
use crate::proxy::{Fate, Proxy};
use crate::world::{World, has_etcd, until};

fn reserve(path: &str) -> Value {
    json!({ "filePath": path, "ttlSeconds": 300 })
}

#[test]
fn nothing_is_lost_or_doubled_while_answers_of_etcd_get_lost() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(3);
    let proxy = Proxy::faulty(&world.members, 11);
    world.set_node_etcd(proxy.address("dibs"));
    (0..3).for_each(|node| world.start_node(node));
    world.leader();
    work_through_failures(world, 2, |world, field| {
        some_answers(world, field);
        let leader = world.leader();
        world.kill_node(leader);
        world.other_leader(leader);
        world.start_node(leader);
        field.go_to(world);
        some_answers(world, field);
    });
}

fn seconds_since_boot() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and the call writes nothing else.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) }, 0);
    now.tv_sec
}

/// A leader that was deposed while it was frozen, and that does not hear of it when it wakes: of what etcd says about leases
/// and leaders, nothing arrives. Its own calls arrive.
struct Deposed {
    world: World,
    _proxy: Proxy,
}

/// The deposed leader and the one after it.
const OLD: usize = 0;
const NEW: usize = 1;

impl Deposed {
    /// Ana holds `a`, which both leaders know. Bo has got `b` from the new leader. `has_lease_check` says whether time
    /// passes for the old one: if its clock stands still, its lease never ends, so it does not ask etcd who leads.
    fn new(has_lease_check: bool) -> Option<Deposed> {
        let library = crate::preload::library("a leader without a check of its lease")?;
        let mut world = World::without_nodes(2);
        let is_deaf = Arc::<AtomicBool>::default();
        let hears = {
            let is_deaf = is_deaf.clone();
            move |path: &str, message: &[u8]| {
                let has = |text: &[u8]| message.windows(text.len()).any(|found| found == text);
                let says_who_leads =
                    path.ends_with("/LeaseKeepAlive") || has(b"dibs/live/repo0") || has(b"dibs/nodes0");
                if is_deaf.load(Ordering::SeqCst) && says_who_leads { Fate::LosesRequest } else { Fate::Passes }
            }
        };
        let proxy = Proxy::start(&world.members, Box::new(hears));
        let clock = world.path("stands-still");
        world.set_node_etcd(proxy.address("dibs"));
        // Longer than others, so that the lease is certainly valid when the clock stops, however busy the machine is.
        let mut command = world.changed(&world.serve(OLD), "--cluster-lease", Some("10"));
        command.env("LD_PRELOAD", library).env("DIBS_BOOT_CLOCK", &clock);
        world.start_node_with(OLD, &mut command);
        world.leader();
        world.set_node_etcd(world.address());
        world.start_node(NEW);
        world.session("ana").post_at(OLD, "files/reserve", reserve("a")).unwrap().ok();
        // Its session is known, so that a check needs no record.
        world.session("carl").post_at(OLD, "heartbeat", json!({})).unwrap().ok();

        if !has_lease_check {
            // Whatever it does from now on, it does at this time.
            std::fs::write(&clock, seconds_since_boot().to_string()).unwrap();
        }
        is_deaf.store(true, Ordering::SeqCst);
        world.node(OLD).signal(libc::SIGSTOP);
        assert_eq!(world.other_leader(OLD), NEW);
        until("the new leader grants", || {
            let answer = world.session("bo").post_at(NEW, "files/reserve", reserve("b")).ok()?;
            (answer.status == 200).then_some(())
        });
        world.node(OLD).signal(libc::SIGCONT);
        Some(Deposed { world, _proxy: proxy })
    }

    /// Asks the deposed leader; none if it closes the connection.
    fn ask(&self, session: &str, call: &str, body: Value) -> Option<Response> {
        self.world.session(session).post_at(OLD, call, body).ok()
    }

    /// What the new leader holds, and what is in the journal.
    fn check_that_nothing_was_written(&self) {
        let held = |node: usize| {
            let list = self.world.call_at(&self.world.at(node), "GET", "/api/reservations", &self.world.reader(), None);
            let list = list.unwrap().ok()["reservations"].clone();
            let all = list.as_array().unwrap().iter();
            all.map(|one| format!("{} {}", one["filePath"], one["sessionId"])).collect::<Vec<_>>()
        };
        assert_eq!(held(NEW), [r#""a" "ana""#, r#""b" "bo""#]);
        let history = self.world.call_at(&self.world.at(NEW), "GET", "/api/history", &self.world.reader(), None);
        let history = history.unwrap().ok();
        let mut events = history["events"].as_array().unwrap().iter();
        assert!(!events.any(|event| event["event"] == "reserved" && event["sessionId"] == "carl"), "{history}");
    }
}

#[test]
fn a_deposed_leader_that_does_not_check_its_lease_cannot_write() {
    if !has_etcd() {
        return;
    }
    let Some(deposed) = Deposed::new(false) else { return };
    // This is what the check of the lease is for: without it, answers that need no record are those of the past.
    let check = deposed.ask("carl", "files/check-conflicts", json!({ "paths": ["a", "b"] })).expect("it answers");
    let conflicts = check.ok()["conflicts"].clone();
    let paths: Vec<&Value> = conflicts.as_array().unwrap().iter().map(|one| &one["filePath"]).collect();
    assert_eq!(paths, [&json!("a")], "b is held too, and it does not know");
    // Whatever needs a record is refused by the transaction.
    if let Some(answer) = deposed.ask("carl", "files/reserve", reserve("b")) {
        assert_eq!(answer.status, 503, "{answer}");
    }
    deposed.check_that_nothing_was_written();
}

#[test]
fn a_deposed_leader_that_checks_its_lease_says_nothing_wrong() {
    if !has_etcd() {
        return;
    }
    let Some(deposed) = Deposed::new(true) else { return };
    if let Some(answer) = deposed.ask("carl", "files/check-conflicts", json!({ "paths": ["a", "b"] })) {
        let knows = answer.status == 503 || answer.json()["conflicts"].as_array().is_some_and(|all| all.len() == 2);
        assert!(knows, "{answer}");
    }
    if let Some(answer) = deposed.ask("carl", "files/reserve", reserve("b")) {
        assert!([409, 503].contains(&answer.status), "{answer}");
    }
    deposed.check_that_nothing_was_written();
}
