//! Codes that sign a browser in: each works once, and for a minute.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time;

use super::random_text;
use crate::engine::Text;
use crate::text::hex;
use crate::token::Claims;

/// How long a code is valid.
pub const CODE_TIME: Duration = Duration::from_secs(60);

/// The most codes that are open at once: of all callers, and of one. A caller's next code replaces its oldest.
pub const CODES_MAX: usize = 1_000;
const CODES_PER_CALLER_MAX: usize = 8;

/// Failed exchanges within a minute after which the server answers 429 to further ones. A right code always works: with 128
/// random bits it cannot be guessed, and other clients must not be able to keep a person out.
pub const FAILURES_MAX: u32 = 60;
const FAILURES_TIME: Duration = Duration::from_secs(60);

/// The code as the client gets it from a node of a cluster: it names the repository whose leader keeps the code.
pub fn with_repository(code: &str, repository: &str) -> String {
    format!("{code}.{}", hex::encode(repository.as_bytes()))
}

/// The code without the repository.
pub fn without_repository(code: &str) -> &str {
    code.split_once('.').map_or(code, |(code, _)| code)
}

/// The repository that a code names.
pub fn repository(code: &str) -> Option<Text> {
    let (_, name) = code.split_once('.')?;
    Some(String::from_utf8(hex::decode(name)?).ok()?.as_str().into())
}

/// The codes of a server. The oldest are in front.
#[derive(Default)]
pub struct LoginCodes(Mutex<State>);

#[derive(Default)]
struct State {
    codes: VecDeque<Code>,
    /// When the count of failures began, and the count.
    failures: Option<(Instant, u32)>,
}

struct Code {
    text: String,
    claims: Claims,
    /// The keys that verified the caller's token; see [`Keyring::login_name`](crate::token::Keyring::login_name).
    keys: String,
    expires: Instant,
}

/// There are too many open codes of other callers.
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyCodes;

impl LoginCodes {
    /// A new code for a caller with these claims, whose token these keys verified.
    pub fn create(&self, claims: Claims, keys: String, now: Instant) -> Result<String, TooManyCodes> {
        let mut state = self.state();
        state.drop_expired(now);
        let is_own = |code: &Code| same_caller(&code.claims, &claims);
        if state.codes.iter().filter(|code| is_own(code)).count() >= CODES_PER_CALLER_MAX {
            let oldest = state.codes.iter().position(is_own).expect("the caller has some");
            state.codes.remove(oldest);
        }
        if state.codes.len() >= CODES_MAX {
            return Err(TooManyCodes);
        }
        let text = random_text();
        state.codes.push_back(Code { text: text.clone(), claims, keys, expires: now + CODE_TIME });
        Ok(text)
    }

    /// The claims that a code stands for, which stays valid.
    pub fn look_up(&self, text: &str, keys: &str, now: Instant) -> Option<Claims> {
        let mut state = self.state();
        state.drop_expired(now);
        let code = &state.codes[state.place(text)?];
        (code.keys == keys).then(|| code.claims.clone())
    }

    /// Takes the claims that a code stands for. It does not work a second time, nor with other keys than it was made with: they are
    /// replaced to lock a caller out.
    pub fn redeem(&self, text: &str, keys: &str, now: Instant) -> Option<Claims> {
        let mut state = self.state();
        state.drop_expired(now);
        let place = state.place(text)?;
        state.codes.remove(place).filter(|code| code.keys == keys).map(|code| code.claims)
    }

