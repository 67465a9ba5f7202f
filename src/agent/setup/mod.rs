//! `git dibs setup`: writes the configuration that makes an agent call git-dibs, and takes it out again.
//!
//! [`plan`] reads and computes; nothing is changed before [`Plan::write`]. What an agent needs is a list of `Part`s
//! (`agents.rs`), each an edit of one file. An edit keeps everything in the file that is not ours, comments and layout
//! too, recognises what an earlier setup wrote, and refuses a file that it cannot parse.
//!
//! | question | file |
//! |---|---|
//! | which files of which agent, what is left to the user | `agents.rs`, `steps.rs` |
//! | where are these files, which agents are here | [`places`] |
//! | hooks and MCP servers in JSON with comments | `json.rs`, `hooks.rs`, `mcp_server.rs` |
//! | the MCP server in TOML | `toml.rs` |
//! | text between two markers; files that are ours alone | `block.rs`, `own_file.rs` |
//! | reading, links, writing, backups | `file.rs` |
//! | what a file was before, for its removal | `first_text.rs` |
//!
//! Committed files must work for colleagues without git-dibs: the commands in them do nothing if it is not installed.
//! No step that a user takes to trust a hook is ever taken here.

mod agents;
mod block;
mod diff;
mod file;
mod first_text;
mod hooks;
mod json;
mod mcp_server;
mod own_file;
mod part;
pub mod places;
mod steps;
mod toml;

use std::path::PathBuf;

pub use agents::in_work_tree;
pub use file::FileError;
pub use places::Places;

use super::Agent;
use file::Original;
use first_text::FirstTexts;
use part::Part;

/// Whose configuration is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Files in the work tree, which are meant to be committed.
    Project,
    /// The user's own files, for all repositories.
    User,
    /// The user's own file in this work tree, which is not committed. Only Claude Code has one.
    Local,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Project, Scope::User, Scope::Local];

    pub fn name(self) -> &'static str {
        match self {
            Scope::Project => "project",
            Scope::User => "user",
            Scope::Local => "local",
        }
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    pub scope: Scope,
    /// Take everything out again instead.
    pub remove: bool,
    /// Also keep the preamble in the agent's file of instructions. If it is there already, it is kept up to date anyway.
    pub instructions: bool,
    /// Also keep the preamble as an Agent Skill. The same holds.
    pub skill: bool,
}

impl Wish {
    pub fn new(scope: Scope) -> Wish {
        Wish { scope, remove: false, instructions: false, skill: false }
    }
}

/// Why an agent cannot be set up. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("{} has no {} scope; use project or user", agent.product(), scope.name())]
    NoScope { agent: Agent, scope: Scope },
    #[error("there is no work tree here; go into one, or use --scope user")]
    NoWorkTree,
    #[error("HOME is not set, so there are no files of a user; use --scope project")]
    NoHome,
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not what the agent would accept.
    #[error("{}:{line}: {what}; nothing was changed", path.display())]
    Content { path: PathBuf, line: usize, what: String },
}

/// What a setup would change, and what is left to the user.
#[derive(Debug)]
pub struct Plan {
    pub agent: Agent,
    /// The files that change; none if the agent is set up already.
    pub changes: Vec<Change>,
    /// What the user still has to do, such as trusting the hooks.
    pub steps: Vec<String>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The directory for copies of changed files.
    backups: PathBuf,
    first_texts: FirstTexts,
    remove: bool,
}

/// The change of one file.
#[derive(Debug)]
pub struct Change {
    /// The file as users know it.
    pub path: PathBuf,
    original: Original,
    before: Option<String>,
    /// The new text; none if the file is removed.
    after: Option<String>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    Change,
    Remove,
}

impl Change {
    pub fn action(&self) -> Action {
        match (&self.before, &self.after) {
            (None, _) => Action::Create,
            (Some(_), Some(_)) => Action::Change,
            (Some(_), None) => Action::Remove,
        }
    }

