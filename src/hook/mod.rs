//! The git hooks: when git calls us, what a change touches, installing the hooks, and the doctor.
//!
//! [`main`] runs one hook: [`collect`] lists the changed paths, `check` asks the server about them, and the room [`judge`]
//! decides. No rule about reservations is in here.

mod check;
pub mod collect;
mod commits;
pub mod doctor;
mod doctor_lfs;
pub mod excuse;
pub mod install;
mod moment;
mod next;
mod notices;
mod once;
mod outage;
mod passed;
pub mod shim;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use moment::Moment;

use check::ChangeCheck;
use collect::HookInput;
use notices::ReceivedNotices;
use once::Source;

use crate::git::range::Update;
use crate::git::remote::REMOTE_LIMIT;
use crate::git::{self, Repo, Settings, SettingsCall};
use crate::judge::{self, ASK_TIME_MIN, CheckError, CheckPolicy, Enforce, Require, Unchecked, Verdict};
use crate::local::{DiscoverError, Environment, Lookup, ServerAccess, Side, discover};

/// If this variable is set, a hook only tells the doctor that it was reached.
pub const PROBE: &str = "DIBS_PROBE";

/// Exit codes of a hook.
const PASS: i32 = 0;
const BLOCK: i32 = 1;
const USAGE: i32 = 2;

/// The longest time a hook waits for a remote and the server, in all. The time that git needs to list a change comes on
/// top.
pub const WAIT_MAX: Duration = Duration::from_millis(2900);

// A slow remote must leave the server its time.
const _: () = assert!(REMOTE_LIMIT.as_millis() + ASK_TIME_MIN.as_millis() <= WAIT_MAX.as_millis());

/// A call of `git-dibs hook <name> [--next FILE] -- ARGS…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// Git's name of the hook.
    pub name: String,
    /// The hook that was there before ours was installed.
    pub next: Option<PathBuf>,
    /// The arguments that git passed to the hook.
    pub args: Vec<OsString>,
}

impl Call {
    /// Whether the hook that was there before has just run.
    fn has_next_first(&self, moment: Moment) -> bool {
        moment.next_goes_first() && self.next.as_deref().is_some_and(next::is_there)
    }
}

/// Runs one hook and returns its exit code: 0 lets git go on, 1 stops it.
///
/// Messages go to `out`, in whole lines; if all is well there are none.
pub fn main(call: &Call, stdin: &mut dyn Read, out: &mut dyn Write) -> i32 {
    let environment = Environment::of_process();
    let Some(moment) = Moment::parse(&call.name) else {
        let known = Moment::ALL.map(Moment::name).join(", ");
        show(out, &format!("git-dibs: there is no hook {:?}; the hooks are {known}.\n", call.name));
        return USAGE;
    };
    if let Some(probe) = environment.text(PROBE) {
        show(out, &format!("{}\n", probe_answer(&probe, moment)));
        return PASS;
    }
    let mut input = Vec::new();
    if moment.reads_stdin() {
        // If reading fails, what was read until then is checked.
        let _ = stdin.read_to_end(&mut input);
    }
    let next = |out: &mut dyn Write| {
        let stdin = moment.reads_stdin().then_some(&*input);
        let kept = call.next.as_deref().and_then(|file| next::run(file, &call.args, stdin, out));
        // Git LFS does not install its hook where ours is, and without it a push uploads nothing.
        let lfs = || stdin.filter(|_| moment == Moment::PrePush).and_then(|stdin| next::run_lfs(call, stdin, out));
        kept.or_else(lfs).unwrap_or(PASS)
    };
    if moment.next_goes_first() {
        let code = next(out);
        if code != PASS {
            return code;
        }
    }
    let checked = check(HookInput { moment, args: &call.args, stdin: &input, environment: &environment }, call);
    let Checked { verdict, announcement, notices } = checked;
    match &verdict {
        Verdict::Pass => {}
        Verdict::Warn(text) | Verdict::Block(text) => show(out, text),
    }
    notices.iter().for_each(|notices| notices.show(out));
    if matches!(verdict, Verdict::Block(_)) {
        return BLOCK;
    }
    let code = if moment.next_goes_first() { PASS } else { next(out) };
    if let Some((access, updates)) = announcement.filter(|_| code == PASS) {
        // Last, because an announcement is valid for a minute, and the hook that was there before may upload for longer.
        judge::announce(&access, &updates);
        notices.iter().for_each(|notices| notices.show(out));
    }
    code
}

/// What to announce, and to which server.
type Announcement = (ServerAccess, Vec<Update>);

/// The result of a hook.
struct Checked {
    verdict: Verdict,
    /// The push to announce to the server.
    announcement: Option<Announcement>,
    notices: Option<ReceivedNotices>,
}

impl From<Verdict> for Checked {
    fn from(verdict: Verdict) -> Checked {
        Checked { verdict, announcement: None, notices: None }
    }
}

/// Writes a message. A hook whose stderr is closed still decides.
fn show(out: &mut dyn Write, text: &str) {
    let _ = out.write_all(text.as_bytes());
}

/// What a hook answers to the doctor's probe.
pub(crate) fn probe_answer(probe: &str, moment: Moment) -> String {
    format!("git-dibs-probe {probe} {moment} {}", env!("CARGO_PKG_VERSION"))
}

