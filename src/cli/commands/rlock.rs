//! `rlock`, `runlock` and `rlock-heartbeat`: this binary under other names, for scripts that use those commands.
//!
//! They always print one JSON object and have exit codes of their own. An unreachable server is a failure; it never counts
//! as a lock.

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use serde_json::{Value, json};

use crate::cli::context::{CommonArgs, Context, ServerArgs};
use crate::cli::failure::{Failure, sentence_of};
use crate::cli::{Exit, backoff, talk};
use crate::client::ClientError;
use crate::key::{Key, KeyRules, Kind};
use crate::wire::limits::WAIT_SECONDS_MAX;
use crate::wire::{self, Code};

/// The exit codes.
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

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 ok, 1 held by another session, 2 not found, 3 token or session not accepted, \
                          4 request or key not allowed, 5 server busy or stopping, 6 no server answers, 7 other error, \
                          8 timed out, 9 usage";

/// The reason that scripts know for a lock that is not held.
const NOT_FOUND: &str = "lock not found";

/// The names of the commands; install-commands links them to this binary.
pub const NAMES: [&str; 3] = ["rlock", "runlock", "rlock-heartbeat"];

/// Take a resource lock and print {"ok":true,…}, or print who holds it.
#[derive(Parser)]
#[command(name = "rlock", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Lock {
    /// What to lock: a URI such as deploy://api-prod, or a logical key such as db:migration-slot
    #[arg(value_name = "URI")]
    key: String,
    /// For how many seconds, unless renewed
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<i64>,
    /// What for; other sessions see it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait in the queue for up to this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..=i64::from(WAIT_SECONDS_MAX)))]
    wait: Option<i64>,
    #[command(flatten)]
    call: CallArgs,
}

/// Release a resource lock.
#[derive(Parser)]
#[command(name = "runlock", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Unlock {
    /// What to release, named as it was locked
    #[arg(value_name = "URI")]
    key: String,
    #[command(flatten)]
    call: CallArgs,
}

/// Renew a resource lock, or everything the session holds.
#[derive(Parser)]
#[command(name = "rlock-heartbeat", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Beat {
    /// What to renew, named as it was locked; without it, everything
    #[arg(value_name = "URI")]
    key: Option<String>,
    /// For how many seconds from now on
    #[arg(long, value_name = "SECONDS", requires = "key")]
    ttl: Option<i64>,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(clap::Args)]
struct CallArgs {
    /// How often to try again if no server answers, after 100, 200, 400, 800 and then every 1000 ms
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: usize,
    /// The session to act for, with an admin's or a worker's token [default: DIBS_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command of this name; none if it is not one of these commands.
pub fn called_as(name: &str) -> Option<ExitCode> {
    let (document, status) = match name {
        "rlock" => finished(Lock::try_parse().map(|args| lock(&args)))?,
        "runlock" => finished(Unlock::try_parse().map(|args| unlock(&args)))?,
        "rlock-heartbeat" => finished(Beat::try_parse().map(|args| beat(&args)))?,
        _ => return None,
    };
    // If stdout is closed, the exit code still tells the result.
    let _ = talk::document(document.to_string().as_bytes());
    Some(ExitCode::from(status as u8))
}

/// The result to print. Help and version end the process; a usage error is printed on stderr and as JSON.
fn finished(parsed: Result<Result<Value, CallError>, clap::Error>) -> Option<(Value, Status)> {
    match parsed {
        Ok(Ok(document)) => Some((document, Status::Ok)),
        Ok(Err(error)) => Some((error.document, error.status)),
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            let _ = error.print();
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Some((json!({ "ok": false, "error": sentence, "code": "USAGE" }), Status::Usage))
        }
    }
}

/// What to print, and the exit code, if the command failed.
struct CallError {
    document: Value,
    status: Status,
}

/// Refuses a name without a scheme: it would be a file, with the short TTL of one.
fn check_key(text: &str) -> Result<(), CallError> {
    let kind = Key::parse(text, &KeyRules::any_configuration(text)).map(|key| key.kind());
    if !matches!(kind, Ok(Kind::Path | Kind::Glob)) {
        return Ok(());
    }
    let sentence = format!(
        "{text:?} has no scheme; write a resource URI such as deploy://{}. Files are reserved with git dibs reserve",
        text.trim_matches('/')
    );
    let document = json!({ "ok": false, "code": "INVALID_KEY", "reason": sentence, "error": sentence });
    Err(CallError { document, status: Status::BadRequest })
}

fn lock(args: &Lock) -> Result<Value, CallError> {
    check_key(&args.key)?;
    let body = wire::Reserve {
        file_path: Some(args.key.clone()),
        ttl_seconds: args.ttl,
        reason: args.reason.as_deref().map(Into::into),
        wait_seconds: args.wait,
        ..wire::Reserve::default()
    };
    let reply = call(&args.call, |context, session| context.client.reserve(session, &body))?;
    let wire::ReserveReply::One(held) = reply else { return Err(unexpected_list()) };
    Ok(json!({ "ok": true, "resourceKey": held.file_path, "expiresAt": held.expires_at, "fence": held.fence }))
}

fn unlock(args: &Unlock) -> Result<Value, CallError> {
    check_key(&args.key)?;
    let body = wire::Release { file_path: Some(args.key.clone()), ..wire::Release::default() };
    let reply = call(&args.call, |context, session| context.client.release(session, &body))?;
    match reply.released {
        true => Ok(json!({ "ok": true, "resourceKey": args.key, "released": true })),
        false => Err(not_found(&args.key, reply.code)),
    }
}

