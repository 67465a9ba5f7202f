//! A server that did not answer a moment ago: a rebase or a cherry-pick runs many hooks, and a frozen server should cost
//! one time-out, not one for each of them.
//!
//! The file is in the git directory that all worktrees share. It is bound to the server's addresses, and valid for
//! [`REMEMBERED`]. While it is valid, a hook still asks, so that a server that is back is used at once, but gives it only
//! [`PROBE_TIME`]. The warning about a commit, or about a push, is shown once for all processes of one command line.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::git::Repo;
use crate::judge::Verdict;
use crate::local::{ServerAccess, data_dir};

/// How long a failure is remembered.
const REMEMBERED: Duration = Duration::from_secs(15);

/// How long a server that failed a moment ago may take to answer.
pub const PROBE_TIME: Duration = Duration::from_millis(200);

/// Under the git directory that all worktrees share: who was told about what, and the addresses that failed.
const FILE: &str = "outage";

/// What is known about the server that a hook is about to ask.
pub struct Outage {
    file: PathBuf,
    addresses: String,
    /// The process group and the kind of change that a warning is about.
    audience: String,
    /// A hook had no answer from these addresses a moment ago.
    pub is_known: bool,
    /// That hook belonged to the same command line as this one and was about the same kind of change.
    was_told: bool,
    exists: bool,
}

impl Outage {
    /// Reads what earlier hooks noted about this server, or about the lack of one.
    pub fn recall(repo: &Repo, access: Option<&ServerAccess>, noun: &str) -> Outage {
        let file = data_dir::dibs_dir(repo).join(FILE);
        let addresses = access.map_or_else(String::new, |access| {
            access.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        });
        // What a shell starts for one command line is one process group.
        // SAFETY: takes nothing and returns a number.
        let audience = format!("{} {noun}", unsafe { libc::getpgrp() });
        let mut outage = Outage { file, addresses, audience, is_known: false, was_told: false, exists: false };
        let Ok(text) = std::fs::read_to_string(&outage.file) else { return outage };
        outage.exists = true;
        let written = std::fs::metadata(&outage.file).and_then(|about| about.modified());
        // A time in the future, after the clock was set back, counts as long ago.
        let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
        if let Some((audience, addresses)) = text.split_once('\n')
            && age.is_some_and(|age| age < REMEMBERED)
            && addresses == outage.addresses
        {
            outage.is_known = true;
            outage.was_told = audience == outage.audience;
        }
        outage
    }

    /// Notes how the call went, for the next hooks. Nothing is written while the server answers.
    pub fn note(&self, is_outage: bool) {
        match is_outage {
            // The first failure counts: otherwise a long rebase would extend it again and again.
            true if !self.is_known || !self.was_told => {
                let text = format!("{}\n{}", self.audience, self.addresses);
                // Only into a directory that exists: it belongs to the user who installed the hooks. If it cannot be
                // written, the next hook waits again.
                let _ = data_dir::write_private(&self.file, text.as_bytes());
            }
            false if self.exists => drop(std::fs::remove_file(&self.file)),
            _ => {}
        }
    }

    /// The verdict without a warning that this command line has shown already.
    pub fn without_repetition(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Warn(_) if self.was_told => Verdict::Pass,
            verdict => verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Endpoint;

    fn access(url: &str) -> ServerAccess {
        ServerAccess {
            endpoints: vec![Endpoint::parse(url).unwrap()],
            source: "DIBS_URL".to_owned(),
            ..ServerAccess::default()
        }
    }

    #[test]
    fn an_outage_is_remembered_for_its_address_until_the_server_answers() {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        std::fs::create_dir(data_dir::dibs_dir(&repo)).unwrap();
        let (one, other) = (access("http://x:1"), access("http://x:2"));
        let warning = || Verdict::Warn("down".to_owned());

        let first = Outage::recall(&repo, Some(&one), "commit");
        assert!(!first.is_known);
        assert_eq!(first.without_repetition(warning()), warning());
        first.note(true);
        let second = Outage::recall(&repo, Some(&one), "commit");
        assert!(second.is_known);
        assert_eq!(second.without_repetition(warning()), Verdict::Pass);
        let push = Outage::recall(&repo, Some(&one), "push");
        assert!(push.is_known && push.without_repetition(warning()) == warning(), "a push is another matter");
        let block = Verdict::Block("down".to_owned());
        assert_eq!(second.without_repetition(block.clone()), block, "a block always says why");
        assert!(!Outage::recall(&repo, Some(&other), "commit").is_known, "another address is another server");
        assert!(!Outage::recall(&repo, None, "commit").is_known);

        let file = repo.common_dir.join("dibs/outage");
        let of_another_command = std::fs::read_to_string(&file).unwrap().replacen(&first.audience, "1 commit", 1);
        std::fs::write(&file, of_another_command).unwrap();
        let told_again = Outage::recall(&repo, Some(&one), "commit");
        assert!(told_again.is_known);
        assert_eq!(told_again.without_repetition(warning()), warning());

        let long_ago = SystemTime::now() - 2 * REMEMBERED;
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        assert!(!Outage::recall(&repo, Some(&one), "commit").is_known);
        Outage::recall(&repo, Some(&one), "commit").note(false);
        assert!(!file.exists());
    }
}
