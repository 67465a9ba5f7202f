//! One edit of one file.

use super::block::Block;
use super::hooks::Hooks;
use super::mcp_server::McpServer;
use super::own_file::OwnFile;
use super::toml::TomlServer;

/// Why a file is not edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    /// A sentence without a full stop.
    pub what: String,
}

impl Problem {
    pub fn new(line: usize, what: impl Into<String>) -> Problem {
        Problem { line, what: what.into() }
    }

    /// At a position in the text.
    pub fn at(text: &str, position: usize, what: impl Into<String>) -> Problem {
        let before = &text.as_bytes()[..position.min(text.len())];
        Problem::new(before.iter().filter(|&&byte| byte == b'\n').count() + 1, what)
    }
}

/// What of ours a file has in it.
#[derive(Debug)]
pub enum Part {
    Hooks(Hooks),
    McpServer(McpServer),
    TomlServer(TomlServer),
    Block(Block),
    OwnFile(OwnFile),
}

impl Part {
    /// The text with our part in it, up to date.
    pub fn added(&self, text: Option<&str>) -> Result<Option<String>, Problem> {
        match self {
            Part::Hooks(part) => part.added(text.unwrap_or_default()).map(Some),
            Part::McpServer(part) => part.added(text.unwrap_or_default()).map(Some),
            Part::TomlServer(part) => part.added(text.unwrap_or_default()).map(Some),
            Part::Block(part) => part.added(text),
            Part::OwnFile(part) => part.added(text),
        }
    }

    /// The text without our part; none if nothing else was in the file.
    pub fn removed(&self, text: &str) -> Result<Option<String>, Problem> {
        match self {
            Part::Hooks(part) => part.removed(text),
            Part::McpServer(part) => part.removed(text),
            Part::TomlServer(part) => part.removed(text),
            Part::Block(part) => part.removed(text),
            Part::OwnFile(part) => part.removed(text),
        }
    }
}
