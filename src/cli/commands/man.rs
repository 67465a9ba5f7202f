//! `git-dibs man`: the manual pages, made from the help texts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::{Args as CommandLine, Exit, talk};

#[derive(clap::Args)]
pub struct Args {
    /// Write git-dibs.1 and a page for every command into this directory
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<Exit> {
    match args.dir {
        Some(dir) => write_pages(&dir)?,
        None => talk::program_text(&page(&built())?)?,
    }
    Ok(Exit::Ok)
}

/// Writes git-dibs.1 and a page for every command that is not hidden.
pub fn write_pages(dir: &Path) -> Result<()> {
    create_dir(dir)?;
    write_page(&built(), dir)
}

fn built() -> clap::Command {
    let mut command = CommandLine::command();
    command.build();
    command
}

/// The page of a command and of its subcommands.
fn write_page(command: &clap::Command, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    write_file(&dir.join(format!("{name}.1")), &page(command)?)?;
    let listed = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    command.get_subcommands().filter(listed).try_for_each(|sub| write_page(sub, dir))
}

fn page(command: &clap::Command) -> Result<String> {
    let mut roff = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut roff)?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

pub fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create the directory {}", dir.display()))
}

pub fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
