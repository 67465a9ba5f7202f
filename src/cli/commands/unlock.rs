//! Asking a holder to let go: `request`, `requests`, `approve`, `reject`, `withdraw`.

use std::ffi::OsString;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::here::{Common, Here};
use crate::cli::{Exit, talk};
use crate::hook::text::clean;
use crate::wire::{self, Notice, UnlockRequestInfo};

/// Asks whoever holds a key to let go of it.
#[derive(clap::Args)]
pub struct RequestArgs {
    /// What should be let go of
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
    /// Why; the holder reads it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// Lists what others ask of your session, and what it asks of others.
#[derive(clap::Args)]
pub struct RequestsArgs {
    #[command(flatten)]
    common: Common,
}

/// Lets go of what somebody asked for.
#[derive(clap::Args)]
pub struct ApproveArgs {
    /// The request, as git dibs requests shows it
    #[arg(value_name = "ID")]
    id: String,
    /// Pass it straight to the one who asked, so that nobody is faster
    #[arg(long)]
    hand_over: bool,
    #[command(flatten)]
    common: Common,
}

/// Keeps what somebody asked for.
#[derive(clap::Args)]
pub struct RejectArgs {
    /// The request, as git dibs requests shows it
    #[arg(value_name = "ID")]
    id: String,
    /// What the one who asked should know
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Takes your own request back.
#[derive(clap::Args)]
pub struct WithdrawArgs {
    /// The request, as git dibs requests shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    common: Common,
}

pub fn request(args: RequestArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let names = here.names(&args.keys)?;
    let ask = |file_path: String| wire::UnlockRequest {
        file_path,
        reason: args.reason.as_str().into(),
        encoding: names.encoding(),
    };
    let texts = names.texts();
    let several = texts.len() > 1;
    let mut worst = Exit::Ok;
    let mut documents: Vec<Value> = Vec::new();
    for text in texts {
        let answer = here.client.request_unlock(&session, &ask(text));
        match here.heard(answer) {
            Ok(request) if !here.json => talk::data(&asked(&request))?,
            Ok(_) => {}
            // One key that nobody holds is no reason not to ask for the others.
            Err(failure) if several => {
                worst = failure.exit;
                if !here.json {
                    talk::say(&failure.sentence);
                }
            }
            Err(failure) => return Err(failure.into()),
        }
        documents.push(serde_json::from_slice(here.client.answer()).unwrap_or_default());
    }
    match documents.as_slice() {
        [_] if here.json => talk::document(here.client.answer())?,
        _ if here.json => talk::document(json!({ "requests": documents }).to_string().as_bytes())?,
        _ => {}
    }
    here.tell_notices();
    Ok(worst)
}

pub fn requests(args: RequestsArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let answer = here.client.unlock_requests(&session);
    let all = here.heard(answer)?;
    if here.json {
        here.tell("")?;
        return Ok(Exit::Ok);
    }
    let row = |request: &UnlockRequestInfo, other: String| {
        vec![
            request.id.clone(),
            talk::key(&request.file_path, request.encoding),
            other,
            request.status.as_str().to_owned(),
            talk::reason(Some(&request.reason)),
            talk::reason(request.note.as_deref()),
        ]
    };
    let asker = |one: &UnlockRequestInfo| talk::person(&one.requested_by, one.requested_by_name.as_deref());
    let holder =
        |one: &UnlockRequestInfo| one.reserved_by.as_deref().map_or_else(String::new, |who| talk::person(who, None));
    let mut text = String::new();
    if !all.incoming.is_empty() {
        let rows = all.incoming.iter().map(|one| row(one, asker(one))).collect();
        text += "Others ask you to let go of:\n";
        text += &talk::table(&["REQUEST", "PATH", "WHO", "STATUS", "REASON", "NOTE"], rows);
    }
    if !all.outgoing.is_empty() {
        let rows = all.outgoing.iter().map(|one| row(one, holder(one))).collect();
        text += if text.is_empty() { "" } else { "\n" };
        text += "You ask others to let go of:\n";
        text += &talk::table(&["REQUEST", "PATH", "HOLDER", "STATUS", "REASON", "NOTE"], rows);
    }
    talk::data(&text)?;
    if text.is_empty() {
        talk::say("nobody asks you for anything, and you ask nobody");
    }
    // What is asked of the session is in the table already.
    let is_shown = |notice: &Notice| matches!(notice, Notice::UnlockRequested { .. });
    let rest: Vec<Notice> = all.notices.into_iter().filter(|notice| !is_shown(notice)).collect();
    crate::cli::notices::say(&rest, &here.cwd);
    Ok(Exit::Ok)
}

pub fn approve(args: ApproveArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let how = wire::Approve { hand_over: args.hand_over.then_some(true) };
    let answer = here.client.approve_unlock(&session, &args.id, &how);
    let request = here.heard(answer)?;
    let (what, who) = (talk::key(&request.file_path, request.encoding), asker(&request));
    let text =
        if args.hand_over { format!("{what} passed to {who}\n") } else { format!("released {what} for {who}\n") };
    here.tell(&text)?;
    Ok(Exit::Ok)
}

pub fn reject(args: RejectArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let how = wire::Reject { note: args.note.as_deref().map(Into::into) };
    let answer = here.client.reject_unlock(&session, &args.id, &how);
    let request = here.heard(answer)?;
    let (what, who) = (talk::key(&request.file_path, request.encoding), asker(&request));
    here.tell(&format!("kept {what}; {who} is told\n"))?;
    Ok(Exit::Ok)
}

pub fn withdraw(args: WithdrawArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let answer = here.client.withdraw_unlock(&session, &args.id);
    let request = here.heard(answer)?;
    here.tell(&format!("no longer asking for {}\n", talk::key(&request.file_path, request.encoding)))?;
    Ok(Exit::Ok)
}

fn asker(request: &UnlockRequestInfo) -> String {
    talk::person(&request.requested_by, request.requested_by_name.as_deref())
}

fn asked(request: &UnlockRequestInfo) -> String {
    let holder = request.reserved_by.as_deref().map_or_else(|| "the holder".to_owned(), |who| talk::person(who, None));
    let what = talk::key(&request.file_path, request.encoding);
    format!("{} asks {holder} to let go of {what}\n", clean(&request.id, 64))
}
