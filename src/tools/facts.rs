//! The facts of a result, written once as structured content and once as text.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};

use super::words;

/// What a tool call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    structured: Value,
    text: String,
    /// The call was wrong or could not be made. A conflict is a normal result.
    is_error: bool,
}

impl ToolResult {
    pub fn new(structured: Value, text: String, is_error: bool) -> ToolResult {
        ToolResult { structured, text, is_error }
    }

    /// Adds notices, in the text and in the structured content.
    pub fn with_notices(mut self, notices: Vec<NoticeFact>) -> ToolResult {
        for notice in notices {
            let _ = write!(self.text, "\nNotice: {}", notice.summary);
            let notice = serde_json::to_value(notice).expect("notices are plain data");
            match &mut self.structured["notices"] {
                Value::Array(all) => all.push(notice),
                none => *none = Value::Array(vec![notice]),
            }
        }
        self
    }

    /// The result as MCP writes it.
    pub fn into_value(self) -> Value {
        json!({
            "content": [{ "type": "text", "text": self.text }],
            "structuredContent": self.structured,
            "isError": self.is_error,
        })
    }
}

/// The longest sentence of the server that is repeated, in characters.
pub const SENTENCE_MAX: usize = 600;

/// The facts of a result. Which of them there are depends on the tool; `schema.rs` describes them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Facts {
    pub status: &'static str,
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictFact>,
    #[serde(skip_serializing_if = "is_zero")]
    pub more_conflicts: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<ReservationFact>,
    /// There are more than are listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more_reservations: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clear: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub more_clear: usize,
    /// Those of `clear` that the caller's session holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub yours: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_count: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<CycleFact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestFact>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests_to_you: Vec<RequestFact>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests_by_you: Vec<RequestFact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    #[serde(skip)]
    pub notices: Vec<NoticeFact>,
}

/// What another session holds, or waits for.
#[derive(Debug, Clone, Serialize)]
pub struct ConflictFact {
    pub path: String,
    /// The key through which it is held, if that is another text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_as: Option<String>,
    pub holder: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_name: Option<String>,
    pub mode: &'static str,
    /// The other session does not hold it: it is ahead in the queue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    pub seconds_left: u64,
    pub expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_quoted: Option<String>,
}

/// What a session holds.
#[derive(Debug, Clone, Serialize)]
pub struct ReservationFact {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yours: Option<bool>,
    pub mode: &'static str,
    pub seconds_left: u64,
    pub expires_at: String,
    pub fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_quoted: Option<String>,
}

/// One step of a cycle of waits.
#[derive(Debug, Clone, Serialize)]
pub struct CycleFact {
    pub session: String,
    pub holds: String,
    pub wants: String,
}

/// An unlock request.
#[derive(Debug, Clone, Serialize)]
pub struct RequestFact {
    pub request_id: String,
    pub path: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_name: Option<String>,
    pub requested_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_quoted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note_quoted: Option<String>,
}

/// A notice as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoticeFact {
    pub kind: &'static str,
    pub summary: String,
    /// The unlock request that waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Facts {
    pub fn error(code: Option<&'static str>, summary: String) -> Facts {
        Facts { status: "error", code, summary, ..Facts::default() }
    }

    /// The facts as lines of text.
    fn text(&self) -> String {
        let mut text = self.summary.clone();
        let mut line = |line: std::fmt::Arguments<'_>| {
            let _ = write!(text, "\n{line}");
        };
        if let Some(code) = self.code {
            line(format_args!("Code: {code}"));
        }
        self.conflicts.iter().for_each(|one| line(format_args!("- {one}")));
        if self.more_conflicts > 0 {
            line(format_args!("- and {} more", self.more_conflicts));
        }
        self.reservations.iter().for_each(|one| line(format_args!("- {one}")));
        if self.more_reservations {
            line(format_args!("- and more"));
        }
        for (label, paths) in [("Free", &self.clear), ("Of these you hold", &self.yours), ("Released", &self.released)]
        {
            if !paths.is_empty() {
                line(format_args!("{label}: {}", paths.join(", ")));
            }
        }
        if self.more_clear > 0 {
            line(format_args!("and {} more are free", self.more_clear));
        }
        for step in &self.cycle {
            line(format_args!("- {} holds {} and wants {}", step.session, step.holds, step.wants));
        }
        self.request.iter().for_each(|one| line(format_args!("- {one}")));
        self.requests_to_you.iter().for_each(|one| line(format_args!("- to you: {one}")));
        self.requests_by_you.iter().for_each(|one| line(format_args!("- by you: {one}")));
        self.next.iter().for_each(|next| line(format_args!("Next: {next}")));
        if let Some(session) = &self.session {
            line(format_args!("You are session {session}."));
        }
        text
    }
}

impl From<Facts> for ToolResult {
    fn from(facts: Facts) -> ToolResult {
        let is_error = facts.status == "error";
        let structured = serde_json::to_value(&facts).expect("facts are plain data");
        ToolResult::new(structured, facts.text(), is_error).with_notices(facts.notices)
    }
}

impl std::fmt::Display for ConflictFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let who = who(&self.holder, self.holder_name.as_deref());
        match self.waiting {
            true => write!(f, "{}: {who} is ahead in the queue", self.path)?,
            false => write!(f, "{}: held by {who}", self.path)?,
        }
        if let Some(key) = &self.held_as {
            write!(f, " through {key}")?;
        }
        if let Some(example) = &self.example {
            write!(f, " (both match {example})")?;
        }
        write!(f, ", {}", self.mode)?;
        if !self.waiting {
            write!(f, ", {} left, until {}", words::duration(self.seconds_left), self.expires_at)?;
        }
        if let Some(waiting) = self.queue_length {
            write!(f, ", {waiting} waiting")?;
        }
        quoted(f, "; reason in the holder's words", self.reason_quoted.as_deref())
    }
}

impl std::fmt::Display for ReservationFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)?;
        match (&self.holder, self.yours) {
            (_, Some(true)) => f.write_str(": yours")?,
            (Some(holder), _) => write!(f, ": held by {}", who(holder, self.holder_name.as_deref()))?,
            (None, _) => {}
        }
        let left = words::duration(self.seconds_left);
        write!(f, ", {}, {left} left, until {}, fence {}", self.mode, self.expires_at, self.fence)?;
        quoted(f, "; reason in the holder's words", self.reason_quoted.as_deref())
    }
}

impl std::fmt::Display for RequestFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = who(&self.requested_by, self.requested_by_name.as_deref());
        write!(f, "request {} for {} by {by}, {}", self.request_id, self.path, self.status)?;
        if let Some(holder) = &self.holder {
            write!(f, ", held by {}", who(holder, self.holder_name.as_deref()))?;
        }
        quoted(f, "; reason in their words", self.reason_quoted.as_deref())?;
        quoted(f, "; note in their words", self.note_quoted.as_deref())
    }
}

/// A session: its name and id, or only the id.
pub fn who(id: &str, name: Option<&str>) -> String {
    match name {
        Some(name) if name != id => format!("{name} ({id})"),
        _ => id.to_owned(),
    }
}

fn quoted(f: &mut std::fmt::Formatter<'_>, label: &str, text: Option<&str>) -> std::fmt::Result {
    text.map_or(Ok(()), |text| write!(f, "{label}: \"{text}\""))
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
