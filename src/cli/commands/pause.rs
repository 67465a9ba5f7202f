//! `git-dibs pause` and `git-dibs resume`: sessions of a feature get no new keys, and their commits are refused.
//!
//! A pause is a reservation of the key `feature:NAME:pause`, so it ends with its session at the latest. An admin without a
//! session, such as the owner of a local server, pauses in a new session, and ends the pauses of all sessions.

use std::ffi::OsString;

use anyhow::Result;

use super::reserve::{HoldArgs, attempt, refused, request};
use crate::cli::Exit;
use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::{Failure, sentence_of};
use crate::client::ReservationFilter;
use crate::local::admin;
use crate::local::session::{CreateError, NewSession, create};
use crate::text::terminal::{clean, time_left};
use crate::wire::{self, Code};

#[derive(clap::Args)]
pub struct Args {
    /// The feature, as sessions name it with --feature
    #[arg(value_name = "FEATURE")]
    feature: String,
    /// Why; the sessions of the feature see it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// For this many seconds, unless renewed [default: as long as the session makes calls]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<i64>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Args)]
pub struct ResumeArgs {
    /// The feature that was paused
    #[arg(value_name = "FEATURE")]
    feature: String,
    #[command(flatten)]
    common: CommonArgs,
}

/// The key that pauses a feature.
pub fn pause_key(feature: &str) -> String {
    format!("feature:{feature}:pause")
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = match become_admin(&mut context)? {
        true => open_session(&mut context)?,
        false => context.session()?,
    };
    let names = context.names(&[OsString::from(pause_key(&args.feature))])?;
    let hold = HoldArgs { ttl: args.ttl, reason: args.reason, ..HoldArgs::default() };
    let granted = attempt(&mut context, &session, &request(&names, &hold));
    let granted = granted.map_err(|error| refused(&context, &error, &names, None))?;
    let left = granted.first().map_or_else(String::new, |one| time_left(context.time_left(one.expires_at)));
    let feature = clean(&args.feature, 200);
    context.print(&format!("feature {feature} is paused for {left}; to end it: git dibs resume {feature}\n"))?;
    Ok(Exit::Ok)
}

pub fn resume(args: ResumeArgs) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let key = pause_key(&args.feature);
    let is_admin = become_admin(&mut context)?;
    let was_paused = if is_admin { end_pauses(&mut context, &key)? } else { end_own_pause(&mut context, &key)? };
    let feature = clean(&args.feature, 200);
    let what = if was_paused { "goes on" } else { "was not paused" };
    context.print(&format!("feature {feature} {what}\n"))?;
    Ok(Exit::Ok)
}

/// Ends the pause of the caller's session; with an admin's token, that of whichever session. Returns whether there was one.
fn end_own_pause(context: &mut Context, key: &str) -> Result<bool> {
    let session = context.session()?;
    let request = wire::Release { file_path: Some(key.to_owned()), ..wire::Release::default() };
    let error = match context.client.release(&session, &request) {
        Ok(reply) => return Ok(reply.released),
        Err(error) => error,
    };
    if error.code() != Some(Code::LockNotHeld) {
        return Err(context.failure(&error).into());
    }
    if context.access.credential.as_ref().is_some_and(|credential| credential.is_admin) {
        return end_pauses(context, key);
    }
    let hint = "an admin can end it: DIBS_TOKEN=$(git dibs token YOUR-NAME --scope admin) git dibs resume …";
    Err(context.failure_with(&error, format!("{}\n{hint}", sentence_of(&error))).into())
}

/// If the caller has no session but what makes an admin, acts as the admin from now on. Returns whether it does.
fn become_admin(context: &mut Context) -> Result<bool> {
    if context.access.session.is_some() || context.access.token_problem.is_some() {
        return Ok(false);
    }
    let Ok(credential) = admin::credential(&context.access, &context.workspace) else { return Ok(false) };
    context.access.credential = Some(credential);
    context.use_credential()?;
    Ok(true)
}

/// A session for an admin, and from now on its token.
fn open_session(context: &mut Context) -> Result<String> {
    let user = || context.workspace.environment.text("USER").filter(|user| !user.trim().is_empty());
    // It belongs to no feature, whatever the settings say.
    let name = NewSession::default().with_defaults(&context.workspace).name;
    let name = name.or_else(user).unwrap_or_else(|| "admin".to_owned());
    let new = NewSession { name: Some(name), ..NewSession::default() };
    let created = create(&context.access, &mut context.client, new);
    let created = created.map_err(|error| match error {
        CreateError::Call(error) => context.failure(&error),
        error => Failure::new(Exit::Auth, error.to_string()).for_program(context.json),
    })?;
    context.access.session = Some(created.id.clone());
    context.access.credential = Some(created.credential);
    context.use_credential()?;
    Ok(created.id)
}

/// Ends the pause of whichever session, as an admin. Returns whether there was one.
fn end_pauses(context: &mut Context, key: &str) -> Result<bool> {
    let held = context.look(|client, _| client.reservations(&ReservationFilter::default()))?;
    let pauses: Vec<_> = held.iter().filter(|one| one.file_path == key).collect();
    for pause in &pauses {
        let reason = "an admin lets the feature go on".into();
        let result = context.client.override_reservation(&pause.reservation_id, &wire::Override { reason });
        context.checked(result)?;
    }
    Ok(!pauses.is_empty())
}
