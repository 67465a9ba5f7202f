//! `git-dibs completions`: scripts for the tab key, printed or installed together with the manual pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::man::{create_dir, write_file, write_pages};
use crate::cli::{Args as CommandLine, Exit, talk};

/// The bash function that git's own completion calls for `git dibs`.
const GIT_BASH: &str = include_str!("completions/git.bash");

/// The fish rules for `git dibs`. They are about the command `git`, so fish has to load them when it starts.
const GIT_FISH: &str = include_str!("completions/git.fish");

#[derive(clap::Args)]
pub struct Args {
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

pub fn run(args: Args) -> Result<Exit> {
    match args.shell {
        Some(shell) => talk::program_text(&script(shell))?,
        None => install(&Destination::find(args.dir)?)?,
    }
    Ok(Exit::Ok)
}

/// A script that completes both `git-dibs` and `git dibs`.
fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(&CommandLine::command()), "git-dibs", &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        // clap_complete writes the dash of our name in two ways; the options of the commands would not be found.
        Shell::Bash => text.replace("git__subcmd__dibs", "git__dibs") + GIT_BASH,
        Shell::Fish => text + "\n" + GIT_FISH,
        // zsh's completion of git calls _git-dibs, and lists the command with this description.
        Shell::Zsh => text.replacen('\n', "\n#description reserve files before you change them\n", 1),
        _ => text,
    }
}

/// The command without its hidden subcommands, which clap_complete would offer too.
fn without_hidden(command: &clap::Command) -> clap::Command {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    clap::Command::new("git-dibs")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(subcommands.cloned())
}

/// The directories that files are installed into.
struct Destination {
    /// The `share` directory of the scripts.
    share: PathBuf,
    /// The directory that has `man1`.
    man: PathBuf,
}

impl Destination {
    fn find(dir: Option<PathBuf>) -> Result<Destination> {
        if let Some(share) = dir {
            return Ok(Destination { man: share.join("man"), share });
        }
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let home = home.context("cannot find your home directory: set HOME, or name a directory with --dir")?;
        let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let share = data.unwrap_or_else(|| home.join(".local/share"));
        // `man` searches share/man beside every bin directory in PATH. After `cargo install`, this program is in one.
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let bin = program.parent().filter(|dir| dir.ends_with("bin") && dir.starts_with(&home));
        let man = match bin.and_then(Path::parent) {
            Some(prefix) => prefix.join("share/man"),
            None => share.join("man"),
        };
        Ok(Destination { share, man })
    }
}

/// Writes every file to the place where its shell, or `man`, looks for it.
fn install(to: &Destination) -> Result<()> {
    let zsh = to.share.join("zsh/site-functions");
    let scripts = [
        (to.share.join("bash-completion/completions/git-dibs"), script(Shell::Bash)),
        (zsh.join("_git-dibs"), script(Shell::Zsh)),
        (to.share.join("fish/vendor_completions.d/git-dibs.fish"), script(Shell::Fish)),
        (to.share.join("fish/vendor_conf.d/git-dibs.fish"), GIT_FISH.to_owned()),
    ];
    let mut lines = String::new();
    for (file, text) in scripts {
        create_dir(file.parent().unwrap_or(&to.share))?;
        write_file(&file, &text)?;
        lines.push_str(&format!("{}\n", file.display()));
    }
    let pages = to.man.join("man1");
    write_pages(&pages)?;
    lines.push_str(&format!("{}\n", pages.join("git-dibs.1").display()));
    talk::data(&lines)?;
    if !["/usr/share", "/usr/local/share"].iter().any(|known| to.share == Path::new(known)) {
        talk::say(&format!("for zsh, add this to ~/.zshrc before compinit: fpath=({} $fpath)", zsh.display()));
    }
    if !finds_pages(&to.man) {
        let man = to.man.display();
        talk::say(&format!("for git help dibs, add this to your shell's profile: export MANPATH=\"{man}:$MANPATH\""));
    }
    talk::say("start a new shell to use them");
    Ok(())
}

/// Whether `man` looks into this directory. Without `man` there is nothing to say about it.
fn finds_pages(dir: &Path) -> bool {
    let Ok(output) = Command::new("manpath").arg("-q").stderr(Stdio::null()).output() else { return true };
    let search = String::from_utf8_lossy(&output.stdout).into_owned();
    let same = |known: &Path| known == dir || known.canonicalize().ok() == dir.canonicalize().ok();
    std::env::split_paths(search.trim_end()).any(|known| same(&known))
}
