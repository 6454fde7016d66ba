//! Output of the demo.

use crate::printed;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context;
use serde_json::Value;

/// Prints the text of a chunk as it comes.
pub fn print_delta(data: &str) {
    let Ok(chunk) = serde_json::from_str::<Value>(data) else {
        return;
    };
    if let Some(text) = chunk
        .pointer("/choices/0/delta/content")
        .and_then(Value::as_str)
    {
        printed::say(format_args!("{text}"));
        // Text that a terminal does not take is no reason to stop.
        let _ = std::io::stdout().flush();
    }
}

/// Prints the text of an event of a turn's log, and its calls.
pub fn print_event(event: &Value) {
    match event["type"].as_str() {
        Some("delta") => printed::say(format_args!("{}", text(&event["text"]))),
        Some("call_started") => printed::say(format_args!(" [{} runs]", text(&event["name"]))),
        Some("call_ended") => printed::say(format_args!(" [{}] ", text(&event["status"]))),
        Some(_) | None => {}
    }
    let _ = std::io::stdout().flush();
}

/// The record as text, round by round.
pub fn rounds(record: &Value) -> anyhow::Result<String> {
    let mut out = String::from("What the server did, as its record tells (GET /v1/turns/ID):\n\n");
    let rounds = record["rounds"]
        .as_array()
        .context("the record holds no rounds")?;
    let mut failed_before: Vec<&str> = Vec::new();
    for round in rounds {
        let calls = round["calls"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let how = match calls.len() {
            0 => "the answer",
            1 => "one call",
            2 => "two calls in parallel",
            _ => "several calls in parallel",
        };
        writeln!(out, "  round {}: {how}", round["round"])?;
        for call in calls {
            let name = call["name"].as_str().unwrap_or_default();
            let failed = call["is_error"] == Value::Bool(true);
            let repaired = !failed && failed_before.contains(&name);
            let note = match (failed, repaired) {
                (true, _) => "   (not run: the model reads why and repairs it)",
                (false, true) => "   (repaired)",
                (false, false) => "",
            };
            writeln!(
                out,
                "    {name} {}  ->  {}{note}",
                text(&call["arguments"]),
                short(text(&call["shown"]))
            )?;
            if failed {
                failed_before.push(name);
            }
        }
    }
    writeln!(
        out,
        "\n  {} with {} calls, tokens: {}\n",
        text(&record["status"]),
        record["tool_count"],
        record["usage"]
    )?;
    Ok(out)
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const SHOWN_CHARS_MAX: usize = 110;

fn short(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{cut}…")
}

/// Text that says how to go on by hand.
pub fn try_it(address: SocketAddr, key: &str, model: &str) -> String {
    format!(
        "Try it yourself while it runs:\n\n  \
         curl -N http://{address}/v1/chat/completions -H 'Authorization: Bearer {key}' \\\n    \
         -H 'Content-Type: application/json' \\\n    \
         -d '{{\"model\":\"{model}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\
         \"content\":\"What time is it in Tokyo and in New York, and what is 19.99 * 3?\"}}]}}'\n"
    )
}
