//! `GET /api/events`: new events as they happen, as server-sent events.
//!
//! A stream takes from the feed only what its client accepts: the next block of text is made when there is room for it, and
//! no records are kept meanwhile. So a client that reads nothing costs its connection and a few blocks. If it accepts
//! nothing for too long, the connection is closed (see `transport::write_timeout`), and the client
//! reconnects with the id of the last event it received. A block of text always ends with a complete event, so that id is
//! always right.

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
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

use crate::desk::{BufferPage, FeedPage, Follower};
use crate::engine::{Event, Record, Seq, SessionId};
use crate::http::app::{App, Repository};
use crate::http::background::in_background;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::event_texts::{BatchText, EventTexts, JournalPage, TextPage, write_event, write_record};
use crate::http::extract::QueryParams;
use crate::http::live_events::LiveEvents;
use crate::http::login::cookie::{OwnedProof, Proof};
use crate::http::openapi::{params, refusals};
use crate::http::outcome;
use crate::http::submit::read_state;
use crate::key::KeyPrefix;
use crate::token::{Claims, LEEWAY_SECONDS};
use crate::wire::{self, Code, ErrorBody};

/// The size at which collected events are sent. The connection buffers several blocks for a client that is slow to read.
const BLOCK_BYTES: usize = 16 * 1024;

/// The same for events from the journal, where each read takes longer.
const JOURNAL_BLOCK_BYTES: usize = 4 * BLOCK_BYTES;

/// How long a stream that has just sent events collects the next ones, so that many small changes are one write. A stream
/// that was idle for longer sends the first event at once.
const COLLECT_TIME: Duration = Duration::from_millis(50);

/// What all streams of a repository send in a second, in bytes. Beyond that they fall behind and catch up later, and the
/// processors are left to requests. Each stream has an equal share.
const STREAMS_BYTES_PER_SECOND: f64 = 16e6;

/// How far a stream may be ahead of its share before it pauses. Timers are no finer than a millisecond.
const AHEAD_MAX: Duration = Duration::from_millis(5);

/// How long sending the reason for the end of a stream may take.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(1);

/// Where a client that lost its position finds out what is held.
const RELOAD: &str = "/api/reservations";

/// Follow the events as they happen.
///
/// Server-sent events, one for each record: `id` is the number of the record, `event` the verb, `data` an `Event`. Two more
/// kinds of events are `reset`, when the stream cannot continue where the client was, and `notices` for the calling session.
/// With `?live=1` there is also `live`, without an id. Comments keep the connection open. The stream ends with the server, the token or the session. A client that reconnects
/// with the last `id` misses no event and gets none twice.
#[utoipa::path(
    get,
    path = "/api/events",
    operation_id = "followEvents",
    tag = "Monitoring and administration",
    params(params::EventParams, params::LastEvent),
    responses(
        (status = 200, description = "A stream of events.", content_type = "text/event-stream", body = String),
        refusals::Look,
    ),
)]
pub async fn follow(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryParams,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let filter = filter(&query, &caller.repo)?;
    let after = after(&query, &headers)?;
    let live = query.word("live", &[("0", false), ("1", true)])?.unwrap_or(false);
    let proof = Arc::new(Proof::of(&headers, &app)?.to_owned());
    let limit = app.limits().event_readers;
    let full = || {
        let sentence = format!("{limit} clients already follow this repository; try again later");
        let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
        body.more.insert("limit".to_owned(), limit.into());
        ApiError::from(body).retry_after(10)
    };
    // Before the state is read, so that the feed has every record after it.
    let follower = caller.repo.desk.feed().follow(limit).ok_or_else(full)?;
    let reply = read_state(&caller.repo.desk, caller.look(), |engine, now| (engine.head(), now)).await?;
    let (head, now) = reply.value;

    let (blocks, body) = mpsc::channel(1);
    let next_check = Instant::now();
    let mut stream = Stream {
        app,
        live: live.then(|| LiveEvents::follow(&caller.repo, now)),
        repo: caller.repo.clone(),
        follower: Arc::new(follower),
        filter,
        session: caller.claims.session.clone().filter(|_| !caller.is_browser_read),
        proof,
        claims: caller.claims,
        head,
        is_new: true,
        after: after.unwrap_or(head),
        sent_id: Seq::ZERO,
        blocks,
        text: Vec::new(),
        next_check,
        next_send: next_check,
        share_used_until: next_check,
    };
    stream.start(outcome::notices(reply.notices));
    tokio::spawn(stream.run());
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Tells nginx not to buffer the stream.
        (http::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::new(Blocks(body))).into_response())
}

