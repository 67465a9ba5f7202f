//! `git-dibs watch`: a line for each event, as it happens.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

use anyhow::Result;

use crate::cli::context::{Context, ServerArgs};
use crate::cli::event_line::{self, Subjects};
use crate::cli::failure::Failure;
use crate::cli::follow::{News, Next, follow};
use crate::cli::{Exit, talk};
use crate::key::{BadKey, Key, KeyRules};
use crate::local::Names;
use crate::wire::{Encoding, Event, EventKind, SessionState, Text};

/// How soon the command notices that its reader has gone.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Args {
    /// Only events about these files, directories, patterns or other keys, and about patterns that cover them
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open_without_session(&args.server, args.json)?;
    let wanted = wanted_keys(&context.names(&args.paths)?).map_err(|failure| failure.for_program(args.json))?;
    let sessions = context.look(|client, _| client.sessions(Some(SessionState::Active)))?;
    let names = sessions.into_iter().filter_map(|session| Some((session.session_id, session.name?))).collect();
    let mut printer = Printer { wanted, names, subjects: Subjects::default(), json: args.json };
    follow(&mut context, PAUSE, |news| match news {
        News::Connected | News::Quiet => Next::Continue(()),
        News::Missed => {
            talk::say("events are missing here, which the server no longer has; git dibs status shows what is held");
            Next::Continue(())
        }
        News::Event(data) => match printer.print(data) {
            Ok(true) => Next::Continue(()),
            Ok(false) => Next::Break(Ok(())),
            Err(error) => Next::Break(Err(error.into())),
        },
    })?;
    Ok(Exit::Ok)
}

/// The keys that the arguments mean, to be compared with those of events.
fn wanted_keys(names: &Names) -> Result<Vec<Key>, Failure> {
    let keys = names.texts().iter().map(|text| parse(text, names.encoding())).collect::<Result<_, _>>();
    keys.map_err(|error| Failure::usage(error.to_string()))
}

fn parse(text: &str, encoding: Option<Encoding>) -> Result<Key, BadKey> {
    match encoding {
        Some(Encoding::Percent) => Key::parse_percent(text, &KeyRules::default()),
        None => Key::parse(text, &KeyRules::default()),
    }
}

/// Prints events.
struct Printer {
    /// Only events about these keys; empty for all.
    wanted: Vec<Key>,
    /// The names of live sessions.
    names: HashMap<Text, Text>,
    subjects: Subjects,
    json: bool,
}

impl Printer {
    /// Prints an event, if it is wanted. False if the reader has gone.
    fn print(&mut self, data: &str) -> io::Result<bool> {
        // An event of a newer server may have another shape.
        let Ok(mut event) = serde_json::from_str::<Event>(data) else { return Ok(true) };
        self.name_session(&mut event);
        self.subjects.note(&event);
        let reads_on = match self.is_wanted(&event) {
            true if self.json => talk::live_document(data.as_bytes()),
            true => talk::live_data(&event_line::line(&event, &self.subjects)),
            false => Ok(true),
        };
        self.subjects.forget(&event);
        reads_on
    }

    /// Events of a stream do not carry the names of sessions; the events that begin a session do.
    fn name_session(&mut self, event: &mut Event) {
        if let EventKind::Opened { session_id, name: Some(name), .. }
        | EventKind::Reopened { session_id, name: Some(name), .. } = &event.kind
        {
            self.names.insert(session_id.clone(), name.clone());
        }
        let session = event_line::session(&event.kind, &self.subjects);
        event.session_name = session.and_then(|session| self.names.get(session).cloned());
        if let EventKind::Ended { session_id, .. } = &event.kind {
            self.names.remove(session_id);
        }
    }

    fn is_wanted(&self, event: &Event) -> bool {
        // What the server counts, and what it remembers of commits, says nothing to people.
        let is_internal = matches!(event.kind, EventKind::Counted { .. } | EventKind::Committed { .. });
        if is_internal && !self.json {
            return false;
        }
        let (keys, encoding) = event_line::keys(&event.kind, &self.subjects);
        let overlaps = |key: Key| self.wanted.iter().any(|wanted| wanted.overlaps(&key).is_some());
        self.wanted.is_empty() || keys.iter().filter_map(|text| parse(text, encoding).ok()).any(overlaps)
    }
}
