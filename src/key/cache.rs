//! Compiled patterns, kept for the next time: the same few patterns are asked about again and again.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashbrown::HashMap;

use super::automaton::Limits;
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
    // An old pattern may be kept that a new one of the same text would be too complex for: then it is built in vain again.
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