fn filter(query: &QueryParams, repo: &Repository) -> ApiResult<Filter> {
    let session = match query.one("session") {
        Some(id) => {
            let what = || format!("is {id:?}; use 1 to 128 of A-Z, a-z, 0-9, _, . and -");
            Some(SessionId::parse(id).ok_or_else(|| wire::BadBody::field("session", what()))?)
        }
        None => None,
    };
    let prefix = |text| KeyPrefix::new(text, repo.policy().rules.fold_case);
    Ok(Filter { session, prefix: query.one("prefix").map(prefix) })
}

/// The record after which the stream begins. A browser that reconnects sends the header; its URL still has the old value.
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
    prefix: Option<KeyPrefix>,
}

impl Filter {
    /// It lets every event pass.
    fn is_empty(&self) -> bool {
        self.session.is_none() && self.prefix.is_none()
    }

    /// An event about no session, or no key, does not pass a filter for one.
    fn includes(&self, event: &Event) -> bool {
        let by_session = |session: &SessionId| event.session() == Some(session);
        let by_prefix = |prefix: &KeyPrefix| event.keys().any(|key| prefix.matches(key));
        self.session.as_ref().is_none_or(by_session) && self.prefix.as_ref().is_none_or(by_prefix)
    }
}

/// One stream of events.
struct Stream {
    app: Arc<App>,
    repo: Arc<Repository>,
    /// What changes without a record, if the client wants it.
    live: Option<broadcast::Receiver<Bytes>>,
    follower: Arc<Follower>,
    filter: Filter,
    /// The session whose end also ends the stream. A page goes on: it shows that the session has ended.
    session: Option<SessionId>,
    proof: Arc<OwnedProof>,
    claims: Claims,
    /// The last record when the stream began. The session was active then.
    head: Seq,
    /// No record was sent yet.
    is_new: bool,
    /// The last record that was handled, whether or not it was sent.
    after: Seq,
    /// The last id that was sent.
    sent_id: Seq,
    blocks: mpsc::Sender<Bytes>,
    /// Text to be sent next.
    text: Vec<u8>,
    /// When to check the token again.
    next_check: Instant,
    /// Before this time the stream collects events and sends none.
    next_send: Instant,
    /// The time up to which its share of all streams' bytes is used.
    share_used_until: Instant,
}

/// Why a stream ends, sent as a comment; none if the client has disconnected.
type StreamEnd = Option<&'static str>;

impl Stream {
    async fn run(mut self) {
        let (app, repo, blocks) = (self.app.clone(), self.repo.clone(), self.blocks.clone());
        let proof = self.proof.clone();
        let end = tokio::select! {
            Err(end) = self.send_events() => end,
            () = app.stopped() => Some("the server is stopping"),
            () = repo.closed() => Some("another node answers for this repository now; connect again"),
            () = signed_out(&app, &proof) => Some("the browser has signed out"),
            () = blocks.closed() => None,
        };
        if let Some(why) = end {
            self.text.extend_from_slice(format!(": {why}\n\n").as_bytes());
            let last = blocks.send(std::mem::take(&mut self.text).into());
            // A client that does not read now sees the connection close.
            let _ = tokio::time::timeout(GOODBYE_TIME_MAX, last).await;
        }
    }

    /// The first block has the position of the stream, so that a client can reconnect to it before the first event.
    fn start(&mut self, notices: Vec<wire::Notice>) {
        if self.after > self.head {
            self.reset("unknown");
        } else if self.after.generation() != self.head.generation() {
            self.reset("restored");
        } else {
            self.text.extend_from_slice(b": git-dibs\n");
            self.send_position();
        }
        if !notices.is_empty() {
            write_event(&mut self.text, None, "notices", &wire::Notices { notices });
        }
    }

