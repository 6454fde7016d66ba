//! What Anthropic refuses of a message's request: `wire-formats.md`, sections 4.1 and 5.

use serde_json::Value;

use super::rules::{
    Refusal, distinct, filled, given, list, number_within, one_of, only, plain, require, text, url,
};

const FIELDS: [&str; 18] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stop_sequences",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "thinking",
    "output_config",
    "metadata",
    "service_tier",
    "container",
    "cache_control",
    "inference_geo",
];
const NAME_CHARS_MAX: usize = 128;
const ID_CHARS_MAX: usize = 256;
const THINKING_TOKENS_MIN: u64 = 1024;
const MARKS_MAX: usize = 4;

pub fn check(body: &Value) -> Result<(), Refusal> {
    only(body, &FIELDS)?;
    filled(&body["model"])?;
    let max_tokens = body["max_tokens"].as_u64().filter(|max| *max > 0);
    let max_tokens = max_tokens.ok_or("no max_tokens")?;
    system(&body["system"])?;
    let turns = turns(&body["messages"])?;
    require(
        turns.first().is_some_and(|turn| turn.is_user),
        "the first is not the user's",
    )?;
    let has_tool_blocks = calls_answered(&turns)?;
    let tools = tools(body)?;
    require(
        !has_tool_blocks || !tools.is_empty(),
        "tool blocks without tools",
    )?;
    let is_forced = choice(body, &tools)?;
    settings(body)?;
    thinking(body, max_tokens, is_forced, &turns)?;
    let marks = body.to_string().matches("\"cache_control\":{").count();
    require(marks <= MARKS_MAX, "too many marks of the cache")
}

/// Messages of one role that follow one another are one.
struct Turn<'a> {
    is_user: bool,
    blocks: Vec<&'a Value>,
}

fn system(system: &Value) -> Result<(), Refusal> {
    if system.is_null() || system.is_string() {
        return Ok(());
    }
    for block in list(system)? {
        one_of(&block["type"], &["text"])?;
        said(block)?;
    }
    Ok(())
}

fn turns(messages: &Value) -> Result<Vec<Turn<'_>>, Refusal> {
    let messages = list(messages)?;
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        only(message, &["role", "content"])?;
        let is_user = one_of(&message["role"], &["user", "assistant"])? == "user";
        let is_last = at + 1 == messages.len();
        let mut blocks = Vec::new();
        match &message["content"] {
            Value::String(text) => {
                require(!text.trim().is_empty(), "a text of nothing")?;
                require(
                    is_user || !is_last || text.trim_end() == text,
                    "a space at the end",
                )?;
            }
            content => {
                let given = content.as_array().ok_or("no content")?;
                require(!given.is_empty(), "a content of nothing")?;
                blocks.extend(given);
            }
        }
        for block in &blocks {
            if is_user {
                user_block(block)?
            } else {
                assistant_block(block)?
            }
        }
        match turns.last_mut() {
            Some(last) if last.is_user == is_user => last.blocks.extend(blocks),
            _ => turns.push(Turn { is_user, blocks }),
        }
    }
    Ok(turns)
}

fn said(block: &Value) -> Result<(), Refusal> {
    require(
        !text(&block["text"])?.trim().is_empty(),
        "a text of nothing",
    )
}

fn user_block(block: &Value) -> Result<(), Refusal> {
    match one_of(
        &block["type"],
        &["text", "image", "document", "tool_result"],
    )? {
        "tool_result" => {
            only(
                block,
                &[
                    "type",
                    "tool_use_id",
                    "content",
                    "is_error",
                    "cache_control",
                ],
            )?;
            if let Some(parts) = block["content"].as_array() {
                for part in parts {
                    one_of(&part["type"], &["text", "image", "document"])?;
                    user_block(part)?;
                }
                return Ok(());
            }
            require(
                block["content"].is_null() || block["content"].is_string(),
                "no content",
            )
        }
        "text" => said(block),
        kind => source(kind, &block["source"]),
    }
}

fn source(kind: &str, source: &Value) -> Result<(), Refusal> {
    let kinds: &[&str] = if kind == "image" {
        &["base64", "url", "file"]
    } else {
        &["base64", "url", "file", "text", "content"]
    };
    match one_of(&source["type"], kinds)? {
        "base64" => {
            let types: &[&str] = if kind == "image" {
                &["image/jpeg", "image/png", "image/gif", "image/webp"]
            } else {
                &["application/pdf"]
            };
            one_of(&source["media_type"], types)?;
            filled(&source["data"]).map(drop)
        }
        "url" => {
            url(&source["url"])?;
            require(!text(&source["url"])?.starts_with("data:"), "data as a URL")
        }
        "text" => {
            one_of(&source["media_type"], &["text/plain"])?;
            filled(&source["data"]).map(drop)
        }
        "file" => filled(&source["file_id"]).map(drop),
        _ => Ok(()),
    }
}

