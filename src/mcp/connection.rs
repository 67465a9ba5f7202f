//! One connection: reads messages, answers them, and makes the tool calls.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, Scope};

use serde_json::Value;

use super::calls;
use super::keep_alive::KeepAlive;
use super::lines::{self, Line};
use super::session::{CallContext, Sessions};
use crate::client::Cancel;
use crate::local::{Flags, Names, clock, heartbeat, notices};
use crate::tools::protocol::{self, Action};
use crate::tools::rpc::{self, Message, Request, RpcError};
use crate::tools::{self, Aside, MESSAGE_BYTES_MAX, ToolCall, ToolReply, ToolUse};
use crate::wire::EndState;

/// The most tool calls at the same time. A client that makes more is told to wait for one of them.
const CALLS_MAX: usize = 32;

/// The longest session id in the metadata of a call, in bytes.
const CODEX_SESSION_BYTES_MAX: usize = 256;

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot read the messages: {0}")]
    Read(io::Error),
}

/// A connection to one client.
pub struct Connection {
    sessions: Sessions,
    instructions: String,
    /// The tool calls that are under way, by the id of their request.
    under_way: Mutex<HashMap<String, UnderWay>>,
    keep_alive: KeepAlive,
}

/// A tool call that is under way.
struct UnderWay {
    cancel: Cancel,
    /// It may wait in the server's queue.
    waits: bool,
}

impl Connection {
    pub fn new(flags: Flags) -> Connection {
        Connection {
            sessions: Sessions::new(flags),
            instructions: tools::instructions(),
            under_way: Mutex::default(),
            keep_alive: KeepAlive::default(),
        }
    }

    /// Answers messages until the input ends, and ends the session that was opened for the connection.
    pub fn serve(&self, mut input: impl BufRead, output: impl Write + Send) -> Result<(), ServeError> {
        let output = Output(Mutex::new(output));
        let read = thread::scope(|scope| {
            scope.spawn(|| self.keep_alive.run());
            let read = loop {
                match lines::next(&mut input, MESSAGE_BYTES_MAX) {
                    Ok(Some(line)) => self.receive(line, scope, &output),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(ServeError::Read(error)),
                }
            };
            // The client says nothing more, but it may still read results. It does not wait for minutes.
            self.cancel(|call| call.waits);
            self.keep_alive.stop();
            read
        });
        self.sessions.end(EndState::Completed);
        read
    }

    /// Ends what the connection began, because the process is told to stop.
    pub fn stop(&self) {
        self.cancel(|_| true);
        self.sessions.end(EndState::Stopped);
    }