fn beat(args: &Beat) -> Result<Value, CallError> {
    let Some(key) = &args.key else {
        let reply = call(&args.call, |context, session| context.client.heartbeat(session))?;
        return Ok(json!({ "ok": true, "renewedCount": reply.renewed_count, "expiresAt": reply.expires_at }));
    };
    check_key(key)?;
    let body = wire::Renew { file_path: Some(key.clone()), ttl_seconds: args.ttl, ..wire::Renew::default() };
    let reply = call(&args.call, |context, session| context.client.renew(session, &body))?;
    let wire::RenewReply::One(held) = reply else { return Err(unexpected_list()) };
    Ok(json!({ "ok": true, "resourceKey": held.file_path, "expiresAt": held.expires_at, "fence": held.fence }))
}

/// The error for a lock that the session does not hold: `expired` says whether it did.
fn not_found(key: &str, expired: Option<Code>) -> CallError {
    let (code, sentence) = match expired {
        Some(code) => (code, format!("the lock {key} expired before it was released")),
        None => (Code::NotFound, format!("this session does not hold the lock {key}")),
    };
    let document = json!({
        "ok": false, "resourceKey": key, "released": false, "reason": NOT_FOUND, "code": code, "error": sentence,
    });
    CallError { document, status: Status::NotFound }
}

/// The error for a reply to several keys, if the request named one.
fn unexpected_list() -> CallError {
    let sentence = "the server answered a request for one key with a list";
    CallError { document: json!({ "ok": false, "code": "ERROR", "error": sentence }), status: Status::Other }
}

/// Calls the server, and again while no server answers.
fn call<T>(args: &CallArgs, send: impl Fn(&mut Context, &str) -> Result<T, ClientError>) -> Result<T, CallError> {
    let common = CommonArgs { json: false, session: args.session.clone(), server: args.server.clone() };
    let mut failures = 0;
    loop {
        // Discovered again each time: a restarted server may have another address.
        let opened = Context::open(&common).and_then(|context| context.session().map(|session| (context, session)));
        let error = match opened {
            Ok((mut context, session)) => match send(&mut context, &session) {
                Ok(reply) => return Ok(reply),
                Err(error) => refused(&error),
            },
            Err(failure) => undiscovered(&failure),
        };
        let is_temporary = matches!(error.status, Status::Unreachable | Status::Unavailable);
        if !is_temporary || failures >= args.retries {
            return Err(error);
        }
        failures += 1;
        thread::sleep(backoff::pause(failures));
    }
}

fn refused(error: &ClientError) -> CallError {
    let status = match error {
        ClientError::Unreachable { .. } => Status::Unreachable,
        ClientError::OtherUser { .. } => Status::Auth,
        ClientError::TimedOut { .. } => Status::Timeout,
        ClientError::Garbage { .. } | ClientError::Cancelled => Status::Other,
        ClientError::Refused { body, .. } => match body.code {
            Code::ResourceLocked | Code::PossibleDeadlock | Code::VersionMismatch | Code::FeaturePaused => {
                Status::Conflict
            }
            Code::LockNotHeld if body.reserved_by.is_none() => Status::NotFound,
            Code::LockNotHeld => Status::Conflict,
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
        // Scripts expect the holder and the times first.
        if let Some(holder) = &body.reserved_by {
            document["holder"] = json!(holder);
            document["holderName"] = json!(body.reserved_by_name);
        }
        document["reason"] = json!(reason(body, status));
        if let Some(cycle) = &body.cycle {
            document["deadlock"] = json!(true);
            let steps = cycle.iter().flat_map(|step| [step.session.to_string(), step.wants.clone()]);
            document["cycle"] = steps.collect();
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
    CallError { document, status }
}

/// Why not, in the words that scripts know.
fn reason(body: &wire::ErrorBody, status: Status) -> String {
    match (status, &body.reserved_by) {
        (Status::NotFound, _) => NOT_FOUND.to_owned(),
        (_, Some(holder)) => format!("held by {}", body.reserved_by_name.as_ref().unwrap_or(holder)),
        _ if body.code == Code::PossibleDeadlock => format!("possible {}", body.error),
        _ => body.error.clone(),
    }
}

fn undiscovered(failure: &Failure) -> CallError {
    let (status, code) = match failure.exit {
        Exit::Auth => (Status::Auth, "UNAUTHENTICATED"),
        Exit::Usage => (Status::Usage, "USAGE"),
        Exit::Unreachable => (Status::Unreachable, "UNREACHABLE"),
        _ => (Status::Other, "ERROR"),
    };
    CallError { document: json!({ "ok": false, "code": code, "error": failure.sentence }), status }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorBody;

    #[test]
    fn every_refusal_has_its_exit_code() {
        let statuses = [
            (Code::ResourceLocked, 1),
            (Code::LockNotHeld, 2),
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
            let error = refused(&ClientError::Refused { status: code.status(), body, retry_after: None });
            assert_eq!(error.status as u8, exit, "{code}");
            assert_eq!(error.document["ok"], false);
        }
        let silent = ClientError::TimedOut { at: "x".to_owned(), limit: std::time::Duration::from_secs(2) };
        assert_eq!(refused(&silent).status as u8, 8);
        let unreachable = ClientError::Unreachable { at: "x".to_owned(), why: "y".to_owned() };
        assert_eq!(refused(&unreachable).status as u8, 6);
    }

    #[test]
    fn the_arguments_are_valid_for_clap() {
        use clap::CommandFactory;
        for command in [Lock::command(), Unlock::command(), Beat::command()] {
            assert!(NAMES.contains(&command.get_name()));
            command.debug_assert();
        }
    }
}