    async fn send_events(&mut self) -> Result<(), StreamEnd> {
        loop {
            let bytes = self.text.len();
            self.flush().await?;
            self.keep_to_share(bytes).await;
            if Instant::now() >= self.next_check {
                self.check().await?;
            }
            // Records are turned into text only when there is room for the text, and are dropped before the next wait.
            let blocks = self.blocks.clone();
            let _room = blocks.reserve().await.map_err(|_| None)?;
            match self.follower.buffered(self.after) {
                BufferPage::Batches(batches) => {
                    let repo = self.repo.clone();
                    for batch in batches {
                        // The text of an event is the same for every stream.
                        let texts = self.filter.is_empty().then(|| repo.event_texts.of_batch(&batch));
                        self.write_records(&batch, texts.as_deref(), BLOCK_BYTES)?;
                        if self.text.len() >= BLOCK_BYTES {
                            break;
                        }
                    }
                }
                BufferPage::TooOld => match self.read_journal().await? {
                    JournalRead::Page(page) => self.write_page(&page, JOURNAL_BLOCK_BYTES)?,
                    JournalRead::Records(records) => self.write_records(&records, None, JOURNAL_BLOCK_BYTES)?,
                    JournalRead::Dropped if self.is_new => self.reset("tooOld"),
                    JournalRead::Dropped => {
                        return Err(Some("the stream fell too far behind; reconnect with the last id"));
                    }
                },
                BufferPage::UpToDate => {
                    let (follower, after) = (self.follower.clone(), self.after);
                    let news = poll_fn(|context| follower.poll_news(after, context));
                    tokio::select! {
                        () = news => {
                            // A stream costs a write for each of these times, however much happens meanwhile.
                            tokio::time::sleep_until(self.next_send).await;
                            self.next_send = Instant::now() + COLLECT_TIME;
                        }
                        live = next_live(&mut self.live) => self.text.extend_from_slice(&live),
                        () = tokio::time::sleep_until(self.next_check) => {
                            self.text.extend_from_slice(b":\n");
                            self.send_position();
                        }
                    }
                }
            }
        }
    }

    /// Pauses after so many bytes if other streams need the time.
    async fn keep_to_share(&mut self, bytes: usize) {
        let share = STREAMS_BYTES_PER_SECOND / self.repo.desk.feed().followers().max(1) as f64;
        let now = Instant::now();
        self.share_used_until = self.share_used_until.max(now) + Duration::from_secs_f64(bytes as f64 / share);
        if self.share_used_until > now + AHEAD_MAX {
            tokio::time::sleep_until(self.share_used_until).await;
        }
    }

    /// Writes an event for each record that passes the filter, until there is enough text. The end of the own session is
    /// the last event. `texts` are those of the records, if they were made already.
    fn write_records(
        &mut self,
        records: &[Record],
        texts: Option<&BatchText>,
        text_max: usize,
    ) -> Result<(), StreamEnd> {
        self.is_new = false;
        let handled = records.partition_point(|record| record.seq <= self.after);
        for (position, record) in records.iter().enumerate().skip(handled) {
            if self.text.len() >= text_max {
                return Ok(());
            }
            if self.filter.includes(&record.event) {
                match texts {
                    Some(texts) => match texts.of_record(position) {
                        Some(text) => self.text.extend_from_slice(text),
                        None => return Ok(()),
                    },
                    None => write_record(&mut self.text, record),
                }
                self.sent_id = record.seq;
            }
            let ended = match &record.event {
                Event::Ended { session, .. } => Some(session),
                _ => None,
            };
            self.handled(record.seq, ended)?;
        }
        Ok(())
    }

    /// The same for the events of a page, for a stream without a filter.
    fn write_page(&mut self, page: &TextPage, text_max: usize) -> Result<(), StreamEnd> {
        self.is_new = false;
        let handled = page.events.partition_point(|event| event.seq <= self.after);
        for (position, event) in page.events.iter().enumerate().skip(handled) {
            if self.text.len() >= text_max {
                return Ok(());
            }
            let Some(text) = page.texts.of_record(position) else { return Ok(()) };
            self.text.extend_from_slice(text);
            self.sent_id = event.seq;
            self.handled(event.seq, event.ended.as_ref())?;
        }
        Ok(())
    }

    /// Notes that a record was handled, and the session that ended with it.
    fn handled(&mut self, seq: Seq, ended: Option<&SessionId>) -> Result<(), StreamEnd> {
        self.after = seq;
        match ended {
            Some(session) if self.session.as_ref() == Some(session) && seq > self.head => {
                Err(Some("the session has ended"))
            }
            _ => Ok(()),
        }
    }

