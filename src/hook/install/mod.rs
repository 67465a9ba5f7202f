//! Putting the hooks in place, and taking them away again.
//!
//! Three ways, chosen per hooks directory: hooks in git's configuration where git knows them (2.54); shim files, with
//! the hook that was there before kept and run; or, where a hook manager or somebody outside this repository owns the
//! directory, nothing but the text to add there. Nothing is ever written outside the repository.

mod config_hooks;
mod files;
mod managers;
mod places;

use std::path::{Path, PathBuf};

use crate::git::{Git, GitError, Repo, Version};

use super::Moment;

pub use config_hooks::{command as config_command, keys as config_keys};
pub use managers::Manager;
pub use places::{HooksDir, Owner, hooks_dirs};

/// What is to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The program the hooks hand over to; an absolute path.
    pub program: PathBuf,
    /// Also watch every ref (`reference-transaction`).
    pub strict: bool,
    /// The repository receives pushes: `pre-receive` instead of the hooks of those who work in it.
    pub server: bool,
}

impl Wish {
    /// The hooks it takes.
    pub fn moments(&self) -> Vec<Moment> {
        if self.server {
            return vec![Moment::PreReceive];
        }
        let all = Moment::ALL.into_iter();
        all.filter(|moment| match moment {
            Moment::PreReceive => false,
            Moment::ReferenceTransaction => self.strict,
            _ => true,
        })
        .collect()
    }
}

/// What was done, and what is left to do by hand. Sentences for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What was changed, one line each; empty when everything was in place already.
    pub done: Vec<String>,
    /// What we could not or would not do ourselves, and how to do it.
    pub by_hand: Vec<String>,
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Git did not answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be read or written.
    #[error("{path} could not be {verb}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What was tried, as a participle.
        verb: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
    /// The program cannot be named in a script.
    #[error("the program {0:?} cannot be named in a hook; install it under an absolute path without line feeds")]
    Program(PathBuf),
}

/// Installs, or brings up to date what is installed. Doing it twice changes nothing.
pub fn install(repo: &Repo, wish: &Wish) -> Result<Report, InstallError> {
    let nameable = wish.program.is_absolute() && !wish.program.as_os_str().as_encoded_bytes().contains(&b'\n');
    if !nameable {
        return Err(InstallError::Program(wish.program.clone()));
    }
    let mut report = Report::default();
    if Version::of_git()? >= Version::CONFIG_HOOKS {
        config_hooks::install(repo, wish, &mut report)?;
        // Shims of an older git's days would ask everything a second time.
        for dir in hooks_dirs(repo)?.iter().filter(|dir| dir.is_ours_to_write()) {
            files::uninstall(&dir.path, &wish.moments(), &mut report)?;
        }
    } else {
        config_hooks::uninstall(repo, &wish.moments(), &mut report)?;
        for dir in hooks_dirs(repo)? {
            install_in(&dir, wish, &mut report)?;
        }
    }
    if wish.server {
        prepare_server(repo, &mut report)?;
    }
    Ok(report)
}

/// Takes away what [`install`] put there, and brings back what was there before, byte for byte.
pub fn uninstall(repo: &Repo) -> Result<Report, InstallError> {
    let mut report = Report::default();
    config_hooks::uninstall(repo, &Moment::ALL, &mut report)?;
    for dir in hooks_dirs(repo)? {
        if dir.is_ours_to_write() {
            files::uninstall(&dir.path, &Moment::ALL, &mut report)?;
        }
        if let Owner::Manager(manager) = dir.owner {
            report.by_hand.push(format!("If git-dibs is in {}, take it out there.", manager.config()));
        }
    }
    unprepare_server(repo, &mut report)?;
    Ok(report)
}

