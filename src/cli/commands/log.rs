//! `git-dibs log`: who held what, when and why.

use std::collections::HashMap;
use std::ffi::OsString;

use anyhow::Result;

use crate::cli::context::{Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::client::{ClientError, HistoryFilter};
use crate::git::Repo;
use crate::local::{Cwd, Names, clock, data_dir, describe};
use crate::serve::upkeep::ledger;
use crate::text::terminal::clean;
use crate::wire::{Encoding, Event, EventKind, HistoryReply, Mode, Time, UnlockStatus};

#[derive(clap::Args)]
pub struct Args {
    /// Only events about this file, directory, pattern or other key, and about patterns that cover it
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// Only events of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only events since 2026-01-31T09:30:00Z, since 2026-01-31, or of the last 30m, 12h, 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// At most this many events
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    max_count: u32,
    /// Print the events as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let since = args.since.as_deref().map(|text| parse_time(text, clock::now())).transpose();
    let since = since.map_err(|failure| failure.for_program(args.json))?;
    let most = args.max_count as usize;
    let query = |cwd: &Cwd| -> Result<HistoryFilter, Failure> {
        let names = args.path.iter().cloned().collect::<Vec<_>>();
        let names = Names::typed(cwd, &names).map_err(|error| Failure::from(error).for_program(args.json))?;
        names.notes().for_each(|note| talk::say(&note));
        let percent = names.encoding() == Some(Encoding::Percent);
        Ok(HistoryFilter { key: names.texts().pop(), percent, session: args.session.clone(), since })
    };
    // The ledger stands in for a server that does not answer, not for one that sends something else than a history.
    let mut is_answered = false;
    let reply = Context::open_without_session(&args.server, args.json).and_then(|mut context| {
        let filter = query(&context.workspace.cwd)?;
        let result = context.try_look(|client, _| client.history(&filter, most))?;
        is_answered = matches!(result, Err(ClientError::Garbage { .. }));
        context.checked(result).inspect(|_| context.print_notices())
    });
    let history = match reply {
        Ok(history) => history,
        Err(failure) if failure.exit == Exit::Unreachable && !is_answered => match without_server(&query, most) {
            Some(history) => history?,
            None => return Err(failure.into()),
        },
        Err(failure) => return Err(failure.into()),
    };
    print(&history, args.json)?;
    Ok(Exit::Ok)
}

/// The history in the ledger of this repository; none if there is no ledger.
fn without_server(query: &dyn Fn(&Cwd) -> Result<HistoryFilter, Failure>, most: usize) -> Option<Result<HistoryReply>> {
    let repo = Repo::from_environment().ok()?;
    let path = data_dir::ledger(&data_dir::dibs_dir(&repo));
    if !path.exists() {
        return None;
    }
    let query = query(&Cwd::of(Some(&repo))).map_err(anyhow::Error::from);
    talk::say("no server answers; this is what the ledger in this repository says");
    Some(query.and_then(|filter| ledger::history(&path, &filter, most)))
}

fn print(history: &HistoryReply, json: bool) -> Result<()> {
    if json {
        return Ok(talk::document(&serde_json::to_vec(history)?)?);
    }
    let subjects = Subjects::of(&history.events);
    let text: String = history.events.iter().map(|event| line(event, &subjects)).collect();
    talk::data(&text)?;
    if history.events.is_empty() {
        talk::say("there are no such events");
    }
    for gap in &history.missing {
        talk::say(&format!("the events #{} to #{} are no longer stored", gap.first, gap.last));
    }
    if history.next_cursor.is_some() {
        talk::say("there are more events; show more with --max-count");
    }
    Ok(())
}

/// What a line says of an event, besides its time, number and verb.
#[derive(Default)]
struct Details<'a> {
    paths: &'a [String],
    encoding: Option<Encoding>,
    session: Option<&'a str>,
    shared: bool,
    /// How it ended.
    why: Option<&'a str>,
    /// The admin who overrode it.
    by: Option<&'a str>,
    reason: Option<&'a str>,
}