    /// Counts a failed exchange. Returns how long to wait if there were too many.
    pub fn count_failure(&self, now: Instant) -> Option<Duration> {
        let mut state = self.state();
        let (since, count) = match state.failures {
            Some((since, count)) if now.duration_since(since) < FAILURES_TIME => (since, count.saturating_add(1)),
            _ => (now, 1),
        };
        state.failures = Some((since, count));
        (count > FAILURES_MAX).then(|| FAILURES_TIME.saturating_sub(now.duration_since(since)))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Where the code with this text is.
    fn place(&self, text: &str) -> Option<usize> {
        let is_same =
            |code: &Code| constant_time::verify_slices_are_equal(code.text.as_bytes(), text.as_bytes()).is_ok();
        self.codes.iter().position(is_same)
    }

    fn drop_expired(&mut self, now: Instant) {
        while self.codes.front().is_some_and(|code| code.expires <= now) {
            self.codes.pop_front();
        }
    }
}

/// Whether two tokens belong to the same person or program.
fn same_caller(a: &Claims, b: &Claims) -> bool {
    let of = |claims: &Claims| -> (Text, Option<Text>) { (claims.subject.clone(), claims.issuer.clone()) };
    of(a) == of(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Scope;

    fn claims(subject: &str) -> Claims {
        Claims {
            session: None,
            subject: subject.into(),
            issuer: None,
            scope: Scope::Read,
            repo: None,
            name: None,
            feature: None,
            prefix: None,
            issued_ms: None,
            expires: 0,
        }
    }

    fn keys() -> String {
        "keys".to_owned()
    }

    #[test]
    fn a_code_names_a_repository_with_any_name() {
        let code = with_repository("0123", "a.b/ü");
        assert_eq!((without_repository(&code), repository(&code).as_deref()), ("0123", Some("a.b/ü")));
        assert_eq!((without_repository("0123"), repository("0123")), ("0123", None));
        for bad in ["0123.6", "0123.zz", "0123.ff", "0123.é"] {
            assert_eq!(repository(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_code_works_only_with_the_keys_that_it_was_made_with() {
        let (codes, now) = (LoginCodes::default(), Instant::now());
        let code = codes.create(claims("ana"), keys(), now).unwrap();
        assert_eq!(codes.redeem(&code, "other keys", now), None);
        assert_eq!(codes.redeem(&code, &keys(), now), None, "it was used");
    }

    #[test]
    fn a_code_works_once_and_for_a_minute() {
        let (codes, now) = (LoginCodes::default(), Instant::now());
        let [first, second] = [(); 2].map(|()| codes.create(claims("ana"), keys(), now).unwrap());
        assert_ne!(first, second);
        let just_in_time = now + CODE_TIME - Duration::from_millis(1);
        assert_eq!(codes.look_up(&first, &keys(), just_in_time), Some(claims("ana")));
        assert_eq!(codes.look_up(&first, "other keys", just_in_time), None);
        assert_eq!(codes.redeem(&first, &keys(), just_in_time), Some(claims("ana")));
        assert_eq!(codes.look_up(&first, &keys(), just_in_time), None);
        assert_eq!(codes.redeem(&first, &keys(), now), None);
        assert_eq!(codes.redeem(&second, &keys(), now + CODE_TIME), None);
        assert_eq!(codes.redeem("", &keys(), now), None);
    }

    #[test]
    fn one_caller_replaces_its_own_codes_and_all_callers_have_a_bound() {
        let (codes, now) = (LoginCodes::default(), Instant::now());
        let first = codes.create(claims("ana"), keys(), now).unwrap();
        let later: Vec<String> =
            (0..CODES_PER_CALLER_MAX).map(|_| codes.create(claims("ana"), keys(), now).unwrap()).collect();
        assert_eq!(codes.redeem(&first, &keys(), now), None, "the oldest was replaced");
        assert_eq!(codes.redeem(&later[0], &keys(), now), Some(claims("ana")));
        let left = CODES_MAX - later.len() + 1;
        assert!((0..left).all(|n| codes.create(claims(&format!("s{n}")), keys(), now).is_ok()));
        assert_eq!(codes.create(claims("late"), keys(), now), Err(TooManyCodes));
        assert!(codes.create(claims("ana"), keys(), now).is_err(), "a free place of its own is not there any more");
        assert!(codes.create(claims("late"), keys(), now + CODE_TIME).is_ok());
    }

    #[test]
    fn failures_are_counted_by_the_minute() {
        let (codes, now) = (LoginCodes::default(), Instant::now());
        assert!((0..FAILURES_MAX).all(|_| codes.count_failure(now).is_none()));
        assert_eq!(codes.count_failure(now + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert_eq!(codes.count_failure(now + FAILURES_TIME), None);
    }
}
