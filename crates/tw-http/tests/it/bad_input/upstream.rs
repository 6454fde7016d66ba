//! The upstream of a row.

use bytes::Bytes;
use serde_json::json;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::row::{BadInputRow, Head, Then, UpstreamAnswer};
use crate::app::{upstream_body, upstream_stream};

/// The server's own key for the upstream, which no client may see.
pub const UPSTREAM_KEY: &str = "sk-upstream-4f1d0c77";
/// What stands for it in the table.
const KEY_PLACE: &str = "$UPSTREAM_KEY";
/// A gate that nobody opens.
const NEVER: &str = "never";

/// A listener that answers every request as the row says.
pub async fn listen(row: &BadInputRow) -> Listener {
    Listener::in_turn(vec![reply(&row.upstream, row.stream)])
        .await
        .unwrap()
}

fn reply(answer: &UpstreamAnswer, streamed: bool) -> ListenerReply {
    match answer.head {
        // Such a row's server is given an address where nobody listens.
        Some(Head::Refused | Head::HangUp) => return ListenerReply::hang_up(),
        Some(Head::Silence) => {
            return ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate(NEVER)]);
        }
        None => {}
    }
    let mut reply = match &answer.body {
        Some(body) => of_body(answer, body),
        None if answer.text.is_some() || !answer.events.is_empty() || answer.tail.is_some() => {
            ListenerReply::sse(events(answer))
        }
        None if streamed => ListenerReply::sse(upstream_stream("Hello", &[])),
        None => ListenerReply::json(upstream_body("Hello", &[])),
    };
    match answer.then {
        Then::End => {}
        Then::Cut => reply.body.push(ReplyPiece::Cut),
        Then::Silence => reply.body.push(ReplyPiece::Silence),
    }
    reply
}

fn of_body(answer: &UpstreamAnswer, body: &str) -> ListenerReply {
    let body = body.replace(KEY_PLACE, UPSTREAM_KEY);
    let content_type = answer.content_type.as_deref().unwrap_or("application/json");
    let mut reply = ListenerReply::pieces(content_type, vec![ReplyPiece::Bytes(Bytes::from(body))]);
    reply.status = answer.status.unwrap_or(200);
    for (name, value) in &answer.headers {
        reply = reply.with_header(name, value);
    }
    reply
}

fn events(answer: &UpstreamAnswer) -> String {
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
