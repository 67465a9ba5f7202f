//! Notices that replies have brought, until they are shown or saved.
//!
//! The server sends most notices only once, with any reply, also with a refusal. So the client takes them out of every
//! reply, and no caller can forget them.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::wire::Notice;

/// How a reply with notices has them, as the server writes it.
const MARK: &[u8] = b"\"notices\":[";

/// Notices that were received. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Inbox(Arc<Mutex<Vec<Notice>>>);

impl Inbox {
    /// Takes the notices out of the body of a reply. One that a reply repeats is kept once.
    pub(super) fn receive(&self, body: &[u8]) {
        let new = Inbox::in_reply(body);
        if new.is_empty() {
            return;
        }
        let mut notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for notice in new {
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }

    /// The notices that were received since this was last called.
    pub fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops what the caller has dealt with.
    pub fn discard(&self, is_settled: impl Fn(&Notice) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|notice| !is_settled(notice));
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The notices in the body of a reply.
    pub fn in_reply(body: &[u8]) -> Vec<Notice> {
        #[derive(Deserialize)]
        struct WithNotices {
            #[serde(default)]
            notices: Vec<Notice>,
        }
        // Few replies have notices, and a reply may be large.
        if !body.windows(MARK.len()).any(|window| window == MARK) {
            return Vec::new();
        }
        serde_json::from_slice::<WithNotices>(body).map(|reply| reply.notices).unwrap_or_default()
    }
}

impl PartialEq for Inbox {
    fn eq(&self, other: &Inbox) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.is_empty() && other.is_empty())
    }
}

impl Eq for Inbox {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_taken_out_of_every_reply_and_only_once() {
        let inbox = Inbox::default();
        for body in [&b"{}"[..], b"garbage", br#"{"notices":[]}"#, br#"{"notices":["#] {
            inbox.receive(body);
        }
        assert_eq!(inbox.take(), []);
        let refusal = br#"{"error":"No.","code":"RESOURCE_LOCKED","notices":[{"kind":"weather"}]}"#;
        inbox.clone().receive(refusal);
        inbox.receive(refusal);
        assert_eq!(inbox.take(), [Notice::Unrecognized]);
        assert_eq!(inbox.take(), []);
    }
}
