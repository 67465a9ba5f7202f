//! Shim files in a hooks directory.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::Moment;
use super::super::shim::{Whose, shim, whose};
use super::{InstallError, Report, Wish};

/// Writes the shims into `dir`. A hook that exists already is kept as `<hook>.dibs-next`, and the shim runs it.
///
/// `pre-commit install` does the same with our shim: it moves it to `<hook>.legacy` and runs it from there. It stays there,
/// because otherwise both would run.
pub fn install(dir: &Path, wish: &Wish, moments: &[Moment], report: &mut Report) -> Result<(), InstallError> {
    if !wish.dry_run
        && let Err(error) = fs::create_dir_all(dir)
    {
        let dir = dir.display();
        report.by_hand.push(format!(
            "Git looks for hooks in {dir}, which cannot be created ({error}); unset core.hooksPath or make it absolute."
        ));
        return Ok(());
    }
    for &moment in moments {
        let mut file = dir.join(moment.name());
        let wanted = shim(moment, &wish.program);
        if has_legacy(&file, moment)? {
            let (kept, legacy) = (next_of(&file), legacy_of(&file));
            // The shim looks for the hook that was there before under its own new name. Pre-commit's own hook is not
            // wanted there: it runs already.
            if read(&kept)?.is_some_and(|text| !is_pre_commit(&text)) {
                if !wish.dry_run {
                    fs::rename(&kept, next_of(&legacy)).map_err(failed(&kept, "renamed"))?;
                }
                report.done.push(format!("{} is kept and runs as {}", kept.display(), next_of(&legacy).display()));
            }
            file = legacy;
        }
        let there = read(&file)?;
        match there.as_deref().map(|text| (whose(moment, text), text)) {
            Some((Whose::Ours, text)) if text == wanted => continue,
            Some((Whose::OursChanged, _)) => {
                let file = file.display();
                report.by_hand.push(format!(
                    "{file} was edited by hand and stays as it is; to install it again, delete it first."
                ));
                continue;
            }
            Some((Whose::Foreign, text)) if !keep(&file, text, wish.dry_run, report)? => continue,
            _ => {}
        }
        if !wish.dry_run {
            replace(&file, &wanted)?;
        }
        report.done.push(format!("{} installed", file.display()));
    }
    Ok(())
}

/// Removes the shims in `dir` and renames the kept hooks back.
pub fn uninstall(dir: &Path, moments: &[Moment], report: &mut Report) -> Result<(), InstallError> {
    for &moment in moments {
        let file = dir.join(moment.name());
        let next = next_of(&file);
        if has_legacy(&file, moment)? {
            uninstall_legacy(&file, report)?;
            continue;
        }
        match read(&file)?.map(|text| whose(moment, &text)) {
            Some(Whose::Ours) => {
                // A single rename, so that there is no time without a hook.
                if exists(&next) {
                    fs::rename(&next, &file).map_err(failed(&next, "renamed back"))?;
                    report.done.push(format!("{} is the hook again that was there before", file.display()));
                } else {
                    fs::remove_file(&file).map_err(failed(&file, "removed"))?;
                    report.done.push(format!("{} removed", file.display()));
                }
            }
            Some(Whose::OursChanged) => {
                let file = file.display();
                report.by_hand.push(format!("{file} was edited by hand and stays as it is; remove git-dibs from it."));
            }
            Some(Whose::Foreign) if exists(&next) => {
                let (file, next) = (file.display(), next.display());
                report.by_hand.push(format!(
                    "{file} does not belong to git-dibs, but {next} is beside it; keep the one you want."
                ));
            }
            Some(Whose::Foreign) | None => {}
        }
    }
    Ok(())
}

fn next_of(file: &Path) -> PathBuf {
    with_suffix(file, ".dibs-next")
}

fn legacy_of(file: &Path) -> PathBuf {
    with_suffix(file, ".legacy")
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether pre-commit has moved our shim aside and runs it from there.
fn has_legacy(file: &Path, moment: Moment) -> Result<bool, InstallError> {
    let is_ours = |text: &[u8]| whose(moment, text) == Whose::Ours;
    Ok(read(&legacy_of(file))?.is_some_and(|text| is_ours(&text))
        && read(file)?.is_some_and(|text| is_pre_commit(&text)))
}

/// Whether a hook is the one that pre-commit writes, or prek, which works alike.
fn is_pre_commit(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains("hook-impl")
}

fn uninstall_legacy(file: &Path, report: &mut Report) -> Result<(), InstallError> {
    let (legacy, next) = (legacy_of(file), next_of(file));
    fs::remove_file(&legacy).map_err(failed(&legacy, "removed"))?;
    report.done.push(format!("{} removed", legacy.display()));
    // The hook that our shim ran. If it was pre-commit's own, there is a newer one now; another one is pre-commit's to run.
    for kept in [next, next_of(&legacy)] {
        match read(&kept)? {
            Some(text) if is_pre_commit(&text) => fs::remove_file(&kept).map_err(failed(&kept, "removed"))?,
            Some(_) => fs::rename(&kept, &legacy).map_err(failed(&kept, "renamed back"))?,
            None => {}
        }
    }
    Ok(())
}

/// Keeps an existing hook under its second name. False if another hook has that name already.
fn keep(file: &Path, text: &[u8], dry_run: bool, report: &mut Report) -> Result<bool, InstallError> {
    let next = next_of(file);
    if exists(&next) {
        if read(&next)?.as_deref() == Some(text) {
            return Ok(true);
        }
        let (file, next) = (file.display(), next.display());
        report
            .by_hand
            .push(format!("{file} cannot be kept because {next} exists; move one of them away and install again."));
        return Ok(false);
    }
    // First the second name, later our shim in place of the first: there is no time without the old hook.
    if !dry_run && fs::hard_link(file, &next).is_err() {
        fs::rename(file, &next).map_err(failed(file, "renamed"))?;
    }
    report.done.push(format!("{} is kept and runs as {}", file.display(), next.display()));
    Ok(true)
}

fn replace(file: &Path, text: &[u8]) -> Result<(), InstallError> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".dibs-new-{}", std::process::id()));
    let new = PathBuf::from(name);
    let write = || -> std::io::Result<()> {
        let mut out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&new)?;
        out.write_all(text)?;
        // The umask limits the mode of open, and git skips a hook that is not executable.
        out.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        fs::rename(&new, file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&new))).map_err(failed(file, "written"))
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, InstallError> {
    match fs::read(file) {
        Ok(text) => Ok(Some(text)),
        // A dangling link is an existing hook too.
        Err(error) if error.kind() == ErrorKind::NotFound && exists(file) => Ok(Some(Vec::new())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(failed(file, "read")(error)),
    }
}

fn exists(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok()
}

fn failed(path: &Path, verb: &'static str) -> impl Fn(std::io::Error) -> InstallError {
    move |error| InstallError::File { path: path.to_owned(), verb, error }
}
