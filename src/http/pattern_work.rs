//! The work for the patterns of a request: building them, and comparing them with what is held.
//!
//! A client chooses its patterns, and some take milliseconds. So that work has two limits: for one request, and for all
//! requests of one token over time. Comparisons that are expensive run here, on a thread of their own, and not on the thread
//! that decides. The unit of work is explained in `engine::work`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use tokio::sync::Semaphore;

use super::app::{App, Repository};
use super::background::{at_low_priority, without_blocking};
use super::caller::Caller;
use super::error::{ApiError, ApiResult};
use super::extract::LONG_LIST_KEYS;
use super::outcome::TOO_MUCH_WORK;
use super::transport::client_watch::unless_gone;
use crate::engine::{Few, Pair, Text};
use crate::key::{Claim, Key};
use crate::wire::{Code, ErrorBody};

/// The work of one request: about a second of one processor.
const REQUEST_WORK_MAX: u64 = 400_000_000;

/// The work of one token per second, on average: about a tenth of one processor.
const WORK_PER_SECOND: u64 = 40_000_000;

/// How far a token may be ahead of its average: as much as the largest request takes.
const AHEAD_MAX: Duration = Duration::from_secs(REQUEST_WORK_MAX / WORK_PER_SECOND);

/// The work of a pattern that turns out to be too complex.
const FAILED_BUILD_WORK: u64 = 4_000_000;

/// Comparisons are counted, and stopped if no client waits for them, after about this much work.
const STEP_WORK: u64 = 2_000_000;

/// The most patterns that a request may have to be read without a turn among the requests with many patterns.
const FEW_PATTERNS: usize = 8;

/// How often a request is decided again after its patterns were compared. Every time, other patterns may have come.
pub const COMPARE_ROUNDS: usize = 4;

/// The size at which the shares that are not used any more are dropped for the first time.
const SWEEP_AT: usize = 1024;

/// How many threads may work on patterns at the same time: half of the processors.
pub fn pattern_threads() -> Arc<Semaphore> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new((processors / 2).max(1)))
}

/// How much work each token has used.
pub struct WorkShares {
    started: Instant,
    shares: Mutex<Shares>,
}

#[derive(Default)]
struct Shares {
    /// For each subject, the time up to which its share is used, since the start. A time in the past is the same as none.
    used_until: HashMap<Text, Duration>,
    sweep_at: usize,
}

impl Default for WorkShares {
    fn default() -> Self {
        Self { started: Instant::now(), shares: Mutex::default() }
    }
}

impl WorkShares {
    /// Counts work. If the subject is too far ahead, returns how long it must wait.
    fn add(&self, subject: &Text, work: u64) -> Result<(), Duration> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).add(subject, work, self.started.elapsed())
    }
}

impl Shares {
    fn add(&mut self, subject: &Text, work: u64, now: Duration) -> Result<(), Duration> {
        if self.used_until.len() >= self.sweep_at.max(SWEEP_AT) {
            self.used_until.retain(|_, until| *until > now);
            self.sweep_at = self.used_until.len() * 2;
        }
        let time = Duration::from_nanos(work * 1000 / (WORK_PER_SECOND / 1_000_000));
        let until = match self.used_until.get_mut(subject) {
            Some(until) => {
                *until = (*until).max(now) + time;
                *until
            }
            None => *self.used_until.entry(subject.clone()).insert(now + time).get(),
        };
        match until.checked_sub(now + AHEAD_MAX) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(()),
        }
    }
}

/// The work of one request.
pub struct PatternWork {
    repo: Arc<Repository>,
    subject: Text,
    spent: u64,
    patterns: usize,
}

