//! The doctor: tests whether hooks and server work here, and says what to do if not.
//!
//! An installed hook that git never runs would go unnoticed. Therefore git runs every hook in every worktree, with
//! [`super::PROBE`] set: the program then only answers that it was reached.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::client::{Endpoint, Limits};
use crate::git::{Git, GitError, Repo, Settings, Version, worktrees};
use crate::text::terminal;
use crate::wire;

use super::install::{HooksDir, Manager, Owner, SettingsScope, as_user, config_keys, hooks_dirs};
use super::shim::{Whose, whose};
use super::{Moment, PROBE, doctor_lfs, probe_answer};
use crate::judge::{CheckError, CheckPolicy, Enforce};
use crate::local::{Environment, Lookup, ServerAccess, agent_trouble, discover, notices};

/// A larger difference between the server's clock and this machine's is reported.
const SKEW_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It works.
    Good,
    /// It works, but is worth knowing.
    Note,
    /// It does not work.
    Bad,
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// What was found, as a sentence.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// What a server tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerStatus {
    version: String,
    /// The server's clock, and this machine's at the same time.
    clocks: Option<(SystemTime, SystemTime)>,
}

/// Tests everything.
pub fn examine(repo: &Repo, environment: &Environment) -> Vec<Finding> {
    let mut findings = Findings::default();
    let git = findings.versions(repo);
    let in_config = git.is_some_and(|git| git >= Version::CONFIG_HOOKS);
    match hooks_dirs(repo, SettingsScope::AsUser) {
        Ok(dirs) => findings.hooks(repo, &dirs, in_config),
        Err(error) => findings.bad(error.to_string(), "Check that this is a git repository."),
    }
    match Settings::of(repo) {
        Ok(settings) => {
            findings.settings(environment, &settings);
            match reach(repo, environment, &settings) {
                Ok((access, server)) => {
                    findings.server(&access, &server);
                    doctor_lfs::examine(repo, &access, &mut findings);
                }
                Err(error) => findings.unreachable(&error),
            }
        }
        Err(error) => findings.bad(error.to_string(), "Repair git's configuration."),
    }
    findings.agents(repo);
    findings.0
}

