//! One call of a hook, about one repository: what all hooks need before they can do their work, and what becomes of
//! trouble.

use std::path::PathBuf;

use super::answer::Answer;
use super::event::Event;
use super::name::Agent;
use super::{setup, words};
use crate::git::{GitError, Place, Repo, Settings};
use crate::judge::{CheckError, CheckPolicy, Enforce, Occasion, OnUnreachable};
use crate::local::{Environment, agent_trouble};

/// What an edit is to the policy. An edit can be undone, so one that could not be checked goes ahead unless a setting says
/// otherwise. The commit is checked again.
pub const EDIT: Occasion = Occasion { noun: "edit", is_staged: false, on_unreachable: OnUnreachable::Warn };

/// What a commit and a push in an agent's shell are to the policy: the same as in git's own hooks.
pub const COMMIT: Occasion = Occasion { noun: "commit", is_staged: true, on_unreachable: OnUnreachable::Warn };
pub const PUSH: Occasion = Occasion { noun: "push", is_staged: false, on_unreachable: OnUnreachable::Block };

/// Variables with the directory that an agent was started in. Some agents run hooks where their shell is.
pub const PROJECT_VARIABLES: [&str; 4] =
    ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "QWEN_PROJECT_DIR", "CURSOR_PROJECT_DIR"];

/// A call of a hook about a repository where git-dibs is set up and not switched off.
pub struct HookCall<'a> {
    pub agent: Agent,
    pub occasion: Occasion,
    pub environment: &'a Environment,
    pub place: &'a Place,
    pub repo: Repo,
    pub settings: Settings,
    pub policy: CheckPolicy,
}

impl<'a> HookCall<'a> {
    /// Opens the repository and reads its settings. Nothing if git-dibs has no say there; an error has the answer.
    pub fn open(
        agent: Agent,
        environment: &'a Environment,
        place: &'a Place,
        occasion: Occasion,
    ) -> Result<Option<HookCall<'a>>, Answer> {
        let trouble = |error: GitError| {
            let policy = CheckPolicy::read(&occasion, environment, &Settings::default());
            decide(place, agent, &occasion, &policy, &error.to_string())
        };
        let repo = match Repo::at(&place.top) {
            Ok(repo) => repo,
            // Perhaps of another user, whom git does not trust either.
            Err(_) if !has_directory(place) => return Ok(None),
            Err(error) => return Err(trouble(error)),
        };
        let settings = Settings::of(&repo).map_err(trouble)?;
        let policy = CheckPolicy::read(&occasion, environment, &settings);
        let is_set_up = is_set_up(place, environment, &settings);
        let call = HookCall { agent, occasion, environment, place, repo, settings, policy };
        Ok(Some(call).filter(|call| is_set_up && call.policy.enforce.value != Enforce::Off))
    }

    /// The answer if something could not be checked or reserved, as `dibs.onUnreachable` says.
    pub fn unchecked(&self, error: &CheckError) -> Answer {
        self.trouble(&error.to_string())
    }

    /// The same, for any other trouble.
    pub fn trouble(&self, what: &str) -> Answer {
        decide(self.place, self.agent, &self.occasion, &self.policy, what)
    }

    /// The answer to an objection, as `dibs.enforce` says.
    pub fn objection(&self, sentence: String) -> Answer {
        match self.policy.enforce.value {
            Enforce::Block => Answer::Deny(sentence),
            Enforce::Warn => Answer::Context(sentence),
            Enforce::Off => Answer::Allow,
        }
    }
}

/// The answer to input that is not understood: the policy of the repository decides, and the doctor tells.
pub fn not_understood(agent: Agent, event: &Event, environment: &Environment, what: &str) -> Answer {
    let Some(place) = Place::around(&event.cwd) else { return Answer::Allow };
    match HookCall::open(agent, environment, &place, EDIT) {
        Ok(Some(call)) => call.trouble(what),
        Ok(None) => Answer::Allow,
        Err(answer) => answer,
    }
}

fn decide(place: &Place, agent: Agent, occasion: &Occasion, policy: &CheckPolicy, what: &str) -> Answer {
    agent_trouble::note(&place.common_dir, agent.name(), what);
    match (policy.on_unreachable.value, policy.enforce.value) {
        (OnUnreachable::Block, Enforce::Block) => {
            Answer::Deny(words::unchecked(occasion.noun, &policy.on_unreachable.source, what))
        }
        _ => Answer::Allow,
    }
}

/// Whether git-dibs was ever used in this repository, or is configured for it: by a setting, or by hooks in the files of
/// the work tree, which a clone has too. A hook in the user's own settings runs in every repository, and must start nothing
/// in one that has nothing to do with git-dibs.
fn is_set_up(place: &Place, environment: &Environment, settings: &Settings) -> bool {
    has_directory(place)
        || settings.get("url").is_some()
        || is_named_server_for(place, environment)
        || !setup::in_work_tree(&place.top).is_empty()
}

/// Whether `DIBS_URL` names a server for this repository: the one that the agent was started in, and no other.
fn is_named_server_for(place: &Place, environment: &Environment) -> bool {
    let is_set = |name: &str| environment.text(name).filter(|value| !value.trim().is_empty());
    if is_set("DIBS_URL").is_none() {
        return false;
    }
    let project = PROJECT_VARIABLES.iter().find_map(|name| is_set(name)).map(PathBuf::from);
    let start = project.or_else(|| std::env::current_dir().ok()).and_then(|dir| dir.canonicalize().ok());
    start.and_then(|dir| Place::around(&dir)).is_some_and(|start| start.common_dir == place.common_dir)
}

fn has_directory(place: &Place) -> bool {
    place.common_dir.join("dibs").is_dir()
}
