//! Counts requests by method, route and status, for `/metrics`. Counting takes no lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use http::{Method, StatusCode};

/// Methods and statuses with a counter of their own. All others are counted as `other`.
const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::DELETE, Method::HEAD];
const STATUSES: [u16; 16] = [200, 201, 409, 400, 401, 403, 404, 405, 410, 413, 415, 421, 423, 429, 500, 503];

/// The label of everything that has no counter of its own.
const OTHER: &str = "other";

/// Requests answered so far.
#[derive(Default)]
pub struct RequestCounts {
    /// One entry for each route, made once with the router.
    routes: OnceLock<HashMap<String, RouteCounts>>,
    /// Requests whose path has no route.
    other: RouteCounts,
    /// Requests that have arrived, answered or not.
    begun: AtomicU64,
}

/// The counters of one route, by method and status.
#[derive(Default)]
struct RouteCounts([[AtomicU64; STATUSES.len() + 1]; METHODS.len() + 1]);

/// The route and method of a request, known before its status is.
#[derive(Clone, Copy)]
pub struct CountedRequest<'a> {
    route: &'a RouteCounts,
    method: usize,
}

/// One counter, with its labels.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount<'a> {
    pub method: String,
    pub route: &'a str,
    pub status: String,
    pub count: u64,
}

impl RequestCounts {
    /// Makes a counter for each of these routes, as the router spells them. Later calls change nothing: the routers of
    /// all listeners have the same routes.
    pub fn set_routes<'r>(&self, routes: impl Iterator<Item = &'r String>) {
        self.routes.get_or_init(|| routes.map(|route| (route.clone(), RouteCounts::default())).collect());
    }

    /// A request arrived. `route` is the matched route, if there is one.
    pub fn begin(&self, route: Option<&str>, method: &Method) -> CountedRequest<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let known = route.and_then(|route| self.routes.get()?.get(route));
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        CountedRequest { route: known.unwrap_or(&self.other), method }
    }

    /// How many requests have arrived so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The sum of all counters.
    pub fn total(&self) -> u64 {
        let routes = self.routes.get().into_iter().flat_map(HashMap::values);
        let counters = routes.chain([&self.other]).flat_map(|RouteCounts(counts)| counts.iter().flatten());
        counters.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Every counter that is not zero, in the order of its labels.
    pub fn read(&self) -> Vec<RequestCount<'_>> {
        let routes = self.routes.get().into_iter().flatten().map(|(route, counts)| (&**route, counts));
        let mut all = Vec::new();
        for (route, RouteCounts(counts)) in routes.chain([(OTHER, &self.other)]) {
            for (m, statuses) in counts.iter().enumerate() {
                for (s, count) in statuses.iter().enumerate() {
                    let method = METHODS.get(m).map_or_else(|| OTHER.to_owned(), Method::to_string);
                    let status = STATUSES.get(s).map_or_else(|| OTHER.to_owned(), u16::to_string);
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        all.push(RequestCount { method, route, status, count });
                    }
                }
            }
        }
        all.sort();
        all
    }
}

impl CountedRequest<'_> {
    /// The request was answered with this status.
    pub fn end(self, status: StatusCode) {
        let status = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len());
        self.route.0[self.method][status].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_counted_under_its_labels() {
        let counts = RequestCounts::default();
        let routes: Vec<String> = (0..40).map(|n| format!("/api/{n:03}/x")).collect();
        counts.set_routes(routes.iter());
        for (n, route) in routes.iter().enumerate() {
            for _ in 0..=n {
                counts.begin(Some(route), &Method::POST).end(StatusCode::OK);
            }
        }
        counts.begin(None, &Method::PATCH).end(StatusCode::IM_A_TEAPOT);
        counts.begin(Some("/no/such/route"), &Method::PATCH).end(StatusCode::IM_A_TEAPOT);
        let label = |method: &str, route, status: &str, count| RequestCount {
            method: method.to_owned(),
            route,
            status: status.to_owned(),
            count,
        };
        let mut expected: Vec<_> =
            routes.iter().enumerate().map(|(n, route)| label("POST", &**route, "200", n as u64 + 1)).collect();
        expected.push(label("other", "other", "other", 2));
        assert_eq!(counts.read(), expected);
        assert_eq!(counts.total(), (1..=40).sum::<u64>() + 2);
    }
}
