//! Asking the server which reservations a change touches.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::objections::path_of;
use crate::client::{
    Client, ClientError, Limits, QuickCall, QuickReply, known_conflicts, quick_announce, quick_check, quick_held,
};
use crate::git::Path;
use crate::git::changed::Change;
use crate::git::range::Update;
use crate::local::{DiscoverError, ServerAccess};
use crate::text::percent;
use crate::wire::limits::COMPONENT_BYTES_MAX;
use crate::wire::{self, Code};

/// The most contents of one path that the server is asked about. A path with more counts as changed by others.
const CONTENTS_MAX: usize = 16;

/// A list of more paths than this gets the time it needs, although the hook then takes longer than usual.
const LONG_LIST: usize = 10_000;

/// The most time that one path adds to a request.
const TIME_PER_PATH: Duration = Duration::from_micros(100);

/// The largest request, in bytes. A server accepts 32 MiB unless it is configured otherwise.
const REQUEST_BYTES_MAX: usize = 30 * 1024 * 1024;

/// What stands for the content of a deleted path.
const NO_CONTENT: &str = "0000000000000000000000000000000000000000";

/// The server has at least this much time to reply, however late it is asked.
pub const ASK_TIME_MIN: Duration = Duration::from_millis(500);

/// Why there is no reply from the server. Each variant carries a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No server is known, or it did not reply in time.
    #[error("{0}")]
    Unreachable(String),
    /// The token is missing, unreadable, expired or not accepted.
    #[error("{0}")]
    Unauthorized(String),
    /// The token's session has ended.
    #[error("{0}")]
    SessionEnded(String),
    /// The reply is not one that a git-dibs server sends.
    #[error("{0}")]
    BadReply(String),
}

impl From<DiscoverError> for CheckError {
    fn from(error: DiscoverError) -> CheckError {
        match error {
            DiscoverError::BadToken { .. } => CheckError::Unauthorized(error.to_string()),
            _ => CheckError::Unreachable(error.to_string()),
        }
    }
}

impl From<ClientError> for CheckError {
    fn from(error: ClientError) -> CheckError {
        let sentence = error.to_string();
        match &error {
            ClientError::Unreachable { .. } | ClientError::TimedOut { .. } | ClientError::Cancelled => {
                CheckError::Unreachable(sentence)
            }
            ClientError::OtherUser { .. } => CheckError::Unauthorized(sentence),
            ClientError::Garbage { .. } => CheckError::BadReply(sentence),
            ClientError::Refused { status, body, .. } => match (body.code, status) {
                (Code::SessionEnded, _) => CheckError::SessionEnded(sentence),
                (Code::Unavailable, _) => CheckError::Unreachable(sentence),
                (_, 401 | 403) => CheckError::Unauthorized(sentence),
                _ => CheckError::BadReply(sentence),
            },
        }
    }
}

impl From<std::io::Error> for CheckError {
    fn from(error: std::io::Error) -> CheckError {
        CheckError::Unreachable(format!("cannot use the network: {error}"))
    }
}

/// The request: may these paths be changed?
pub fn question(paths: &[Path]) -> wire::Check {
    question_about(paths.iter())
}

fn question_about<'a>(paths: impl Iterator<Item = &'a Path>) -> wire::Check {
    wire::Check {
        paths: Some(paths.map(|path| name(&reservable(path))).collect()),
        intent: Some(wire::Intent::Change),
        encoding: Some(wire::Encoding::Percent),
        ..wire::Check::default()
    }
}

/// The request: may these paths be changed to these contents? With `record`, the session is about to commit them, and the
/// server remembers those that it holds.
fn question_with_contents(changes: &[Change], record: bool) -> wire::Check {
    let content =
        |change: &Change| change.after.as_ref().map_or_else(|| NO_CONTENT.to_owned(), |after| after.oid.to_string());
    wire::Check {
        blobs: Some(changes.iter().map(content).collect()),
        record: record.then_some(true),
        ..question_about(changes.iter().map(|change| &change.path))
    }
}

/// Always `file:` and percent-encoded, because a path from git may look like a pattern or not be UTF-8.
fn name(path: &[u8]) -> String {
    format!("file:{}", percent::encode(path))
}

