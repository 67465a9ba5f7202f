//! Four APIs of models: what a request tells, and how a reply is written.

use serde_json::{Value, json};

use crate::calls::{Call, Input};

/// An API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions.
    Chat,
    /// Google's generateContent.
    Gemini,
}

/// What the model is to say next.
#[derive(Debug, Clone)]
pub enum Say {
    Text(String),
    Call(Call),
}

/// A reply in a dialect: one document, or events if the client asked for a stream.
pub enum Reply {
    Document(Value),
    Events(Vec<(Option<&'static str>, String)>),
}

/// The conversation in a request.
#[derive(Debug, Default)]
pub struct Conversation {
    /// What the user said.
    pub prompts: Vec<String>,
    /// What the tools answered, in order.
    pub results: Vec<String>,
    /// Whether the model has tools. Without, it is asked for a title or a summary.
    pub has_tools: bool,
}

impl Dialect {
    /// The dialect of a request to this path.
    pub fn of(path: &str) -> Option<Dialect> {
        let path = path.split('?').next().unwrap_or_default();
        match path {
            _ if path.ends_with("/messages") => Some(Dialect::Messages),
            _ if path.ends_with("/responses") => Some(Dialect::Responses),
            _ if path.ends_with("/chat/completions") => Some(Dialect::Chat),
            _ if path.contains("enerateContent") => Some(Dialect::Gemini),
            _ => None,
        }
    }

    pub fn conversation(self, body: &Value) -> Conversation {
        match self {
            Dialect::Messages => messages_conversation(body),
            Dialect::Responses => responses_conversation(body),
            Dialect::Chat => chat_conversation(body),
            Dialect::Gemini => gemini_conversation(body),
        }
    }

    /// Writes a reply; `id` makes its ids differ from those of others.
    pub fn reply(self, path: &str, body: &Value, say: &Say, id: usize) -> Reply {
        let is_stream = body["stream"] == true;
        match self {
            Dialect::Messages => messages_reply(body, say, id, is_stream),
            Dialect::Responses => responses_reply(body, say, id, is_stream),
            Dialect::Chat => chat_reply(body, say, id, is_stream),
            Dialect::Gemini => gemini_reply(path, body, say),
        }
    }
}

/// All text in a value.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(flat).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => match ["text", "content", "output"].iter().find_map(|name| fields.get(*name)) {
            Some(inner) => flat(inner),
            None => value.to_string(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_filled(value: &Value) -> bool {
    value.as_array().is_some_and(|all| !all.is_empty())
}

// ---- Messages ----

fn messages_conversation(body: &Value) -> Conversation {
    let mut conversation = Conversation { has_tools: is_filled(&body["tools"]), ..Conversation::default() };
    for message in list(&body["messages"]) {
        let content = &message["content"];
        if content.is_string() && message["role"] == "user" {
            conversation.prompts.push(flat(content));
        }
        for part in list(content) {
            match part["type"].as_str() {
                Some("tool_result") => conversation.results.push(flat(&part["content"])),
                Some("text") if message["role"] == "user" => conversation.prompts.push(flat(part)),
                _ => {}
            }
        }
    }
    conversation
}

fn messages_reply(body: &Value, say: &Say, id: usize, is_stream: bool) -> Reply {
    let (block, stop) = match say {
        Say::Text(text) => (json!({ "type": "text", "text": text }), "end_turn"),
        Say::Call(call) => (
            json!({ "type": "tool_use", "id": format!("toolu_{id}"), "name": call.tool, "input": call.json() }),
            "tool_use",
        ),
    };
    let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
    let mut message = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": body["model"], "content": [block.clone()],
        "stop_reason": stop, "stop_sequence": null, "usage": usage,
    });
    if !is_stream {
        return Reply::Document(message);
    }
    let (empty, delta) = match say {
        Say::Text(text) => (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": text })),
        Say::Call(call) => {
            let mut empty = block;
            empty["input"] = json!({});
            (empty, json!({ "type": "input_json_delta", "partial_json": call.json().to_string() }))
        }
    };
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let names = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    Reply::Events(names.into_iter().map(Some).zip(events.iter().map(Value::to_string)).collect())
}

// ---- Responses ----

fn responses_conversation(body: &Value) -> Conversation {
    let mut conversation = Conversation { has_tools: is_filled(&body["tools"]), ..Conversation::default() };
    if body["input"].is_string() {
        conversation.prompts.push(flat(&body["input"]));
    }
    for item in list(&body["input"]) {
        match item["type"].as_str() {
            Some("function_call_output" | "custom_tool_call_output") => {
                conversation.results.push(flat(&item["output"]))
            }
            // Codex in code mode.
            Some("additional_tools") => conversation.has_tools |= is_filled(&item["tools"]),
            Some("agent_message") => conversation.prompts.push(flat(&item["content"])),
            _ if item["role"] == "user" => conversation.prompts.push(flat(&item["content"])),
            _ => {}
        }
    }
    conversation
}

fn responses_reply(body: &Value, say: &Say, id: usize, is_stream: bool) -> Reply {
    let mut item = match say {
        Say::Text(text) => json!({
            "type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Say::Call(Call { tool, input: Input::Text(text), .. }) => json!({
            "type": "custom_tool_call", "id": format!("ctc_{id}"), "status": "completed", "call_id": format!("call_{id}"),
            "name": tool, "input": text,
        }),
        Say::Call(call) => json!({
            "type": "function_call", "id": format!("fc_{id}"), "status": "completed", "call_id": format!("call_{id}"),
            "name": call.tool, "arguments": call.json().to_string(),
        }),
    };
    if let Say::Call(Call { namespace: Some(namespace), .. }) = say {
        item["namespace"] = json!(namespace);
    }
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 5,
        "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 15,
    });
    let base = json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": 1, "model": body["model"], "status": "in_progress",
        "output": [],
    });
    let mut done = base.clone();
    done["status"] = json!("completed");
    done["output"] = json!([item]);
    done["usage"] = usage;
    if !is_stream {
        return Reply::Document(done);
    }
    let names = ["response.created", "response.output_item.added", "response.output_item.done", "response.completed"];
    let events = [
        json!({ "type": names[0], "response": base }),
        json!({ "type": names[1], "output_index": 0, "item": item }),
        json!({ "type": names[2], "output_index": 0, "item": item }),
        json!({ "type": names[3], "response": done }),
    ];
    Reply::Events(names.into_iter().map(Some).zip(events.iter().map(Value::to_string)).collect())
}