impl PatternWork {
    /// For a request with these keys; none if there is no pattern among them.
    pub fn of<'a>(caller: &Caller, texts: impl Iterator<Item = &'a str>) -> ApiResult<Option<PatternWork>> {
        let patterns = texts.filter(|text| Key::is_pattern(text)).count();
        if patterns == 0 {
            return Ok(None);
        }
        let (repo, subject) = (caller.repo.clone(), caller.claims.subject.clone());
        let mut work = PatternWork { repo, subject, spent: 0, patterns };
        work.add(1)?;
        Ok(Some(work))
    }

    /// Counts work of this request.
    pub fn add(&mut self, work: u64) -> ApiResult<()> {
        self.spent += work;
        self.repo.work_shares.add(&self.subject, work).map_err(over_share)?;
        if self.spent > REQUEST_WORK_MAX { Err(too_much()) } else { Ok(()) }
    }

    /// Compares pairs of patterns, so that the next decision knows whether they overlap. Stops if the client is gone.
    pub async fn compare(&mut self, app: &App, pairs: Vec<Pair>) -> ApiResult<()> {
        unless_gone(self.compare_anyway(app, pairs)).await
    }

    async fn compare_anyway(&mut self, app: &App, pairs: Vec<Pair>) -> ApiResult<()> {
        let Ok(permit) = app.pattern_threads.clone().acquire_owned().await else { return Ok(()) };
        let (repo, subject, room) = (self.repo.clone(), self.subject.clone(), REQUEST_WORK_MAX - self.spent);
        let waiting = Waiting::default();
        let is_over = waiting.0.clone();
        let compared = tokio::task::spawn_blocking(move || {
            at_low_priority(|| {
                let _permit = permit;
                let (mut spent, mut counted) = (0, 0);
                for (one, other) in pairs {
                    spent += one.compare(&other);
                    if spent - counted < STEP_WORK {
                        continue;
                    }
                    repo.work_shares.add(&subject, spent - counted).map_err(over_share)?;
                    counted = spent;
                    if spent > room {
                        return Err(too_much());
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                repo.work_shares.add(&subject, spent - counted).map_err(over_share)?;
                Ok(spent)
            })
        });
        let spent = compared.await.unwrap_or_else(|_| Err(too_much()))?;
        drop(waiting);
        self.spent += spent;
        Ok(())
    }
}

/// Reads the keys of a request. Building patterns is counted; many of them take turns with those of other requests.
pub async fn read_keys<T, K: Send>(
    app: &App,
    work: &mut Option<PatternWork>,
    texts: impl Iterator<Item = T> + Send,
    mut read: impl FnMut(T) -> ApiResult<K> + Send,
    key: impl Fn(&K) -> &Key + Sync,
) -> ApiResult<Few<K>> {
    let patterns = work.as_ref().map_or(0, |work| work.patterns);
    let is_long = texts.size_hint().0 > LONG_LIST_KEYS || patterns > FEW_PATTERNS;
    let _turn = if patterns > FEW_PATTERNS { app.pattern_threads.acquire().await.ok() } else { None };
    without_blocking(is_long, || {
        let read_one = |text: T| match work {
            None => read(text),
            Some(work) => {
                let parsed = read(text);
                match parsed.as_ref().map(|parsed| key(parsed).claim()) {
                    Ok(Claim::Glob(glob)) => work.add(glob.build_work())?,
                    Ok(_) => {}
                    Err(_) => work.add(FAILED_BUILD_WORK)?,
                }
                parsed
            }
        };
        texts.map(read_one).collect()
    })
    .await
}

/// Set when the request is over, also when its client has disconnected.
#[derive(Default)]
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn too_much() -> ApiError {
    ApiError::new(Code::InvalidRequest, TOO_MUCH_WORK)
}

fn over_share(wait: Duration) -> ApiError {
    let sentence = "this token has used up its share of work for patterns; try again later, with fewer or simpler ones";
    let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
    body.more.insert("limit".to_owned(), WORK_PER_SECOND.into());
    ApiError::from(body).retry_after(wait.as_secs() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_used_up_and_comes_back() {
        let (mut shares, ana, bo) = (Shares::default(), Text::from("ana"), Text::from("bo"));
        let second = Duration::from_secs(1);
        assert_eq!(shares.add(&ana, REQUEST_WORK_MAX, second), Ok(()), "the largest request");
        assert_eq!(shares.add(&ana, WORK_PER_SECOND, second), Err(second));
        assert_eq!(shares.add(&bo, 1, second), Ok(()), "every token has its own");
        assert_eq!(shares.add(&ana, 0, 3 * second), Ok(()));
        assert_eq!(
            shares.add(&ana, REQUEST_WORK_MAX, 60 * second),
            Ok(()),
            "a minute saves up no more than one request"
        );
        assert!(shares.add(&ana, WORK_PER_SECOND, 60 * second).is_err());
    }

    #[test]
    fn shares_that_are_not_used_any_more_are_dropped() {
        let mut shares = Shares::default();
        for n in 0..20_000_u32 {
            let _ = shares.add(&Text::from(format!("s{n}")), 1000, Duration::from_secs(n.into()));
            assert!(shares.used_until.len() <= 2 * SWEEP_AT);
        }
    }
}
