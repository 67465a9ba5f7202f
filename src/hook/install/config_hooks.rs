//! Hooks in git's configuration (git 2.54 and newer).
//!
//! They run in every worktree, whatever `core.hooksPath` is, beside the hooks in files. Git does not tell the command for
//! which event it runs, so each event has a name of its own. The command is a shim under the common directory, with the
//! same text as a hook file, so a program that has moved is noticed in the same way.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::{GitError, Repo};
use crate::text::shell;

use super::super::Moment;
use super::{InstallError, Report, Wish, files, local};

/// Under the common directory: the shims that the configuration names.
const SHIM_DIR: &str = "dibs/hooks";

/// The two configuration keys of an event: its command, and the event itself.
pub fn keys(moment: Moment) -> [String; 2] {
    [format!("hook.dibs-{moment}.command"), format!("hook.dibs-{moment}.event")]
}

/// The command for an event; git appends the hook's arguments.
///
/// The command first tests whether the shim exists: git's own message for a missing command does not say what to do.
pub fn command(moment: Moment, common_dir: &Path) -> Vec<u8> {
    let shim = shell::quote(shim_file(moment, common_dir).as_os_str().as_bytes());
    let code = if moment.is_push() { "1" } else { "0" };
    let gone = format!(
        " ] || {{ echo 'git-dibs: the hook is missing, so this {} was not checked; run: git dibs install' >&2; exit {code}; }}; exec ",
        moment.noun()
    );
    [b"[ -x ", shim.as_slice(), gone.as_bytes(), &shim].concat()
}

/// Writes the keys and the shims.
pub fn install(repo: &Repo, wish: &Wish, report: &mut Report) -> Result<(), InstallError> {
    let moments = wish.moments();
    let mut shims = Report::default();
    files::install(&repo.common_dir.join(SHIM_DIR), wish, &moments, &mut shims)?;
    let mut changed = !shims.done.is_empty();
    for moment in moments {
        let [command_key, event_key] = keys(moment);
        let wanted = command(moment, &repo.common_dir);
        if value(repo, &command_key)?.as_deref() != Some(wanted.as_slice()) {
            let wanted = std::ffi::OsStr::from_bytes(&wanted);
            if !wish.dry_run {
                local(repo, &["--replace-all", &command_key]).arg(wanted).output()?;
            }
            changed = true;
        }
        if value(repo, &event_key)?.as_deref() != Some(moment.name().as_bytes()) {
            if !wish.dry_run {
                local(repo, &["--replace-all", &event_key, moment.name()]).output()?;
            }
            changed = true;
        }
    }
    if changed {
        report.done.push("hook.dibs-* set in git's configuration, for git 2.54 and newer".to_owned());
    }
    report.by_hand.extend(shims.by_hand);
    Ok(())
}

/// Removes the keys and the shims.
pub fn uninstall(repo: &Repo, moments: &[Moment], report: &mut Report) -> Result<(), InstallError> {
    let mut changed = false;
    // One call for the usual case, that there is nothing to remove.
    if local(repo, &["--get-regexp", r"^hook\.dibs-"]).answer()?.is_some() {
        for moment in moments {
            let section = format!("hook.dibs-{moment}");
            if value(repo, &format!("{section}.command"))?.is_some() {
                local(repo, &["--remove-section", &section]).output()?;
                changed = true;
            }
        }
    }
    let dir = repo.common_dir.join(SHIM_DIR);
    if dir.is_dir() {
        let mut shims = Report::default();
        files::uninstall(&dir, moments, &mut shims)?;
        changed |= !shims.done.is_empty();
        report.by_hand.extend(shims.by_hand);
        // Fails, and may fail, if a script that was edited by hand is still there.
        let _ = std::fs::remove_dir(&dir);
    }
    if changed {
        report.done.push("hook.dibs-* removed from git's configuration".to_owned());
    }
    Ok(())
}

fn shim_file(moment: Moment, common_dir: &Path) -> PathBuf {
    common_dir.join(SHIM_DIR).join(moment.name())
}

fn value(repo: &Repo, key: &str) -> Result<Option<Vec<u8>>, GitError> {
    let found = local(repo, &["-z", "--get", key]).answer()?;
    Ok(found.map(|mut value| {
        value.pop_if(|last| *last == 0);
        value
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> (tempfile::TempDir, Repo) {
        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init(dir.path()).unwrap();
        let repo = Repo::at(dir.path()).unwrap();
        (dir, repo)
    }

    #[test]
    fn each_event_has_keys_of_its_own() {
        let keys: Vec<String> = Moment::ALL.iter().flat_map(|moment| keys(*moment)).collect();
        assert_eq!(keys[0], "hook.dibs-pre-commit.command");
        assert_eq!(keys[1], "hook.dibs-pre-commit.event");
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), 16);
    }

    #[test]
    fn installing_twice_changes_nothing_and_uninstalling_leaves_nothing() {
        let (_dir, repo) = repository();
        let config = repo.common_dir.join("config");
        let before = std::fs::read(&config).unwrap();
        let wish = Wish { program: "/opt/git-dibs".into(), strict: true, server: false, dry_run: false };
        let mut report = Report::default();
        install(&repo, &wish, &mut report).unwrap();
        assert_eq!(report.done.len(), 1, "{report:?}");
        let installed = std::fs::read(&config).unwrap();
        let mut again = Report::default();
        install(&repo, &wish, &mut again).unwrap();
        assert_eq!(again, Report::default());
        assert_eq!(std::fs::read(&config).unwrap(), installed);
        uninstall(&repo, &Moment::ALL, &mut Report::default()).unwrap();
        assert_eq!(std::fs::read(&config).unwrap(), before);
        assert!(!repo.common_dir.join(SHIM_DIR).exists());
    }

    /// As git runs it: the command, then the arguments in double quotes.
    fn run(command: &[u8]) -> std::process::Output {
        let script = [command, b" \"$@\""].concat();
        let script = std::ffi::OsStr::from_bytes(&script);
        std::process::Command::new("sh").arg("-c").arg(script).args(["hook", "one two"]).output().unwrap()
    }

    #[test]
    fn the_command_passes_its_arguments_and_notices_a_missing_shim() {
        let dir = tempfile::tempdir().unwrap();
        let common = dir.path().join("it's a dir");
        let gone = run(&command(Moment::PreCommit, &common));
        assert_eq!(gone.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&gone.stderr).contains("this commit was not checked"));
        assert_eq!(run(&command(Moment::PrePush, &common)).status.code(), Some(1));
        let shim = shim_file(Moment::PreCommit, &common);
        std::fs::create_dir_all(shim.parent().unwrap()).unwrap();
        std::fs::write(&shim, "#!/bin/sh\necho \"<$1>\"; exit 7\n").unwrap();
        std::fs::set_permissions(&shim, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let ran = run(&command(Moment::PreCommit, &common));
        assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(7), &b"<one two>\n"[..]));
    }
}
