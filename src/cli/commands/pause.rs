//! `git-dibs pause` and `git-dibs resume`: sessions of a feature get no new keys, and their commits are refused.
//!
//! A pause is a reservation of the key `feature:NAME:pause`, so it ends with its session at the latest.

use std::ffi::OsString;

use anyhow::Result;

use super::reserve::{HoldArgs, attempt, refused, request};
use crate::cli::Exit;
use crate::cli::context::{CommonArgs, Context};
use crate::text::terminal::{clean, time_left};
use crate::wire;

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
    let session = context.session()?;
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
    let session = context.session()?;
    let request = wire::Release { file_path: Some(pause_key(&args.feature)), ..wire::Release::default() };
    let result = context.client.release(&session, &request);
    let reply = context.checked(result)?;
    let feature = clean(&args.feature, 200);
    let what = if reply.released { "goes on" } else { "was not paused" };
    context.print(&format!("feature {feature} {what}\n"))?;
    Ok(Exit::Ok)
}
