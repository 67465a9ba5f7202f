//! Who is asking: which token is sent, and which session it acts for.
//!
//! The token comes from the first of these that has one:
//!
//! 1. `--token-file`.
//! 2. `DIBS_TOKEN`. If it is set and empty, the caller is explicitly a person without a session.
//! 3. The session file that `DIBS_RUN` leads to, then the one that an agent's own session variable leads to, then the one
//!    of the session that an agent's hook was called for; see [`session_file`](super::session_file).
//! 4. `<git dir>/dibs/token`, the session that `git-dibs session start` bound this worktree to.
//! 5. For a person without a session: git's `dibs.tokenFile`, else the local server's `read-token`.
//!
//! The session is `--session`, else the one that the token belongs to. `DIBS_SESSION` counts only with a token that may
//! act for several sessions (scope `admin` or `worker`): a session's id is public, so it proves nothing.
//!
//! A token that cannot be used makes the caller a person without a session, never an unchecked one. The caller is told
//! what is wrong with it and how to repair it.
//!
//! The person who pushes into a repository is not the session that works in it. On the receiving side the token comes from
//! the push option `dibs-token`, else from `DIBS_TOKEN`, and never from a file of 3 or 4.

use std::path::{Path, PathBuf};

use super::destination::Destination;
use super::discover::{DiscoverError, Lookup};
use super::session_file;
use crate::client::{Credential, Origin};

/// Under a worktree's git directory: the token of the session that the worktree is bound to, mode 0600.
pub const TOKEN_FILE: &str = "dibs/token";

/// Under the common directory: a token that a local server writes, with which people without a session can look.
pub const READ_TOKEN_FILE: &str = "dibs/read-token";

/// On which side of a push the program runs.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Side {
    /// In the worktree where the change is made.
    #[default]
    Worktree,
    /// In the repository that receives a push, with the token of the push option, if one was sent.
    Receiver { pushed_token: Option<String> },
}

/// The caller's own token, from the sources 1 to 4.
pub(super) enum OwnToken {
    /// There is none.
    Absent,
    /// An empty `DIBS_TOKEN` says that there is none.
    Declined,
    Found {
        credential: Credential,
        /// The server that the token is for, if its file names one.
        url: Option<String>,
    },
    /// There is one, but it cannot be sent. `why` completes a sentence that starts with its origin.
    Unusable { from: Origin, why: String },
}

/// Finds the caller's own token. Only a file that a flag names must have a usable one.
pub(super) fn own_token(lookup: &Lookup<'_>) -> Result<OwnToken, DiscoverError> {
    if let Some(path) = &lookup.flags.token_file {
        let from = Origin::Flag(path.clone());
        return match in_file(from, path) {
            OwnToken::Absent => Err(DiscoverError::BadToken {
                from: Origin::Flag(path.clone()),
                why: "does not exist, but --token-file names it".to_owned(),
            }),
            OwnToken::Unusable { from, why } => Err(DiscoverError::BadToken { from, why }),
            found => Ok(found),
        };
    }
    if let Side::Receiver { pushed_token: Some(text) } = &lookup.side
        && !text.trim().is_empty()
    {
        return Ok(in_text(text, Origin::PushOption));
    }
    match lookup.environment.text("DIBS_TOKEN") {
        Some(text) if text.trim().is_empty() => return Ok(OwnToken::Declined),
        Some(text) => return Ok(in_text(&text, Origin::Environment)),
        None => {}
    }
    if lookup.side != Side::Worktree {
        return Ok(OwnToken::Absent);
    }
    if let Some(dir) = lookup.common_dir
        && let Some(found) = session_file::find(dir, lookup.environment, lookup.handles)
    {
        return Ok(found);
    }
    Ok(match lookup.git_dir.map(|dir| dir.join(TOKEN_FILE)) {
        Some(path) => in_file(Origin::Worktree(path.clone()), &path),
        None => OwnToken::Absent,
    })
}

fn in_text(text: &str, from: Origin) -> OwnToken {
    match Credential::new(text, from.clone()) {
        Ok(credential) => OwnToken::Found { credential, url: None },
        Err(why) => OwnToken::Unusable { from, why: why.to_owned() },
    }
}

fn in_file(from: Origin, path: &Path) -> OwnToken {
    match Credential::read(path, from.clone()) {
        Ok(None) => OwnToken::Absent,
        Ok(Some(credential)) => OwnToken::Found { credential, url: None },
        Err(why) => OwnToken::Unusable { from, why },
    }
}

/// The session to act for, with this token.
pub(super) fn session(lookup: &Lookup<'_>, credential: Option<&Credential>) -> Option<String> {
    // A session's own token acts for no other session, so a stale DIBS_SESSION must not take precedence over it.
    let own = credential.and_then(|credential| credential.session.clone());
    let chosen = || {
        let may_choose = credential.is_some_and(|credential| credential.is_admin || credential.is_worker);
        lookup.variable("DIBS_SESSION").filter(|_| may_choose)
    };
    lookup.flags.session.clone().or(own).or_else(chosen)
}

