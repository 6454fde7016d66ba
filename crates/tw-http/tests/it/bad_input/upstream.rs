//! The upstream of a row.

use bytes::Bytes;
use serde_json::json;
use tw_testkit::listener::{Listener, Piece, Reply};

use super::row::{Answer, Head, Row, Then};
use crate::app::{upstream_body, upstream_stream};

/// The server's own key for the upstream, which no client may see.
pub const UPSTREAM_KEY: &str = "sk-upstream-4f1d0c77";
/// What stands for it in the table.
const KEY_PLACE: &str = "$UPSTREAM_KEY";
/// A gate that nobody opens.
const NEVER: &str = "never";

/// A listener that answers every request as the row says.
pub async fn listen(row: &Row) -> Listener {
    Listener::in_turn(vec![reply(&row.upstream, row.stream)])
        .await
        .unwrap()
}

fn reply(answer: &Answer, streamed: bool) -> Reply {
    match answer.head {
        // Such a row's server is given an address where nobody listens.
        Some(Head::Refused | Head::HangUp) => return Reply::hang_up(),
        Some(Head::Silence) => {
            return Reply::pieces("application/json", vec![Piece::HeadGate(NEVER)]);
        }
        None => {}
    }
    let mut reply = match &answer.body {
        Some(body) => of_body(answer, body),
        None if answer.text.is_some() || !answer.events.is_empty() || answer.tail.is_some() => {
            Reply::sse(events(answer))
        }
        None if streamed => Reply::sse(upstream_stream("Hello", &[])),
        None => Reply::json(upstream_body("Hello", &[])),
    };
    match answer.then {
        Then::End => {}
        Then::Cut => reply.body.push(Piece::Cut),
        Then::Silence => reply.body.push(Piece::Silence),
    }
    reply
}

fn of_body(answer: &Answer, body: &str) -> Reply {
    let body = body.replace(KEY_PLACE, UPSTREAM_KEY);
    let content_type = answer.content_type.as_deref().unwrap_or("application/json");
    let mut reply = Reply::pieces(content_type, vec![Piece::Bytes(Bytes::from(body))]);
    reply.status = answer.status.unwrap_or(200);
    for (name, value) in &answer.headers {
        reply = reply.with_header(name, value);
    }
    reply
}

fn events(answer: &Answer) -> String {
    let mut out = String::new();
    if let Some(text) = &answer.text {
        out.push_str(&text_event(text));
    }
    for event in &answer.events {
        out.push_str(&format!("data: {event}\n\n"));
    }
    out.push_str(answer.tail.as_deref().unwrap_or_default());
    out.replace(KEY_PLACE, UPSTREAM_KEY)
}

/// One chunk with text.
pub fn text_event(text: &str) -> String {
    let chunk = json!({
        "id": "u", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
        "choices": [{
            "index": 0, "delta": { "role": "assistant", "content": text }, "finish_reason": null,
        }],
    });
    format!("data: {chunk}\n\n")
}