fn details<'a>(event: &'a EventKind, subjects: &Subjects<'a>) -> Details<'a> {
    use std::slice::from_ref;
    match event {
        EventKind::Opened { session_id, .. }
        | EventKind::Bound { session_id }
        | EventKind::Reopened { session_id, .. } => Details { session: Some(session_id), ..Details::default() },
        EventKind::Seated { session_id, waiter } => {
            let (paths, encoding) = subjects.of_wait(*waiter);
            Details { paths, encoding, session: Some(session_id), ..Details::default() }
        }
        EventKind::Ended { session_id, state } => {
            Details { session: Some(session_id), why: Some(state.as_str()), ..Details::default() }
        }
        EventKind::Reserved { file_path, session_id, mode, reason, encoding, .. }
        | EventKind::Amended { file_path, session_id, mode, reason, encoding, .. } => Details {
            paths: from_ref(file_path),
            encoding: *encoding,
            session: Some(session_id),
            shared: *mode == Mode::Shared,
            reason: reason.as_deref(),
            ..Details::default()
        },
        EventKind::Released { file_path, session_id, why, by, reason, encoding, .. } => Details {
            paths: from_ref(file_path),
            encoding: *encoding,
            session: Some(session_id),
            // The verb says it already.
            why: Some(&**why).filter(|why| *why != "released").map(why_released),
            by: by.as_deref(),
            reason: reason.as_deref(),
            ..Details::default()
        },
        EventKind::Queued { session_id, file_paths, mode, reason, encoding, .. } => Details {
            paths: file_paths,
            encoding: *encoding,
            session: Some(session_id),
            shared: *mode == Mode::Shared,
            reason: reason.as_deref(),
            ..Details::default()
        },
        EventKind::Left { session_id, waiter, why } => {
            let (paths, encoding) = subjects.of_wait(*waiter);
            Details { paths, encoding, session: Some(session_id), why: Some(why_left(why)), ..Details::default() }
        }
        EventKind::UnlockRequested { file_path, requested_by, reason, encoding, .. } => Details {
            paths: from_ref(file_path),
            encoding: *encoding,
            session: Some(requested_by),
            reason: Some(reason),
            ..Details::default()
        },
        EventKind::UnlockAnswered { request_id, responded_by, note, .. } => {
            let (paths, encoding) = subjects.of_request(request_id);
            let (session, reason) = (responded_by.as_deref(), note.as_deref());
            Details { paths, encoding, session, reason, ..Details::default() }
        }
        EventKind::Counted { .. }
        | EventKind::Committed { .. }
        | EventKind::Restored { .. }
        | EventKind::Unrecognized => Details::default(),
    }
}

/// What earlier events say that later ones only refer to.
struct Subjects<'a> {
    waits: HashMap<u64, (&'a [String], Option<Encoding>)>,
    requests: HashMap<&'a str, (&'a [String], Option<Encoding>)>,
}

impl<'a> Subjects<'a> {
    fn of(events: &'a [Event]) -> Subjects<'a> {
        let mut subjects = Subjects { waits: HashMap::new(), requests: HashMap::new() };
        for event in events {
            match &event.kind {
                EventKind::Queued { file_paths, encoding, .. } => {
                    subjects.waits.insert(event.seq, (file_paths, *encoding));
                }
                EventKind::UnlockRequested { request_id, file_path, encoding, .. } => {
                    subjects.requests.insert(request_id, (std::slice::from_ref(file_path), *encoding));
                }
                _ => {}
            }
        }
        subjects
    }

    /// What a wait is for; nothing if the event that tells it is not listed.
    fn of_wait(&self, waiter: u64) -> (&'a [String], Option<Encoding>) {
        self.waits.get(&waiter).copied().unwrap_or_default()
    }

    /// What an unlock request is about, in the same way.
    fn of_request(&self, id: &str) -> (&'a [String], Option<Encoding>) {
        self.requests.get(id).copied().unwrap_or_default()
    }
}

/// What happened, so that the keys and "by" with the session can follow.
fn verb(event: &EventKind) -> &'static str {
    match event {
        EventKind::Opened { .. } => "session started",
        EventKind::Bound { .. } => "session first used",
        EventKind::Reopened { .. } => "session started again",
        EventKind::Ended { .. } => "session ended",
        EventKind::Amended { .. } => "changed the reservation of",
        EventKind::Queued { .. } => "waiting for",
        EventKind::Seated { .. } => "wait over, granted",
        EventKind::Left { .. } => "stopped waiting for",
        EventKind::UnlockRequested { .. } => "asked to release",
        EventKind::UnlockAnswered { status, .. } => match status {
            UnlockStatus::Pending => "asked to release",
            UnlockStatus::Approved => "agreed to release",
            UnlockStatus::Rejected => "refused to release",
            UnlockStatus::Withdrawn => "no longer asked to release",
            UnlockStatus::Moot => "no longer needed to release",
        },
        other => other.verb(),
    }
}

