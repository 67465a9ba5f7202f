//! From a handler to the desk and back.

use tokio::sync::oneshot;

use crate::desk::{Desk, Look, Reply, Ticket, Trouble};
use crate::engine::{Actor, Command, Engine, Notice, Outcome, SessionId, Timestamp};

use super::app::Repository;
use super::decision_log::Line;
use super::error::ApiResult;
use super::outcome::refusal;

/// Submits a command and waits for its answer. What was submitted is decided even if the caller leaves.
pub async fn decide(repo: &Repository, actor: Actor, command: Command) -> ApiResult<Reply> {
    let (sender, receiver) = oneshot::channel();
    let line = Line::begin(&repo.desk, &actor, &command);
    repo.desk.submit(actor, command, repo.courier.bring(sender, None))?;
    let reply = receiver.await.map_err(|_| repo.desk.silence())?;
    line.into_iter().for_each(|line| line.end(&reply));
    Ok(reply)
}

/// Submits a request that may wait. If the caller leaves, so does the request, and a grant that came too late for
/// anybody to hear is given back.
pub async fn decide_or_wait(repo: &Repository, actor: Actor, session: SessionId, command: Command) -> ApiResult<Reply> {
    let (sender, receiver) = oneshot::channel();
    let line = Line::begin(&repo.desk, &actor, &command);
    let on_reply = repo.courier.bring(sender, Some((repo.desk.clone(), session.clone())));
    let ticket = repo.desk.submit(actor, command, on_reply)?;
    let mut hearing = Hearing { receiver: Some(receiver), desk: repo.desk.clone(), session, ticket };
    let answer = hearing.receiver.as_mut().expect("set above").await;
    hearing.receiver = None;
    let reply = answer.map_err(|_| repo.desk.silence())?;
    line.into_iter().for_each(|line| line.end(&reply));
    Ok(reply)
}

/// Somebody listens for an answer; dropped with the receiver still there, they left.
struct Hearing {
    receiver: Option<oneshot::Receiver<Reply>>,
    desk: Desk,
    session: SessionId,
    ticket: Ticket,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        receiver.close();
        match receiver.try_recv() {
            Ok(Reply { outcome: Ok(Outcome::Granted(grants)), .. }) => self.desk.unheard(self.session.clone(), grants),
            Ok(_) => {}
            Err(_) => self.desk.gone(self.ticket),
        }
    }
}

/// What somebody saw, and what they should know besides.
pub struct Seen<T> {
    /// What the look found.
    pub value: T,
    /// For the session that looked.
    pub notices: Vec<Notice>,
}

/// Looks at the state of the repository, on the desk's thread between two decisions.
pub async fn look<T: Send + 'static>(
    desk: &Desk,
    actor: Actor,
    see: impl FnOnce(&Engine, Timestamp) -> T + Send + 'static,
) -> ApiResult<Seen<T>> {
    let (sender, receiver) = oneshot::channel();
    let look = move |look: Look<'_>| {
        let seen = match look.refusal {
            Some(refusal) => Err((refusal, look.now)),
            None => Ok(Seen { value: see(look.engine, look.now), notices: look.notices }),
        };
        let _ = sender.send(seen);
    };
    desk.look(actor, Box::new(look))?;
    let seen = receiver.await.map_err(|_| Trouble::Stopped)?;
    seen.map_err(|(refused, now)| refusal(refused, now))
}
