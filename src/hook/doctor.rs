//! The doctor: does all of this really work here, and if not, what to do?
//!
//! A hook that is installed but never run is the worst kind, so every hook is run in every worktree, by git itself, with
//! [`super::PROBE`] set: the program then only answers that it was reached.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::client::{Endpoint, Limits};
use crate::git::{Git, GitError, Repo, Settings, Version, worktrees};
use crate::wire;

use super::install::{HooksDir, Manager, Owner, config_keys, hooks_dirs};
use super::shim::{Whose, whose};
use super::{AskError, Moment, PROBE, Policy, ask, probe_answer, text};
use crate::local::{Environment, Found};

/// A server's clock further off than this confuses people who read its times.
const SKEW_MAX: Duration = Duration::from_secs(5);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// Works, but worth knowing.
    Note,
    /// Does not work.
    Bad,
}

/// One thing the doctor looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// What a server tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    version: String,
    /// Its clock, and ours in the same moment.
    clocks: Option<(SystemTime, SystemTime)>,
}

/// Looks at everything.
pub fn examine(repo: &Repo, environment: &Environment) -> Vec<Finding> {
    let mut findings = Findings::default();
    let git = findings.versions(repo);
    let in_config = git.is_some_and(|git| git >= Version::CONFIG_HOOKS);
    match hooks_dirs(repo) {
        Ok(dirs) => findings.hooks(repo, &dirs, in_config),
        Err(error) => findings.bad(error.to_string(), "Is this a git repository?"),
    }
    match Settings::of(repo) {
        Ok(settings) => {
            findings.settings(environment, &settings);
            match ask::find(None, repo, environment, &settings).and_then(|found| Ok((look(&found)?, found))) {
                Ok((seen, found)) => findings.server(&found, &seen),
                Err(error) => findings.silence(&error),
            }
        }
        Err(error) => findings.bad(error.to_string(), "Repair git's configuration."),
    }
    findings.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn versions(&mut self, repo: &Repo) -> Option<Version> {
        let own = env!("CARGO_PKG_VERSION");
        let git = Version::of_git();
        match &git {
            Ok(git) if *git < Version::OLDEST => {
                let advice = format!("Use git {} or newer.", Version::OLDEST);
                self.bad(format!("git {git} is older than git-dibs {own} is tested with"), &advice);
            }
            Ok(git) => self.good(format!("git-dibs {own}, git {git}")),
            Err(error) => self.bad(error.to_string(), "Install git."),
        }
        if git2::Repository::open(&repo.git_dir).is_err() {
            let what =
                "libgit2 cannot open this repository (format or owner), so the git program is asked for everything";
            self.note(what.to_owned(), "Nothing: answers are the same, a little slower.");
        }
        git.ok()
    }

    fn hooks(&mut self, repo: &Repo, dirs: &[HooksDir], in_config: bool) {
        let gone = worktrees(repo).unwrap_or_default().into_iter().filter(|worktree| worktree.gone);
        for worktree in gone {
            let what = format!("the worktree {} no longer exists", worktree.path.display());
            self.note(what, "Forget it with: git worktree prune");
        }
        for dir in dirs {
            let there = Moment::ALL.map(|moment| (moment, Effective::find(repo, dir, moment, in_config)));
            for top in &dir.worktrees {
                for (moment, how) in there.iter().filter(|(moment, _)| is_expected(repo, *moment, &there)) {
                    self.hook(top, dir, *moment, how);
                }
            }
        }
    }

    fn hook(&mut self, top: &Path, dir: &HooksDir, moment: Moment, how: &Effective) {
        let place = top.display();
        let install = match dir.owner {
            Owner::Repository => "Run: git dibs install".to_owned(),
            Owner::Outside => "Run: git dibs install, and follow what it prints.".to_owned(),
            Owner::Manager(manager) => {
                format!("Run: git dibs install, and put what it prints into {}", manager.config())
            }
        };
        match how {
            Effective::Missing => self.bad(format!("{moment} is not installed in {place}"), &install),
            Effective::Foreign => {
                let file = dir.path.join(moment.name());
                self.bad(format!("{} in {place} does not lead to git-dibs", file.display()), &install);
            }
            Effective::Ours { gently } => match fires(top, moment, *gently) {
                Ok(true) => self.good(format!("{moment} fires in {place}")),
                Ok(false) => {
                    let what = format!("{moment} is installed, but running it in {place} did not reach git-dibs");
                    self.bad(what, &format!("{install}; if that does not help, see: git -C {place} hook run {moment}"));
                }
                Err(error) => self.bad(format!("{moment} in {place} could not be tried: {error}"), &install),
            },
        }
    }

    fn settings(&mut self, environment: &Environment, settings: &Settings) {
        let commit = Policy::read(Moment::PreCommit, environment, settings);
        let push = Policy::read(Moment::PrePush, environment, settings);
        for complaint in &commit.complaints {
            self.bad(complaint.clone(), "Correct the setting.");
        }
        let (enforce, require) = (&commit.enforce.source, &commit.require.source);
        let (at_commit, at_push) = (&commit.on_unreachable.source, &push.on_unreachable.source);
        self.good(format!("{enforce}; {require}; at a commit {at_commit}, at a push {at_push}"));
    }

    fn server(&mut self, found: &Found, seen: &Seen) {
        let (version, own) = (text::clean(&seen.version, 40), env!("CARGO_PKG_VERSION"));
        let at = found.endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" or ");
        self.good(format!("the server answers (git-dibs {version} at {at})"));
        if seen.version != own {
            self.note(format!("the server is {version}, this program {own}"), "Use the same version on both sides.");
        }
        match (&found.session, &found.credential) {
            (Some(session), _) => self.good(format!("the token speaks for session {}", text::clean(session, 130))),
            (None, Some(credential)) => {
                let from = &credential.from;
                let what = format!(
                    "no session works here; the token in {from} is a person's, kept only from what others hold"
                );
                self.note(what, "To reserve files yourself: git dibs session start");
            }
            (None, None) => {
                self.note("there is no token here".to_owned(), "Get one with: git dibs session start");
            }
        }
        if let Some((theirs, ours)) = seen.clocks {
            let skew = theirs.duration_since(ours).or_else(|_| ours.duration_since(theirs)).unwrap_or_default();
            if skew > SKEW_MAX {
                let what = format!("the server's clock and ours differ by {}", text::time_left(skew));
                self.note(what, "Set the clocks by NTP; reservations last as long as they should all the same.");
            } else {
                self.good("the server's clock agrees with ours".to_owned());
            }
        }
    }

    fn silence(&mut self, error: &AskError) {
        let advice = match error {
            AskError::Unreachable(_) => "Start it with: git dibs serve, or correct dibs.url or DIBS_URL.",
            AskError::Unauthorized(_) | AskError::Ended(_) => "Start a session with: git dibs session start",
            AskError::Broken(_) => "See whether dibs.url or DIBS_URL really names a git-dibs server.",
        };
        self.bad(text::clean(&error.to_string(), 600), advice);
    }

    fn good(&mut self, what: String) {
        self.0.push(Finding { level: Level::Good, what, advice: None });
    }

    fn note(&mut self, what: String, advice: &str) {
        self.0.push(Finding { level: Level::Note, what, advice: Some(advice.to_owned()) });
    }

    fn bad(&mut self, what: String, advice: &str) {
        self.0.push(Finding { level: Level::Bad, what, advice: Some(advice.to_owned()) });
    }
}

