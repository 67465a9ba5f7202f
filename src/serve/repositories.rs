//! Which repositories are served, under which names, and where each keeps its journal.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::config::named_repo;
use crate::engine::Text;
use crate::git::Repo;
use crate::local::data_dir;

/// A repository with everything decided.
pub struct Plan {
    /// The name tokens use.
    pub name: Text,
    /// Where it is.
    pub repo: Repo,
    /// Where its journal goes.
    pub dir: PathBuf,
}

/// The repositories as they were named; where none was, the one this process is in.
pub fn plan(repos: &[&str], data: Option<&Path>) -> Result<Vec<Plan>> {
    let found = match repos {
        [] => {
            let repo =
                Repo::from_environment().context("no repository here; go into one, or name it with --repo PATH")?;
            vec![(None, repo)]
        }
        repos => {
            let find = |text: &&str| {
                let (name, path) = named_repo(text);
                let repo = Repo::at(path).with_context(|| format!("--repo {text}: no repository there"))?;
                Ok((name.map(Text::from), repo))
            };
            repos.iter().map(find).collect::<Result<Vec<_>>>()?
        }
    };
    let several = found.len() > 1;
    let mut plans: Vec<Plan> = Vec::new();
    for (name, repo) in found {
        let name = name.unwrap_or_else(|| name_of(&repo));
        if plans.iter().any(|plan| plan.name == name) {
            bail!("two repositories are called {name}; give them names with --repo NAME=PATH");
        }
        if plans.iter().any(|plan| plan.repo.common_dir == repo.common_dir) {
            bail!("the repository {name} is given twice");
        }
        let dir = match data {
            Some(data) if several => data.join(&*name),
            Some(data) => data.to_owned(),
            None => data_dir::dibs_dir(&repo),
        };
        plans.push(Plan { name, repo, dir });
    }
    Ok(plans)
}

/// What people call a repository: the directory its work tree is in, or its own without `.git`.
fn name_of(repo: &Repo) -> Text {
    let dir = match repo.common_dir.file_name() {
        Some(name) if name == ".git" => repo.common_dir.parent().unwrap_or(&repo.common_dir),
        _ => &repo.common_dir,
    };
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_suffix(".git").unwrap_or(&name).into()
}
