//! `git-dibs status`: who holds what.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context, ServerArgs};
use crate::cli::follow::{News, Next, follow};
use crate::cli::{Exit, talk};
use crate::client::{Client, ReservationFilter};
use crate::local::{autostart, clock, describe};
use crate::text::terminal::time_left;
use crate::wire::{Mode, Reservation, Time};

/// With `--watch`: the shortest time between two looks at the server.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// With `--watch` on a terminal: how often the time left is brought up to date.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct Args {
    /// Show only what your session holds
    #[arg(long, conflicts_with = "holder")]
    mine: bool,
    /// Show only what this session holds
    #[arg(long, value_name = "ID")]
    holder: Option<String>,
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    common: CommonArgs,
}

impl Args {
    /// To show everything that is held.
    pub(super) fn of_all(server: ServerArgs, json: bool) -> Args {
        let common = CommonArgs { json, session: None, server };
        Args { mine: false, holder: None, watch: false, common }
    }
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = if args.mine { Some(context.session()?) } else { args.holder };
    let filter = ReservationFilter { prefix: None, session };
    let mut held = if args.mine {
        let result = context.client.reservations(&filter);
        context.checked(result)?
    } else {
        context.look(|client, _| client.reservations(&filter))?
    };
    if args.watch {
        watch(&mut context, filter)?;
        return Ok(Exit::Ok);
    }
    if !context.json {
        say_where(&context);
    }
    if held.is_empty() && !context.json {
        talk::say("nothing is reserved");
        context.print_notices();
        return Ok(Exit::Ok);
    }
    let own = context.access.session.clone();
    context.print(&table(&mut held, own.as_deref(), context.now()))?;
    if !context.json && held.iter().any(|one| own.as_deref() == Some(&*one.session_id)) {
        talk::say("* marks what your session holds");
    }
    Ok(Exit::Ok)
}

/// The reservations in the order of their paths, `own` marked.
fn table(held: &mut [Reservation], own: Option<&str>, now: Time) -> String {
    held.sort_by(|a, b| (&a.file_path, a.fence).cmp(&(&b.file_path, b.fence)));
    let row = |one: &Reservation| {
        vec![
            if own == Some(&*one.session_id) { "*" } else { "" }.to_owned(),
            describe::key(&one.file_path, one.encoding),
            describe::session(&one.session_id, one.session_name.as_deref()),
            if one.mode == Mode::Shared { one.mode.as_str() } else { "" }.to_owned(),
            time_left(clock::between(now, one.expires_at)),
            describe::reason(one.reason.as_deref()),
        ]
    };
    let rows: Vec<_> = held.iter().map(row).collect();
    talk::table_with_whole(&["", "PATH", "HOLDER", "MODE", "LEFT", "REASON"], rows, &[2, 3, 4])
}

/// Shows what is held, again at each change.
fn watch(context: &mut Context, filter: ReservationFilter) -> Result<()> {
    let client = context.quiet_client()?;
    let own = context.access.session.clone();
    let mut view = View { client, filter, own, json: context.json, held: Vec::new(), drawn: None, is_stale: true };
    follow(context, LOOK_INTERVAL, |news| {
        view.is_stale |= matches!(news, News::Connected | News::Event(_) | News::Missed);
        match view.draw_if_due() {
            Ok(true) => Next::Continue(()),
            Ok(false) => Next::Break(Ok(())),
            Err(error) => Next::Break(Err(error)),
        }
    })
}

/// What is shown with `--watch`.
struct View {
    client: Client,
    filter: ReservationFilter,
    own: Option<String>,
    json: bool,
    held: Vec<Reservation>,
    /// When it was drawn, and by the server's clock.
    drawn: Option<(Instant, Time)>,
    /// Something has changed since.
    is_stale: bool,
}

impl View {
    /// False if the reader of stdout has gone.
    fn draw_if_due(&mut self) -> Result<bool> {
        let age = self.drawn.map(|(at, _)| at.elapsed());
        if self.is_stale && age.is_none_or(|age| age >= LOOK_INTERVAL) {
            // If the server is gone, the stream ends too, and says so.
            let Ok(held) = self.client.reservations(&self.filter) else { return Ok(true) };
            self.held = held;
            self.is_stale = false;
            return self.draw(self.client.server_time().unwrap_or_else(clock::now));
        }
        match self.drawn {
            Some((at, now)) if std::io::stdout().is_terminal() && at.elapsed() >= REDRAW_INTERVAL && !self.json => {
                self.draw(Time(now.0.saturating_add(i64::try_from(at.elapsed().as_millis())?)))
            }
            _ => Ok(true),
        }
    }

    fn draw(&mut self, now: Time) -> Result<bool> {
        self.drawn = Some((Instant::now(), now));
        if self.json {
            return Ok(talk::live_document(self.client.latest_body())?);
        }
        let text = match self.held.is_empty() {
            true => "nothing is reserved\n".to_owned(),
            false => table(&mut self.held, self.own.as_deref(), now),
        };
        Ok(talk::live_screen(&text)?)
    }
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