fn assistant_block(block: &Value) -> Result<(), Refusal> {
    match one_of(
        &block["type"],
        &["text", "thinking", "redacted_thinking", "tool_use"],
    )? {
        "text" => said(block),
        "thinking" => {
            text(&block["thinking"])?;
            filled(&block["signature"]).map(drop)
        }
        "redacted_thinking" => filled(&block["data"]).map(drop),
        _ => {
            plain(&block["id"], ID_CHARS_MAX)?;
            plain(&block["name"], NAME_CHARS_MAX)?;
            require(block["input"].is_object(), "an input that is no object")
        }
    }
}

/// Every call is answered in the user's turn behind it, before all else; says whether there was any.
fn calls_answered(turns: &[Turn<'_>]) -> Result<bool, Refusal> {
    let mut ids: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut has_any = false;
    for turn in turns {
        if !turn.is_user {
            let calls = turn
                .blocks
                .iter()
                .filter(|block| block["type"] == "tool_use");
            open = calls
                .map(|block| text(&block["id"]))
                .collect::<Result<_, _>>()?;
            ids.extend(&open);
            continue;
        }
        let mut has_more = false;
        for block in &turn.blocks {
            if block["type"] != "tool_result" {
                has_more = true;
                continue;
            }
            has_any = true;
            require(!has_more, "a result behind something else")?;
            let id = text(&block["tool_use_id"])?;
            let at = open.iter().position(|have| *have == id);
            let at = at.ok_or_else(|| format!("a result of no call: {id}"))?;
            open.remove(at);
        }
        require(open.is_empty(), format!("calls without results: {open:?}"))?;
    }
    require(open.is_empty(), format!("calls without results: {open:?}"))?;
    distinct(&ids)?;
    Ok(has_any || !ids.is_empty())
}

fn tools(body: &Value) -> Result<Vec<&str>, Refusal> {
    let mut names = Vec::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        only(
            tool,
            &[
                "type",
                "name",
                "description",
                "input_schema",
                "strict",
                "cache_control",
                "input_examples",
                "eager_input_streaming",
                "defer_loading",
                "allowed_callers",
            ],
        )?;
        names.push(plain(&tool["name"], NAME_CHARS_MAX)?);
        let schema = &tool["input_schema"];
        require(schema["type"] == "object", "a schema of no object")?;
        for choice in ["anyOf", "oneOf", "allOf"] {
            require(schema[choice].is_null(), "a choice at the top of a schema")?;
        }
    }
    distinct(&names)?;
    Ok(names)
}

/// Says whether a call must be made.
fn choice(body: &Value, tools: &[&str]) -> Result<bool, Refusal> {
    let Some(choice) = given(body, "tool_choice") else {
        return Ok(false);
    };
    require(!tools.is_empty(), "tool_choice without tools")?;
    let kind = one_of(&choice["type"], &["auto", "any", "tool", "none"])?;
    match kind {
        "none" => only(choice, &["type"])?,
        "tool" => {
            let name = text(&choice["name"])?;
            require(tools.contains(&name), format!("no such tool: {name}"))?;
        }
        _ => only(choice, &["type", "disable_parallel_tool_use"])?,
    }
    Ok(matches!(kind, "any" | "tool"))
}

fn settings(body: &Value) -> Result<(), Refusal> {
    number_within(body, "temperature", 0.0, 1.0)?;
    number_within(body, "top_p", 0.0, 1.0)?;
    if let Some(metadata) = given(body, "metadata") {
        only(metadata, &["user_id"])?;
    }
    if let Some(tier) = given(body, "service_tier") {
        one_of(tier, &["auto", "standard_only"])?;
    }
    for stop in body["stop_sequences"].as_array().into_iter().flatten() {
        require(!text(stop)?.trim().is_empty(), "a stop of white space")?;
    }
    if let Some(config) = given(body, "output_config") {
        only(config, &["effort", "format"])?;
        if let Some(effort) = given(config, "effort") {
            one_of(effort, &["low", "medium", "high", "xhigh", "max"])?;
        }
    }
    Ok(())
}

fn thinking(
    body: &Value,
    max_tokens: u64,
    is_forced: bool,
    turns: &[Turn<'_>],
) -> Result<(), Refusal> {
    let Some(thinking) = given(body, "thinking") else {
        return Ok(());
    };
    match one_of(&thinking["type"], &["enabled", "disabled", "adaptive"])? {
        "disabled" => return Ok(()),
        "enabled" => {
            let budget = thinking["budget_tokens"].as_u64().ok_or("no budget")?;
            require(
                (THINKING_TOKENS_MIN..max_tokens).contains(&budget),
                format!("a budget of {budget} in {max_tokens}"),
            )?;
        }
        _ => {}
    }
    require(!is_forced, "thoughts with a call that must be made")?;
    for name in ["temperature", "top_k", "top_p"] {
        require(given(body, name).is_none(), format!("thoughts with {name}"))?;
    }
    // In the middle of a chain of calls the thought that began it has to be there.
    let [.., answer, results] = turns else {
        return Ok(());
    };
    let has = |turn: &Turn<'_>, kind: &str| turn.blocks.iter().any(|block| block["type"] == kind);
    let is_chain = results.is_user && has(results, "tool_result") && !has(results, "text");
    let begins = answer
        .blocks
        .first()
        .is_some_and(|block| block["type"] == "thinking" || block["type"] == "redacted_thinking");
    require(!is_chain || begins, "a chain of calls without its thought")
}
