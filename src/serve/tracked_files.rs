//! The files of a repository's HEAD, as `http` asks for them.

use crate::engine::Text;
use crate::git::{Oid, Repo, file_names};
use crate::http::TrackedFiles;

pub struct RepositoryFiles(pub Repo);

impl TrackedFiles for RepositoryFiles {
    fn head(&self) -> Result<Option<Text>, String> {
        let head = self.0.head().map_err(|error| error.to_string())?;
        Ok(head.map(|head| head.as_str().into()))
    }

    fn names(&self, commit: &str, bytes_max: usize) -> Result<Vec<u8>, String> {
        let commit = Oid::parse(commit.as_bytes()).ok_or("HEAD is not an object id")?;
        file_names(&self.0, &commit, bytes_max).map_err(|error| error.to_string())
    }
}
