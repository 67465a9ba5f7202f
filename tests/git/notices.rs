//! The server tells a session most things once, with any reply. A hook shows what it was told.

use git_dibs::wire::Mode;

use crate::support::session::Session;
use crate::world::{World, said};

/// Lets bo's reservation of `key` expire, without a call of bo.
fn expire(bo: &Session<'_>, ana: &Session<'_>, key: &str) {
    bo.hold_for(key, 1);
    // A waiting request is granted the moment the reservation expires.
    ana.wait_for(key);
    ana.release(key);
}

#[test]
fn hooks_swallowed_the_notice_that_a_reservation_expired() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold_as("b", Mode::Exclusive);
    world.shell("work", "echo 1 >>c; git commit -qam c");
    let acts = [
        ("a passing commit", "echo 1 >>a; git commit -qam m", true),
        ("a blocked commit", "echo 1 >>b; git commit -qam m", false),
        ("a passing push", "git reset -q --hard; git push -q origin main", true),
    ];
    for (what, act, passes) in acts {
        expire(&bo, &ana, "ka");
        let output = world.try_shell("work", act, &world.variables(Some(&bo)));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), passes, "{what}: {text}");
        assert!(text.contains("git-dibs: your time ran out; you no longer hold ka\n"), "{what}: {text}");
        assert!(output.stdout.is_empty(), "{what}: stdout is for git");
        let output = world.try_shell("work", "git commit -q --allow-empty -m again", &world.variables(Some(&bo)));
        assert!(output.status.success() && !said(&output).contains("ran out"), "once: {}", said(&output));
    }
}
