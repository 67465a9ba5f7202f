//! `GET /api/events`: what happens, as it happens, as server-sent events.
//!
//! A follower pulls: it takes from the feed what it can pass on, so one that reads slowly costs a connection and
//! nothing more, until the connection is closed because nothing moves (see `transport::write_timeout`). It comes back with the id of
//! the last event it saw. Every block ends with the whole of a record, so ids never lie.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::desk::{AtHand, Follower, Past};
use crate::engine::{Event, Record, Seq, SessionId};
use crate::http::app::App;
use crate::http::caller::{Caller, bearer};
use crate::http::error::{ApiError, ApiResult};
use crate::http::event_json::event_json;
use crate::http::extract::QueryParams;
use crate::http::handlers::reservations::starts_with;
use crate::http::openapi::{params, refusals};
use crate::http::outcome;
use crate::http::submit::look;
use crate::token::{Claims, LEEWAY_SECONDS};
use crate::wire::{self, Code, ErrorBody};

/// Text that is passed on in one go.
const BLOCK_BYTES: usize = 64 * 1024;

/// How long a client may take to hear why its stream ends.
const LAST_WORD_TIME_MAX: Duration = Duration::from_secs(1);

/// Where a follower whose place is gone learns what is held.
const RELOAD: &str = "/api/reservations";

/// What happens, as it happens.
///
/// Server-sent events, one for each record: `id` is its number, `event` the verb, `data` an `Event`. `reset` comes where
/// the stream cannot go on where the reader was, with where to reload; `notices` tells the session that follows what it
/// should know. Comments keep the connection. The stream ends with the server, the token or the session; whoever comes
/// back with the last `id` misses nothing and hears nothing twice.
#[utoipa::path(
    get,
    path = "/api/events",
    operation_id = "followEvents",
    tag = "Looking and operating",
    params(params::Following, params::LastEvent),
    responses(
        (status = 200, description = "A stream.", content_type = "text/event-stream", body = String),
        refusals::Look,
    ),
)]
pub async fn follow(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryParams,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let filter = filter(&query)?;
    let after = after(&query, &headers)?;
    let token = bearer(&headers)?.to_owned();
    let limit = app.limits().event_readers;
    let full = || {
        let sentence = format!("{limit} clients follow this repository already; try again later");
        let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
        body.more.insert("limit".to_owned(), limit.into());
        ApiError::from(body).retry_after(10)
    };
    // Before the look, so that whatever comes after the look is at hand.
    let follower = caller.repo.desk.feed().follow(limit).ok_or_else(full)?;
    let seen = look(&caller.repo.desk, caller.look(), |engine, _| engine.head()).await?;
    let head = seen.value;

    let (blocks, body) = mpsc::channel(1);
    let next_check = Instant::now();
    let mut stream = Stream {
        app,
        follower: Arc::new(follower),
        filter,
        session: caller.claims.session.clone(),
        token,
        claims: caller.claims,
        head,
        fresh: true,
        after: after.unwrap_or(head),
        told: Seq::ZERO,
        blocks,
        text: Vec::new(),
        next_check,
    };
    stream.greet(outcome::notices(seen.notices));
    tokio::spawn(stream.run());
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Asks nginx, the proxy most people have, to pass events on at once.
        (http::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::new(Blocks(body))).into_response())
}

fn filter(query: &QueryParams) -> ApiResult<Filter> {
    let session = match query.one("session") {
        Some(id) => {
            let what = || format!("is {id:?}, and must be 1 to 128 of A-Z, a-z, 0-9, _, . and -");
            Some(SessionId::parse(id).ok_or_else(|| wire::BadBody::field("session", what()))?)
        }
        None => None,
    };
    Ok(Filter { session, prefix: query.one("prefix").map(str::to_owned) })
}

/// Where to go on. A client that comes back says so in the header, and its URL still says where it began.
fn after(query: &QueryParams, headers: &HeaderMap) -> ApiResult<Option<Seq>> {
    let begin = query.number("after", 0, u64::MAX)?;
    let Some(last) = headers.get("last-event-id") else { return Ok(begin.map(Seq)) };
    let last = last.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    match last.and_then(|text| text.parse().ok()) {
        Some(number) => Ok(Some(Seq(number))),
        None => Err(wire::BadBody::field("Last-Event-ID", "must be the id of an event, a whole number").into()),
    }
}

/// Which events a client wants.
struct Filter {
    /// Only what this session does.
    session: Option<SessionId>,
    /// Only what is about keys that start with this.
    prefix: Option<String>,
}

impl Filter {
    /// An event about no session, or no key, does not pass a filter for one.
    fn includes(&self, event: &Event) -> bool {
        let by_session = |session: &SessionId| event.session() == Some(session);
        let by_prefix = |prefix: &String| event.keys().any(|key| starts_with(key, prefix));
        self.session.as_ref().is_none_or(by_session) && self.prefix.as_ref().is_none_or(by_prefix)
    }
}

/// One follower on its way through the records.
struct Stream {
    app: Arc<App>,
    follower: Arc<Follower>,
    filter: Filter,
    /// Whose end ends the stream.
    session: Option<SessionId>,
    token: String,
    claims: Claims,
    /// The last record when it began; a session was alive then.
    head: Seq,
    /// It has not passed on anything yet.
    fresh: bool,
    /// The last record it is done with.
    after: Seq,
    /// The last id the client knows.
    told: Seq,
    blocks: mpsc::Sender<Bytes>,
    /// What goes out next.
    text: Vec<u8>,
    /// When to see whether the token still counts.
    next_check: Instant,
}

