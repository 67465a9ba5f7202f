//! How many requests there were, by route and status. Counting takes no lock and no memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};

/// Room for every route there is, and half as much again; a power of two.
const SLOTS: usize = 64;

/// What is counted by itself; everything else is `other`.
const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::DELETE, Method::HEAD];
const STATUSES: [u16; 16] = [200, 201, 409, 400, 401, 403, 404, 405, 410, 413, 415, 421, 423, 429, 500, 503];

const METHOD_WORDS: usize = METHODS.len() + 1;
const STATUS_WORDS: usize = STATUSES.len() + 1;

/// Requests answered so far.
pub struct Requests {
    /// A route sits in the first slot from its own on that is not another's.
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    route: OnceLock<Box<str>>,
    counts: [[AtomicU64; STATUS_WORDS]; METHOD_WORDS],
}

/// Where a request will be counted, known before its status is.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    slot: usize,
    method: usize,
}

impl Requests {
    /// None so far.
    pub fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| Slot::default()).collect() }
    }

    /// A request for this route, as the router spells it; none where there is no such route.
    pub fn mark(&self, route: Option<&str>, method: &Method) -> Mark {
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        Mark { slot: self.slot(route.unwrap_or("other")), method }
    }

    /// It was answered so.
    pub fn count(&self, mark: Mark, status: StatusCode) {
        let status = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len());
        self.slots[mark.slot].counts[mark.method][status].fetch_add(1, Ordering::Relaxed);
    }

    /// Every count that is not zero: method, route, status, how many.
    pub fn read(&self) -> Vec<(String, &str, String, u64)> {
        let mut all = Vec::new();
        for slot in &self.slots {
            let Some(route) = slot.route.get() else { continue };
            for (m, statuses) in slot.counts.iter().enumerate() {
                for (s, count) in statuses.iter().enumerate() {
                    let method = METHODS.get(m).map_or_else(|| "other".to_owned(), Method::to_string);
                    let status = STATUSES.get(s).map_or_else(|| "other".to_owned(), u16::to_string);
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        all.push((method, &**route, status, count));
                    }
                }
            }
        }
        all.sort();
        all
    }

    fn slot(&self, route: &str) -> usize {
        let bytes = route.as_bytes();
        let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
        let own = bytes.len() * 5 + byte(bytes.len() / 2) * 3 + byte(bytes.len().wrapping_sub(2));
        let taken_by = |slot: &Slot| &**slot.route.get_or_init(|| route.into()) == route;
        // More routes than slots would share the last one they come to; there are not half as many.
        let last = (own + SLOTS - 1) % SLOTS;
        (own..own + SLOTS).map(|n| n % SLOTS).find(|n| taken_by(&self.slots[*n])).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_in_its_place() {
        let requests = Requests::new();
        let routes: Vec<String> = (0..SLOTS - 1).map(|n| format!("/api/{n:03}/x")).collect();
        for (n, route) in routes.iter().enumerate() {
            for _ in 0..=n {
                requests.count(requests.mark(Some(route), &Method::POST), StatusCode::OK);
            }
        }
        requests.count(requests.mark(None, &Method::PATCH), StatusCode::IM_A_TEAPOT);
        let read = requests.read();
        assert_eq!(read.len(), SLOTS);
        for (n, route) in routes.iter().enumerate() {
            assert!(read.contains(&("POST".to_owned(), &**route, "200".to_owned(), n as u64 + 1)), "{route}");
        }
        assert_eq!(read.last().unwrap(), &("other".to_owned(), "other", "other".to_owned(), 1));
        requests.mark(Some("one too many"), &Method::GET);
    }
}
