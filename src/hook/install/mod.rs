//! Installing and uninstalling the hooks.
//!
//! Several gits may be installed on one machine, so both kinds of hooks are installed: hooks in git's configuration,
//! which git 2.54 runs wherever `core.hooksPath` points, and shim files, which every git runs. Where both run, the second
//! one leaves at once (see `once`). If a hook manager owns the directory or it is outside this repository, an older git
//! needs a text in another file, which is only printed. Nothing is ever written outside the repository.

mod config_hooks;
mod files;
pub mod lfs;
mod managers;
mod places;

use std::path::{Path, PathBuf};

use crate::git::{Git, GitError, Repo, Version};

use super::Moment;

pub use config_hooks::{command as config_command, keys as config_keys};
pub use managers::Manager;
pub use places::{HooksDir, Owner, SettingsScope, as_user, hooks_dirs};

/// What to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The program that the hooks run; an absolute path.
    pub program: PathBuf,
    /// Also check every ref update (`reference-transaction`).
    pub strict: bool,
    /// The repository receives pushes: install `pre-receive` instead of the hooks for commits.
    pub server: bool,
    /// Change nothing; the report says what would be done.
    pub dry_run: bool,
}

impl Wish {
    /// The hooks to install.
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

/// What was done, and what is left to do by hand, in sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What was changed, a line each; empty if everything was installed already.
    pub done: Vec<String>,
    /// What the user has to do, and how.
    pub by_hand: Vec<String>,
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{path} could not be {verb}: {error}")]
    File {
        path: PathBuf,
        /// What was tried: "read", "written" …
        verb: &'static str,
        error: std::io::Error,
    },
    /// The program's path cannot be written into a script.
    #[error("a hook cannot run the program {0:?}; install it under an absolute path without line feeds")]
    Program(PathBuf),
}

/// Installs the hooks, or updates them. Installing twice changes nothing.
pub fn install(repo: &Repo, wish: &Wish) -> Result<Report, InstallError> {
    let nameable = wish.program.is_absolute() && !wish.program.as_os_str().as_encoded_bytes().contains(&b'\n');
    if !nameable {
        return Err(InstallError::Program(wish.program.clone()));
    }
    let mut report = Report::default();
    // Pushes to a server may come from other users, who cannot open the directory that the configuration names.
    let in_config = !wish.server;
    let by_hand = !in_config || Version::oldest_on_machine()? < Version::CONFIG_HOOKS;
    match in_config {
        true => config_hooks::install(repo, wish, &mut report)?,
        false if wish.dry_run => {}
        false => config_hooks::uninstall(repo, &wish.moments(), &mut report)?,
    }
    for dir in hooks_dirs(repo, SettingsScope::Stored)? {
        install_in(&dir, wish, by_hand, &mut report)?;
    }
    if wish.server {
        prepare_server(repo, wish.dry_run, &mut report)?;
    }
    Ok(report)
}

/// Whether hooks of ours are in git's configuration, where [`install`] puts them.
pub fn is_installed(repo: &Repo) -> Result<bool, InstallError> {
    Ok(local(repo, &["--get-regexp", r"^hook\.dibs-"]).answer()?.is_some())
}

/// Removes what [`install`] installed, and restores what was there before, byte for byte.
pub fn uninstall(repo: &Repo) -> Result<Report, InstallError> {
    let mut report = Report::default();
    config_hooks::uninstall(repo, &Moment::ALL, &mut report)?;
    for dir in hooks_dirs(repo, SettingsScope::Stored)? {
        if dir.is_ours_to_write() {
            files::uninstall(&dir.path, &Moment::ALL, &mut report)?;
        }
        if let Owner::Manager(manager) = dir.owner
            && manager.needs_snippet()
        {
            report.by_hand.push(format!("If git-dibs is in {}, remove it there.", manager.config()));
        }
    }
    unprepare_server(repo, &mut report)?;
    lfs::uninstall(repo, &mut report)?;
    Ok(report)
}

/// The path of this program that is most likely to stay valid: its name on PATH rather than the target of a link.
pub fn stable_program(running: &Path, search: Option<&std::ffi::OsStr>) -> PathBuf {
    let same = |candidate: &PathBuf| {
        let there = std::fs::canonicalize(candidate).ok();
        there.is_some() && there == std::fs::canonicalize(running).ok()
    };
    let dirs = search.map(|search| std::env::split_paths(search).collect::<Vec<_>>()).unwrap_or_default();
    let named = dirs.into_iter().filter(|dir| dir.is_absolute()).map(|dir| dir.join("git-dibs")).find(same);
    named.unwrap_or_else(|| running.to_owned())
}

/// Writes shim files, or tells what to add to the files of others, if the git here needs that.
fn install_in(dir: &HooksDir, wish: &Wish, by_hand: bool, report: &mut Report) -> Result<(), InstallError> {
    let moments = wish.moments();
    match &dir.owner {
        Owner::Repository => files::install(&dir.path, wish, &moments, report)?,
        Owner::Manager(manager) if dir.is_ours_to_write() && !manager.needs_snippet() => {
            files::install(&dir.path, wish, &moments, report)?;
        }
        _ if !by_hand => {}
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

/// Set together with `receive.advertisePushOptions`, so that uninstalling knows whether to unset that.
const ADVERTISED: &str = "dibs.advertisesPushOptions";

fn prepare_server(repo: &Repo, dry_run: bool, report: &mut Report) -> Result<(), InstallError> {
    let options = repo.git().args(["config", "--bool", "receive.advertisePushOptions"]).answer()?;
    if options.as_deref().map(<[u8]>::trim_ascii) != Some(b"true") {
        if !dry_run {
            set(repo, "receive.advertisePushOptions", "true")?;
            set(repo, ADVERTISED, "true")?;
        }
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
    fn the_wish_decides_which_hooks_are_installed() {
        let wish = |strict, server| Wish { program: "/bin/x".into(), strict, server, dry_run: false };
        assert_eq!(wish(false, false).moments().len(), 6);
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