/// The path of this program that is most likely to stay: the name it has on PATH rather than where a link leads.
pub fn stable_program(running: &Path, search: Option<&std::ffi::OsStr>) -> PathBuf {
    let same = |candidate: &PathBuf| {
        let there = std::fs::canonicalize(candidate).ok();
        there.is_some() && there == std::fs::canonicalize(running).ok()
    };
    let dirs = search.map(|search| std::env::split_paths(search).collect::<Vec<_>>()).unwrap_or_default();
    let named = dirs.into_iter().filter(|dir| dir.is_absolute()).map(|dir| dir.join("git-dibs")).find(same);
    named.unwrap_or_else(|| running.to_owned())
}

fn install_in(dir: &HooksDir, wish: &Wish, report: &mut Report) -> Result<(), InstallError> {
    let moments = wish.moments();
    match &dir.owner {
        Owner::Repository => files::install(&dir.path, wish, &moments, report)?,
        Owner::Outside => report.by_hand.push(managers::outside_snippet(&dir.path, &moments)),
        Owner::Manager(manager) => {
            let (theirs, rest): (Vec<_>, Vec<_>) = moments.into_iter().partition(|moment| manager.runs(*moment));
            report.by_hand.push(manager.snippet(&theirs));
            if dir.is_ours_to_write() {
                files::install(&dir.path, wish, &rest, report)?;
            } else if !rest.is_empty() {
                let names = rest.iter().map(|moment| moment.name()).collect::<Vec<_>>().join(", ");
                report.by_hand.push(format!("{} cannot run {names}; git 2.54 or newer can.", manager.name()));
            }
        }
    }
    Ok(())
}

/// Set by us on a server, so that uninstalling knows whether to unset it.
const ADVERTISED: &str = "dibs.advertisesPushOptions";

fn prepare_server(repo: &Repo, report: &mut Report) -> Result<(), InstallError> {
    let options = repo.git().args(["config", "--bool", "receive.advertisePushOptions"]).answer()?;
    if options.as_deref().map(<[u8]>::trim_ascii) != Some(b"true") {
        set(repo, "receive.advertisePushOptions", "true")?;
        set(repo, ADVERTISED, "true")?;
        report.done.push("receive.advertisePushOptions=true, so that pushes can carry dibs-token=…".to_owned());
    }
    Ok(())
}

fn unprepare_server(repo: &Repo, report: &mut Report) -> Result<(), InstallError> {
    if repo.git().args(["config", "--local", ADVERTISED]).answer()?.is_some() {
        for name in [ADVERTISED, "receive.advertisePushOptions"] {
            repo.git().args(["config", "--local", "--unset-all", name]).everything()?;
        }
        report.done.push("receive.advertisePushOptions unset".to_owned());
    }
    Ok(())
}

fn set(repo: &Repo, name: &str, value: &str) -> Result<(), GitError> {
    local(repo, &[name, value]).output().map(drop)
}

fn local(repo: &Repo, args: &[&str]) -> Git {
    repo.git().args(["config", "--local"]).args(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wish_decides_which_hooks() {
        let wish = |strict, server| Wish { program: "/bin/x".into(), strict, server };
        assert_eq!(wish(false, false).moments().len(), 5);
        assert!(wish(true, false).moments().contains(&Moment::ReferenceTransaction));
        assert_eq!(wish(true, true).moments(), [Moment::PreReceive]);
    }

    #[test]
    fn the_name_on_path_is_preferred_to_where_its_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        let (store, bin) = (dir.path().join("store-1.2.3"), dir.path().join("bin"));
        std::fs::create_dir(&store).unwrap();
        std::fs::create_dir(&bin).unwrap();
        let real = store.join("git-dibs");
        std::fs::write(&real, "").unwrap();
        assert_eq!(stable_program(&real, Some(bin.as_os_str())), real);
        std::os::unix::fs::symlink(&real, bin.join("git-dibs")).unwrap();
        assert_eq!(stable_program(&real, Some(bin.as_os_str())), bin.join("git-dibs"));
        assert_eq!(stable_program(&real, None), real);
    }
}
