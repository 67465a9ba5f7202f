//! May this change go ahead: asks the server, applies the repository's settings, explains the result.
//!
//! A front end describes the [`Occasion`] (a commit, a push …) and lists the changed paths. [`ask`] sends them to the
//! server, [`Objections::find`] picks out what speaks against the change, and [`verdict`] decides by the [`CheckPolicy`]
//! and words the result. Git hooks and `git-dibs check` take the same steps, so they agree.
//!
//! The rules about reservations are the server's. What a git hook is, and how git lists a change, is not known here.

mod ask;
pub mod explain;
mod objections;
mod policy;
#[cfg(test)]
mod tests;

pub use ask::{
    ASK_TIME_MIN, CheckError, announce, ask, ask_about, ask_about_push, ask_who_holds, committed_by_holder, in_pieces,
    question,
};
pub use explain::verdict;
pub use objections::{Objections, Standing, path_of};
pub use policy::{CheckPolicy, Enforce, OnUnreachable, PolicySetting, Require};

/// What is about to happen, and how it is treated by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occasion {
    /// The word for it in a sentence: "this commit is blocked".
    pub noun: &'static str,
    /// An ordinary commit of what is staged: a path can still be left out of it.
    pub is_staged: bool,
    /// What to do if the change cannot be checked and no setting decides.
    pub on_unreachable: OnUnreachable,
}

/// Whether the change goes ahead, with the text to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead, nothing to say.
    Pass,
    /// Go ahead, but show this.
    Warn(String),
    /// Stop, and show this.
    Block(String),
}

impl Verdict {
    /// Adds a sentence to the text, and changes nothing else.
    pub fn with_sentence(self, sentence: Option<&str>) -> Verdict {
        let Some(sentence) = sentence else { return self };
        let line = format!("git-dibs: {sentence}.\n");
        match self {
            Verdict::Pass => Verdict::Warn(line),
            Verdict::Warn(text) => Verdict::Warn(text + &line),
            Verdict::Block(text) => Verdict::Block(text + &line),
        }
    }
}

/// Why a change could not be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unchecked {
    /// There is no reply from the server.
    Server(CheckError),
    /// The changed paths or the settings could not be read.
    Paths(String),
}
