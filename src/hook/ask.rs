//! Second step of a hook: asking the server who holds what.
//!
//! The answer is turned into plain values, so that the verdict knows nothing of HTTP; every way in which there is no
//! answer is an [`AskError`] with a sentence for a person.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path as FilePath;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client::{
    Asking, Brief, Client, ClientError, Door, Flags, Found, Limits, Surroundings, Undiscovered, check_briefly, discover,
};
use crate::git::range::LS_REMOTE_LIMIT;
use crate::git::{Path, Repo, Settings};
use crate::text::percent;
use crate::wire::{self, Code};

use super::environment::Environment;
use super::{Moment, PATIENCE};

/// The longest path the server takes; a longer one can neither be checked out nor reserved.
const PATH_MAX_BYTES: usize = wire::limits::KEY_BYTES_MAX;

/// The server has at least this long, however slow everything before it was.
const PATIENCE_MIN: Duration = Duration::from_millis(500);

// A remote that takes its time must not use up the server's.
const _: () = assert!(LS_REMOTE_LIMIT.as_millis() + PATIENCE_MIN.as_millis() <= PATIENCE.as_millis());

/// What the server said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Paths somebody else holds. One path may appear several times, once per holder.
    pub conflicts: Vec<Conflict>,
    /// Paths the caller holds.
    pub held: Vec<Path>,
    /// The caller's feature is paused.
    pub paused: Option<Pause>,
    /// The caller's session; none for a person without one.
    pub me: Option<String>,
}

/// A path that somebody else holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflict {
    /// The path that was asked about.
    pub path: Path,
    /// The session that holds it.
    pub holder: String,
    /// How that session calls itself.
    pub holder_name: Option<String>,
    /// Why it is held.
    pub reason: Option<String>,
    /// How long it stays held if nobody renews it.
    pub expires_in: Option<Duration>,
    /// What is reserved, as the holder wrote it: the path itself or a pattern that covers it.
    pub key: Path,
}

/// Work on the caller's feature is to rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pause {
    /// Who paused it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// Why there is no answer. Each carries a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody answered, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// The token is missing, unreadable, expired or not accepted.
    #[error("{0}")]
    Unauthorized(String),
    /// The session of the token has ended.
    #[error("{0}")]
    Ended(String),
    /// Something answered, but not as git-dibs does.
    #[error("{0}")]
    Broken(String),
}

/// Finds the server, and who is asking.
///
/// `moment` is the hook this happens in, or none outside of hooks: whoever pushes into a repository is not whoever
/// works in it, so `pre-receive` takes a token from a push option, and none from the worktree's file.
pub fn find(
    moment: Option<Moment>,
    repo: &Repo,
    environment: &Environment,
    settings: &Settings,
) -> Result<Found, AskError> {
    let receiving = moment == Some(Moment::PreReceive);
    let door = match receiving {
        true => Door::Receiving(environment.push_option("dibs-token")),
        false => Door::Worktree,
    };
    let env = |name: &str| environment.text(name);
    let config = |name: &str| {
        let value = settings.get(name.strip_prefix("dibs.")?)?;
        let home = environment.get("HOME").map(FilePath::new);
        match (name, value.strip_prefix("~/"), home) {
            ("dibs.tokenFile", Some(rest), Some(home)) => Some(home.join(rest).to_string_lossy().into_owned()),
            _ => Some(value.to_owned()),
        }
    };
    let git_dir = (!receiving).then(|| repo.git_dir.clone());
    let (flags, common_dir) = (Flags::default(), Some(repo.common_dir.clone()));
    let here = Surroundings { flags, door, env: &env, config: &config, git_dir, common_dir };
    discover(&here).map_err(|error| match error {
        Undiscovered::BadToken { .. } => AskError::Unauthorized(error.to_string()),
        _ => AskError::Unreachable(error.to_string()),
    })
}