    fn receive<'scope>(
        &'scope self,
        line: Line,
        scope: &'scope Scope<'scope, '_>,
        output: &'scope Output<impl Write + Send>,
    ) {
        let bytes = match line {
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => return,
            Line::Whole(bytes) => bytes,
            Line::TooLong => {
                let sentence = format!("a message may have {MESSAGE_BYTES_MAX} bytes, and this one has more");
                return output.send(&rpc::error_reply(&Value::Null, &RpcError::new(rpc::INVALID_REQUEST, sentence)));
            }
        };
        match rpc::read(&bytes) {
            Ok(Message::Request(request)) => self.answer(request, scope, output),
            Ok(Message::Notification(notification)) => {
                if let Some(id) = protocol::cancelled_request(&notification)
                    && let Some(call) = self.under_way().get(&id.to_string())
                {
                    call.cancel.cancel();
                }
            }
            Ok(Message::Reply) => {}
            Err(reply) => output.send(&reply),
        }
    }

    fn answer<'scope>(
        &'scope self,
        request: Request,
        scope: &'scope Scope<'scope, '_>,
        output: &'scope Output<impl Write + Send>,
    ) {
        if let Some(name) = protocol::client_name(&request) {
            self.sessions.set_client_name(name);
        }
        let tool_use = match protocol::answer(&request, &self.instructions) {
            Ok(Action::Reply(result)) => return output.send(&request.result(result)),
            Ok(Action::Use(tool_use)) => tool_use,
            Err(error) => return output.send(&request.error(&error)),
        };
        let waits = tool_use.call.as_ref().is_ok_and(|call| call.wait_seconds() > 0);
        let cancel = match self.begin(&request.id, waits) {
            Ok(cancel) => cancel,
            Err(error) => return output.send(&request.error(&error)),
        };
        scope.spawn(move || {
            let result = self.use_tool(&request, tool_use, &cancel);
            self.under_way().remove(&request.id.to_string());
            // The client does not expect a reply to a request that it cancelled.
            if !cancel.is_cancelled() {
                output.send(&request.result(result));
            }
        });
    }

    /// Notes that a tool call is under way.
    fn begin(&self, id: &Value, waits: bool) -> Result<Cancel, RpcError> {
        let mut under_way = self.under_way();
        if under_way.len() >= CALLS_MAX {
            let sentence = format!("{CALLS_MAX} tool calls are under way; wait for one of them");
            return Err(RpcError::new(rpc::REFUSED, sentence));
        }
        let id = id.to_string();
        if under_way.contains_key(&id) {
            return Err(RpcError::new(rpc::INVALID_REQUEST, "a request with this id is under way"));
        }
        let cancel = Cancel::default();
        under_way.insert(id, UnderWay { cancel: cancel.clone(), waits });
        Ok(cancel)
    }

    fn use_tool(&self, request: &Request, mut tool_use: ToolUse, cancel: &Cancel) -> Value {
        let Ok(call) = &tool_use.call else { return tool_use.failed("") };
        let needs_session = calls::needs_session(call);
        let found = self.sessions.find(codex_session(request), needs_session, cancel);
        let mut context = match found {
            Ok(context) => context,
            Err(sentence) => return tool_use.failed(&sentence),
        };
        // The client cannot know the id of a session that the connection opened for itself.
        if let Some(result) = context.given_session().and_then(|own| tool_use.misnamed(own)) {
            return result;
        }
        let Ok(call) = &mut tool_use.call else { return tool_use.failed("") };
        if let Err(sentence) = name_keys(&mut context, call) {
            return tool_use.failed(&sentence);
        }
        let mut reply = calls::make(&mut context.client, context.session.as_deref(), call);
        if let Err(error) = &reply
            && calls::is_rejected(error)
            && self.sessions.replace(&mut context, error, needs_session, cancel)
        {
            reply = calls::make(&mut context.client, context.session.as_deref(), call);
        }
        if let (true, Ok(ToolReply::Reserved(reserved))) = (cancel.is_cancelled(), &reply) {
            context.give_back(reserved);
        }
        let now = context.client.server_time().unwrap_or_else(clock::now);
        let (repo, session) = (context.workspace.repo.as_ref(), context.session.as_deref());
        let mut saved =
            repo.zip(session).map(|(repo, session)| notices::take(&repo.common_dir, session)).unwrap_or_default();
        saved.extend(self.keep_alive.used(session));
        if let (Ok(ToolReply::Reserved(reserved)), Some(session)) = (&reply, session) {
            let first_end = reserved.clone().into_reservations().iter().map(|one| one.expires_at).min().unwrap_or(now);
            let until_beat = heartbeat::until_next(first_end, Some(now));
            self.keep_alive.reserved(session, &context.access, context.credential(), until_beat);
        }
        let aside = Aside { notices: saved, notes: std::mem::take(&mut context.notes) };
        tool_use.result(session, reply.map_err(calls::tool_error), aside, now)
    }

    fn cancel(&self, which: impl Fn(&UnderWay) -> bool) {
        self.under_way().values().filter(|call| which(call)).for_each(|call| call.cancel.cancel());
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, UnderWay>> {
        self.under_way.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// Reads the paths of a call as a command reads its arguments: relative to the current directory, or absolute.
fn name_keys(context: &mut CallContext, call: &mut ToolCall) -> Result<(), String> {
    let Some((paths, encoding)) = call.paths_mut() else { return Ok(()) };
    let typed: Vec<OsString> = paths.iter().map(OsString::from).collect();
    let names = Names::typed(&context.workspace.cwd, &typed).map_err(|error| error.to_string())?;
    paths.iter_mut().zip(names.texts()).for_each(|(path, key)| *path = key);
    *encoding = names.encoding();
    context.notes.extend(names.notes());
    Ok(())
}

/// The session that Codex names in the metadata of a call.
fn codex_session(request: &Request) -> Option<&str> {
    let turn = request.meta()?.get("x-codex-turn-metadata")?;
    let session = turn.get("session_id")?.as_str()?;
    (1..=CODEX_SESSION_BYTES_MAX).contains(&session.len()).then_some(session)
}

/// Where the replies go, one line each.
struct Output<W>(Mutex<W>);

impl<W: Write> Output<W> {
    fn send(&self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        let mut output = self.0.lock().unwrap_or_else(|poison| poison.into_inner());
        // A client that does not read any more will close the input too.
        let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
    }
}
