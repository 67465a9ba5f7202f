//! `rlock`, `runlock` and `rlock-heartbeat`: this binary under other names, for scripts that know those.
//!
//! They print one JSON object whatever happens, have exit codes of their own, and never claim a lock they did not get: a
//! server that cannot be reached is a failure like any other.

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use serde_json::{Value, json};

use super::failure::{Failure, sentence_of};
use super::here::{Common, Here, ServerArgs};
use super::{Exit, backoff, talk};
use crate::client::ClientError;
use crate::wire::limits::WAIT_SECONDS_MAX;
use crate::wire::{self, Code};

/// How a script learns what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Ok = 0,
    Conflict = 1,
    NotFound = 2,
    Auth = 3,
    BadRequest = 4,
    Unavailable = 5,
    Unreachable = 6,
    Other = 7,
    Timeout = 8,
    Usage = 9,
}

/// The names this binary answers to besides its own.
pub const NAMES: [&str; 3] = ["rlock", "runlock", "rlock-heartbeat"];

/// Takes a resource lock and prints {"ok":true,…} or who has it.
#[derive(Parser)]
#[command(name = "rlock", version, max_term_width = 100)]
struct Lock {
    /// What to lock: a URI such as deploy://api-prod, or any other key
    #[arg(value_name = "URI")]
    key: String,
    /// For how many seconds, unless renewed
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<i64>,
    /// What for; others see it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait in the queue for up to so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..=i64::from(WAIT_SECONDS_MAX)))]
    wait: Option<i64>,
    #[command(flatten)]
    asking: Asking,
}

/// Lets go of a resource lock.
#[derive(Parser)]
#[command(name = "runlock", version, max_term_width = 100)]
struct Unlock {
    /// What to let go of, named as it was locked
    #[arg(value_name = "URI")]
    key: String,
    #[command(flatten)]
    asking: Asking,
}

/// Renews a resource lock, or without one everything the session holds.
#[derive(Parser)]
#[command(name = "rlock-heartbeat", version, max_term_width = 100)]
struct Beat {
    /// What to renew, named as it was locked
    #[arg(value_name = "URI")]
    key: Option<String>,
    /// For how many seconds from now on
    #[arg(long, value_name = "SECONDS", requires = "key")]
    ttl: Option<i64>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(clap::Args)]
struct Asking {
    /// How often to ask again where nobody answers, after 100, 200, 400, 800 and then every 1000 ms
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: usize,
    /// The session to act for, with a token that is no session's own [default: DIBS_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Acts as the command of this name, if it is one of ours.
pub fn called_as(name: &str) -> Option<ExitCode> {
    let (document, status) = match name {
        "rlock" => finished(Lock::try_parse().map(|args| lock(&args)))?,
        "runlock" => finished(Unlock::try_parse().map(|args| unlock(&args)))?,
        "rlock-heartbeat" => finished(Beat::try_parse().map(|args| beat(&args)))?,
        _ => return None,
    };
    // Nobody who cannot hear the answer can be told that.
    let _ = talk::document(document.to_string().as_bytes());
    Some(ExitCode::from(status as u8))
}

/// What came of it. Help and version are printed and end the process; a usage error is told on stderr and as JSON.
fn finished(parsed: Result<Result<Value, Trouble>, clap::Error>) -> Option<(Value, Status)> {
    match parsed {
        Ok(Ok(document)) => Some((document, Status::Ok)),
        Ok(Err(trouble)) => Some((trouble.document, trouble.status)),
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            let _ = error.print();
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Some((json!({ "ok": false, "error": sentence, "code": "USAGE" }), Status::Usage))
        }
    }
}

/// What to print and how to exit where it did not work.
struct Trouble {
    document: Value,
    status: Status,
}

fn lock(args: &Lock) -> Result<Value, Trouble> {
    let ask = wire::Reserve {
        file_path: Some(args.key.clone()),
        ttl_seconds: args.ttl,
        reason: args.reason.as_deref().map(Into::into),
        wait_seconds: args.wait,
        ..wire::Reserve::default()
    };
    let reply = asked(&args.asking, |here, session| here.client.reserve(session, &ask))?;
    let wire::ReserveReply::One(held) = reply else { return Err(unexpected_list()) };
    Ok(json!({ "ok": true, "resourceKey": held.file_path, "expiresAt": held.expires_at, "fence": held.fence }))
}

fn unlock(args: &Unlock) -> Result<Value, Trouble> {
    let ask = wire::Release { file_path: Some(args.key.clone()), ..wire::Release::default() };
    let done = asked(&args.asking, |here, session| here.client.release(session, &ask))?;
    Ok(json!({ "ok": true, "resourceKey": args.key, "released": done.released }))
}

fn beat(args: &Beat) -> Result<Value, Trouble> {
    let Some(key) = &args.key else {
        let alive = asked(&args.asking, |here, session| here.client.heartbeat(session))?;
        return Ok(json!({ "ok": true, "renewedCount": alive.renewed_count, "expiresAt": alive.expires_at }));
    };
    let ask = wire::Renew { file_path: Some(key.clone()), ttl_seconds: args.ttl, ..wire::Renew::default() };
    let reply = asked(&args.asking, |here, session| here.client.renew(session, &ask))?;
    let wire::RenewReply::One(held) = reply else { return Err(unexpected_list()) };
    Ok(json!({ "ok": true, "resourceKey": held.file_path, "expiresAt": held.expires_at, "fence": held.fence }))
}

