//! A cache of compiled patterns: clients ask about the same few patterns again and again.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashbrown::HashMap;

use super::build::Limits;
use super::glob::Program;

/// The largest size of each cache. An ordinary pattern takes one or two kilobytes.
const CACHE_MAX_BYTES: usize = 8 << 20;

static CACHE: LazyLock<[Mutex<Cache>; 2]> = LazyLock::new(Default::default);

#[derive(Default)]
struct Cache {
    programs: HashMap<Box<str>, Arc<Program>>,
    size_bytes: usize,
}

/// The compiled pattern, from the cache or newly built.
pub(super) fn program(pattern: &str, fold_case: bool, limits: Limits) -> Result<Arc<Program>, String> {
    // One cache with case folding and one without, so that the text alone is the key.
    let cache = &CACHE[usize::from(fold_case)];
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    // A cached pattern from an old journal may be too complex for a new request; compiling it with the limits decides.
    if let Some(program) = lock().programs.get(pattern).filter(|program| program.fits(limits)) {
        return Ok(Arc::clone(program));
    }
    // The lock is not held during compilation; two threads that compile the same pattern do no harm.
    let program = Arc::new(Program::compile(pattern, fold_case, limits)?);
    lock().keep(pattern, &program);
    Ok(program)
}

impl Cache {
    fn keep(&mut self, pattern: &str, program: &Arc<Program>) {
        let size_bytes = pattern.len() + program.size_bytes();
        if size_bytes > CACHE_MAX_BYTES / 8 {
            return; // A huge pattern from an old journal would only displace useful ones.
        }
        if self.size_bytes + size_bytes > CACHE_MAX_BYTES {
            // Clearing it is the simplest way to stay within the limit; existing keys keep their patterns.
            self.programs.clear();
            self.size_bytes = 0;
        }
        if self.programs.insert(pattern.into(), Arc::clone(program)).is_none() {
            self.size_bytes += size_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::glob::{NEW, OLD};

    #[test]
    fn a_pattern_that_an_old_journal_may_have_is_still_too_complex_for_a_new_request() {
        // Few enough states, but they take too long to find.
        let long = |c: char| c.to_string().repeat(300);
        let names: Vec<String> = ('a'..='l').map(long).collect();
        let pattern = format!("{{{}}}", names.join(","));
        assert!(program(&pattern, false, NEW).is_err());
        assert!(program(&pattern, false, OLD).is_ok());
        assert!(program(&pattern, false, NEW).is_err(), "also after an old one was cached");
        assert!(program("**/*.new", false, NEW).is_ok_and(|new| new.fits(OLD)), "one is enough for both");
    }

    #[test]
    fn the_cache_stays_bounded() {
        let program = Arc::new(Program::compile("**/*.rs", false, NEW).unwrap());
        let mut cache = Cache::default();
        for n in 0..40_000 {
            cache.keep(&format!("**/{n}.rs"), &program);
            assert!(cache.size_bytes <= CACHE_MAX_BYTES);
        }
        assert!(!cache.programs.is_empty() && cache.programs.len() < 40_000);
    }
}
