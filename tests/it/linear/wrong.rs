//! Histories that no correct server can have. The search must reject them, or it proves nothing.

use std::collections::BTreeSet;

use super::fences_that_shrink;
use super::lock::{Conflict, Did, Hold, Key, Op, Outcome, Request, Session};
use super::search::{groups, impossible};

const P0: Key = 0;
const P1: Key = 1;
const P01: Key = 3;
const ALONE: Key = 11;
const ANA: Session = 0;
const BO: Session = 1;
const CY: Session = 2;

fn op(session: Session, from: u64, to: u64, did: Did) -> Op {
    Op { session, from, to, did }
}

fn granted(keys: &[Key], exclusive: bool, fence: u64, version: u64) -> Did {
    let came = Outcome::Granted((fence..).zip(keys).map(|(fence, key)| (*key, fence, version)).collect());
    Did::Reserve { keys: keys.to_vec(), exclusive, wait: false, came }
}

fn waited(did: Did) -> Did {
    match did {
        Did::Reserve { keys, exclusive, came, .. } => Did::Reserve { keys, exclusive, wait: true, came },
        other => other,
    }
}

fn refused(asked: Key, key: Key, by: Session) -> Did {
    let conflict = Conflict { asked, key, session: by, exclusive: true, waiting: false };
    Did::Reserve { keys: vec![asked], exclusive: true, wait: false, came: Outcome::Refused([conflict].into()) }
}

fn released(key: Key) -> Did {
    Did::Release { keys: vec![key], count: Some(1) }
}

fn seen(holds: &[(Key, Session, u64)]) -> Did {
    let hold = |&(key, session, fence): &(Key, Session, u64)| Hold { key, session, exclusive: true, fence };
    Did::List(holds.iter().map(hold).collect())
}

fn lost_reserve(keys: &[Key]) -> Did {
    Did::Lost(Request::Reserve { keys: keys.to_vec(), exclusive: true })
}

#[test]
fn possible_histories_have_an_order() {
    let asked_together = [
        op(ANA, 0, 9, granted(&[P0], true, 1, 0)),
        // Both at once, and the one that was told later came first.
        op(BO, 1, 20, granted(&[P01], true, 3, 0)),
        op(ANA, 10, 21, released(P0)),
        op(CY, 11, 19, refused(P1, P01, BO)),
        op(CY, 22, 23, seen(&[(P01, BO, 3)])),
    ];
    let waiting = [
        op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
        op(BO, 2, 30, waited(granted(&[P0], true, 5, 1))),
        op(CY, 3, 40, waited(granted(&[P01], false, 9, 0))),
        op(ANA, 10, 20, released(P0)),
        op(BO, 31, 32, released(P0)),
    ];
    let running_out = [
        op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
        op(BO, 2, 3, granted(&[ALONE], true, 2, 0)),
        op(BO, 4, 5, released(ALONE)),
        op(ANA, 100, 120, Did::Expire(P0, 1)),
        op(BO, 102, 103, Did::Expire(ALONE, 2)),
        op(CY, 101, 110, granted(&[P01], true, 7, 0)),
    ];
    let lost_and_done = [
        op(ANA, 0, 9, lost_reserve(&[P0, P1])),
        op(BO, 2, 3, seen(&[])),
        op(BO, 4, 5, seen(&[(P0, ANA, 7), (P1, ANA, 8)])),
        op(ANA, 2, 9, Did::End([P0, P1].into())),
        op(BO, 10, 11, granted(&[P0], true, 9, 1)),
    ];
    let lost_and_given_back = [
        op(ANA, 0, 20, lost_reserve(&[P0])),
        op(BO, 1, 2, seen(&[(P0, ANA, 7)])),
        op(BO, 3, 4, granted(&[P0], true, 9, 1)),
        op(ANA, 5, 20, Did::End([].into())),
    ];
    let lost_and_not_done = [
        op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
        op(ANA, 2, 9, Did::Lost(Request::Release(vec![P0]))),
        op(BO, 4, 5, refused(P0, P0, ANA)),
        op(ANA, 3, 9, Did::End([P0].into())),
    ];
    let possible =
        [&asked_together[..], &waiting, &running_out, &lost_and_done, &lost_and_given_back, &lost_and_not_done];
    for history in possible {
        assert_eq!(impossible(history), None, "{history:?}");
    }
}

