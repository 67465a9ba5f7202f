//! What the hooks of agents could not do. A hook cannot say it: what it prints is an answer to the agent. The doctor does.
//!
//! Each agent has one small file with its latest trouble. It is shown for `SHOWN`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::data_dir;
use crate::text::terminal::clean;

/// Under the common directory: what the hooks of agents keep.
pub const AGENTS_DIRECTORY: &str = "dibs/agents";

/// What the names of the files begin with.
const PREFIX: &str = "trouble-";

/// How long a trouble is worth knowing.
const SHOWN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest sentence, in characters.
const SENTENCE_CHARS_MAX: usize = 400;

/// A trouble of an agent's hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The agent, by its name on the command line.
    pub agent: String,
    /// A sentence without a full stop.
    pub sentence: String,
    /// How long ago it was.
    pub age: Duration,
}

/// Keeps a sentence for the doctor. If it cannot be written, it is lost.
pub fn note(common_dir: &Path, agent: &str, sentence: &str) {
    let sentence = clean(sentence, SENTENCE_CHARS_MAX);
    // Only where git-dibs is set up: the directory belongs to the user who did that.
    if common_dir.join("dibs").is_dir() && data_dir::make_private(&common_dir.join(AGENTS_DIRECTORY)).is_ok() {
        let _ = data_dir::write_private(&file(common_dir, agent), sentence.as_bytes());
    }
}

/// The troubles of all agents, of late.
pub fn list(common_dir: &Path) -> Vec<Trouble> {
    let entries = fs::read_dir(common_dir.join(AGENTS_DIRECTORY)).into_iter().flatten().flatten();
    let trouble = |entry: fs::DirEntry| {
        let agent = entry.file_name().to_str()?.strip_prefix(PREFIX)?.to_owned();
        let file = fs::File::open(entry.path()).ok()?;
        let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).unwrap_or_default();
        let mut sentence = String::new();
        file.take(4 * SENTENCE_CHARS_MAX as u64).read_to_string(&mut sentence).ok()?;
        (age < SHOWN).then_some(Trouble { agent, sentence, age })
    };
    let mut all: Vec<Trouble> = entries.filter_map(trouble).collect();
    all.sort_by(|one, other| one.agent.cmp(&other.agent));
    all
}

fn file(common_dir: &Path, agent: &str) -> PathBuf {
    common_dir.join(AGENTS_DIRECTORY).join(format!("{PREFIX}{agent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_trouble_of_each_agent_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        note(dir.path(), "claude", "not set up");
        assert!(list(dir.path()).is_empty());
        fs::create_dir(dir.path().join("dibs")).unwrap();
        note(dir.path(), "claude", "first");
        note(dir.path(), "claude", "the input\nis not JSON");
        note(dir.path(), "codex", "x");
        let sentences: Vec<_> = list(dir.path()).into_iter().map(|one| one.sentence).collect();
        assert_eq!(sentences, ["the input\\nis not JSON", "x"]);
    }
}
