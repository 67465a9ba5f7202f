//! `git-dibs log`: who held what, when and why.

use std::ffi::OsString;

use anyhow::Result;

use crate::cli::context::{Context, ServerArgs};
use crate::cli::event_line::{self, Subjects};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::client::{ClientError, HistoryFilter};
use crate::git::Repo;
use crate::local::{Cwd, Names, clock, data_dir};
use crate::serve::upkeep::ledger;
use crate::wire::{Encoding, HistoryReply, Time};

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
    let reply = Context::open_for_history(&args.server, args.json).and_then(|mut context| {
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
    let mut subjects = Subjects::default();
    history.events.iter().for_each(|event| subjects.note(event));
    let text: String = history.events.iter().map(|event| event_line::line(event, &subjects)).collect();
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
