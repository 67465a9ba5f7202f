//! Generations: the numbers of records never go back, also when an earlier copy of a journal is restored.
//!
//! The copy lacks the newest records, but clients know their numbers, as fences, event ids and positions in the queue. So
//! after a restore the numbers go on at the start of the next generation, a multiple of 2^40, which is above every number
//! that was used before. The first record there is [`Event::Restored`]. A journal that was never restored is in generation 0.

use super::ids::{Seq, Timestamp};
use super::record::{Event, Record};

/// How many bits count the records of one generation. At 100,000 records a second they last for four months; then the
/// numbers simply continue into the next generation.
const COUNT_BITS: u32 = 40;

/// The last generation. Its numbers are the largest that are exact in JavaScript, which has 53 bits for them.
const GENERATION_MAX: u64 = (1 << (53 - COUNT_BITS)) - 1;

impl Seq {
    pub fn generation(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// How many records there are after `earlier`, up to this one. Numbers that a restore skipped do not count, and where
    /// there was one, neither do the records before it.
    pub fn count_since(self, earlier: Seq) -> u64 {
        let start = Seq(self.generation() << COUNT_BITS);
        self.0.saturating_sub(earlier.max(Seq(start.0.saturating_sub(1))).0)
    }
}

impl Record {
    /// The record that begins a new generation of a journal that ends with `kept`. `used` is the largest number that was
    /// ever given out. None after the last generation.
    pub fn restored(kept: Seq, used: Seq, at: Timestamp) -> Option<Record> {
        let generation = kept.max(used).generation() + 1;
        let event = Event::Restored { generation, kept };
        (generation <= GENERATION_MAX).then(|| Record { seq: Seq(generation << COUNT_BITS), at, event })
    }

    /// Whether this record may come right after the record `last`.
    pub fn follows(&self, last: Seq) -> bool {
        self.event.follows(self.seq, last)
    }
}

impl Event {
    /// Whether this event, under the number `seq`, may come right after the record `last`. A restore may come after the last
    /// record it kept, and after records that it did not keep.
    pub fn follows(&self, seq: Seq, last: Seq) -> bool {
        match self {
            Event::Restored { kept, .. } => *kept <= last && last < seq,
            _ => seq == last.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        Actor, Command, Engine, Mode, Outcome, Policy, ReservationId, Reserve, SessionId, Ttl, Turn, Want,
    };
    use crate::key::Key;

    #[test]
    fn a_new_generation_is_above_every_number_that_was_used() {
        let start = |kept, used| Record::restored(Seq(kept), Seq(used), Timestamp(0)).map(|record| record.seq.0);
        assert_eq!(start(0, 0), Some(1 << 40));
        assert_eq!(start(100, 150), Some(1 << 40));
        assert_eq!(start(100, (1 << 40) + 7), Some(2 << 40));
        assert_eq!(start((5 << 40) + 9, 3), Some(6 << 40));
        assert_eq!(start(0, (8190 << 40) + 1), Some(8191 << 40));
        assert_eq!(start(0, 8191 << 40), None, "the last number that is exact in JavaScript is near");
        assert_eq!(start(0, u64::MAX), None);
    }

    #[test]
    fn numbers_that_a_restore_skipped_do_not_count() {
        let second = |n: u64| Seq((1 << 40) + n);
        assert_eq!(Seq(9).count_since(Seq(4)), 5);
        assert_eq!(Seq(4).count_since(Seq(9)), 0);
        assert_eq!(second(3).count_since(second(1)), 2);
        assert_eq!(second(3).count_since(Seq(150)), 4);
        assert_eq!(second(0).count_since(Seq(150)), 1);
    }

    #[test]
    fn only_a_restore_may_skip_numbers() {
        let restored = Record::restored(Seq(100), Seq(150), Timestamp(0)).unwrap();
        let follows = [100, 101, 150].map(|last| restored.follows(Seq(last)));
        assert_eq!(follows, [true; 3]);
        assert!(!restored.follows(Seq(99)), "a record that it kept is missing");
        assert!(!restored.follows(restored.seq));
        let counted = |seq| Record { seq, at: Timestamp(0), event: Event::Counted { conflicts: 0, deadlocks: 0 } };
        assert!(counted(Seq(8)).follows(Seq(7)) && counted(restored.seq.next()).follows(restored.seq));
        assert!(!counted(Seq(9)).follows(Seq(7)) && !counted(restored.seq).follows(Seq(150)));
    }

    #[test]
    fn fences_and_versions_after_a_restore_are_larger_than_all_before() {
        let ana = SessionId::parse("ana").unwrap();
        let mut engine = Engine::new(Policy::default());
        let mut turn = Turn::at(Timestamp(0));
        let mut ask =
            |engine: &mut Engine, command| engine.execute(&mut turn, &Actor::Admin("test".into()), command).unwrap();
        let reserve = |key: &str| {
            let want = Want {
                id: ReservationId(uuid::Uuid::nil()),
                key: Key::recall(key, false).unwrap(),
                ttl: Ttl::Plain(60),
            };
            let (session, wants) = (ana.clone(), [want].into());
            let ask = Reserve { session, wants, mode: Mode::Exclusive, reason: None, wait: None, if_version: None };
            Command::Reserve(ask)
        };
        let grant = |outcome| match outcome {
            Outcome::Granted(grants) => (grants[0].fence, grants[0].version),
            other => panic!("{other:?}"),
        };
        ask(&mut engine, Command::Create { session: ana.clone(), name: None, feature: None, owner: None });
        assert_eq!(grant(ask(&mut engine, reserve("held"))), (Seq(2), 0));
        assert_eq!(grant(ask(&mut engine, reserve("free"))), (Seq(3), 0));
        let key = Key::recall("free", false).unwrap();
        ask(&mut engine, Command::Release { session: ana.clone(), keys: [key.into()].into() });

        engine.apply(&Record::restored(engine.head(), Seq(700), Timestamp(0)).unwrap());
        assert_eq!(engine.head(), Seq(1 << 40));
        let image = engine.image();
        let restored = Engine::restore(Policy::default(), image.clone());
        assert_eq!(restored.image(), image);
        for mut engine in [engine, restored] {
            assert_eq!(grant(ask(&mut engine, reserve("held"))), (Seq(2), 1 << 40), "it is still held");
            assert_eq!(grant(ask(&mut engine, reserve("free"))), (Seq((1 << 40) + 1), 1 << 40));
            assert_eq!(grant(ask(&mut engine, reserve("new"))), (Seq((1 << 40) + 2), 1 << 40));
        }
    }
}
