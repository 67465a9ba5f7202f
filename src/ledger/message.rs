//! Commit messages: a subject for people, a trailer for each event, and the number of the last record.

use git2::Oid;
use serde::{Deserialize, Serialize};

use crate::engine::{Event, Record, Seq, SessionId, Text, Timestamp};
use crate::text::terminal::clean;

/// The longest key or name in a subject, in characters.
const SHOWN_MAX: usize = 60;

/// An event as the ledger stores it: the record, and the display name of its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerEvent {
    pub seq: Seq,
    pub at: Timestamp,
    pub event: Event,
    /// The display name of the session at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
}

/// The trailers of a commit message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trailers {
    /// The last event of the commit.
    pub seq: Seq,
    /// The numbers of the commit's events.
    pub events: Vec<Seq>,
    /// Missing events before this commit, the first and the last.
    pub gap: Option<(Seq, Seq)>,
    /// The tree was rebuilt from the journal, not from the tree before.
    pub rebuilt_tree: bool,
    /// The last commit of the year before, which is not a parent.
    pub previous: Option<Oid>,
}

impl LedgerEvent {
    pub fn new(record: Record, name: Option<Text>) -> LedgerEvent {
        LedgerEvent { seq: record.seq, at: record.at, event: record.event, name }
    }

    pub fn record(&self) -> Record {
        Record { seq: self.seq, at: self.at, event: self.event.clone() }
    }
}

/// The event as one word.
pub fn verb(event: &Event) -> &'static str {
    match event {
        Event::Opened { .. } => "open",
        Event::Bound { .. } => "bind",
        Event::Reopened { .. } => "reopen",
        Event::Ended { .. } => "end",
        Event::Reserved { .. } => "reserve",
        Event::Amended { .. } => "amend",
        Event::Released { .. } => "release",
        Event::Queued { .. } => "wait",
        Event::Seated { .. } => "seat",
        Event::Left { .. } => "leave",
        Event::Counted { .. } => "count",
        Event::UnlockRequested { .. } => "ask",
        Event::UnlockAnswered { .. } => "answer",
        Event::Committed { .. } => "commit",
        Event::Restored { .. } => "restore",
    }
}

/// The message of a commit with these events.
pub fn compose(events: &[LedgerEvent], trailers: &Trailers) -> String {
    let mut text = subject(events, trailers);
    text.push_str("\n\n");
    if let Some((first, last)) = trailers.gap {
        text.push_str(&format!(
            "The events {first} to {last} are missing: the journal did not have them any more.\n\n"
        ));
    }
    for event in events {
        if let Event::Restored { kept, .. } = event.event {
            text.push_str(&format!(
                "An earlier copy of the journal was restored. What happened after {kept} is undone, and not all of it may be here.\n\n"
            ));
        }
    }
    for event in events {
        let session = event.event.session().map_or("-", SessionId::as_str);
        text.push_str(&format!("Dibs-Event: {} {} {session}", event.seq.0, verb(&event.event)));
        for key in event.event.keys() {
            text.push(' ');
            text.push_str(&clean(&key.text(), usize::MAX));
        }
        text.push('\n');
    }
    if let Some((first, last)) = trailers.gap {
        text.push_str(&format!("Dibs-Gap: {}-{}\n", first.0, last.0));
    }
    if trailers.rebuilt_tree {
        text.push_str("Dibs-Restated: yes\n");
    }
    if let Some(previous) = trailers.previous {
        text.push_str(&format!("Dibs-Previous: {previous}\n"));
    }
    text.push_str(&format!("Dibs-Seq: {}\n", trailers.seq.0));
    text
}

/// Reads the trailers that [`compose`] writes. None if they are incomplete.
pub fn parse(message: &str) -> Option<Trailers> {
    let mut trailers = Trailers::default();
    let mut seq = None;
    let last = message.trim_end().rsplit("\n\n").next()?;
    for line in last.lines() {
        let (name, value) = line.split_once(": ")?;
        match name {
            "Dibs-Event" => trailers.events.push(number(value.split(' ').next()?)?),
            "Dibs-Gap" => {
                let (first, last) = value.split_once('-')?;
                trailers.gap = Some((number(first)?, number(last)?));
            }
            "Dibs-Restated" => trailers.rebuilt_tree = true,
            "Dibs-Previous" => trailers.previous = Some(Oid::from_str(value).ok()?),
            "Dibs-Seq" => seq = Some(number(value)?),
            // A later version may write more trailers.
            _ => {}
        }
    }
    trailers.seq = seq?;
    Some(trailers)
}

