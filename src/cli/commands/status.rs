//! `git-dibs status`: who holds what.

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context, ServerArgs};
use crate::cli::{Exit, talk};
use crate::client::ReservationFilter;
use crate::local::{autostart, describe};
use crate::text::terminal::time_left;
use crate::wire::{Mode, Reservation};

#[derive(clap::Args)]
pub struct Args {
    /// Show only what your session holds
    #[arg(long, conflicts_with = "holder")]
    mine: bool,
    /// Show only what this session holds
    #[arg(long, value_name = "ID")]
    holder: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

impl Args {
    /// To show everything that is held.
    pub(super) fn of_all(server: ServerArgs, json: bool) -> Args {
        Args { mine: false, holder: None, common: CommonArgs { json, session: None, server } }
    }
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let mut held = if args.mine {
        let filter = ReservationFilter { prefix: None, session: Some(context.session()?) };
        let result = context.client.reservations(&filter);
        context.checked(result)?
    } else {
        let filter = ReservationFilter { prefix: None, session: args.holder };
        context.look(|client, _| client.reservations(&filter))?
    };
    if !context.json {
        say_where(&context);
    }
    if held.is_empty() && !context.json {
        talk::say("nothing is reserved");
        context.print_notices();
        return Ok(Exit::Ok);
    }
    held.sort_by(|a, b| (&a.file_path, a.fence).cmp(&(&b.file_path, b.fence)));
    let own = context.access.session.clone();
    let row = |one: &Reservation| {
        let is_own = own.as_deref() == Some(&one.session_id);
        vec![
            if is_own { "*" } else { "" }.to_owned(),
            describe::key(&one.file_path, one.encoding),
            holder(&one.session_id, one.session_name.as_deref()),
            if one.mode == Mode::Shared { one.mode.as_str() } else { "" }.to_owned(),
            time_left(context.time_left(one.expires_at)),
            describe::reason(one.reason.as_deref()),
        ]
    };
    let rows: Vec<_> = held.iter().map(row).collect();
    let has_own = rows.iter().any(|row| row[0] == "*");
    context.print(&talk::table_with_whole(&["", "PATH", "HOLDER", "MODE", "LEFT", "REASON"], rows, &[2, 3, 4]))?;
    if has_own && !context.json {
        talk::say("* marks what your session holds");
    }
    Ok(Exit::Ok)
}

/// Says where the repository's own server runs, and since when.
fn say_where(context: &Context) {
    let repo = context.workspace.repo.as_ref().filter(|_| context.access.is_local);
    let Some(record) = repo.and_then(|repo| autostart::running(&repo.common_dir)) else { return };
    let socket = || record.socket.as_ref().map(|path| format!("unix:{}", path.display()));
    let address = record.url.clone().or_else(socket).unwrap_or_default();
    // Without the fractions of a second, so that it fits a line.
    let since = record.started_at.to_string();
    talk::say(&format!("server {address} since {}Z, pid {}", &since[..19], record.pid));
}

/// The holder in as little space as possible: the id alone, if it begins with the name.
fn holder(id: &str, name: Option<&str>) -> String {
    let is_in_id = |name: &&str| id.starts_with(&name.to_ascii_lowercase());
    describe::session(id, name.filter(|name| !is_in_id(name)))
}
