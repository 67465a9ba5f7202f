//! Whether commits belong to the project of this repository, or to another one that is kept in it.
//!
//! `git subtree push` and a website's branch send commits of another project, whose files have other names there than here.

use std::time::Duration;

use super::{GitError, Oid, Repo};

/// How long it may take to find the first commit.
const FIRST_TIME: Duration = Duration::from_secs(1);

/// Whether none of `tips` is based on the first commit of the branch `home`. If that cannot be told in time, they may be.
pub fn are_foreign(repo: &Repo, home: &Oid, tips: &[Oid]) -> Result<bool, GitError> {
    let call = repo.git().args(["rev-list", "--first-parent", "--max-parents=0", home.as_str()]);
    let Ok(listed) = call.output_within(FIRST_TIME) else { return Ok(false) };
    let Some(first) = listed.split(|&b| b == b'\n').find_map(Oid::parse) else { return Ok(false) };
    for tip in tips {
        if repo.is_descendant(tip, &first)? {
            return Ok(false);
        }
    }
    Ok(true)
}