/// Asks the server how it is, and whether it takes our token.
fn look(found: &Found) -> Result<Seen, AskError> {
    let mut client = ask::client(found, Limits::default().total)?;
    let health = client.health().map_err(ask::failed)?;
    let ours = SystemTime::now();
    // A question about nothing is answered to whoever may ask.
    let nothing = wire::Check { paths: Some(Vec::new()), ..wire::Check::default() };
    client.check(found.session.as_deref(), &nothing).map_err(ask::failed)?;
    let theirs = health.now.and_then(|now| u64::try_from(now.0).ok());
    let clocks = theirs.map(|theirs| (SystemTime::UNIX_EPOCH + Duration::from_millis(theirs), ours));
    Ok(Seen { version: health.version.to_string(), clocks })
}

/// What git would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effective {
    /// Nothing.
    Missing,
    /// A script that never mentions us. It is not run: it may do anything.
    Foreign,
    /// A shim of ours, or somebody's script that calls us. The latter is run gently: with nothing staged.
    Ours { gently: bool },
}

impl Effective {
    fn find(repo: &Repo, dir: &HooksDir, moment: Moment, in_config: bool) -> Effective {
        let [command, _] = config_keys(moment);
        // An older git reads the keys as well as any other, and runs nothing.
        if in_config && matches!(repo.git().args(["config", "--get", &command]).answer(), Ok(Some(_))) {
            return Effective::Ours { gently: false };
        }
        let Ok(script) = std::fs::read(dir.path.join(moment.name())) else { return Effective::Missing };
        match whose(moment, &script) {
            Whose::Ours | Whose::OursChanged => Effective::Ours { gently: false },
            Whose::Foreign if mentions_us(&script) || manager_mentions_us(dir, moment) => {
                Effective::Ours { gently: true }
            }
            Whose::Foreign => Effective::Foreign,
        }
    }
}