/// A reply for several keys, where the request named one.
fn unexpected_list() -> Trouble {
    let sentence = "the server answered a request for one key with a list";
    Trouble { document: json!({ "ok": false, "code": "ERROR", "error": sentence }), status: Status::Other }
}

/// Asks, and asks again while nobody answers.
fn asked<T>(args: &Asking, call: impl Fn(&mut Here, &str) -> Result<T, ClientError>) -> Result<T, Trouble> {
    let common = Common { json: false, session: args.session.clone(), server: args.server.clone() };
    let mut failed = 0;
    loop {
        // Found anew each time: a server that was restarted may be somewhere else now.
        let outcome = Here::open(&common).and_then(|here| here.session().map(|session| (here, session)));
        let trouble = match outcome {
            Ok((mut here, session)) => match call(&mut here, &session) {
                Ok(answer) => return Ok(answer),
                Err(error) => refused(&error),
            },
            Err(failure) => undiscovered(&failure),
        };
        let may_pass = matches!(trouble.status, Status::Unreachable | Status::Unavailable);
        if !may_pass || failed >= args.retries {
            return Err(trouble);
        }
        failed += 1;
        thread::sleep(backoff::pause(failed));
    }
}

fn refused(error: &ClientError) -> Trouble {
    let status = match error {
        ClientError::Unreachable { .. } => Status::Unreachable,
        ClientError::TimedOut { .. } => Status::Timeout,
        ClientError::Garbage { .. } => Status::Other,
        ClientError::Refused { body, .. } => match body.code {
            Code::ResourceLocked
            | Code::PossibleDeadlock
            | Code::VersionMismatch
            | Code::LockNotHeld
            | Code::FeaturePaused => Status::Conflict,
            Code::LockAcquisitionFailed => Status::Timeout,
            Code::NotFound | Code::LockTimeout => Status::NotFound,
            Code::Unauthenticated | Code::Forbidden | Code::SessionEnded => Status::Auth,
            Code::InvalidRequest
            | Code::InvalidPath
            | Code::InvalidKey
            | Code::TtlOutOfRange
            | Code::OperationNotPermitted
            | Code::PayloadTooLarge => Status::BadRequest,
            Code::Unavailable | Code::QuotaExceeded => Status::Unavailable,
            _ => Status::Other,
        },
    };
    let mut document = json!({ "ok": false });
    if let ClientError::Refused { body, .. } = error {
        // Scripts read the holder and the time; both stand where they expect them, the rest behind.
        if let Some(holder) = &body.reserved_by {
            document["holder"] = json!(holder);
        }
        if let Some(conflict) = body.conflicts.as_ref().and_then(|all| all.first()) {
            document["heldSince"] = json!(conflict.held_by.reserved_at);
            document["expiresAt"] = json!(conflict.expires_at);
        }
        document["code"] = json!(body.code);
    } else {
        document["code"] = json!(if status == Status::Timeout { "TIMEOUT" } else { "UNREACHABLE" });
    }
    document["error"] = json!(sentence_of(error));
    Trouble { document, status }
}

fn undiscovered(failure: &Failure) -> Trouble {
    let (status, code) = match failure.exit {
        Exit::Auth => (Status::Auth, "UNAUTHENTICATED"),
        Exit::Usage => (Status::Usage, "USAGE"),
        Exit::Unreachable => (Status::Unreachable, "UNREACHABLE"),
        _ => (Status::Other, "ERROR"),
    };
    Trouble { document: json!({ "ok": false, "code": code, "error": failure.sentence }), status }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorBody;

    #[test]
    fn every_refusal_has_its_exit_code() {
        let statuses = [
            (Code::ResourceLocked, 1),
            (Code::LockNotHeld, 1),
            (Code::NotFound, 2),
            (Code::LockTimeout, 2),
            (Code::Unauthenticated, 3),
            (Code::SessionEnded, 3),
            (Code::InvalidKey, 4),
            (Code::OperationNotPermitted, 4),
            (Code::Unavailable, 5),
            (Code::Unrecognized, 7),
            (Code::LockAcquisitionFailed, 8),
        ];
        for (code, exit) in statuses {
            let body = Box::new(ErrorBody::new(code, "no"));
            let trouble = refused(&ClientError::Refused { status: code.status(), body, retry_after: None });
            assert_eq!(trouble.status as u8, exit, "{code}");
            assert_eq!(trouble.document["ok"], false);
        }
        let silent = ClientError::TimedOut { at: "x".to_owned(), limit: std::time::Duration::from_secs(2) };
        assert_eq!(refused(&silent).status as u8, 8);
        let nobody = ClientError::Unreachable { at: "x".to_owned(), why: "y".to_owned() };
        assert_eq!(refused(&nobody).status as u8, 6);
    }

    #[test]
    fn the_arguments_make_sense() {
        use clap::CommandFactory;
        for command in [Lock::command(), Unlock::command(), Beat::command()] {
            assert!(NAMES.contains(&command.get_name()));
            command.debug_assert();
        }
    }
}