/// Where a person without a session gets a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersonTokens {
    /// The file that `dibs.tokenFile` names.
    token_file: Option<PathBuf>,
    /// The local server's read token; none if the server is another one, because it is not sent anywhere else.
    read_token: Option<PathBuf>,
    /// The server, which may not get every token.
    destination: Destination,
}

impl PersonTokens {
    pub(super) fn of(lookup: &Lookup<'_>, server_is_local: bool, destination: Destination) -> PersonTokens {
        PersonTokens {
            destination,
            token_file: lookup.setting("tokenFile").map(|name| token_file(lookup, name)),
            read_token: lookup.common_dir.filter(|_| server_is_local).map(|dir| dir.join(READ_TOKEN_FILE)),
        }
    }

    /// The first usable token, and what is wrong with one that comes before it.
    pub(super) fn read(&self) -> (Option<Credential>, Option<String>) {
        let mut problem = None;
        if let Some(path) = &self.token_file {
            let from = Origin::TokenFile(path.clone());
            match in_file(from.clone(), path) {
                OwnToken::Found { credential, .. } => match self.destination.refusal(&credential) {
                    None => return (Some(credential), None),
                    refusal => problem = refusal,
                },
                OwnToken::Unusable { why, .. } => problem = Some(token_problem(&from, &why)),
                OwnToken::Absent | OwnToken::Declined => {
                    problem = Some(token_problem(&from, "does not exist, but git config dibs.tokenFile names it"));
                }
            }
        }
        if let Some(path) = &self.read_token {
            let from = Origin::LocalServer(path.clone());
            match in_file(from.clone(), path) {
                OwnToken::Found { credential, .. } => return (Some(credential), problem),
                OwnToken::Unusable { why, .. } => problem = problem.or(Some(token_problem(&from, &why))),
                OwnToken::Absent | OwnToken::Declined => {}
            }
        }
        (None, problem)
    }

    /// A token for a caller that has no session: one that belongs to no session, if there is one. `rejected` is the origin
    /// of a token that the server does not accept.
    pub(super) fn without_session(&self, rejected: Option<&Origin>) -> Option<Credential> {
        let read = |from: Origin, path: &Path| Credential::read(path, from).ok().flatten();
        let in_token_file = self.token_file.as_deref().and_then(|path| read(Origin::TokenFile(path.to_owned()), path));
        let in_token_file = in_token_file.filter(|credential| Some(&credential.from) != rejected);
        let in_token_file = in_token_file.filter(|credential| self.destination.refusal(credential).is_none());
        let of_server = || self.read_token.as_deref().and_then(|path| read(Origin::LocalServer(path.to_owned()), path));
        match in_token_file {
            Some(credential) if credential.session.is_none() => Some(credential),
            other => of_server().or(other),
        }
    }
}

/// The file that `dibs.caFile` names. Only a setting outside of the repository counts: with an authority of its own, a
/// repository could make another server look like the one that a token names.
pub(super) fn ca_file(lookup: &Lookup<'_>) -> Option<PathBuf> {
    let name = lookup.settings.of_user("caFile").last().filter(|name| !name.trim().is_empty())?;
    Some(match (name.strip_prefix("~/"), lookup.variable("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    })
}

/// The path in `dibs.tokenFile`: `~/` is the home directory, and a relative path starts in the common git directory.
fn token_file(lookup: &Lookup<'_>, name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), lookup.variable("HOME"), lookup.common_dir) {
        (Some(rest), Some(home), _) => Path::new(&home).join(rest),
        (_, _, Some(dir)) => dir.join(name),
        _ => PathBuf::from(name),
    }
}

/// One line that says what is wrong with a token, and the command that repairs it. `why` completes a sentence that starts
/// with the token's origin.
pub(super) fn token_problem(from: &Origin, why: &str) -> String {
    format!("the token in {from} {why} and counts as none; to repair this: {}", repair(from))
}

/// What to do about a token that is not accepted.
pub fn repair(from: &Origin) -> String {
    match from {
        Origin::Flag(_) => "name another file with --token-file".to_owned(),
        Origin::PushOption => "git push -o dibs-token=TOKEN, with a valid token".to_owned(),
        Origin::Environment => {
            "unset DIBS_TOKEN && git dibs session start, or set DIBS_TOKEN to a valid token".to_owned()
        }
        Origin::SessionFile(variable) => format!("unset {variable} && git dibs session start"),
        Origin::Worktree(_) => "git dibs session start".to_owned(),
        Origin::TokenFile(_) => "write a valid token into it, or: git config --unset dibs.tokenFile".to_owned(),
        Origin::LocalServer(_) => "start the server again: git dibs stop && git dibs serve --background".to_owned(),
    }
}