/// Whether a hook should be there: those of people who work in a repository always do, `pre-receive` and
/// `reference-transaction` where they were installed. A bare repository that receives pushes needs no others.
fn is_expected(repo: &Repo, moment: Moment, there: &[(Moment, Effective)]) -> bool {
    let ours =
        |wanted: Moment| there.iter().any(|(moment, how)| *moment == wanted && matches!(how, Effective::Ours { .. }));
    match moment {
        Moment::PreReceive | Moment::ReferenceTransaction => ours(moment),
        _ => repo.work_dir.is_some() || !ours(Moment::PreReceive),
    }
}

/// Runs the hook as git would, and sees whether it got to us.
fn fires(top: &Path, moment: Moment, gently: bool) -> Result<bool, GitError> {
    let probe = uuid::Uuid::new_v4().simple().to_string();
    let mut call = Git::elsewhere(top);
    let nothing_staged = if gently { Some(index_of_head(top)?) } else { None };
    if let Some(index) = &nothing_staged {
        call = call.env("GIT_INDEX_FILE", index);
    }
    let call = call.env(PROBE, &probe).args(["hook", "run", "--ignore-missing", moment.name(), "--"]);
    let args: &[&str] = match moment {
        Moment::PrepareCommitMsg => &["/dev/null"],
        Moment::PrePush => &["dibs-probe", "dibs-probe"],
        Moment::ReferenceTransaction => &["prepared"],
        _ => &[],
    };
    let output = call.args(args).everything()?;
    if let Some(index) = nothing_staged {
        let _ = std::fs::remove_file(index);
    }
    let wanted = probe_answer(&probe, moment);
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).lines().any(|line| line.contains(&wanted)))
}

/// An index that equals HEAD, so that a manager's formatters find nothing to format.
fn index_of_head(top: &Path) -> Result<std::path::PathBuf, GitError> {
    let index = std::env::temp_dir().join(format!("dibs-index-{}", uuid::Uuid::new_v4().simple()));
    let read = |tree: &str| Git::elsewhere(top).env("GIT_INDEX_FILE", &index).args(["read-tree", tree]).output();
    // Before the first commit there is nothing to read; an index that does not exist is an empty one.
    read("HEAD").or_else(|_| read("--empty")).map(|_| index.clone())
}

fn mentions_us(script: &[u8]) -> bool {
    script.windows(8).any(|window| window == b"git-dibs")
}

fn manager_mentions_us(dir: &HooksDir, moment: Moment) -> bool {
    let Owner::Manager(manager) = dir.owner else { return false };
    let names: Vec<String> = match manager {
        Manager::Husky => vec![format!(".husky/{moment}")],
        Manager::Lefthook => ["lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", ".lefthook.yml"]
            .map(str::to_owned)
            .to_vec(),
        Manager::PreCommit => vec![".pre-commit-config.yaml".to_owned(), ".pre-commit-config.yml".to_owned()],
    };
    let mentions = |name: &String| dir.worktrees.iter().any(|top| reads_us(&top.join(name)));
    names.iter().any(mentions)
}

fn reads_us(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|text| mentions_us(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_clocks_that_differ_are_told() {
        let found = Found {
            endpoints: vec![Endpoint::parse("http://x:1").unwrap()],
            credential: None,
            session: None,
            repo: None,
            source: "DIBS_URL".to_owned(),
            secret_file: None,
        };
        let now = SystemTime::now();
        let told = |version: &str, skew: u64| {
            let seen = Seen { version: version.to_owned(), clocks: Some((now, now + Duration::from_secs(skew))) };
            let mut findings = Findings::default();
            findings.server(&found, &seen);
            findings.0.into_iter().map(|finding| (finding.level, finding.what)).collect::<Vec<_>>()
        };
        let off = told("9.9.9\x1b", 90);
        assert!(off.contains(&(Level::Note, "the server's clock and ours differ by 1 min 30 s".to_owned())), "{off:?}");
        let own = env!("CARGO_PKG_VERSION");
        assert!(off.contains(&(Level::Note, format!("the server is 9.9.9\\x1b, this program {own}"))), "{off:?}");
        assert!(off.contains(&(Level::Note, "there is no token here".to_owned())), "{off:?}");
        let fine = told(own, 1);
        assert_eq!(fine.iter().filter(|(level, _)| *level == Level::Note).count(), 1, "only the token: {fine:?}");
    }
}