/// What to do where a hook is missing.
fn how_to_install(dir: &HooksDir) -> String {
    match dir.owner {
        Owner::Repository => "Run: git dibs install".to_owned(),
        Owner::Outside => "Run: git dibs install, and follow what it prints.".to_owned(),
        Owner::Manager(manager) => {
            format!("Run: git dibs install, and add what it prints to {}", manager.config())
        }
    }
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    fn versions(&mut self, repo: &Repo) -> Option<Version> {
        let own = env!("CARGO_PKG_VERSION");
        let git = Version::of_git();
        match &git {
            Ok(git) if *git < Version::OLDEST => {
                let advice = format!("Use git {} or newer.", Version::OLDEST);
                self.bad(format!("git {git} is too old for git-dibs {own}"), &advice);
            }
            Ok(git) => self.good(format!("git-dibs {own}, git {git}")),
            Err(error) => self.bad(error.to_string(), "Install git."),
        }
        if git2::Repository::open(&repo.git_dir).is_err() {
            let what =
                "libgit2 cannot open this repository (format or owner), so git-dibs runs the git program instead";
            self.note(what.to_owned(), "Nothing to do; hooks are a little slower.");
        }
        git.ok()
    }

    fn hooks(&mut self, repo: &Repo, dirs: &[HooksDir], in_config: bool) {
        let gone = worktrees(repo).unwrap_or_default().into_iter().filter(|worktree| worktree.gone);
        for worktree in gone {
            let what = format!("the worktree {} no longer exists", worktree.path.display());
            self.note(what, "Remove it from git's list with: git worktree prune");
        }
        for dir in dirs {
            for top in &dir.worktrees {
                let there = Moment::ALL.map(|moment| (moment, Effective::find(top, dir, moment, in_config)));
                let expected = there.iter().filter(|(moment, _)| is_expected(repo, *moment, &there));
                let (missing, present): (Vec<&(Moment, Effective)>, Vec<_>) =
                    expected.partition(|(_, how)| *how == Effective::Missing);
                for (moment, how) in present {
                    self.hook(top, dir, *moment, how);
                }
                self.missing(top, dir, &missing.iter().map(|(moment, _)| moment.name()).collect::<Vec<_>>());
            }
        }
    }

    /// One finding for all hooks that are missing in a worktree.
    fn missing(&mut self, top: &Path, dir: &HooksDir, hooks: &[&str]) {
        let what = match hooks {
            [] => return,
            [hook] => format!("{hook} is not installed in {}", top.display()),
            hooks => format!("{} are not installed in {}", hooks.join(", "), top.display()),
        };
        self.bad(what, &how_to_install(dir));
    }

    fn hook(&mut self, top: &Path, dir: &HooksDir, moment: Moment, how: &Effective) {
        let (place, install) = (top.display(), how_to_install(dir));
        match how {
            // Reported with the others that are missing.
            Effective::Missing => {}
            Effective::Foreign => {
                let file = dir.path.join(moment.name());
                self.bad(format!("{} in {place} does not run git-dibs", file.display()), &install);
            }
            Effective::Ours { gently } => match fires(top, moment, *gently) {
                Ok(true) => {
                    let through = match dir.owner {
                        Owner::Manager(manager) if *gently => format!(" through {}", manager.name()),
                        _ => String::new(),
                    };
                    self.good(format!("{moment} works{through} in {place}"));
                }
                Ok(false) if *gently && matches!(dir.owner, Owner::Manager(_)) => {
                    let Owner::Manager(manager) = dir.owner else { return };
                    let name = manager.name();
                    let what = format!("{moment} does not fire in {place}: {name} is set up to run it, and did not");
                    self.bad(what, &format!("{install}; then look at: git -C {place} hook run {moment}"));
                }
                Ok(false) => {
                    let what =
                        format!("{moment} is installed, but git-dibs was not reached when git ran it in {place}");
                    self.bad(
                        what,
                        &format!("{install}; if that does not help, look at: git -C {place} hook run {moment}"),
                    );
                }
                Err(error) => self.bad(format!("{moment} in {place} could not be run: {error}"), &install),
            },
        }
    }

    fn settings(&mut self, environment: &Environment, settings: &Settings) {
        let commit = CheckPolicy::read(&Moment::PreCommit.occasion(), environment, settings);
        let push = CheckPolicy::read(&Moment::PrePush.occasion(), environment, settings);
        for complaint in &commit.complaints {
            self.bad(complaint.clone(), "Correct the setting.");
        }
        let (enforce, require) = (&commit.enforce.source, &commit.require.source);
        let (at_commit, at_push) = (&commit.on_unreachable.source, &push.on_unreachable.source);
        let all = format!("{enforce}; {require}; at a commit {at_commit}, at a push {at_push}");
        match commit.enforce.value {
            Enforce::Block => self.good(all),
            Enforce::Warn => self.note(all, "Nothing is blocked here: conflicts are only reported."),
            Enforce::Off => {
                let what = format!("the hooks check nothing here ({enforce})");
                self.bad(what, "Unset it: git config --unset dibs.enforce, or unset DIBS_ENFORCE.");
            }
        }
    }

    fn server(&mut self, access: &ServerAccess, server: &ServerStatus) {
        let (version, own) = (terminal::clean(&server.version, 40), env!("CARGO_PKG_VERSION"));
        let at = access.endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" or ");
        self.good(format!("the server answers (git-dibs {version} at {at})"));
        if server.version != own {
            self.note(
                format!("the server is git-dibs {version}, this program is {own}"),
                "Use the same version on both sides.",
            );
        }
        match (&access.session, &access.credential) {
            (Some(session), _) => self.good(format!("the token belongs to session {}", terminal::clean(session, 130))),
            (None, Some(credential)) => {
                let from = &credential.from;
                let what = format!(
                    "no session works here; the token in {from} belongs to no session, so hooks only block what sessions hold"
                );
                self.note(
                    what,
                    match access.can_start_session() {
                        true => "To reserve files yourself: git dibs session start",
                        false => "To reserve files yourself, ask the person who runs the server for a worker token.",
                    },
                );
            }
            (None, None) => {
                self.note("there is no token here".to_owned(), "Get one with: git dibs session start");
            }
        }
        if let Some(warning) = access.token_warning() {
            self.note(warning, "A program that reads a token can act with it.");
        }
        if let Some((theirs, ours)) = server.clocks {
            let skew = theirs.duration_since(ours).or_else(|_| ours.duration_since(theirs)).unwrap_or_default();
            if skew > SKEW_MAX {
                let what =
                    format!("the clocks of the server and of this machine differ by {}", terminal::time_left(skew));
                self.note(what, "Set the clocks by NTP. Reservations still last as long as they should.");
            } else {
                self.good("the clocks of the server and of this machine agree".to_owned());
            }
        }
    }

    /// What the hooks of coding agents could not do, which they cannot say themselves.
    fn agents(&mut self, repo: &Repo) {
        for trouble in agent_trouble::list(&repo.common_dir) {
            let (agent, age) = (terminal::clean(&trouble.agent, 40), terminal::time_left(trouble.age));
            let what = format!("a hook of {agent} could not do its work {age} ago: {}", trouble.sentence);
            self.note(
                what,
                "If it happens again, repair that, or update git-dibs. dibs.onUnreachable says what hooks do then.",
            );
        }
    }

    fn unreachable(&mut self, error: &CheckError) {
        let advice = match error {
            // What a process gets that may not use sockets at all.
            CheckError::Unreachable(why) if why.contains("Operation not permitted") => {
                "This process may not connect to anything, as in the sandbox of some agents. Commits there follow \
                 dibs.onUnreachable; allow the agent network access to have them checked."
            }
            CheckError::Unreachable(_) => {
                "Start it with: git dibs serve --background, or correct dibs.url or DIBS_URL."
            }
            CheckError::Unauthorized(_) | CheckError::SessionEnded(_) => "Start a session with: git dibs session start",
            CheckError::BadReply(_) => "Check that dibs.url or DIBS_URL names a git-dibs server.",
        };
        self.bad(terminal::clean(&error.to_string(), 600), advice);
    }

    pub(super) fn good(&mut self, what: String) {
        self.0.push(Finding { level: Level::Good, what, advice: None });
    }

    pub(super) fn note(&mut self, what: String, advice: &str) {
        self.0.push(Finding { level: Level::Note, what, advice: Some(advice.to_owned()) });
    }

    pub(super) fn bad(&mut self, what: String, advice: &str) {
        self.0.push(Finding { level: Level::Bad, what, advice: Some(advice.to_owned()) });
    }
}