#[test]
fn impossible_histories_have_no_order() {
    let wrong: &[(&str, &[Op])] = &[
        ("two hold it", &[op(ANA, 0, 1, granted(&[P0], true, 1, 0)), op(BO, 2, 3, granted(&[P0], true, 2, 0))]),
        (
            "two hold what overlaps, asked for at once",
            &[op(ANA, 0, 9, granted(&[P0], true, 1, 0)), op(BO, 0, 9, granted(&[P01], true, 2, 0))],
        ),
        (
            "alone beside others",
            &[op(ANA, 0, 1, granted(&[P0], false, 1, 0)), op(BO, 2, 3, granted(&[P0], true, 2, 0))],
        ),
        (
            "free before it was let go",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(BO, 2, 3, granted(&[P01], true, 2, 0)),
                op(ANA, 4, 5, released(P0)),
            ],
        ),
        ("a look at the past", &[op(ANA, 0, 1, granted(&[P0], true, 1, 0)), op(BO, 2, 3, seen(&[]))]),
        (
            "a refusal out of the past",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 2, 3, released(P0)),
                op(BO, 4, 5, refused(P0, P0, ANA)),
            ],
        ),
        (
            "refused by somebody who never had it",
            &[op(ANA, 0, 1, granted(&[P1], true, 1, 0)), op(BO, 2, 3, refused(P0, P0, ANA))],
        ),
        (
            "half of what was asked for together",
            &[op(ANA, 0, 9, granted(&[P0, P1], true, 1, 0)), op(BO, 1, 8, seen(&[(P0, ANA, 1)]))],
        ),
        (
            "seen in another order than the fences say",
            &[
                op(ANA, 0, 9, granted(&[P0], true, 1, 0)),
                op(BO, 0, 9, granted(&[P1], true, 2, 0)),
                op(CY, 1, 2, seen(&[(P1, BO, 2)])),
                op(CY, 3, 8, seen(&[(P0, ANA, 1), (P1, BO, 2)])),
            ],
        ),
        (
            "a fence that shrinks",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 9, 0)),
                op(ANA, 2, 3, released(P0)),
                op(BO, 4, 5, granted(&[P0], true, 5, 1)),
            ],
        ),
        (
            "another fence for what is held",
            &[op(ANA, 0, 1, granted(&[P0], true, 1, 0)), op(ANA, 2, 3, granted(&[P0], true, 4, 0))],
        ),
        (
            "a version that stands still",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 2, 3, released(P0)),
                op(BO, 4, 5, granted(&[P0], true, 5, 0)),
            ],
        ),
        (
            "forgotten",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 2, 3, Did::Release { keys: vec![P0], count: Some(0) }),
            ],
        ),
        (
            "back from the dead",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 2, 3, Did::ReleaseAll([P0].into())),
                op(BO, 4, 5, seen(&[(P0, ANA, 1)])),
            ],
        ),
        ("renewed without having it", &[op(ANA, 0, 1, Did::Renew(P0, Some(1)))]),
        (
            "checked, and told that it is clear",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(BO, 2, 3, Did::Check { keys: vec![P01], conflicts: BTreeSet::new() }),
            ],
        ),
        (
            "early",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 100, 120, Did::Expire(P0, 1)),
                op(BO, 50, 99, granted(&[P0], true, 2, 1)),
            ],
        ),
        (
            "late",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 100, 120, Did::Expire(P0, 1)),
                op(BO, 121, 122, seen(&[(P0, ANA, 1)])),
            ],
        ),
        (
            "passed by while waiting",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(BO, 2, 50, waited(granted(&[P01], true, 9, 0))),
                // A response named Bo as a waiter, so Bo waits.
                op(
                    CY,
                    3,
                    4,
                    Did::Reserve {
                        keys: vec![P1],
                        exclusive: true,
                        wait: false,
                        came: Outcome::Refused(
                            [Conflict { asked: P1, key: P01, session: BO, exclusive: true, waiting: true }].into(),
                        ),
                    },
                ),
                op(CY, 5, 6, granted(&[P1], true, 5, 0)),
                op(CY, 7, 8, released(P1)),
                op(ANA, 10, 11, released(P0)),
            ],
        ),
        ("half of what was lost", &[op(ANA, 0, 9, lost_reserve(&[P0, P1])), op(BO, 1, 8, seen(&[(P0, ANA, 1)]))]),
        (
            "lost, done and undone",
            &[
                op(ANA, 0, 20, lost_reserve(&[P0])),
                op(BO, 1, 2, seen(&[(P0, ANA, 1)])),
                op(BO, 3, 4, seen(&[])),
                op(ANA, 5, 20, Did::End([P0].into())),
            ],
        ),
        (
            "done after the session has ended",
            &[
                op(ANA, 0, 20, lost_reserve(&[P0])),
                op(ANA, 5, 19, Did::End([].into())),
                op(BO, 6, 7, seen(&[(P0, ANA, 1)])),
                op(BO, 30, 31, seen(&[(P0, ANA, 1)])),
            ],
        ),
        (
            "a lost release of what another session has",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(BO, 2, 20, Did::Lost(Request::Release(vec![P0]))),
                op(CY, 3, 4, seen(&[])),
            ],
        ),
        (
            "waited for nothing",
            &[
                op(ANA, 0, 1, granted(&[P0], true, 1, 0)),
                op(ANA, 2, 3, released(P0)),
                op(
                    BO,
                    4,
                    50,
                    Did::Reserve {
                        keys: vec![P0],
                        exclusive: true,
                        wait: true,
                        came: Outcome::TimedOut(
                            [Conflict { asked: P0, key: P0, session: ANA, exclusive: true, waiting: false }].into(),
                        ),
                    },
                ),
            ],
        ),
    ];
    for (what, history) in wrong {
        assert!(impossible(history).is_some(), "{what}: {history:?}");
        assert!(groups(history).iter().any(|group| impossible(group).is_some()), "{what}, taken apart");
    }
}

#[test]
fn fences_are_compared_across_all_keys() {
    let history = [op(ANA, 0, 1, granted(&[P0], true, 9, 0)), op(BO, 2, 3, granted(&[ALONE], true, 5, 0))];
    assert!(fences_that_shrink(&history).is_some());
    let lost = [
        op(ANA, 0, 9, lost_reserve(&[P0])),
        op(BO, 1, 2, seen(&[(P0, ANA, 9)])),
        op(CY, 3, 4, granted(&[ALONE], true, 5, 0)),
    ];
    assert!(fences_that_shrink(&lost).is_some());
    let at_once = [op(ANA, 0, 3, granted(&[P0], true, 9, 0)), op(BO, 2, 3, granted(&[ALONE], true, 5, 0))];
    assert!(fences_that_shrink(&at_once).is_none());
}
