//! Committed content: which blob a session has committed at a path that it held.
//!
//! Another session may carry such content, for example in a merge or in a push of the holder's branch. Authors and
//! trailers of commits prove nothing; that the holder's own check passed does.

use std::collections::VecDeque;

use hashbrown::HashSet;

use super::command::{Intent, Outcome};
use super::ids::{ObjectId, SessionId};
use super::record::{Content, Event};
use super::state::Engine;
use super::turn::Turn;
use crate::key::{Key, Kind};

/// Contents that are remembered in a repository, and the bytes that they take. The oldest is forgotten first.
const CONTENTS_REMEMBERED: usize = 100_000;
const CONTENTS_BYTES_MAX: usize = 32 << 20;

/// One path with a content, and the session that committed it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct CommittedContent {
    session: SessionId,
    key: Key,
    blob: ObjectId,
}

/// Recorded state: see the module.
#[derive(Default)]
pub(super) struct CommittedContents {
    known: HashSet<CommittedContent>,
    /// The same, the oldest first.
    order: VecDeque<CommittedContent>,
    bytes: usize,
}

impl CommittedContent {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        3 * size_of::<Self>() + self.key.text_bytes()
    }
}

impl CommittedContents {
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Everything, the oldest first.
    pub fn list(&self) -> Vec<(SessionId, Content)> {
        let content = |one: &CommittedContent| Content { key: one.key.clone(), blob: one.blob };
        self.order.iter().map(|one| (one.session.clone(), content(one))).collect()
    }

    fn insert(&mut self, content: CommittedContent) {
        if !self.known.insert(content.clone()) {
            return;
        }
        self.bytes += content.bytes();
        self.order.push_back(content);
        while self.order.len() > CONTENTS_REMEMBERED || self.bytes > CONTENTS_BYTES_MAX {
            let oldest = self.order.pop_front().expect("one content is smaller than that");
            self.bytes -= oldest.bytes();
            self.known.remove(&oldest);
        }
    }
}

impl Engine {
    /// Records what a session is about to commit: the contents at paths that it holds and may change, as far as they are
    /// not known yet. A commit that does not happen after all leaves a content behind that only the holder can have made.
    pub(super) fn record_commit(&mut self, turn: &mut Turn, session: &SessionId, contents: &[Content]) -> Outcome {
        let is_new = |content: &&Content| {
            let Content { key, blob } = content;
            if key.kind() != Kind::Path || self.has_committed(session, key, *blob) {
                return false;
            }
            let check = self.check(Some(session), 0, key, Intent::Change);
            check.held && check.conflicts.is_empty()
        };
        let mut seen = HashSet::new();
        let contents = contents.iter().filter(|content| seen.insert((&content.key, content.blob)));
        let contents: Vec<Content> = contents.filter(is_new).cloned().collect();
        if !contents.is_empty() {
            self.emit(turn, Event::Committed { session: session.clone(), contents });
        }
        Outcome::Done
    }

    /// Whether the session has committed this content at this path.
    pub(super) fn has_committed(&self, session: &SessionId, key: &Key, blob: ObjectId) -> bool {
        // A file name is short to copy: the key and the session only count their owners.
        self.committed.known.contains(&CommittedContent { session: session.clone(), key: key.clone(), blob })
    }

    pub(super) fn apply_committed(&mut self, session: &SessionId, contents: &[Content]) {
        for Content { key, blob } in contents {
            let (session, key, blob) = (session.clone(), self.compared(key), *blob);
            self.committed.insert(CommittedContent { session, key, blob });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_content_is_forgotten_first() {
        let mut contents = CommittedContents::default();
        let session = SessionId::parse("ana").unwrap();
        let key = Key::recall("a", false).unwrap();
        let content = |number: usize| {
            let blob = ObjectId::parse(&format!("{number:040x}")).unwrap();
            CommittedContent { session: session.clone(), key: key.clone(), blob }
        };
        for number in 0..=CONTENTS_REMEMBERED {
            contents.insert(content(number));
            contents.insert(content(number));
        }
        assert_eq!((contents.len(), contents.known.len()), (CONTENTS_REMEMBERED, CONTENTS_REMEMBERED));
        assert!(!contents.known.contains(&content(0)));
        assert!(contents.known.contains(&content(1)) && contents.known.contains(&content(CONTENTS_REMEMBERED)));
    }
}
