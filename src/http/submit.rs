//! From a handler to the desk and back: submit a command, or read the state.

use tokio::sync::oneshot;

use crate::desk::{Desk, ReadCallback, Reply, StateRead, SubmitError, Ticket};
use crate::engine::{Actor, Command, Engine, Notice, Outcome, Refusal, SessionId, Timestamp};

use super::app::Repository;
use super::decision_log::Line;
use super::error::ApiResult;
use super::outcome::refusal;
use super::transport::client_watch::unless_gone;

/// Submits a command and waits for the reply. The command is carried out even if the client disconnects meanwhile.
pub async fn submit(repo: &Repository, actor: Actor, command: Command) -> ApiResult<Reply> {
    let line = Line::begin(&repo.desk, &actor, &command);
    let reply = begin(repo, actor, command)?.receive().await?;
    line.into_iter().for_each(|line| line.end(&reply));
    Ok(reply)
}

/// Submits a command. It is carried out whether or not the reply is received.
pub fn begin(repo: &Repository, actor: Actor, command: Command) -> Result<PendingReply, SubmitError> {
    let (sender, receiver) = oneshot::channel();
    repo.desk.submit(actor, command, repo.reply_channel.reply_to(sender, None))?;
    Ok(PendingReply { receiver: Some(receiver), desk: repo.desk.clone(), request: None })
}

/// Submits a request that may wait in the queue. If the client disconnects while it waits, the request leaves the queue, and
/// a grant that comes too late is given back. A request that does not wait is carried out in any case.
pub async fn submit_and_wait(
    repo: &Repository,
    actor: Actor,
    session: SessionId,
    command: Command,
) -> ApiResult<Reply> {
    let line = Line::begin(&repo.desk, &actor, &command);
    let may_wait = matches!(&command, Command::Reserve(ask) if ask.wait.is_some());
    let pending = begin_reserve(repo, actor, session, command)?;
    let reply = if may_wait { unless_gone(pending.receive()).await? } else { pending.receive().await? };
    line.into_iter().for_each(|line| line.end(&reply));
    Ok(reply)
}

/// Submits a request for keys. Without a client for the reply, it leaves the queue, and what was granted is given back.
pub fn begin_reserve(
    repo: &Repository,
    actor: Actor,
    session: SessionId,
    command: Command,
) -> Result<PendingReply, SubmitError> {
    let (sender, receiver) = oneshot::channel();
    let on_reply = repo.reply_channel.reply_to(sender, Some((repo.desk.clone(), session.clone())));
    let ticket = repo.desk.submit(actor, command, on_reply)?;
    Ok(PendingReply { receiver: Some(receiver), desk: repo.desk.clone(), request: Some((session, ticket)) })
}

/// A reply that a client waits for. If it is dropped before the reply was received, the client has disconnected.
pub struct PendingReply {
    /// None once the reply was received.
    receiver: Option<oneshot::Receiver<Reply>>,
    desk: Desk,
    /// Of a request for keys.
    request: Option<(SessionId, Ticket)>,
}

impl PendingReply {
    pub async fn receive(mut self) -> ApiResult<Reply> {
        let receiver = self.receiver.as_mut().expect("it is taken only here");
        let reply = receiver.await;
        self.receiver = None;
        Ok(reply.map_err(|_| self.desk.no_reply_error())?)
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let (Some(mut receiver), Some((session, ticket))) = (self.receiver.take(), self.request.take()) else { return };
        receiver.close();
        match receiver.try_recv() {
            Ok(Reply { outcome: Ok(Outcome::Granted(grants)), .. }) => self.desk.return_grants(session, grants),
            Ok(_) => {}
            Err(_) => self.desk.cancel(ticket),
        }
    }
}

/// What a handler read from the state, with the notices for the calling session.
pub struct ReadReply<T> {
    pub value: T,
    pub notices: Vec<Notice>,
}

/// Reads the state of the repository, on the desk's thread between two decisions.
pub async fn read_state<T: Send + 'static>(
    desk: &Desk,
    actor: Actor,
    read: impl FnOnce(&Engine, Timestamp) -> T + Send + 'static,
) -> ApiResult<ReadReply<T>> {
    let (on_read, receiver) = state_reader(read);
    desk.read(actor, on_read)?;
    receive_state(receiver).await
}

/// The same for what takes long; see [`Desk::read_large`].
pub async fn read_large_state<T: Send + 'static>(
    desk: &Desk,
    actor: Actor,
    read: impl FnOnce(&Engine, Timestamp) -> T + Send + 'static,
) -> ApiResult<ReadReply<T>> {
    let (on_read, receiver) = state_reader(read);
    desk.read_large(actor, on_read)?;
    receive_state(receiver).await
}

/// What the desk sends to a handler that reads.
type ReadResult<T> = Result<ReadReply<T>, (Refusal, Timestamp)>;

fn state_reader<T: Send + 'static>(
    read: impl FnOnce(&Engine, Timestamp) -> T + Send + 'static,
) -> (ReadCallback, oneshot::Receiver<ReadResult<T>>) {
    let (sender, receiver) = oneshot::channel();
    let on_read = move |state: StateRead<'_>| {
        // No client waits for it any more.
        if sender.is_closed() {
            return;
        }
        let result = match state.refusal {
            Some(refusal) => Err((refusal, state.now)),
            None => Ok(ReadReply { value: read(state.engine, state.now), notices: state.notices }),
        };
        let _ = sender.send(result);
    };
    (Box::new(on_read), receiver)
}

async fn receive_state<T>(receiver: oneshot::Receiver<ReadResult<T>>) -> ApiResult<ReadReply<T>> {
    let result = receiver.await.map_err(|_| SubmitError::Stopped)?;
    result.map_err(|(refused, now)| refusal(refused, now))
}
