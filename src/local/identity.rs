//! Who is asking: which token is sent, and which session it acts for.
//!
//! | what | taken from the first of these |
//! |---|---|
//! | token | `--token-file` · `DIBS_TOKEN` · `<git dir>/dibs/token` · git's `dibs.tokenFile` · the local server's `read-token` |
//! | session | `--session` · the session that the token belongs to · `DIBS_SESSION` |
//!
//! The person who pushes into a repository is not the session that works in it. On the receiving side the token comes from
//! the push option `dibs-token`, else from `DIBS_TOKEN`, and never from the worktree's file.

use std::path::{Path, PathBuf};

use super::discover::{DiscoverError, Lookup};
use crate::client::{Credential, Origin};

/// Under a worktree's git directory: the token of the session that works there, mode 0600.
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

/// The session to act for.
pub(super) fn session(lookup: &Lookup<'_>, credential: Option<&Credential>) -> Option<String> {
    // A session's own token acts for no other session, so a stale DIBS_SESSION must not take precedence over it.
    let own = credential.and_then(|credential| credential.session.clone());
    lookup.flags.session.clone().or(own).or_else(|| lookup.variable("DIBS_SESSION"))
}

/// The token to send.
pub(super) fn credential(lookup: &Lookup<'_>, server_is_local: bool) -> Result<Option<Credential>, DiscoverError> {
    if let Some(path) = &lookup.flags.token_file {
        return in_file(Origin::Flag(path.clone()), path, Some("--token-file"));
    }
    let pushed = match &lookup.side {
        Side::Receiver { pushed_token: Some(text) } if !text.trim().is_empty() => {
            Some((Origin::PushOption, text.clone()))
        }
        _ => None,
    };
    let given = pushed.or_else(|| lookup.variable("DIBS_TOKEN").map(|text| (Origin::Environment, text)));
    if let Some((from, text)) = given {
        let bad = |why: &str| DiscoverError::BadToken { from: from.clone(), why: why.to_owned() };
        return Credential::new(&text, from.clone()).map(Some).map_err(bad);
    }
    if let Some(dir) = lookup.git_dir.filter(|_| lookup.side == Side::Worktree) {
        let path = dir.join(TOKEN_FILE);
        if let Some(credential) = in_file(Origin::Worktree(path.clone()), &path, None)? {
            return Ok(Some(credential));
        }
    }
    if let Some(name) = lookup.setting("tokenFile") {
        let path = token_file(lookup, name);
        return in_file(Origin::TokenFile(path.clone()), &path, Some("git config dibs.tokenFile"));
    }
    // The local server's token is for the local server alone; it is not sent anywhere else.
    match lookup.common_dir.filter(|_| server_is_local) {
        Some(dir) => {
            let path = dir.join(READ_TOKEN_FILE);
            in_file(Origin::LocalServer(path.clone()), &path, None)
        }
        None => Ok(None),
    }
}

/// The token in a file. If a flag or a setting names the file, it must exist.
fn in_file(from: Origin, path: &Path, named_by: Option<&str>) -> Result<Option<Credential>, DiscoverError> {
    match (Credential::read(path, from.clone()), named_by) {
        (Ok(None), Some(name)) => {
            Err(DiscoverError::BadToken { from, why: format!("does not exist, but {name} names it") })
        }
        (Ok(credential), _) => Ok(credential),
        (Err(why), _) => Err(DiscoverError::BadToken { from, why }),
    }
}

/// The path in `dibs.tokenFile`: `~/` is the home directory, and a relative path starts in the common git directory.
fn token_file(lookup: &Lookup<'_>, name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), lookup.variable("HOME"), lookup.common_dir) {
        (Some(rest), Some(home), _) => Path::new(&home).join(rest),
        (_, _, Some(dir)) => dir.join(name),
        _ => PathBuf::from(name),
    }
}
