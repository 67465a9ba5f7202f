//! The repository around the current directory, its settings, and the environment.

use super::data_dir;
use super::discover::{DiscoverError, Flags, Lookup, ServerAccess, discover};
use super::environment::Environment;
use super::names::Cwd;
use super::session_file::Handle;
use crate::git::{GitError, Repo, Settings};

pub struct Workspace {
    /// The repository; none outside of one.
    pub repo: Option<Repo>,
    /// The repository's `dibs.*` settings.
    pub settings: Settings,
    pub environment: Environment,
    /// What typed names are relative to.
    pub cwd: Cwd,
    /// A sentence that says why there is no repository.
    no_repo: Option<String>,
}

impl Workspace {
    /// Finds the repository and reads its settings. To be outside of a repository is not an error; settings that cannot be
    /// read are.
    pub fn open() -> Result<Workspace, GitError> {
        let environment = Environment::of_process();
        match Repo::from_environment() {
            Ok(repo) => {
                let (settings, cwd) = (Settings::of(&repo)?, Cwd::of(Some(&repo)));
                Ok(Workspace { repo: Some(repo), settings, environment, cwd, no_repo: None })
            }
            Err(error) => {
                let (settings, cwd, no_repo) = (Settings::default(), Cwd::default(), Some(no_repository(&error)));
                Ok(Workspace { repo: None, settings, environment, cwd, no_repo })
            }
        }
    }

    /// Finds the server, the token and the session.
    pub fn discover(&self, flags: Flags) -> Result<ServerAccess, DiscoverError> {
        self.find(flags, &[], true)
    }

    /// The same, with handles that may lead to the session if no variable does.
    pub fn discover_with(&self, flags: Flags, handles: &[Handle]) -> Result<ServerAccess, DiscoverError> {
        self.find(flags, handles, true)
    }

    /// The same for a command that only reads the history. Where the repository has a ledger that was fetched and never had a
    /// server, none is started: it would know nothing of that history.
    pub fn discover_for_history(&self, flags: Flags) -> Result<ServerAccess, DiscoverError> {
        let has_own_history = self.repo.as_ref().is_none_or(|repo| {
            let dir = data_dir::dibs_dir(repo);
            data_dir::journal(&dir).exists() || !data_dir::ledger(&dir).exists()
        });
        self.find(flags, &[], has_own_history)
    }

    fn find(&self, flags: Flags, handles: &[Handle], may_start: bool) -> Result<ServerAccess, DiscoverError> {
        let lookup = Lookup::new(self.repo.as_ref(), &self.environment, &self.settings);
        let lookup = Lookup { flags, handles, may_start, ..lookup };
        discover(&lookup).map_err(|error| match (error, &self.no_repo) {
            (DiscoverError::NoServer, Some(sentence)) => DiscoverError::NoRepository(sentence.clone()),
            (error, _) => error,
        })
    }
}

fn no_repository(error: &GitError) -> String {
    match error {
        GitError::Failed { said, .. } if !said.contains("not a git repository") => {
            format!("git cannot open the repository here: {said}; repair it, or name a server in DIBS_URL")
        }
        GitError::Failed { .. } => {
            "there is no repository here, so no server is known; go into one, or name a server in DIBS_URL".to_owned()
        }
        other => other.to_string(),
    }
}