/// Finds the server and asks it for its status.
fn reach(
    repo: &Repo,
    environment: &Environment,
    settings: &Settings,
) -> Result<(ServerAccess, ServerStatus), CheckError> {
    let access = discover(&Lookup { may_start: true, ..Lookup::new(Some(repo), environment, settings) })?;
    if let Some(problem) = access.token_problem {
        return Err(CheckError::Unauthorized(problem));
    }
    let mut client = access.client(Limits::default())?;
    let health = client.health()?;
    let ours = SystemTime::now();
    // A check of no paths succeeds if the server accepts the token.
    let nothing = wire::Check { paths: Some(Vec::new()), ..wire::Check::default() };
    client.check(access.session.as_deref(), &nothing)?;
    if let Some(session) = &access.session {
        // The session's next command shows them.
        notices::save(&repo.common_dir, session, &access.inbox.take());
    }
    let theirs = health.now.and_then(|now| u64::try_from(now.0).ok());
    let clocks = theirs.map(|theirs| (SystemTime::UNIX_EPOCH + Duration::from_millis(theirs), ours));
    Ok((access, ServerStatus { version: health.version.to_string(), clocks }))
}

/// What git runs for a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effective {
    /// Nothing.
    Missing,
    /// A script that does not mention git-dibs. It is not run, because it may do anything.
    Foreign,
    /// Our shim, or another script that calls git-dibs. The latter is run `gently`: with nothing staged.
    Ours { gently: bool },
}

