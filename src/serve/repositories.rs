//! Finds the repositories to serve: the name of each, and the directory for its journal and ledger.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::config::FixedSettings;
use crate::engine::Text;
use crate::git::Repo;
use crate::local::data_dir;

#[derive(Clone)]
pub struct ServedRepository {
    /// The name in tokens, metrics and logs.
    pub name: Text,
    pub repo: Repo,
    /// Where its journal and ledger are.
    pub dir: PathBuf,
}

/// The configured repositories; without any, the one around the current directory.
pub fn find(fixed: &FixedSettings) -> Result<Vec<ServedRepository>> {
    let found = match &*fixed.repo {
        [] => {
            let repo = Repo::from_environment()
                .context("there is no repository here; go into one, or name one with --repo PATH")?;
            vec![(None, repo)]
        }
        repos => repos.iter().map(|repo| find_one(&repo.value)).collect::<Result<Vec<_>>>()?,
    };
    let several = found.len() > 1;
    let mut served: Vec<ServedRepository> = Vec::new();
    for (name, repo) in found {
        let name = name.unwrap_or_else(|| default_name(&repo));
        if served.iter().any(|other| other.repo.common_dir == repo.common_dir) {
            bail!("the repository {} is given twice; give it once", repo.common_dir.display());
        }
        if served.iter().any(|other| other.name == name) {
            bail!("two repositories have the name {name}; give each its own name with --repo NAME=PATH");
        }
        let dir = match &fixed.data {
            Some(data) if several => data.value.join(&*name),
            Some(data) => data.value.clone(),
            None => data_dir::dibs_dir(&repo),
        };
        served.push(ServedRepository { name, repo, dir });
    }
    if let Some(data) = &fixed.data {
        refuse_other_layout(&data.value, &served)?;
    }
    Ok(served)
}

/// With one repository the journal is in `--data` itself, with several it is in a directory for each of them. Going from
/// one to the other without moving the journal would start an empty one and lose what is held.
fn refuse_other_layout(data: &Path, served: &[ServedRepository]) -> Result<()> {
    let has_journal = |dir: &Path| data_dir::journal(dir).exists();
    if served.len() > 1 && has_journal(data) {
        let (data, one) = (data.display(), served[0].dir.display());
        bail!(
            "{data} has the journal of a server with one repository; move journal.db* and ledger.git from there to {one} \
             (or to the directory of the repository they belong to), then start again"
        );
    }
    if let [only] = served {
        let own = data.join(&*only.name);
        if has_journal(&own) && !has_journal(data) {
            bail!(
                "{own} has the journal of {name} from a server with several repositories; move journal.db* and ledger.git \
                 from there to {data}, then start again",
                own = own.display(),
                name = only.name,
                data = data.display(),
            );
        }
    }
    Ok(())
}

/// The server's own directory, for its secret and its socket: `--data`, or that of the first repository.
pub fn home(fixed: &FixedSettings, served: &[ServedRepository]) -> PathBuf {
    fixed.data.as_ref().map_or_else(|| served[0].dir.clone(), |data| data.value.clone())
}

/// Splits `PATH` or `NAME=PATH`.
pub fn split_name(text: &str) -> (Option<&str>, &Path) {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name), Path::new(path)),
        _ => (None, Path::new(text)),
    }
}

fn find_one(text: &str) -> Result<(Option<Text>, Repo)> {
    let (name, path) = split_name(text);
    if !path.is_dir() {
        bail!("--repo {text}: there is no directory {}", path.display());
    }
    let repo = Repo::at(path).with_context(|| format!("--repo {text}: there is no repository"))?;
    Ok((name.map(Text::from), repo))
}

/// The name of the directory that contains `.git`; for a bare repository its own name without `.git`.
fn default_name(repo: &Repo) -> Text {
    let dir = match repo.common_dir.file_name() {
        Some(name) if name == ".git" => repo.common_dir.parent().unwrap_or(&repo.common_dir),
        _ => &repo.common_dir,
    };
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // A token can name no repository with a control character in its name.
    name.strip_suffix(".git").unwrap_or(&name).replace(char::is_control, "_").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_may_be_given_with_a_name() {
        assert_eq!(split_name("app=/srv/app.git"), (Some("app"), Path::new("/srv/app.git")));
        assert_eq!(split_name("/srv/app.git"), (None, Path::new("/srv/app.git")));
        assert_eq!(split_name("/srv/a=b"), (None, Path::new("/srv/a=b")));
    }
}
