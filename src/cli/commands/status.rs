//! `git-dibs status`: who holds what.

use anyhow::Result;

use crate::cli::here::{Common, Here};
use crate::cli::{Exit, talk};
use crate::client::Held;
use crate::hook::text::time_left;
use crate::wire::Reservation;

/// Shows who holds what in this repository.
#[derive(clap::Args)]
pub struct Args {
    /// Show only what your session holds
    #[arg(long, conflicts_with = "holder")]
    mine: bool,
    /// Show only what this session holds
    #[arg(long, value_name = "ID")]
    holder: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let whose = if args.mine { Some(here.session()?) } else { args.holder };
    let answer = here.client.reservations(&Held { prefix: None, session: whose });
    let mut held = here.heard(answer)?;
    if held.is_empty() && !here.json {
        talk::say("nothing is reserved");
        here.tell_notices();
        return Ok(Exit::Ok);
    }
    held.sort_by(|a, b| (&a.file_path, a.fence).cmp(&(&b.file_path, b.fence)));
    let own = here.found.session.clone();
    let row = |one: &Reservation| {
        let is_own = own.as_deref() == Some(&one.session_id);
        vec![
            if is_own { "*" } else { "" }.to_owned(),
            talk::key(&one.file_path, one.encoding),
            talk::person(&one.session_id, one.session_name.as_deref()),
            one.mode.as_str().to_owned(),
            time_left(here.left(one.expires_at)),
            talk::reason(one.reason.as_deref()),
        ]
    };
    let rows: Vec<_> = held.iter().map(row).collect();
    let has_own = rows.iter().any(|row| row[0] == "*");
    here.tell(&talk::table(&["", "PATH", "HOLDER", "MODE", "LEFT", "REASON"], rows))?;
    if has_own && !here.json {
        talk::say("* is yours");
    }
    Ok(Exit::Ok)
}
