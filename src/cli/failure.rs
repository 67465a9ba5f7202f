//! Why a command could not do what was asked: an exit code, a sentence and, for programs, a document.

use std::fmt;

use serde_json::json;

use super::Exit;
use crate::client::ClientError;
use crate::hook::text::clean;
use crate::local::{BadName, Undiscovered};
use crate::wire::Code;

/// The most of a server's sentence that is repeated, in characters.
const SENTENCE_MAX: usize = 2000;

/// A command's failure, as it leaves the command.
#[derive(Debug)]
pub struct Failure {
    /// For the shell.
    pub exit: Exit,
    /// For a person; further lines say more.
    pub sentence: String,
    /// For a program that asked for JSON: printed instead of the sentence.
    pub document: Option<Vec<u8>>,
}

impl Failure {
    /// A failure with a sentence.
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Failure {
        Failure { exit, sentence: sentence.into(), document: None }
    }

    /// Something on the command line makes no sense.
    pub fn usage(sentence: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, sentence)
    }

    /// The same for a program, in the envelope of the server's own refusals, where it asked for JSON.
    pub fn for_program(self, wanted: bool) -> Failure {
        let code = match self.exit {
            Exit::Usage => "INVALID_REQUEST",
            Exit::Auth => "UNAUTHENTICATED",
            Exit::Unreachable => "UNREACHABLE",
            _ => "ERROR",
        };
        self.for_program_as(wanted, code)
    }

    /// The same with a code of its own.
    pub fn for_program_as(mut self, wanted: bool, code: &str) -> Failure {
        if wanted && self.document.is_none() {
            self.document = Some(json!({ "error": self.sentence, "code": code }).to_string().into_bytes());
        }
        self
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<BadName> for Failure {
    fn from(error: BadName) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl From<Undiscovered> for Failure {
    fn from(error: Undiscovered) -> Failure {
        let exit = match error {
            Undiscovered::NoServer | Undiscovered::BadRecord { .. } => Exit::Unreachable,
            Undiscovered::BadAddress { .. } => Exit::Usage,
            Undiscovered::BadToken { .. } => Exit::Auth,
        };
        Failure::new(exit, error.to_string())
    }
}

/// The exit code a refusal or silence leads to.
pub fn exit_of(error: &ClientError) -> Exit {
    let ClientError::Refused { body, .. } = error else { return Exit::Unreachable };
    match body.code {
        Code::InvalidRequest | Code::InvalidPath | Code::InvalidKey | Code::TtlOutOfRange => Exit::Usage,
        Code::ResourceLocked
        | Code::PossibleDeadlock
        | Code::VersionMismatch
        | Code::LockNotHeld
        | Code::FeaturePaused => Exit::Conflict,
        Code::LockAcquisitionFailed => Exit::TimedOut,
        Code::Unauthenticated | Code::Forbidden => Exit::Auth,
        Code::SessionEnded => Exit::Ended,
        Code::Unavailable => Exit::Unreachable,
        _ => Exit::Error,
    }
}

/// What the server said, as one harmless sentence.
pub fn sentence_of(error: &ClientError) -> String {
    clean(error.to_string().trim().trim_end_matches('.'), SENTENCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorBody;

    fn refused(code: Code, sentence: &str) -> ClientError {
        let body = Box::new(ErrorBody::new(code, sentence));
        ClientError::Refused { status: code.status(), body, retry_after: None }
    }

    #[test]
    fn every_refusal_has_its_exit_code() {
        let exits = [
            (Code::InvalidPath, 2),
            (Code::TtlOutOfRange, 2),
            (Code::ResourceLocked, 3),
            (Code::PossibleDeadlock, 3),
            (Code::FeaturePaused, 3),
            (Code::LockNotHeld, 3),
            (Code::Unauthenticated, 4),
            (Code::Forbidden, 4),
            (Code::Unavailable, 5),
            (Code::SessionEnded, 6),
            (Code::LockAcquisitionFailed, 7),
            (Code::NotFound, 1),
            (Code::Unrecognized, 1),
        ];
        for (code, exit) in exits {
            assert_eq!(exit_of(&refused(code, "x")).code(), exit, "{code}");
        }
        assert_eq!(exit_of(&ClientError::Garbage { at: String::new(), what: String::new() }).code(), 5);
    }

    #[test]
    fn what_the_server_says_cannot_draw_on_the_terminal() {
        let said = refused(Code::NotFound, "nobody holds \u{1b}[31ma\nb");
        assert_eq!(sentence_of(&said), "nobody holds \\x1b[31ma\\nb");
        assert_eq!(sentence_of(&refused(Code::NotFound, "It is gone.")), "It is gone");
    }
}