/// Why a reservation ended.
fn why_released(why: &str) -> &str {
    match why {
        "ended" => "with its session",
        "approved" => "as asked",
        "unheard" => "because the client had gone",
        other => other,
    }
}

/// Why a request stopped waiting.
fn why_left(why: &str) -> &str {
    match why {
        "timedOut" => "timed out",
        "gone" => "the client disconnected",
        "stopped" => "the server stopped",
        "ended" => "the session ended",
        "version" => "the version had changed",
        "paused" => "the feature was paused",
        "deadlock" => "it would have waited forever",
        other => other,
    }
}

/// One event on a line.
fn line(event: &Event, subjects: &Subjects<'_>) -> String {
    let when = event.at.to_string();
    // Marked as UTC, and in a form that --since accepts.
    let when = format!("{}Z", &when[..19]);
    let details = details(&event.kind, subjects);
    let paths = details.paths.iter().map(|path| format!(" {}", describe::key(path, details.encoding)));
    let mut what: String = paths.collect();
    if let EventKind::Restored { last_kept, .. } = event.kind {
        what.push_str(&format!(" the journal as it was after #{last_kept}"));
    }
    if let Some(session) = details.session {
        what.push_str(&format!(" by {}", describe::session(session, event.session_name.as_deref())));
    }
    if details.shared {
        what.push_str(", shared");
    }
    match (details.why, details.by) {
        (Some(why), Some(by)) => what.push_str(&format!(", {} by {}", clean(why, 40), clean(by, 200))),
        (Some(why), None) => what.push_str(&format!(", {}", clean(why, 40))),
        _ => {}
    }
    format!("{when}  #{} {}{what}{}\n", event.seq, verb(&event.kind), describe::colon_reason(details.reason))
}

/// Reads a time, a date, or how long ago.
fn parse_time(text: &str, now: Time) -> Result<Time, Failure> {
    if let Some(time) = Time::parse(text).or_else(|| Time::parse(&format!("{text}T00:00:00Z"))) {
        return Ok(time);
    }
    let unit = |unit: char| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(24 * 3600),
        'w' => Some(7 * 24 * 3600),
        _ => None,
    };
    let ago = text.chars().last().and_then(unit).and_then(|seconds: i64| {
        let number: i64 = text[..text.len() - 1].parse().ok().filter(|number| *number >= 0)?;
        number.checked_mul(seconds)?.checked_mul(1000)
    });
    match ago {
        Some(ms) => Ok(Time(now.0.saturating_sub(ms))),
        None => Err(Failure::usage(format!(
            "{text:?} is not a time; write 2026-01-31T09:30:00Z, 2026-01-31, or how long ago: 30m, 12h, 7d"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_how_long_ago() {
        let now = Time(1_000_000_000_000);
        assert_eq!(parse_time("2024-02-29T12:34:56Z", now).unwrap(), Time(1_709_210_096_000));
        assert_eq!(parse_time("2024-02-29", now).unwrap(), Time(1_709_164_800_000));
        assert_eq!(parse_time("2h", now).unwrap(), Time(1_000_000_000_000 - 7_200_000));
        for bad in ["", "h", "-1h", "2 h", "yesterday", "5é", "99999999999999999999d"] {
            assert!(parse_time(bad, now).is_err(), "{bad}");
        }
    }
}
