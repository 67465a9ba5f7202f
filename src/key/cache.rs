//! Compiled patterns, kept for the next time: the same few patterns are asked about again and again.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashbrown::HashMap;

use super::build::Limits;
use super::glob::Program;

/// What all kept patterns take, at most, for each way to compare. An ordinary one takes one or two kilobytes.
const CACHE_MAX_BYTES: usize = 8 << 20;

static CACHE: LazyLock<[Mutex<Cache>; 2]> = LazyLock::new(Default::default);

#[derive(Default)]
struct Cache {
    programs: HashMap<Box<str>, Arc<Program>>,
    size_bytes: usize,
}

/// The compiled pattern, from the cache or newly built.
pub(super) fn program(pattern: &str, fold_case: bool, limits: Limits) -> Result<Arc<Program>, String> {
    // One cache for each way to compare, so that a look-up needs the text alone.
    let cache = &CACHE[usize::from(fold_case)];
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    // A pattern kept from an old journal may be more complex than a new one is allowed to be; building it anew shows.
    if let Some(program) = lock().programs.get(pattern).filter(|program| program.fits(limits)) {
        return Ok(Arc::clone(program));
    }
    // Nobody waits for the lock while a pattern is built; two that build the same one at once do no harm.
    let program = Arc::new(Program::compile(pattern, fold_case, limits)?);
    lock().keep(pattern, &program);
    Ok(program)
}

impl Cache {
    fn keep(&mut self, pattern: &str, program: &Arc<Program>) {
        let size_bytes = pattern.len() + program.size_bytes();
        if size_bytes > CACHE_MAX_BYTES / 8 {
            return; // A giant out of an old journal would only push out what is useful.
        }
        if self.size_bytes + size_bytes > CACHE_MAX_BYTES {
            // Starting over is the simplest thing that stays bounded, and keys keep the patterns they hold.
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
    fn what_an_old_journal_may_hold_is_still_too_complex_for_a_new_request() {
        // Few enough states, but they take too long to find.
        let long = |c: char| c.to_string().repeat(300);
        let names: Vec<String> = ('a'..='l').map(long).collect();
        let pattern = format!("{{{}}}", names.join(","));
        assert!(program(&pattern, false, NEW).is_err());
        assert!(program(&pattern, false, OLD).is_ok());
        assert!(program(&pattern, false, NEW).is_err(), "whatever was asked before");
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