/// The path, or if it is too long to be reserved by its name, a shorter one in the same directory: what is held there is
/// held through the directory or a pattern.
fn reservable(path: &[u8]) -> Cow<'_, [u8]> {
    if path.len() <= COMPONENT_BYTES_MAX {
        return Cow::Borrowed(path);
    }
    let components = path.split(|&b| b == b'/').map(|part| &part[..part.len().min(COMPONENT_BYTES_MAX)]);
    let mut short = components.collect::<Vec<_>>().join(&b'/');
    short.truncate(wire::limits::KEY_BYTES_MAX);
    while short.last().is_some_and(|last| *last == b'/' || last.is_ascii_whitespace()) {
        short.pop();
    }
    if short == path { Cow::Borrowed(path) } else { Cow::Owned(short) }
}

/// Asks about a change, and returns the conflicts under the full names of the paths.
///
/// With a session, the server also learns the contents (`record`: and remembers those the session holds).
pub fn ask_about(
    access: &mut ServerAccess,
    changes: &[Change],
    record: bool,
    deadline: Instant,
) -> Result<wire::CheckReply, CheckError> {
    let paths = paths_of(changes);
    let mut reply = match access.session {
        Some(_) => in_pieces(changes, deadline, |piece, deadline| {
            ask(access, &question_with_contents(piece, record), deadline)
        })?,
        None => in_pieces(&paths, deadline, |piece, deadline| ask(access, &question(piece), deadline))?,
    };
    if !reply.carried.is_empty() {
        // Content that a holder has committed may still take the path back to an earlier version, so its holder counts
        // until that is clear.
        let carried: Vec<Path> = std::mem::take(&mut reply.carried).iter().map(|name| path_of(name)).collect();
        let held = in_pieces(&carried, deadline, |piece, deadline| ask(access, &question(piece), deadline))?;
        reply.conflicts.extend(held.conflicts);
    }
    Ok(finished(reply, &paths))
}

/// Asks about a push that has arrived, for the session that announced it. Returns that session too, if there is one.
pub fn ask_about_push(
    access: &mut ServerAccess,
    updates: &[Update],
    changes: &[Change],
    deadline: Instant,
) -> Result<(wire::CheckReply, Option<String>), CheckError> {
    if access.session.is_some() || updates.len() > wire::limits::CLAIM_UPDATES_MAX {
        let reply = ask_about(access, changes, true, deadline)?;
        return Ok((reply, access.session.clone()));
    }
    let paths = paths_of(changes);
    let mut announcer = None;
    let mut first = true;
    let mut reply = in_pieces(&paths, deadline, |piece, deadline| {
        if !std::mem::replace(&mut first, false) {
            return ask(access, &question(piece), deadline);
        }
        let limits =
            Limits { total: deadline.saturating_duration_since(Instant::now()).max(ASK_TIME_MIN), ..Limits::default() };
        let request = wire::ClaimPush { updates: ref_updates(updates), check: Some(question(piece)) };
        let mut client = access.client(limits)?;
        let claimed = match client.claim_push(&request) {
            Ok(claimed) => claimed,
            Err(error) => return known_reply(client.partial_body(), error.into()),
        };
        announcer = claimed.session_id.map(|session| session.to_string());
        let nothing = || CheckError::BadReply("the server did not check the announced push".to_owned());
        claimed.check.ok_or_else(nothing)
    })?;
    // An announcement is used up by its first piece; the others were checked as for a stranger.
    reply.conflicts.retain(|conflict| announcer.as_deref() != Some(&*conflict.reserved_by));
    Ok((finished(reply, &paths), announcer))
}

/// Tells the server what the session is about to push, so that the receiving side knows whose push it is.
///
/// If that fails, the receiving side checks the push as a stranger's, and says so.
pub fn announce(access: &ServerAccess, updates: &[Update]) {
    let Some(session) = access.session.as_deref() else { return };
    let limits = Limits { total: ASK_TIME_MIN, ..Limits::default() };
    for piece in updates.chunks(wire::limits::PUSH_UPDATES_MAX) {
        let request = wire::AnnouncePush { updates: ref_updates(piece) };
        if let Some(call) = access.quick_call()
            && let QuickReply::Success(_) = quick_announce(call, session, &request, limits)
        {
            continue;
        }
        let _ = access.client(limits).map(|mut client| client.announce_push(session, &request));
    }
}

/// Those of the contents that every holder of their path has committed itself.
pub fn committed_by_holder(access: &ServerAccess, changes: &[Change], deadline: Instant) -> HashSet<Change> {
    let mut found = HashSet::new();
    // The reply names paths only, so each request has every path once.
    let mut rounds: Vec<Vec<Change>> = Vec::new();
    for same_path in changes.chunk_by(|one, other| one.path == other.path) {
        for (n, change) in same_path.iter().take(CONTENTS_MAX).enumerate() {
            if rounds.len() == n {
                rounds.push(Vec::new());
            }
            rounds[n].push(change.clone());
        }
    }
    let mut access = access.clone();
    for round in rounds {
        let ask = |piece: &[Change], deadline| ask(&mut access, &question_with_contents(piece, false), deadline);
        // What the server does not confirm counts as not committed.
        let Ok(reply) = in_pieces(&round, deadline, ask) else { return found };
        let carried: HashSet<&str> = reply.carried.iter().map(String::as_str).collect();
        found.extend(round.into_iter().filter(|change| carried.contains(&*name(&change.path))));
    }
    found
}

