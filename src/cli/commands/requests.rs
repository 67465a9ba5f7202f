//! `git-dibs requests`: what other sessions ask of yours, and what yours asks of them.

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::client::ClientError;
use crate::local::describe;
use crate::text::terminal::clean;
use crate::wire::{Code, Notice, UnlockRequestInfo};

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
    let holder = |request: &UnlockRequestInfo| {
        request.reserved_by.as_deref().map_or_else(String::new, |id| describe::session(id, None))
    };
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
    let others: Vec<Notice> = reply.notices.into_iter().filter(|notice| !is_listed(notice)).collect();
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

/// The session that made the request.
pub(super) fn requester(request: &UnlockRequestInfo) -> String {
    describe::session(&request.requested_by, request.requested_by_name.as_deref())
}

/// Why a request could not be answered or withdrawn. That it was answered already is an error, not a lack of permission.
pub(super) fn unanswered(context: &Context, error: &ClientError) -> Failure {
    let failure = context.failure(error);
    match error.code() {
        Some(Code::OperationNotPermitted) => Failure { exit: Exit::Error, ..failure },
        _ => failure,
    }
}
