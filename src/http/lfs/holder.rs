//! For which session an LFS client locks. The token decides, never a display name.

use super::protocol::BasicUser;
use crate::engine::{Actor, Command, SessionId};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::outcome::refusal;
use crate::http::submit::submit;
use crate::token::Scope;
use crate::wire::Code;

/// The session that locks, and who acts for it.
pub struct Holder {
    pub actor: Actor,
    pub session: SessionId,
}

impl Holder {
    /// The session of the token. The token of a worker may leave the choice to the user name of Basic credentials; else
    /// the session is named like the subject. A token that may only read has none.
    pub fn of(caller: &Caller, user: &BasicUser) -> ApiResult<Holder> {
        let claims = &caller.claims;
        if claims.scope == Scope::Read {
            let sentence = "this token may read, but not lock or unlock; start a session first: git dibs session start";
            return Err(ApiError::new(Code::Forbidden, sentence));
        }
        let no_session = || {
            let sentence = format!("the subject of this token, {:?}, cannot be the id of a session", claims.subject);
            ApiError::new(Code::Forbidden, sentence)
        };
        let chosen = user.0.as_deref().filter(|_| claims.scope == Scope::Worker).and_then(SessionId::parse);
        let own = claims.session.clone().or(chosen).or_else(|| SessionId::parse(&claims.subject));
        let own = own.ok_or_else(no_session)?;
        let (actor, session) = caller.act_for(own.as_str())?;
        Ok(Holder { actor, session })
    }

    /// Opens the session of an admin, which no call of its own opens.
    pub async fn open(&self, caller: &Caller) -> ApiResult<()> {
        if !matches!(self.actor, Actor::Admin(_)) {
            return Ok(());
        }
        let name = caller.claims.name.clone();
        let command = Command::Create { session: self.session.clone(), name, feature: None, owner: None };
        let reply = submit(&caller.repo, self.actor.clone(), command).await?;
        reply.outcome.map(drop).map_err(|refused| refusal(refused, reply.now))
    }
}

/// The session whose locks are the caller's own, for a list or a verification. The protocol has no renewal, so such a call
/// renews what the session holds.
pub async fn renew(caller: &Caller, user: &BasicUser) -> ApiResult<Option<SessionId>> {
    let Ok(Holder { actor, session }) = Holder::of(caller, user) else { return Ok(None) };
    let is_admin = matches!(actor, Actor::Admin(_));
    let reply = submit(&caller.repo, actor, Command::Heartbeat { session: session.clone() }).await?;
    match reply.outcome {
        // An admin that has locked nothing has no session, and may look all the same.
        Err(_) if is_admin => Ok(Some(session)),
        Err(refused) => Err(refusal(refused, reply.now)),
        Ok(_) => Ok(Some(session)),
    }
}