/// Asks who is in the way of changing these paths.
///
/// Takes no longer than the design allows a hook, and less where it is closer to its deadline.
pub fn ask(found: &Found, paths: &[Path], deadline: Instant) -> Result<Answer, AskError> {
    let begun = Instant::now();
    let limit = Limits::default().total;
    let deadline = deadline.clamp(begun + PATIENCE_MIN, begun + limit);
    let mut answer = check(found, paths, wire::Mode::Exclusive, deadline)?;
    // Who holds a path shared may change it beside the others who do.
    let shared: Vec<Path> = answer.shared.drain(..).collect();
    if !shared.is_empty() && found.session.is_some() {
        let again = check(found, &shared, wire::Mode::Shared, deadline)?;
        let mine: HashSet<Path> = again.held.into_iter().collect();
        answer.conflicts.retain(|(conflict, mode)| *mode == wire::Mode::Exclusive || !mine.contains(&conflict.path));
        answer.held.extend(mine);
    }
    let conflicts = answer.conflicts.into_iter().map(|(conflict, _)| conflict).collect();
    Ok(Answer { conflicts, held: answer.held, paused: answer.paused, me: found.session.clone() })
}

/// A client for the server that was found, with this much time for each call.
pub(super) fn client(found: &Found, total: Duration) -> Result<Client, AskError> {
    let limits = Limits { total, ..Limits::default() };
    let made = Client::new(found.endpoints.clone(), found.credential.clone(), limits);
    let made = made.map(|client| client.for_repo(found.repo.clone()));
    made.map_err(|error| AskError::Unreachable(format!("the network cannot be used: {error}")))
}

/// Sorts the ways a call can fail.
pub(super) fn failed(error: ClientError) -> AskError {
    let sentence = error.to_string();
    match &error {
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => AskError::Unreachable(sentence),
        ClientError::Garbage { .. } => AskError::Broken(sentence),
        ClientError::Refused { status, body, .. } => match (body.code, status) {
            (Code::SessionEnded, _) => AskError::Ended(sentence),
            (Code::Unavailable, _) => AskError::Unreachable(sentence),
            (_, 401 | 403) => AskError::Unauthorized(sentence),
            _ => AskError::Broken(sentence),
        },
    }
}

/// One call of the server, in our words.
struct Checked {
    conflicts: Vec<(Conflict, wire::Mode)>,
    /// Conflicting paths that others hold only shared.
    shared: Vec<Path>,
    held: Vec<Path>,
    paused: Option<Pause>,
}

fn check(found: &Found, paths: &[Path], mode: wire::Mode, deadline: Instant) -> Result<Checked, AskError> {
    // Always encoded and always `file:`, because a name out of git may look like a pattern or be no text at all.
    let names = paths.iter().filter(|path| path.len() <= PATH_MAX_BYTES);
    let names = names.map(|path| format!("file:{}", percent::encode(path))).collect();
    let question = wire::Check {
        paths: Some(names),
        mode: Some(mode),
        encoding: Some(wire::Encoding::Percent),
        ..wire::Check::default()
    };
    let checked = answered(found, &question, deadline)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let conflicts = checked.conflicts.into_iter().map(|conflict| {
        let mode = conflict.mode;
        (told(conflict, now), mode)
    });
    let conflicts: Vec<(Conflict, wire::Mode)> = conflicts.collect();
    let exclusive: HashSet<&Path> = conflicts
        .iter()
        .filter(|(_, mode)| *mode == wire::Mode::Exclusive)
        .map(|(conflict, _)| &conflict.path)
        .collect();
    let shared = conflicts.iter().map(|(conflict, _)| &conflict.path).filter(|path| !exclusive.contains(path));
    Ok(Checked {
        shared: shared.cloned().collect(),
        conflicts,
        held: checked.held.iter().map(|name| name_of(name)).collect(),
        paused: checked.paused.map(|pause| Pause {
            by: pause.reserved_by_name.unwrap_or(pause.reserved_by).to_string(),
            reason: pause.reason.map(|reason| reason.to_string()),
        }),
    })
}