/// Asks in as many requests as the list needs, and puts the replies together.
pub fn in_pieces<T: HasPath, E: std::fmt::Display>(
    items: &[T],
    deadline: Instant,
    mut ask: impl FnMut(&[T], Instant) -> Result<wire::CheckReply, E>,
) -> Result<wire::CheckReply, E> {
    let mut pieces = pieces(items);
    let mut in_time = |piece: &[T]| {
        let is_long = piece.len() > LONG_LIST || items.len() > piece.len();
        let needed = Instant::now() + time_for(piece.len());
        ask(piece, if is_long { deadline.max(needed) } else { deadline })
    };
    let mut all = in_time(pieces.next().unwrap_or_default())?;
    for piece in pieces {
        if all.cut_short.is_some() {
            break;
        }
        let reply = match in_time(piece) {
            Ok(reply) => reply,
            // What is known is enough to stop the change.
            Err(error) if !all.conflicts.is_empty() => {
                all.cut_short = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        };
        all.cut_short = reply.cut_short;
        all.conflicts.extend(reply.conflicts);
        all.clear.extend(reply.clear);
        all.held.extend(reply.held);
        all.carried.extend(reply.carried);
        all.paused = all.paused.or(reply.paused);
    }
    Ok(all)
}

/// What is asked about by its path.
pub trait HasPath {
    fn path(&self) -> &[u8];
}

impl HasPath for Path {
    fn path(&self) -> &[u8] {
        self
    }
}

impl HasPath for Change {
    fn path(&self) -> &[u8] {
        &self.path
    }
}

/// The items for each request: as many as a server accepts, in number and in bytes.
fn pieces<T: HasPath>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    // A byte of a path may take three in the request; a content takes as much as a short path.
    let size = |item: &T| 3 * item.path().len() + NO_CONTENT.len() + 16;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |item: &&T| {
            bytes += size(item);
            bytes <= REQUEST_BYTES_MAX
        };
        let count = items.iter().take(wire::limits::CHECK_PATHS_MAX).take_while(fits).count().max(1);
        let (piece, rest) = items.split_at_checked(count)?;
        items = rest;
        Some(piece)
    })
}

/// The reply with every conflict once, and under the full names of paths that were asked about by a shorter one.
fn finished(mut reply: wire::CheckReply, paths: &[Path]) -> wire::CheckReply {
    let is_short = |path: &&Path| reservable(path).len() != path.len();
    for path in paths.iter().filter(is_short) {
        let (asked, full) = (name(&reservable(path)), name(path));
        let same = reply.conflicts.iter().filter(|conflict| conflict.file_path == asked).cloned();
        let same: Vec<_> = same.map(|conflict| wire::Conflict { file_path: full.clone(), ..conflict }).collect();
        reply.conflicts.extend(same);
        for list in [&mut reply.clear, &mut reply.held] {
            if list.contains(&asked) {
                list.push(full.clone());
            }
        }
    }
    let known: HashSet<&Path> = paths.iter().collect();
    let mut seen = HashSet::new();
    reply.conflicts.retain(|conflict| {
        let row = (conflict.file_path.clone(), conflict.key.clone(), conflict.reserved_by.to_string());
        known.contains(&path_of(&conflict.file_path)) && seen.insert(row)
    });
    reply
}

/// The longest time that a request about so many paths may take.
fn time_for(paths: usize) -> Duration {
    let more = if paths > LONG_LIST { u32::try_from(paths).unwrap_or(u32::MAX) } else { 0 };
    Limits::default().total + TIME_PER_PATH * more
}

fn paths_of(changes: &[Change]) -> Vec<Path> {
    let mut paths: Vec<Path> = changes.iter().map(|change| change.path.clone()).collect();
    paths.dedup();
    paths
}

fn ref_updates(updates: &[Update]) -> Vec<wire::RefUpdate> {
    let update = |update: &Update| wire::RefUpdate {
        name: update.name.clone(),
        old: update.old.to_string(),
        new: update.new.to_string(),
    };
    updates.iter().map(update).collect()
}

