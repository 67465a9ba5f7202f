//! Shell completions, manual pages, and links under other names.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use clap_complete::Shell;

use super::rlock;
use crate::cli::{Args as Whole, Exit, talk};

/// The bash function that git's own completion calls for `git dibs`.
const GIT_BASH: &str = include_str!("completions/git.bash");

/// The fish function that completes `git dibs`. Fish loads it at its start, because it is about the command `git`.
const GIT_FISH: &str = include_str!("completions/git.fish");

#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell to print the script for
    #[arg(value_name = "SHELL", required_unless_present = "install", conflicts_with = "install")]
    shell: Option<Shell>,
    /// Install the scripts for bash, zsh and fish, and the manual pages, for your user
    #[arg(long)]
    install: bool,
    /// Install into this directory instead; /usr/local/share serves all users
    #[arg(long, value_name = "DIR", requires = "install")]
    dir: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct ManArgs {
    /// Write git-dibs.1 and a page for every command here; git dibs --help shows the first
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct LinksArgs {
    /// A directory, best one that is in PATH
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub fn completions(args: CompletionsArgs) -> Result<Exit> {
    match args.shell {
        Some(shell) => talk::data(&script(shell))?,
        None => install(args.dir)?,
    }
    Ok(Exit::Ok)
}

/// A script that completes both `git-dibs` and `git dibs`.
fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut visible(&Whole::command()), "git-dibs", &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        // The generator writes the dash of our name in two ways, so that no command's options would be found.
        Shell::Bash => text.replace("git__subcmd__dibs", "git__dibs") + GIT_BASH,
        Shell::Fish => text + "\n" + GIT_FISH,
        // zsh's completion of git calls _git-dibs by its name, and lists it with this description.
        Shell::Zsh => text.replacen('\n', "\n#description reserve files before you change them\n", 1),
        _ => text,
    }
}

/// The command without its hidden subcommands, which the generators would offer.
fn visible(command: &clap::Command) -> clap::Command {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    clap::Command::new("git-dibs")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(subcommands.cloned())
}

/// Writes everything under a `share` directory, at the places where each shell and `man` look.
fn install(dir: Option<PathBuf>) -> Result<()> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let (share, man) = match dir {
        Some(share) => (share.clone(), share.join("man")),
        None => {
            let home = home.context("cannot tell your home directory: set HOME, or name a directory with --dir")?;
            let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let share = data.unwrap_or_else(|| home.join(".local/share"));
            let man = man_dir(&home, &share)?;
            (share, man)
        }
    };
    let zsh = share.join("zsh/site-functions");
    let scripts = [
        (share.join("bash-completion/completions/git-dibs"), script(Shell::Bash)),
        (zsh.join("_git-dibs"), script(Shell::Zsh)),
        (share.join("fish/vendor_completions.d/git-dibs.fish"), script(Shell::Fish)),
        (share.join("fish/vendor_conf.d/git-dibs.fish"), GIT_FISH.to_owned()),
    ];
    let mut lines = String::new();
    for (file, text) in scripts {
        create_dir(file.parent().unwrap_or(&share))?;
        write(&file, &text)?;
        lines.push_str(&format!("{}\n", file.display()));
    }
    let man1 = man.join("man1");
    create_dir(&man1)?;
    let mut command = Whole::command();
    command.build();
    write_pages(&command, &man1)?;
    lines.push_str(&format!("{}\n", man1.join("git-dibs.1").display()));
    talk::data(&lines)?;
    if !["/usr/share", "/usr/local/share"].iter().any(|known| share == Path::new(known)) {
        talk::say(&format!("for zsh, add this to ~/.zshrc before compinit: fpath=({} $fpath)", zsh.display()));
    }
    talk::say("start a new shell to use them");
    Ok(())
}

/// Where `man` looks for pages of a user's own: in `share/man` beside each `bin` of PATH, so beside this program's where
/// that is the user's too, as after `cargo install`.
fn man_dir(home: &Path, share: &Path) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let bin = program.parent().filter(|dir| dir.file_name() == Some(&OsString::from("bin")) && dir.starts_with(home));
    Ok(match bin.and_then(Path::parent) {
        Some(prefix) => prefix.join("share/man"),
        None => share.join("man"),
    })
}

fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

pub fn man(args: ManArgs) -> Result<Exit> {
    let mut command = Whole::command();
    command.build();
    let Some(dir) = args.dir else {
        talk::data(&page(&command)?)?;
        return Ok(Exit::Ok);
    };
    create_dir(&dir)?;
    write_pages(&command, &dir)?;
    Ok(Exit::Ok)
}

fn write_pages(command: &clap::Command, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = dir.join(format!("{name}.1"));
    write(&file, &page(command)?)?;
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
        bail!("{} is not a directory; create it first, or name another", args.dir.display());
    }
    // Checks all names before it creates the first link: either all links are made or none.
    let mut missing = Vec::new();
    for name in rlock::NAMES {
        let link = args.dir.join(name);
        match (fs::read_link(&link), fs::symlink_metadata(&link)) {
            (Ok(target), _) if target == program => {}
            (Ok(target), _) if target.file_name() == program.file_name() => missing.push((link, true)),
            (_, Ok(_)) => {
                bail!("{} already exists and is not a link to git-dibs; move it, or name another directory", link.display())
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
