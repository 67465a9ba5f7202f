//! Compiled patterns, kept for the next time: the same few patterns are asked about again and again.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hashbrown::HashMap;

use super::automaton::Limits;
use super::glob::Glob;

/// What all kept patterns take together, at most. An ordinary one takes one or two kilobytes.
const CACHE_MAX_BYTES: usize = 16 << 20;

static CACHE: LazyLock<[Mutex<Cache>; 2]> = LazyLock::new(Default::default);

#[derive(Default)]
struct Cache {
    globs: HashMap<Box<str>, Arc<Glob>>,
    size_bytes: usize,
}

/// The compiled pattern, from the cache or newly built.
pub(super) fn compiled(pattern: &str, fold_case: bool, limits: Limits) -> Result<Arc<Glob>, String> {
    // One cache for each way to compare, so that a look-up needs the text alone.
    let cache = &CACHE[usize::from(fold_case)];
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    // An old pattern may be kept that a new one of the same text would be too complex for: then it is built in vain again.
    if let Some(glob) = lock().globs.get(pattern).filter(|glob| glob.states() <= limits.states) {
        return Ok(Arc::clone(glob));
    }
    // Nobody waits for the lock while a pattern is built; two that build the same one at once do no harm.
    let glob = Glob::compile(pattern, fold_case, limits)?;
    lock().keep(pattern, &glob);
    Ok(glob)
}

impl Cache {
    fn keep(&mut self, pattern: &str, glob: &Arc<Glob>) {
        let size_bytes = pattern.len() + glob.size_bytes();
        if self.size_bytes + size_bytes > CACHE_MAX_BYTES / 2 {
            // Starting over is the simplest thing that stays bounded, and keys keep the patterns they hold.
            self.globs.clear();
            self.size_bytes = 0;
        }
        if self.globs.insert(pattern.into(), Arc::clone(glob)).is_none() {
            self.size_bytes += size_bytes;
        }
    }
}