    /// Makes a removal restore what was there before setup, if only setup has changed the file since. A file that was there
    /// and said nothing is not removed either way.
    fn restore(&mut self, first_texts: &FirstTexts, parts: &[&Part]) {
        let Some(first) = first_texts.find(self.original.real()) else { return };
        let is_unchanged = self.before.as_deref().is_some_and(|now| first.is_current(now));
        let said_nothing =
            |text: &String| text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '}')).is_empty();
        let is_left_empty = self.after.is_none() && first.text.as_ref().is_some_and(said_nothing);
        // An older setup, of which nothing is known, may have changed it before.
        let has_ours = |text: &String| parts.iter().any(|part| part.removed(text) != Ok(Some(text.clone())));
        if (is_unchanged || is_left_empty) && !first.text.as_ref().is_some_and(has_ours) {
            self.after = first.text;
        }
    }

    /// The change as a unified diff.
    pub fn diff(&self) -> String {
        diff::unified(&self.path, self.before.as_deref(), self.after.as_deref())
    }
}

/// Finds out what setting up an agent would change. Reads files and changes none.
pub fn plan(agent: Agent, wish: &Wish, places: &Places) -> Result<Plan, SetupError> {
    let recipe = agents::recipe(agent, wish, places)?;
    let mut changes: Vec<Change> = Vec::new();
    for (path, part) in &recipe.parts {
        let seen = changes.iter().position(|change| change.path == *path);
        let index = match seen {
            Some(index) => index,
            None => {
                let original = Original::read(path, &recipe.root)?;
                let before = original.text()?;
                changes.push(Change { path: path.clone(), original, after: before.clone(), before });
                changes.len() - 1
            }
        };
        let change = &mut changes[index];
        let text = change.after.take();
        change.after = edited(part, wish.remove, text).map_err(|problem| SetupError::Content {
            path: change.path.clone(),
            line: problem.line,
            what: problem.what,
        })?;
    }
    changes.retain(|change| change.before != change.after);
    let first_texts = FirstTexts::new(places.first_texts(wish.scope)?);
    for change in changes.iter_mut().filter(|_| wish.remove) {
        let parts: Vec<&Part> =
            recipe.parts.iter().filter(|(path, _)| *path == change.path).map(|(_, part)| part).collect();
        change.restore(&first_texts, &parts);
    }
    let steps = if wish.remove { Vec::new() } else { recipe.steps };
    let (notes, backups) = (recipe.notes, places.backups(wish.scope)?);
    Ok(Plan { agent, changes, steps, notes, backups, first_texts, remove: wish.remove })
}

fn edited(part: &Part, remove: bool, text: Option<String>) -> Result<Option<String>, part::Problem> {
    if remove { text.map_or(Ok(None), |text| part.removed(&text)) } else { part.added(text.as_deref()) }
}

impl Plan {
    /// Makes the changes. Each file is replaced as a whole. Returns where the old file was copied to, for each change.
    pub fn write(&self) -> Result<Vec<Option<PathBuf>>, SetupError> {
        Ok(self.changes.iter().map(|change| self.write_one(change)).collect::<Result<_, FileError>>()?)
    }

    fn write_one(&self, change: &Change) -> Result<Option<PathBuf>, FileError> {
        let (original, after) = (&change.original, change.after.as_deref());
        if let Some(after) = after.filter(|_| !self.remove) {
            self.first_texts.note(original.real(), change.before.as_deref(), after)?;
        }
        // Of a file without a record, it is not known who made its directories: those of agents are small enough to go.
        let is_known = self.first_texts.find(original.real()).is_some();
        let is_made = |dir: &std::path::Path| !is_known || self.first_texts.has_made(dir);
        let copy = original.replace(after, is_made, &self.backups)?;
        if self.remove {
            self.first_texts.forget(original.real());
        }
        Ok(copy)
    }
}