    /// The next records from the journal, with their texts if the stream has no filter.
    async fn read_journal(&self) -> Result<JournalRead, StreamEnd> {
        let (follower, after, has_filter) = (self.follower.clone(), self.after, !self.filter.is_empty());
        // Reading the journal blocks a thread. Streams beyond the limit wait here and not in a thread.
        let permit = self.app.journal_readers.clone().acquire_owned().await.map_err(|_| None)?;
        let repo = self.repo.clone();
        let read = move || {
            // The thread keeps it: the stream may end while it reads.
            let _permit = permit;
            read_records(&repo.event_texts, after, has_filter, |after| follower.read_journal(after))
        };
        match in_background(read).await {
            Some(Ok(read)) => Ok(read),
            Some(Err(error)) => {
                tracing::warn!(%error, "could not read the journal for an event stream");
                Err(Some("the journal cannot be read now"))
            }
            None => Err(Some("the journal cannot be read now")),
        }
    }

    /// Checks the token again: it may have expired, and its key may have been removed.
    async fn check(&mut self) -> Result<(), StreamEnd> {
        let now = (self.app.wall_clock)();
        if self.proof.verify(&self.app).is_err() {
            self.flush().await?;
            return Err(Some("the token is not valid any more"));
        }
        let left = self.claims.expires.saturating_add(LEEWAY_SECONDS).saturating_sub(now);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or(0).max(1));
        self.next_check = Instant::now() + left.min(self.app.limits().event_keep_alive);
        Ok(())
    }

    /// The position of the client is lost: it must reload everything.
    fn reset(&mut self, why: &str) {
        self.is_new = false;
        self.after = self.head;
        let reset = wire::Reset { why: why.into(), reload: RELOAD.into(), after: self.head.0 };
        write_event(&mut self.text, Some(self.head), "reset", &reset);
        self.sent_id = self.head;
    }

    /// Sends an id without an event, so that a client whose filter passes nothing can still reconnect to here.
    fn send_position(&mut self) {
        use std::io::Write;
        if self.sent_id != self.after || self.after == Seq::ZERO {
            writeln!(self.text, "id: {}", self.after.0).expect("a Vec accepts every write");
        }
        self.text.push(b'\n');
        self.sent_id = self.after;
    }

    async fn flush(&mut self) -> Result<(), StreamEnd> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.blocks.send(std::mem::take(&mut self.text).into()).await.map_err(|_| None)
    }
}

/// What a stream reads from the journal.
enum JournalRead {
    /// The records around the position, with their texts.
    Page(Arc<TextPage>),
    /// The next records.
    Records(Vec<Record>),
    /// A snapshot has dropped some of the next records.
    Dropped,
}

/// Reads the records after this one with `read`, and makes their texts unless the stream has a filter.
fn read_records<E>(
    texts: &EventTexts,
    after: Seq,
    has_filter: bool,
    read: impl Fn(Seq) -> Result<FeedPage, E>,
) -> Result<JournalRead, E> {
    if has_filter {
        return Ok(match read(after)? {
            FeedPage::Dropped => JournalRead::Dropped,
            FeedPage::Records(records) => JournalRead::Records(records),
        });
    }
    Ok(match texts.journal_page(after, read)? {
        JournalPage::Dropped => JournalRead::Dropped,
        JournalPage::Shared(page) => JournalRead::Page(page),
        JournalPage::Records(records) => JournalRead::Page(Arc::new(TextPage::of_first(&records, JOURNAL_BLOCK_BYTES))),
    })
}

/// Waits until the login of a browser ends; for ever, if the caller has a token.
async fn signed_out(app: &App, proof: &OwnedProof) {
    let OwnedProof::Cookie(cookie) = proof else { return std::future::pending().await };
    let mut ends = app.ended_logins.follow();
    while Proof::Cookie(cookie).verify(app).is_ok() && ends.changed().await.is_ok() {}
}

/// The next live event; never, if the client wants none. What a slow stream missed is not sent later.
async fn next_live(live: &mut Option<broadcast::Receiver<Bytes>>) -> Bytes {
    loop {
        match live {
            None => std::future::pending().await,
            Some(receiver) => match receiver.recv().await {
                Ok(event) => return event,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => *live = None,
            },
        }
    }
}

/// The body of the response.
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
