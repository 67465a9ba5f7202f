//! `git-dibs release`: release keys that the session holds.

use std::ffi::OsString;

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context};
use crate::cli::package::PackageArgs;
use crate::cli::{Exit, talk};
use crate::client::ReservationFilter;
use crate::key::{Key, KeyRules};
use crate::local::{Names, describe};
use crate::wire::{self, Code};

#[derive(clap::Args)]
pub struct Args {
    /// What to release, named as it was reserved
    #[arg(value_name = "KEY", required_unless_present_any = ["all", "package"])]
    keys: Vec<OsString>,
    /// Release everything
    #[arg(long, conflicts_with_all = ["keys", "package"])]
    all: bool,
    #[command(flatten)]
    package: PackageArgs,
    /// Take it away from any session that holds it; needs an admin's token and --reason
    #[arg(long, requires = "reason", conflicts_with_all = ["all", "package"])]
    force: bool,
    /// Why; with --force, the holder is told, and the history keeps it
    #[arg(long, value_name = "TEXT", requires = "force")]
    reason: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    if let Some(reason) = args.reason.as_deref().filter(|_| args.force) {
        let names = context.names(&args.keys)?;
        return take_away(&mut context, &names, reason);
    }
    let session = context.session()?;
    if args.all {
        let result = context.client.release_all(&session);
        let reply = context.checked(result)?;
        let lines = reply.released_paths.iter().map(|key| format!("released {}\n", describe::key(key, None)));
        let mut text = lines.collect::<String>();
        match reply.released_count.saturating_sub(reply.released_paths.len() as u64) {
            0 => {}
            more => text += &format!("released {more} more\n"),
        }
        context.print(&text)?;
        if reply.released_count == 0 && !context.json {
            talk::say("this session held nothing");
        }
        return Ok(Exit::Ok);
    }
    let package = args.package.read(args.common.json)?.map(|chosen| chosen.package);
    let names = match &package {
        Some(package) => package.names(),
        None => context.names(&args.keys)?,
    };
    let mut texts = names.texts();
    let (one, many) = if texts.len() == 1 && package.is_none() { (texts.pop(), None) } else { (None, Some(texts)) };
    let encoding = names.encoding();
    let request = wire::Release { file_path: one, file_paths: many, encoding, ..wire::Release::default() };
    let result = context.client.release(&session, &request);
    let reply = context.checked(result)?;
    let (released, total) = (reply.released_count, names.count() as u64);
    let text = match released {
        0 => String::new(),
        _ if released == total => {
            let texts = request.file_path.iter().chain(request.file_paths.iter().flatten());
            texts.map(|key| format!("released {}\n", describe::key(key, request.encoding))).collect()
        }
        _ => format!("released {released} of {total}\n"),
    };
    context.print(&text)?;
    if released == total {
        return Ok(Exit::Ok);
    }
    let (sentence, exit) = not_held(&reply, &request, total);
    if !context.json {
        talk::say(&sentence);
    }
    Ok(exit)
}

/// What became of keys that were not released. What had expired before is as good as released; any other key is most likely
/// misspelled, because no session holds it.
fn not_held(reply: &wire::Released, request: &wire::Release, total: u64) -> (String, Exit) {
    let expired = reply.expired.len() as u64;
    let list = |keys: &[String]| keys.iter().map(|key| describe::key(key, None)).collect::<Vec<_>>().join(", ");
    match (total.saturating_sub(reply.released_count + expired), &request.file_path) {
        (0, _) => (format!("expired before: {}", list(&reply.expired)), Exit::Ok),
        (_, Some(key)) => {
            let key = describe::key(key, request.encoding);
            (format!("nothing was released: no session holds {key}; see: git dibs status --mine"), Exit::Error)
        }
        (free, None) if free == total => (
            "nothing was released: no session holds any of these keys; see: git dibs status --mine".to_owned(),
            Exit::Error,
        ),
        (free, None) => (format!("no session holds {free} of these keys; see: git dibs status --mine"), Exit::Error),
    }
}

/// Ends every reservation of exactly these keys, of whichever session.
fn take_away(context: &mut Context, names: &Names, reason: &str) -> Result<Exit> {
    let texts = names.texts();
    let wanted: Vec<Key> = texts.iter().filter_map(|text| key(text, names.encoding())).collect();
    let held = context.look(|client, _| client.reservations(&ReservationFilter::default()))?;
    let is_wanted =
        |one: &&wire::Reservation| key(&one.file_path, one.encoding).is_some_and(|key| wanted.contains(&key));
    let mut text = String::new();
    let mut released = Vec::new();
    for one in held.iter().filter(is_wanted) {
        released.extend(key(&one.file_path, one.encoding));
        let result =
            context.client.override_reservation(&one.reservation_id, &wire::Override { reason: reason.into() });
        if let Err(error) = &result
            && error.code() == Some(Code::Forbidden)
        {
            let hint = "only an admin can take a reservation away: \
                        DIBS_TOKEN=$(git dibs token YOUR-NAME --scope admin) git dibs release …";
            return Err(context.failure_with(error, hint.to_owned()).into());
        }
        context.checked(result)?;
        let holder = describe::session(&one.session_id, one.session_name.as_deref());
        text += &format!("released {}, which {holder} held\n", describe::key(&one.file_path, one.encoding));
    }
    context.print(&text)?;
    let is_free = |text: &&String| key(text, names.encoding()).is_none_or(|key| !released.contains(&key));
    let mut exit = Exit::Ok;
    for free in texts.iter().filter(is_free) {
        exit = Exit::Error;
        if !context.json {
            talk::say(&format!("no session holds {}; see: git dibs status", describe::key(free, names.encoding())));
        }
    }
    Ok(exit)
}

/// A key for comparison with others.
fn key(text: &str, encoding: Option<wire::Encoding>) -> Option<Key> {
    let rules = KeyRules::any_configuration(text);
    match encoding {
        Some(wire::Encoding::Percent) => Key::parse_percent(text, &rules).ok(),
        None => Key::parse(text, &rules).ok(),
    }
}