fn number(text: &str) -> Option<Seq> {
    text.parse().ok().map(Seq)
}

/// One line about the most interesting event.
fn subject(events: &[LedgerEvent], trailers: &Trailers) -> String {
    let rank = |event: &&LedgerEvent| match event.event {
        Event::Restored { .. } | Event::Reserved { .. } => 0,
        Event::Released { .. } => 1,
        Event::Amended { .. } => 2,
        Event::UnlockRequested { .. } | Event::UnlockAnswered { .. } => 3,
        Event::Queued { .. } => 4,
        Event::Ended { .. } => 5,
        Event::Opened { .. } | Event::Reopened { .. } => 6,
        _ => 7,
    };
    let Some(first) = events.iter().min_by_key(rank) else {
        return match trailers.gap {
            Some(_) => "continue after missing events".to_owned(),
            None => "correct the list of held keys".to_owned(),
        };
    };
    let mut text = verb(&first.event).to_owned();
    let mut keys = first.event.keys();
    if let Some(key) = keys.next() {
        text.push_str(&format!(" {}", clean(&key.text(), SHOWN_MAX)));
    }
    let more = keys.count() + events.len() - 1;
    if more > 0 {
        text.push_str(&format!(" (+{more})"));
    }
    if let Some(session) = first.event.session() {
        text.push_str(&format!(" by {}", clean(first.name.as_deref().unwrap_or(session.as_str()), SHOWN_MAX)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Mode, ReservationId, Ttl};
    use crate::key::Key;

    fn event(seq: u64, key: &str) -> LedgerEvent {
        let event = Event::Reserved {
            id: ReservationId(uuid::Uuid::nil()),
            session: SessionId::parse("s-17").unwrap(),
            key: Key::recall(key, false).unwrap(),
            mode: Mode::Exclusive,
            ttl: Ttl::Plain(60),
            reason: None,
        };
        LedgerEvent { seq: Seq(seq), at: Timestamp(0), event, name: Some("ana".into()) }
    }

    #[test]
    fn a_name_cannot_reorder_or_break_a_subject() {
        let strange = LedgerEvent { name: Some("a\u{202e}na\nDibs-Seq: 9".into()), ..event(4, "src/a.rs") };
        let trailers = Trailers { seq: Seq(4), events: vec![Seq(4)], gap: None, rebuilt_tree: false, previous: None };
        let text = compose(&[strange], &trailers);
        assert!(text.starts_with("reserve src/a.rs by a\\u{202e}na\\nDibs-Seq: 9\n\n"), "{text}");
    }

    #[test]
    fn a_message_has_a_subject_and_trailers_that_can_be_read_back() {
        let events = [event(4, "src/a.rs"), event(5, "file:a%0Ab"), event(6, "src/**"), event(7, "api:GET /v1/x")];
        let trailers = Trailers {
            seq: Seq(7),
            events: [4, 5, 6, 7].map(Seq).to_vec(),
            gap: Some((Seq(2), Seq(3))),
            rebuilt_tree: true,
            previous: Some(Oid::ZERO_SHA1),
        };
        let text = compose(&events, &trailers);
        assert_eq!(
            text,
            "reserve src/a.rs (+3) by ana\n\n\
             The events #2 to #3 are missing: the journal did not have them any more.\n\n\
             Dibs-Event: 4 reserve s-17 src/a.rs\n\
             Dibs-Event: 5 reserve s-17 file:a%0Ab\n\
             Dibs-Event: 6 reserve s-17 src/**\n\
             Dibs-Event: 7 reserve s-17 api:GET /v1/x\n\
             Dibs-Gap: 2-3\nDibs-Restated: yes\n\
             Dibs-Previous: 0000000000000000000000000000000000000000\nDibs-Seq: 7\n"
        );
        assert_eq!(parse(&text), Some(trailers));
        assert_eq!(parse("a subject\n\nand words\n"), None);
        assert_eq!(parse("Dibs-Event: 4 reserve s-17 x\n"), None, "it has no Dibs-Seq");
    }
}
