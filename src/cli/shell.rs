//! What a shell and a reader of manuals want: completions, man pages, and links under other names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::CommandFactory;

use super::{Args as Whole, Exit, rlock, talk};

/// Prints a completion script.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell it is for
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints the manual page, or writes all of them into a directory.
#[derive(clap::Args)]
pub struct ManArgs {
    /// Write git-dibs.1 and a page for every command here; git dibs --help shows the first
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Links rlock, runlock and rlock-heartbeat to this program.
#[derive(clap::Args)]
pub struct LinksArgs {
    /// A directory, best one that is in PATH
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub fn completions(args: CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Whole::command(), "git-dibs", &mut script);
    talk::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}

pub fn man(args: ManArgs) -> Result<Exit> {
    let mut command = Whole::command();
    command.build();
    let Some(dir) = args.dir else {
        talk::data(&page(&command)?)?;
        return Ok(Exit::Ok);
    };
    fs::create_dir_all(&dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
    write_pages(&command, &dir)?;
    Ok(Exit::Ok)
}

fn write_pages(command: &clap::Command, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = dir.join(format!("{name}.1"));
    fs::write(&file, page(command)?).with_context(|| format!("cannot write {}", file.display()))?;
    let shown = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|sub| write_pages(sub, dir))
}

fn page(command: &clap::Command) -> Result<String> {
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut roff)?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

pub fn links(args: LinksArgs) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    if !args.dir.is_dir() {
        bail!("{} is not a directory; make it first, or name another", args.dir.display());
    }
    // All are looked at before any is made, so that nothing is half done.
    let mut missing = Vec::new();
    for name in rlock::NAMES {
        let link = args.dir.join(name);
        match (fs::read_link(&link), fs::symlink_metadata(&link)) {
            (Ok(target), _) if target == program => {}
            (Ok(target), _) if target.file_name() == program.file_name() => missing.push((link, true)),
            (_, Ok(_)) => {
                bail!("{} is there already and is not ours; move it away, or name another directory", link.display())
            }
            (_, Err(_)) => missing.push((link, false)),
        }
    }
    for (link, is_old) in missing {
        if is_old {
            fs::remove_file(&link).with_context(|| format!("cannot replace {}", link.display()))?;
        }
        symlink(&program, &link).with_context(|| format!("cannot make {}", link.display()))?;
    }
    let lines: String = rlock::NAMES.iter().map(|name| format!("{}\n", args.dir.join(name).display())).collect();
    talk::data(&lines)?;
    Ok(Exit::Ok)
}
