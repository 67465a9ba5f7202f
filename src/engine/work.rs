//! How much a decision may compare.
//!
//! The unit of work is one step of some nanoseconds: a byte that a pattern reads, a pair of states in the comparison of
//! two patterns, a few for each node of the index. A client chooses its patterns, and with them the work of everyone who
//! compares with them. So every command has a budget. A pair of patterns that is expensive to compare is not compared while
//! others wait: the refusal names it, the caller has it compared elsewhere, and asks again.
//!
//! A command first gets little work, see [`Engine::execute_small`]. One that needs more gets it in a turn of its own, and
//! such turns are rare while others are active.

use std::cell::{Cell, RefCell};

use super::command::Refusal;
use super::state::Engine;
use crate::key::{Claim, Glob, Key};

/// The work of one command: tens of milliseconds at most. It is enough for a walk over a million keys.
pub(super) const COMMAND_WORK: u64 = 20_000_000;

/// The work of a command among those of others: a few milliseconds.
pub(super) const SMALL_WORK: u64 = 2_000_000;

/// The work after which no further wait is looked at, and for one wait.
pub(super) const GRANT_WORK: u64 = 2_000_000;
pub(super) const WAIT_WORK: u64 = COMMAND_WORK;

/// The work after which no further wait is ended because of its deadline.
pub(super) const TICK_WORK: u64 = 2_000_000;

/// A pair of patterns that may take more work is compared elsewhere.
const PAIR_WORK: u64 = 50_000;

/// The most pairs that one refusal names.
const UNCOMPARED_MAX: usize = 32_768;

/// What looking up a key or a known pair, and a node of the index, costs besides the bytes that are read.
pub(super) const LOOKUP_WORK: u64 = 32;
pub(super) const NODE_WORK: u64 = 8;

/// What checking or listing one key costs besides that.
pub(super) const CHECK_WORK: u64 = 128;

/// Two patterns whose overlap is not known yet.
pub type Pair = (Key, Key);

/// Counts the work of a command. Working memory.
pub(super) struct Meter {
    left: Cell<u64>,
    spent: Cell<u64>,
    /// There was more to do than was left. What was found so far is incomplete.
    is_exhausted: Cell<bool>,
    /// Expensive pairs go to `uncompared`. Otherwise they are compared here.
    defers: Cell<bool>,
    uncompared: RefCell<Vec<Pair>>,
}

/// What the meter says about a pair of patterns.
pub(super) enum Met {
    Yes,
    No,
    /// It was not compared.
    Unknown,
}

impl Default for Meter {
    fn default() -> Self {
        let (spent, is_exhausted, defers) = (Cell::new(0), Cell::new(false), Cell::new(false));
        Self { left: Cell::new(u64::MAX), spent, is_exhausted, defers, uncompared: RefCell::default() }
    }
}

impl Meter {
    /// Ends a budget: until the next one, everything is compared.
    pub fn end(&self) {
        self.begin(u64::MAX, false);
    }

    /// Starts a budget.
    pub fn begin(&self, work: u64, defers: bool) {
        self.left.set(work);
        self.is_exhausted.set(false);
        self.defers.set(defers);
        if !self.uncompared.borrow().is_empty() {
            self.uncompared.borrow_mut().clear();
        }
    }

    /// Counts work. False once there is none left.
    pub fn spend(&self, work: u64) -> bool {
        self.spent.set(self.spent.get().wrapping_add(work));
        match self.left.get().checked_sub(work) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => {
                self.left.set(0);
                self.is_exhausted.set(true);
                false
            }
        }
    }

    /// All work so far.
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Whether everything was compared that had to be.
    pub fn is_complete(&self) -> bool {
        !self.is_exhausted.get() && self.uncompared.borrow().is_empty()
    }

    /// Whether two patterns overlap. A comparison that has begun is finished, so that it is known the next time.
    pub fn meet(&self, asked: &Key, key: &Key) -> Met {
        let (a, b) = (glob(asked), glob(key));
        let meets = match a.known_meeting(b) {
            Some(meets) => {
                self.spend(LOOKUP_WORK);
                meets
            }
            None if self.is_exhausted.get() => return Met::Unknown,
            None if self.defers.get() && a.comparison_work_max(b) > PAIR_WORK.min(self.left.get()) => {
                let mut uncompared = self.uncompared.borrow_mut();
                if uncompared.len() < UNCOMPARED_MAX {
                    uncompared.push((asked.clone(), key.clone()));
                }
                return Met::Unknown;
            }
            None => {
                let (meets, work) = a.compare(b);
                self.spend(work);
                meets
            }
        };
        if meets { Met::Yes } else { Met::No }
    }
}

fn glob(key: &Key) -> &Glob {
    match key.claim() {
        Claim::Glob(glob) => glob,
        _ => unreachable!("only patterns are compared"),
    }
}

/// The work of a look at the state; see [`Engine::work`].
#[derive(Debug, Default)]
pub struct WorkReport {
    pub spent: u64,
    /// There was more to do for one key.
    pub is_exhausted: bool,
    /// Pairs that must be compared before the result is complete.
    pub uncompared: Vec<Pair>,
}

impl Engine {
    /// Runs `look`, which reads the state for one key, and reports its work. The result is complete if nothing is exhausted
    /// or uncompared. If it `is_large`, it may do as much as a command in a turn of its own.
    pub fn measured<T>(&self, is_large: bool, look: impl FnOnce(&Engine) -> T) -> (T, WorkReport) {
        let meter = &self.index.meter;
        let before = meter.spent();
        meter.begin(if is_large { COMMAND_WORK } else { SMALL_WORK }, true);
        let result = look(self);
        let uncompared = std::mem::take(&mut *meter.uncompared.borrow_mut());
        let report = WorkReport { spent: meter.spent() - before, is_exhausted: meter.is_exhausted(), uncompared };
        meter.end();
        (result, report)
    }

    /// All work since the engine was made. The difference of two readings is the work in between.
    pub fn work(&self) -> u64 {
        self.index.meter.spent()
    }

    /// Refuses if the decision has not compared everything.
    pub(super) fn refuse_if_incomplete(&self) -> Result<(), Refusal> {
        let meter = &self.index.meter;
        if meter.is_complete() {
            return Ok(());
        }
        if meter.is_exhausted() {
            return Err(Refusal::TooMuchWork);
        }
        Err(Refusal::Uncompared(std::mem::take(&mut *meter.uncompared.borrow_mut())))
    }
}