// ---- Chat Completions ----

fn chat_conversation(body: &Value) -> Conversation {
    let mut conversation = Conversation { has_tools: is_filled(&body["tools"]), ..Conversation::default() };
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("tool") => conversation.results.push(flat(&message["content"])),
            Some("user") => conversation.prompts.push(flat(&message["content"])),
            _ => {}
        }
    }
    conversation
}

fn chat_reply(body: &Value, say: &Say, id: usize, is_stream: bool) -> Reply {
    let (message, finish) = match say {
        Say::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Say::Call(call) => {
            let function = json!({ "name": call.tool, "arguments": call.json().to_string() });
            let calls = json!([{ "index": 0, "id": format!("call_{id}"), "type": "function", "function": function }]);
            (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
        }
    };
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let base = json!({ "id": format!("chat_{id}"), "created": 1, "model": body["model"] });
    let with = |fields: Value| {
        let mut all = base.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };
    if !is_stream {
        let choices = json!([{ "index": 0, "message": message, "finish_reason": finish }]);
        return Reply::Document(with(json!({ "object": "chat.completion", "choices": choices, "usage": usage })));
    }
    let chunk = |delta: Value, finish: Value| json!({ "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let mut last = chunk(json!({}), json!(finish));
    last["usage"] = usage;
    let events = [with(chunk(message, Value::Null)).to_string(), with(last).to_string(), "[DONE]".to_owned()];
    Reply::Events(events.into_iter().map(|event| (None, event)).collect())
}

// ---- Gemini ----

fn gemini_conversation(body: &Value) -> Conversation {
    let mut conversation = Conversation { has_tools: is_filled(&body["tools"]), ..Conversation::default() };
    for content in list(&body["contents"]) {
        for part in list(&content["parts"]) {
            if !part["functionResponse"].is_null() {
                conversation.results.push(part["functionResponse"]["response"].to_string());
            } else if content["role"] == "user" && part["text"].is_string() {
                conversation.prompts.push(flat(&part["text"]));
            }
        }
    }
    conversation
}

fn gemini_reply(path: &str, body: &Value, say: &Say) -> Reply {
    let part = match say {
        // It asks for decisions of its own in JSON.
        Say::Text(_) if body["generationConfig"]["responseMimeType"] == "application/json" => {
            let decision = json!({ "reasoning": "x", "next_speaker": "user", "model_choice": "flash", "complexity_score": 10,
                "complexity_reasoning": "x" });
            json!({ "text": decision.to_string() })
        }
        Say::Text(text) => json!({ "text": text }),
        Say::Call(call) => {
            json!({ "functionCall": { "name": call.tool, "args": call.json() }, "thoughtSignature": "c2ln" })
        }
    };
    let document = json!({
        "candidates": [{ "index": 0, "content": { "role": "model", "parts": [part] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 },
        "modelVersion": "fake",
    });
    match path.contains("stream") {
        true => Reply::Events(vec![(None, document.to_string())]),
        false => Reply::Document(document),
    }
}
