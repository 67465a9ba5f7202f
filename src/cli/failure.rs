//! Why a command failed: an exit code, a sentence and, for programs, a JSON document.

use std::fmt;

use serde_json::json;

use super::Exit;
use crate::client::ClientError;
use crate::local::{BadName, DiscoverError};
use crate::text::terminal::clean;
use crate::wire::Code;

/// The longest sentence of a server that is repeated, in characters.
const SENTENCE_MAX: usize = 2000;

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// What to print for a person; may have several lines.
    pub sentence: String,
    /// What to print instead for a program that asked for JSON.
    pub document: Option<Vec<u8>>,
}

impl Failure {
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Failure {
        Failure { exit, sentence: sentence.into(), document: None }
    }

    /// An argument is wrong.
    pub fn usage(sentence: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, sentence)
    }

    /// Any error of a command that works on files, for a person or a program.
    pub fn of(error: anyhow::Error, json: bool) -> Failure {
        match error.downcast::<Failure>() {
            Ok(failure) => failure,
            Err(error) => {
                let exit = if error.is::<BadName>() { Exit::Usage } else { Exit::Error };
                Failure::new(exit, format!("{error:#}")).for_program(json)
            }
        }
    }

    /// Adds the document for a program, if JSON was asked for. It has the shape of the server's refusals.
    pub fn for_program(self, wanted: bool) -> Failure {
        let code = match self.exit {
            Exit::Usage => "INVALID_REQUEST",
            Exit::Auth => "UNAUTHENTICATED",
            Exit::Unreachable => "UNREACHABLE",
            _ => "ERROR",
        };
        self.for_program_as(wanted, code)
    }

    /// The same with a given code.
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

impl From<std::io::Error> for Failure {
    /// Only a client that could not be created.
    fn from(error: std::io::Error) -> Failure {
        Failure::new(Exit::Error, format!("cannot use the network: {error}"))
    }
}

impl From<DiscoverError> for Failure {
    fn from(error: DiscoverError) -> Failure {
        let exit = match error {
            DiscoverError::NoServer
            | DiscoverError::NotStarted(_)
            | DiscoverError::NothingHeld
            | DiscoverError::NoRepository(_)
            | DiscoverError::BadRecord { .. } => Exit::Unreachable,
            DiscoverError::BadAddress { .. } => Exit::Usage,
            DiscoverError::BadToken { .. } => Exit::Auth,
        };
        Failure::new(exit, error.to_string())
    }
}

/// The exit code for the error of a call.
pub fn exit_of(error: &ClientError) -> Exit {
    let body = match error {
        ClientError::Refused { body, .. } => body,
        ClientError::OtherUser { .. } => return Exit::Auth,
        _ => return Exit::Unreachable,
    };
    match body.code {
        // Another session is in the way only if there is one.
        Code::LockNotHeld if body.reserved_by.is_none() => Exit::Error,
        Code::InvalidRequest | Code::InvalidPath | Code::InvalidKey | Code::TtlOutOfRange => Exit::Usage,
        Code::ResourceLocked
        | Code::PossibleDeadlock
        | Code::VersionMismatch
        | Code::LockNotHeld
        | Code::FeaturePaused => Exit::Conflict,
        Code::LockAcquisitionFailed => Exit::TimedOut,
        Code::Unauthenticated | Code::Forbidden | Code::OperationNotPermitted => Exit::Auth,
        Code::SessionEnded => Exit::Ended,
        Code::Unavailable => Exit::Unreachable,
        _ => Exit::Error,
    }
}

/// Fields of requests, and the flags that fill them.
const FLAGS: [(&str, &str); 9] = [
    ("ttlSeconds", "--ttl"),
    ("idleSeconds", "--idle"),
    ("waitSeconds", "--wait"),
    ("reason", "--reason"),
    ("note", "--note"),
    ("purpose", "--purpose"),
    ("feature", "--feature"),
    ("name", "--name"),
    ("ifVersion", "--if-version"),
];

/// The error of a call as one sentence that is safe for a terminal. It names the flag that is wrong, not the field.
pub fn sentence_of(error: &ClientError) -> String {
    let sentence = plain_sentence_of(error);
    let ClientError::Refused { body, .. } = error else { return sentence };
    let Some((field, flag)) = FLAGS.iter().find(|(field, _)| body.field.as_deref() == Some(field)) else {
        return sentence;
    };
    let after = sentence.strip_prefix("The field ").unwrap_or(&sentence).strip_prefix(field);
    match after.filter(|after| after.starts_with(' ')) {
        Some(after) => format!("{flag}{after}"),
        None => sentence,
    }
}

/// The same with the name of the field.
pub fn plain_sentence_of(error: &ClientError) -> String {
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
            (Code::LockNotHeld, 1),
            (Code::Unauthenticated, 4),
            (Code::Forbidden, 4),
            (Code::OperationNotPermitted, 4),
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
    fn a_lock_of_another_session_is_a_conflict() {
        let body = ErrorBody { reserved_by: Some("ana".into()), ..ErrorBody::new(Code::LockNotHeld, "x") };
        let error = ClientError::Refused { status: 403, body: Box::new(body), retry_after: None };
        assert_eq!(exit_of(&error), Exit::Conflict);
    }

    #[test]
    fn a_wrong_flag_is_called_by_its_name() {
        let wrong = |field: &str, sentence: &str| {
            let body = ErrorBody { field: Some(field.to_owned()), ..ErrorBody::new(Code::InvalidRequest, sentence) };
            sentence_of(&ClientError::Refused { status: 400, body: Box::new(body), retry_after: None })
        };
        assert_eq!(wrong("ttlSeconds", "ttlSeconds is 301; it must be 1 to 300"), "--ttl is 301; it must be 1 to 300");
        assert_eq!(wrong("reason", "The field reason must not be empty."), "--reason must not be empty");
        assert_eq!(wrong("filePath", "The field filePath is bad."), "The field filePath is bad");
        assert_eq!(wrong("name", "names are long"), "names are long");
    }

    #[test]
    fn the_servers_sentence_cannot_control_the_terminal() {
        let said = refused(Code::NotFound, "no session holds \u{1b}[31ma\nb");
        assert_eq!(sentence_of(&said), "no session holds \\x1b[31ma\\nb");
        assert_eq!(sentence_of(&refused(Code::NotFound, "It is gone.")), "It is gone");
    }
}