fn check(input: HookInput<'_>, call: &Call) -> Checked {
    let deadline = Instant::now() + WAIT_MAX;
    let occasion = input.moment.occasion();
    // The environment takes precedence over every setting: if it turns checks off, nothing else needs to be read.
    if CheckPolicy::read(&occasion, input.environment, &Settings::default()).enforce.value == Enforce::Off {
        return Verdict::Pass.into();
    }
    // Git runs this repository's hooks, so it trusts the repository.
    git::trust_every_owner();
    let unread = |settings: &Settings, error: git::GitError| {
        let policy = CheckPolicy::read(&occasion, input.environment, settings);
        Checked::from(judge::verdict(&occasion, &policy, Err(&Unchecked::Paths(error.to_string()))))
    };
    let repo = match Repo::from_environment() {
        Ok(repo) => repo,
        Err(error) => return unread(&Settings::default(), error),
    };
    match Source::of(call.next.as_deref()) {
        Source::Configuration => once::note(&repo, input.moment),
        // A hook that was there before may have changed the index since.
        Source::File if !call.has_next_first(input.moment) && once::is_done(&repo, input.moment) => {
            return Verdict::Pass.into();
        }
        Source::File => {}
    }
    let Some(plan) = collect::plan(&repo, input) else { return Verdict::Pass.into() };
    // If git must read the settings, it does so meanwhile.
    let settings = SettingsCall::start(&repo);
    let nearby = plan.nearby(&repo);
    let settings = match settings.and_then(SettingsCall::finish) {
        Ok(settings) => settings,
        Err(error) => return unread(&Settings::default(), error),
    };
    let policy = CheckPolicy::read(&occasion, input.environment, &settings);
    if policy.enforce.value == Enforce::Off {
        return Verdict::Pass.into();
    }
    let access = find_server(&repo, input, &settings, policy.require.value == Require::None);
    let access = match access {
        Err(DiscoverError::NothingHeld) => return Verdict::Pass.into(),
        access => access.map_err(CheckError::from),
    };
    // A session that is paused must not commit or push, also where no path counts: a merge, an amended message.
    let nothing_changes = nearby.as_ref().is_some_and(Vec::is_empty);
    if nothing_changes && !access.as_ref().is_ok_and(|access| access.session.is_some()) {
        return Verdict::Pass.into();
    }
    let notices = access.as_ref().ok().and_then(|access| ReceivedNotices::of(&repo, access));
    let (verdict, announcement) =
        ChangeCheck { repo: &repo, input, plan: &plan, policy: &policy, deadline }.run(nearby, access);
    Checked { verdict, announcement, notices }
}

/// `is_check`: nothing speaks against the change if nothing is held.
fn find_server(
    repo: &Repo,
    input: HookInput<'_>,
    settings: &Settings,
    is_check: bool,
) -> Result<ServerAccess, DiscoverError> {
    let side = match input.moment {
        Moment::PreReceive => Side::Receiver { pushed_token: input.environment.push_option("dibs-token") },
        _ => Side::Worktree,
    };
    let may_start = side == Side::Worktree && !receives_push(input.environment);
    discover(&Lookup { side, may_start, is_check, ..Lookup::new(Some(repo), input.environment, settings) })
}

/// Whether git runs the hook because a push arrives here. It then works in the git directory itself.
fn receives_push(environment: &Environment) -> bool {
    environment.get("GIT_QUARANTINE_PATH").is_some() || environment.text("GIT_DIR").as_deref() == Some(".")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        repo: Repo,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            git2::Repository::init(dir.path()).unwrap();
            Place { repo: Repo::at(dir.path()).unwrap(), _dir: dir }
        }

        fn file(&self, name: &str, text: &str) {
            let file = self.repo.common_dir.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
        }

        fn find(&self, moment: Moment, variables: &[(&str, &str)]) -> Result<ServerAccess, CheckError> {
            let variables = [&[("DIBS_AUTOSTART", "0")], variables].concat();
            let environment = Environment::from_pairs(variables.iter().copied());
            let input = HookInput { moment, args: &[], stdin: b"", environment: &environment };
            Ok(find_server(&self.repo, input, &Settings::default(), false)?)
        }

        fn token(&self, moment: Moment, variables: &[(&str, &str)]) -> Option<String> {
            let access = self.find(moment, &[&[("DIBS_URL", "http://x")], variables].concat()).unwrap();
            access.credential.map(|credential| credential.token().to_owned())
        }
    }

    #[test]
    fn only_pre_receive_takes_a_token_from_a_push_option() {
        let place = Place::new();
        place.file("dibs/token", "mine");
        let pushed =
            [("GIT_PUSH_OPTION_COUNT", "1"), ("GIT_PUSH_OPTION_0", "dibs-token=pushed"), ("DIBS_TOKEN", "variable")];
        assert_eq!(place.token(Moment::PreReceive, &pushed).as_deref(), Some("pushed"));
        assert_eq!(place.token(Moment::PreReceive, &pushed[2..]).as_deref(), Some("variable"));
        assert_eq!(place.token(Moment::PreReceive, &[]), None);
        assert_eq!(place.token(Moment::PrePush, &pushed[..2]).as_deref(), Some("mine"));
    }

    #[test]
    fn a_missing_server_and_a_bad_token_are_different_errors() {
        let place = Place::new();
        let error = |variables: &[(&str, &str)]| place.find(Moment::PreCommit, variables).unwrap_err();
        assert!(matches!(error(&[]), CheckError::Unreachable(text) if text.contains("git dibs serve")));
        place.file("dibs/token", " \n");
        let access = place.find(Moment::PreCommit, &[("DIBS_URL", "http://x")]).unwrap();
        assert!(access.token_problem.is_some_and(|problem| problem.contains("dibs/token is empty")));
    }
}