/// Asks in the quickest way, and where that does not lead to an answer in the way that says why not.
fn answered(found: &Found, question: &wire::Check, deadline: Instant) -> Result<wire::CheckReply, AskError> {
    // To the tenth of a second, because people read it.
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        Duration::from_millis(((left.as_secs_f64() * 10.0).round() as u64 * 100).max(100))
    };
    let session = found.session.as_deref();
    if let Some(endpoint) = found.endpoints.first() {
        let limits = Limits { total: left(), ..Limits::default() };
        let (credential, repo) = (found.credential.as_ref(), found.repo.as_deref());
        match check_briefly(Asking { endpoint, credential, session, repo }, question, limits) {
            Brief::Answer(checked) => return Ok(checked),
            Brief::TimedOut => {
                return Err(failed(ClientError::TimedOut { at: endpoint.to_string(), limit: limits.total }));
            }
            Brief::Elsewhere => {}
        }
    }
    client(found, left())?.check(session, question).map_err(failed)
}

fn told(conflict: wire::Conflict, now: Duration) -> Conflict {
    let until = u64::try_from(conflict.expires_at.0).ok().map(Duration::from_millis);
    let key = match conflict.encoding {
        Some(wire::Encoding::Percent) => name_of(&conflict.key),
        None => conflict.key.into_bytes(),
    };
    Conflict {
        path: name_of(&conflict.file_path),
        holder: conflict.reserved_by.to_string(),
        holder_name: conflict.reserved_by_name.map(|name| name.to_string()),
        reason: conflict.reason.map(|reason| reason.to_string()),
        expires_in: until.map(|until| until.saturating_sub(now)),
        key,
    }
}

/// A path as we asked about it, back in git's bytes.
fn name_of(text: &str) -> Path {
    let name = text.strip_prefix("file:").unwrap_or(text);
    percent::decode(name).map_or_else(|| name.as_bytes().to_vec(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        repo: Repo,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            git2::Repository::init(dir.path()).unwrap();
            Place { repo: Repo::at(dir.path()).unwrap(), _dir: dir }
        }

        fn file(&self, name: &str, text: &str) {
            let file = self.repo.common_dir.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }

        fn token(&self, moment: Moment, variables: &[(&str, &str)], settings: &[(&str, &str)]) -> Option<String> {
            let environment = Environment::from_pairs([&[("DIBS_URL", "http://x")], variables].concat());
            let found = find(Some(moment), &self.repo, &environment, &Settings::from_pairs(settings.iter().copied()));
            found.unwrap().credential.map(|credential| credential.token().to_owned())
        }
    }

    #[test]
    fn whoever_pushes_here_is_not_whoever_works_here() {
        let place = Place::new();
        place.file("dibs/token", "mine");
        let pushed =
            [("GIT_PUSH_OPTION_COUNT", "1"), ("GIT_PUSH_OPTION_0", "dibs-token=pushed"), ("DIBS_TOKEN", "told")];
        assert_eq!(place.token(Moment::PreReceive, &pushed, &[]).as_deref(), Some("pushed"));
        assert_eq!(place.token(Moment::PreReceive, &pushed[2..], &[]).as_deref(), Some("told"));
        assert_eq!(place.token(Moment::PreReceive, &[], &[]), None);
        assert_eq!(
            place.token(Moment::PrePush, &pushed[..2], &[]).as_deref(),
            Some("mine"),
            "options count on arrival"
        );
    }

    #[test]
    fn a_token_file_may_be_in_the_home_directory() {
        let place = Place::new();
        place.file("elsewhere", "look");
        let home = place.repo.common_dir.to_str().unwrap();
        let token = place.token(Moment::PreReceive, &[("HOME", home)], &[("tokenFile", "~/elsewhere")]);
        assert_eq!(token.as_deref(), Some("look"));
    }

    #[test]
    fn what_is_missing_is_a_sentence_of_its_kind() {
        let place = Place::new();
        let find = |variables: &[(&str, &str)]| {
            let environment = Environment::from_pairs(variables.iter().copied());
            super::find(Some(Moment::PreCommit), &place.repo, &environment, &Settings::default()).unwrap_err()
        };
        assert!(matches!(find(&[]), AskError::Unreachable(text) if text.contains("git dibs serve")));
        place.file("dibs/token", " \n");
        assert!(matches!(find(&[("DIBS_URL", "http://x")]), AskError::Unauthorized(text) if text.contains("is empty")));
    }
}