impl Effective {
    fn find(top: &Path, dir: &HooksDir, moment: Moment, in_config: bool) -> Effective {
        let [command, _] = config_keys(moment);
        // An older git has the keys too, but does not run them.
        let git = || as_user(Git::elsewhere(top));
        if in_config && matches!(git().args(["config", "--get", &command]).answer(), Ok(Some(_))) {
            return Effective::Ours { gently: false };
        }
        let Ok(script) = std::fs::read(dir.path.join(moment.name())) else { return Effective::Missing };
        match whose(moment, &script) {
            Whose::Ours | Whose::OursChanged => Effective::Ours { gently: false },
            Whose::Foreign if mentions_us(&script) || manager_mentions_us(dir, moment) || is_legacy(dir, moment) => {
                Effective::Ours { gently: true }
            }
            Whose::Foreign => Effective::Foreign,
        }
    }
}

/// Whether a hook should be installed: `pre-receive` and `reference-transaction` only if they are, the others always,
/// except in a bare repository that receives pushes.
fn is_expected(repo: &Repo, moment: Moment, there: &[(Moment, Effective)]) -> bool {
    let ours =
        |wanted: Moment| there.iter().any(|(moment, how)| *moment == wanted && matches!(how, Effective::Ours { .. }));
    match moment {
        Moment::PreReceive | Moment::ReferenceTransaction => ours(moment),
        _ => repo.work_dir.is_some() || !ours(Moment::PreReceive),
    }
}

/// Lets git run the hook, and tells whether git-dibs was reached.
fn fires(top: &Path, moment: Moment, gently: bool) -> Result<bool, GitError> {
    let probe = uuid::Uuid::new_v4().simple().to_string();
    let mut call = as_user(Git::elsewhere(top));
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

/// Whether pre-commit runs our shim from where it moved it.
fn is_legacy(dir: &HooksDir, moment: Moment) -> bool {
    std::fs::read(dir.path.join(format!("{moment}.legacy"))).is_ok_and(|script| whose(moment, &script) == Whose::Ours)
}

fn manager_mentions_us(dir: &HooksDir, moment: Moment) -> bool {
    let Owner::Manager(manager) = dir.owner else { return false };
    let mut names = manager.config_files();
    if manager == Manager::Husky {
        names.push(format!(".husky/{moment}"));
    }
    if manager == Manager::Lefthook {
        names.push(format!(".lefthook/{moment}/git-dibs"));
    }
    let mentions = |file: &Path| std::fs::read(file).is_ok_and(|text| mentions_us(&text));
    names.iter().any(|name| dir.worktrees.iter().any(|top| mentions(&top.join(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_reads_every_configuration_file_of_lefthook() {
        for name in Manager::Lefthook.config_files() {
            let dir = tempfile::tempdir().unwrap();
            git2::Repository::init(dir.path()).unwrap();
            let file = dir.path().join(&name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "run: git-dibs hook pre-commit").unwrap();
            let dirs = hooks_dirs(&Repo::at(dir.path()).unwrap(), SettingsScope::Stored).unwrap();
            assert_eq!(dirs[0].owner, Owner::Manager(Manager::Lefthook), "{name}");
            assert!(manager_mentions_us(&dirs[0], Moment::PreCommit), "{name}");
        }
    }

    #[test]
    fn versions_and_clocks_that_differ_are_reported() {
        let access = ServerAccess {
            endpoints: vec![Endpoint::parse("http://x:1").unwrap()],
            source: "DIBS_URL".to_owned(),
            ..ServerAccess::default()
        };
        let now = SystemTime::now();
        let findings = |version: &str, skew: u64| {
            let server =
                ServerStatus { version: version.to_owned(), clocks: Some((now, now + Duration::from_secs(skew))) };
            let mut findings = Findings::default();
            findings.server(&access, &server);
            findings.0.into_iter().map(|finding| (finding.level, finding.what)).collect::<Vec<_>>()
        };
        let off = findings("9.9.9\x1b", 90);
        assert!(
            off.contains(&(
                Level::Note,
                "the clocks of the server and of this machine differ by 1 min 30 s".to_owned()
            )),
            "{off:?}"
        );
        let own = env!("CARGO_PKG_VERSION");
        assert!(
            off.contains(&(Level::Note, format!("the server is git-dibs 9.9.9\\x1b, this program is {own}"))),
            "{off:?}"
        );
        assert!(off.contains(&(Level::Note, "there is no token here".to_owned())), "{off:?}");
        let fine = findings(own, 1);
        assert_eq!(fine.iter().filter(|(level, _)| *level == Level::Note).count(), 1, "only the token: {fine:?}");
    }
}