/// Why a stream is over, as a comment in it; nothing where there is nobody to read it.
type Over = Option<&'static str>;

impl Stream {
    async fn run(mut self) {
        let (app, blocks) = (self.app.clone(), self.blocks.clone());
        let over = tokio::select! {
            Err(over) = self.tell() => over,
            () = app.stopped() => Some("the server is stopping"),
            () = blocks.closed() => None,
        };
        if let Some(why) = over {
            let last = blocks.send(format!(": {why}\n\n").into());
            // A client that does not read now will hear the connection close.
            let _ = tokio::time::timeout(LAST_WORD_TIME_MAX, last).await;
        }
    }

    /// The first block says where the stream begins, which is where a client comes back to that has seen nothing yet.
    fn greet(&mut self, notices: Vec<wire::Notice>) {
        if self.after > self.head {
            self.reset("unknown");
        } else {
            self.text.extend_from_slice(b": git-dibs\n");
            self.tell_place();
        }
        if !notices.is_empty() {
            self.write(None, "notices", &wire::Notices { notices });
        }
    }

    async fn tell(&mut self) -> Result<(), Over> {
        loop {
            self.flush().await?;
            if Instant::now() >= self.next_check {
                self.check().await?;
            }
            match self.follower.at_hand(self.after) {
                AtHand::Batches(batches) => {
                    for batch in batches {
                        self.pass_on(&batch).await?;
                    }
                }
                AtHand::Older => match self.look_back().await? {
                    Past::Records(records) => self.pass_on(&records).await?,
                    Past::Gone if self.fresh => self.reset("tooOld"),
                    Past::Gone => return Err(Some("the stream fell too far behind; come back with the last id")),
                },
                AtHand::Nothing => {
                    let follower = self.follower.clone();
                    let news = poll_fn(|context| follower.poll_news(self.after, context));
                    if tokio::time::timeout_at(self.next_check, news).await.is_err() {
                        self.text.extend_from_slice(b":\n");
                        self.tell_place();
                    }
                }
            }
        }
    }

    /// One event for each record that is wanted. A session hears of its own end, and of nothing after it.
    async fn pass_on(&mut self, records: &[Record]) -> Result<(), Over> {
        self.fresh = false;
        let known = records.partition_point(|record| record.seq <= self.after);
        for record in &records[known..] {
            if self.filter.includes(&record.event) {
                let event = event_json(record, None);
                self.write(Some(record.seq), event.kind.verb(), &event);
                self.told = record.seq;
            }
            self.after = record.seq;
            if self.text.len() >= BLOCK_BYTES {
                self.flush().await?;
            }
            if let (Event::Ended { session, .. }, Some(own)) = (&record.event, &self.session)
                && session == own
                && record.seq > self.head
            {
                self.flush().await?;
                return Err(Some("the session has ended"));
            }
        }
        Ok(())
    }

    async fn look_back(&self) -> Result<Past, Over> {
        let (follower, after) = (self.follower.clone(), self.after);
        // Reading the journal keeps a thread busy; however many look back, the others wait here and not in a thread.
        let _turn = self.app.journal_readers.acquire().await.map_err(|_| None)?;
        let past = tokio::task::spawn_blocking(move || follower.look_back(after)).await;
        match past {
            Ok(Ok(past)) => Ok(past),
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not look back for an event stream");
                Err(Some("the journal cannot be read now"))
            }
            Err(_) => Err(Some("the journal cannot be read now")),
        }
    }

    /// Whether the token still counts: it may have run out, and its key may be gone.
    async fn check(&mut self) -> Result<(), Over> {
        let now = (self.app.wall_clock)();
        if self.app.keyring.verify(&self.token, now).is_err() {
            self.flush().await?;
            return Err(Some("the token does not count any more"));
        }
        let left = self.claims.expires.saturating_add(LEEWAY_SECONDS).saturating_sub(now);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or(0).max(1));
        self.next_check = Instant::now() + left.min(self.app.limits().event_keep_alive);
        Ok(())
    }

    /// The client's place is gone: it must look at everything again.
    fn reset(&mut self, why: &str) {
        self.fresh = false;
        self.after = self.head;
        let reset = wire::Reset { why: why.into(), reload: RELOAD.into(), after: self.head.0 };
        self.write(Some(self.head), "reset", &reset);
        self.told = self.head;
    }

    /// An id without an event: the client comes back to here, also where nothing it wants has happened for long.
    fn tell_place(&mut self) {
        use std::io::Write;
        if self.told != self.after || self.after == Seq::ZERO {
            writeln!(self.text, "id: {}", self.after.0).expect("memory takes every write");
        }
        self.text.push(b'\n');
        self.told = self.after;
    }

    fn write(&mut self, id: Option<Seq>, name: &str, data: &impl serde::Serialize) {
        use std::io::Write;
        if let Some(id) = id {
            writeln!(self.text, "id: {}", id.0).expect("memory takes every write");
        }
        write!(self.text, "event: {name}\ndata: ").expect("memory takes every write");
        // JSON has no line breaks of its own, and those in names are escaped in it.
        serde_json::to_writer(&mut self.text, data).expect("events are plain data");
        self.text.extend_from_slice(b"\n\n");
    }

    async fn flush(&mut self) -> Result<(), Over> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.blocks.send(std::mem::take(&mut self.text).into()).await.map_err(|_| None)
    }
}

/// The body of an answer that goes on.
struct Blocks(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Blocks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|block| block.map(|block| Ok(Frame::data(block))))
    }
}
