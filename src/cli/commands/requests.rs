//! `git-dibs requests`: what other sessions ask of yours, and what yours asks of them.

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::client::ClientError;
use crate::local::describe;
use crate::text::terminal::clean;
use crate::wire::{Code, Notice, UnlockRequestInfo, UnlockRequests, UnlockStatus};

/// The length of a whole id.
const ID_CHARS: usize = 36;

/// The longest id of a request that is shown, in characters.
const ID_MAX: usize = 64;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let result = context.client.unlock_requests(&session);
    let reply = context.checked(result)?;
    if context.json {
        context.print("")?;
        return Ok(Exit::Ok);
    }
    let mut text = String::new();
    if !reply.incoming.is_empty() {
        let rows = reply.incoming.iter().map(|request| row(request, requester(request))).collect();
        text += "Other sessions ask you to release:\n";
        text += &talk::table(&["REQUEST", "PATH", "WHO", "STATUS", "REASON", "NOTE"], rows);
    }
    if !reply.outgoing.is_empty() {
        let rows = reply.outgoing.iter().map(|request| row(request, holder(request))).collect();
        text += if text.is_empty() { "" } else { "\n" };
        text += "You ask other sessions to release:\n";
        text += &talk::table(&["REQUEST", "PATH", "HOLDER", "STATUS", "REASON", "NOTE"], rows);
    }
    talk::data(&text)?;
    if text.is_empty() {
        talk::say("there are no requests to you, and none from you");
    }
    // The requests to this session are in the table already.
    let is_listed = |notice: &Notice| matches!(notice, Notice::UnlockRequested { .. });
    let others: Vec<Notice> = context.received_notices().into_iter().filter(|notice| !is_listed(notice)).collect();
    context.print_sentences(&others);
    Ok(Exit::Ok)
}

fn row(request: &UnlockRequestInfo, other: String) -> Vec<String> {
    vec![
        clean(&request.id, ID_MAX),
        describe::key(&request.file_path, request.encoding),
        other,
        request.status.as_str().to_owned(),
        describe::reason(Some(&request.reason)),
        describe::reason(request.note.as_deref()),
    ]
}

/// The session that the request is to.
pub(super) fn holder(request: &UnlockRequestInfo) -> String {
    let name = request.reserved_by_name.as_deref();
    request.reserved_by.as_deref().map_or_else(|| "the holder".to_owned(), |id| describe::session(id, name))
}

/// The id of the request that an argument means: an id, the beginning of one, or nothing if there is only one request
/// without an answer. `of` picks the requests that the command is about.
pub(super) fn pick(
    context: &mut Context,
    session: &str,
    typed: Option<&str>,
    of: impl Fn(UnlockRequests) -> Vec<UnlockRequestInfo>,
) -> Result<String, Failure> {
    if let Some(id) = typed.filter(|id| id.len() >= ID_CHARS) {
        return Ok(id.to_owned());
    }
    let result = context.client.unlock_requests(session);
    let open = of(context.checked(result)?).into_iter().filter(|request| request.status == UnlockStatus::Pending);
    let open: Vec<UnlockRequestInfo> = open.filter(|request| request.id.starts_with(typed.unwrap_or(""))).collect();
    if let [only] = open.as_slice() {
        return Ok(only.id.clone());
    }
    let list: Vec<String> = open.iter().map(|request| clean(&request.id, ID_CHARS)).collect();
    let (exit, sentence) = match (typed, list.is_empty()) {
        (Some(id), true) => (Exit::Error, format!("there is no open request whose id begins with {:?}", clean(id, 64))),
        (None, true) => (Exit::Error, "there is no open request".to_owned()),
        (_, false) => {
            (Exit::Usage, format!("there are {} such requests; name one of: {}", list.len(), list.join(", ")))
        }
    };
    Err(Failure::new(exit, sentence).for_program(context.json))
}

/// The session that made the request.
pub(super) fn requester(request: &UnlockRequestInfo) -> String {
    describe::session(&request.requested_by, request.requested_by_name.as_deref())
}

/// Drops the notice of a request that has just been answered: it came with an earlier reply to the same command.
pub(super) fn drop_answered(context: &Context, id: &str) {
    context
        .access
        .inbox
        .discard(|notice| matches!(notice, Notice::UnlockRequested { request_id, .. } if request_id == id));
}

/// Why a request could not be answered or withdrawn. That it was answered already is an error, not a lack of permission.
pub(super) fn unanswered(context: &Context, error: &ClientError) -> Failure {
    let failure = context.failure(error);
    match error.code() {
        Some(Code::OperationNotPermitted) => Failure { exit: Exit::Error, ..failure },
        _ => failure,
    }
}
