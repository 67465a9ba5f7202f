//! What can go wrong between this program and etcd, and what is known then.

use tonic::{Code, Status};

/// Why a call to etcd failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No answer, or one that says nothing about the call: it may have been carried out, or still be.
    #[error("etcd did not answer: {0}; check that its members run and that a majority of them is connected")]
    Unclear(String),
    /// The database has reached its quota. A transaction may have been carried out all the same.
    #[error("etcd is out of space (NOSPACE); compact and defragment it, raise its quota, then disarm the alarm")]
    NoSpace,
    /// User, password, certificate or permission.
    #[error("etcd refuses access: {0}; check the user, the password and the permissions on the prefix")]
    Denied(String),
    /// The revision that was asked for has been compacted away.
    #[error("etcd has compacted what was read; read again")]
    Compacted,
    #[error("the lease is gone")]
    LeaseGone,
    /// Any other answer of etcd. The call was not carried out.
    #[error("etcd refused a call: {0}")]
    Refused(String),
}

impl EtcdError {
    /// Whether another endpoint may know better.
    pub fn is_unclear(&self) -> bool {
        matches!(self, EtcdError::Unclear(_))
    }
}

impl From<Status> for EtcdError {
    fn from(status: Status) -> EtcdError {
        let text = status.message().to_owned();
        let has = |part: &str| text.contains(part);
        match status.code() {
            Code::ResourceExhausted if has("space exceeded") => EtcdError::NoSpace,
            Code::OutOfRange if has("compacted") => EtcdError::Compacted,
            Code::NotFound if has("lease") => EtcdError::LeaseGone,
            Code::Unauthenticated | Code::PermissionDenied => EtcdError::Denied(text),
            Code::InvalidArgument if has("authentication failed") || has("user name is empty") => {
                EtcdError::Denied(text)
            }
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::OutOfRange
            | Code::AlreadyExists
            | Code::Unimplemented => EtcdError::Refused(text),
            _ => EtcdError::Unclear(describe(&status)),
        }
    }
}

/// The status with its causes: a refused connection says so only there.
fn describe(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = if text.is_empty() { next } else { format!("{text}: {next}") };
        }
        cause = error.source();
    }
    if text.is_empty() { status.code().to_string() } else { text }
}