/// Asks the server, until the deadline or the client's own time limit, but for at least [`ASK_TIME_MIN`]. A server that
/// failed a moment ago has only the time `access.reply_limit`.
///
/// If the server does not accept the caller's token, it is asked again as for a person without a session, and `access`
/// says so afterwards: a bad token must never be weaker than none.
pub fn ask(
    access: &mut ServerAccess,
    question: &wire::Check,
    deadline: Instant,
) -> Result<wire::CheckReply, CheckError> {
    let most = time_for(question.paths.as_ref().map_or(0, Vec::len));
    let quick = |call: QuickCall<'_>, limits| quick_check(call, question, limits);
    exchange(access, most, deadline, quick, |client, session| client.check(session, question), known_reply)
}

/// Asks whether anything is held at all, which takes the server no time.
pub fn ask_who_holds(access: &mut ServerAccess, deadline: Instant) -> Result<wire::Held, CheckError> {
    exchange(access, time_for(0), deadline, quick_held, |client, session| client.held(session), |_, error| Err(error))
}

/// Makes a call in the quick way, or else with the full client. `known` makes a reply of the part that arrived, if it can.
fn exchange<T>(
    access: &mut ServerAccess,
    most: Duration,
    deadline: Instant,
    quick: impl Fn(QuickCall<'_>, Limits) -> QuickReply<T>,
    full: impl Fn(&mut Client, Option<&str>) -> Result<T, ClientError>,
    known: impl Fn(&[u8], CheckError) -> Result<T, CheckError>,
) -> Result<T, CheckError> {
    let start = Instant::now();
    let deadline = match access.reply_limit {
        Some(limit) => start + limit,
        None => deadline.clamp(start + ASK_TIME_MIN, start + most),
    };
    // To the tenth of a second, because people read it.
    let time_left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        Duration::from_millis(((left.as_secs_f64() * 10.0).round() as u64 * 100).max(100))
    };
    let mut partial = Vec::new();
    if let Some(call) = access.quick_call() {
        let limits = Limits { total: time_left(), ..Limits::default() };
        match quick(call, limits) {
            QuickReply::Success(reply) => return Ok(reply),
            QuickReply::TimedOut(partial) => {
                let error = ClientError::TimedOut { at: call.endpoint.to_string(), limit: limits.total };
                return known(&partial, error.into());
            }
            QuickReply::Unclear(received) => partial = received,
        }
    }
    // The quick exchange knows only success; the full client finds out what is wrong and has a sentence for it.
    let mut call = |access: &ServerAccess| -> Result<Result<T, ClientError>, CheckError> {
        let limits = Limits { total: time_left(), ..Limits::default() };
        let mut client = access.client(limits)?;
        let reply = full(&mut client, access.session.as_deref());
        if partial.len() < client.partial_body().len() {
            partial = client.partial_body().to_vec();
        }
        Ok(reply)
    };
    let reply = match call(access)? {
        Err(error) if access.reject_token(&error) => call(access)?.map_err(CheckError::from),
        Err(error) => match (&access.token_problem, CheckError::from(error)) {
            // There is no other token, and the reason is that this one cannot be used.
            (Some(problem), CheckError::Unauthorized(_)) if access.credential.is_none() => {
                Err(CheckError::Unauthorized(problem.clone()))
            }
            (_, error) => Err(error),
        },
        Ok(reply) => Ok(reply),
    };
    reply.or_else(|error| known(&partial, error))
}

/// The conflicts in a reply that did not arrive completely. If there are none, it counts as no reply.
fn known_reply(partial: &[u8], error: CheckError) -> Result<wire::CheckReply, CheckError> {
    match known_conflicts(partial) {
        none if none.is_empty() => Err(error),
        conflicts => {
            let cut_short = Some(error.to_string());
            Ok(wire::CheckReply { conflicts, cut_short, ..wire::CheckReply::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_asked_in_pieces_that_a_server_accepts() {
        let sizes = |paths: &[Path]| pieces(paths).map(<[Path]>::len).collect::<Vec<_>>();
        let short = vec![b"src/a.rs".to_vec(); 250_000];
        assert_eq!(sizes(&short), [100_000, 100_000, 50_000]);
        let long = vec![vec![0xff; 4000]; 5_000];
        assert_eq!(sizes(&long).iter().sum::<usize>(), 5_000);
        assert!(sizes(&long).iter().all(|count| count * 3 * 4000 < REQUEST_BYTES_MAX), "{:?}", sizes(&long));
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[vec![b'x'; REQUEST_BYTES_MAX]]), [1]);
    }
}
