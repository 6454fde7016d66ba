//! What OpenAI refuses of a chat completion's request: `wire-formats.md`, sections 2.1 and 5.

use serde_json::Value;

use super::rules::{
    Refusal, arguments, distinct, filled, given, list, number_within, object, one_of, only, plain,
    require, schema, text, url,
};

const FIELDS: [&str; 38] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "verbosity",
    "response_format",
    "seed",
    "stop",
    "n",
    "service_tier",
    "store",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
    "web_search_options",
    "moderation",
    "temperature",
    "top_p",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "modalities",
    "audio",
    "prediction",
    "cache_control",
];
const NAME_CHARS_MAX: usize = 64;
/// Longest id of a call.
const ID_CHARS_MAX: usize = 40;
const STOPS_MAX: usize = 4;

pub fn check(body: &Value) -> Result<(), Refusal> {
    only(body, &FIELDS)?;
    filled(&body["model"])?;
    let tools = tools(body)?;
    choice(body, &tools)?;
    settings(body)?;
    let mut open: Vec<&str> = Vec::new();
    for message in list(&body["messages"])? {
        let role = one_of(
            &message["role"],
            &[
                "system",
                "developer",
                "user",
                "assistant",
                "tool",
                "function",
            ],
        )?;
        if !matches!(role, "tool" | "function") {
            require(open.is_empty(), format!("calls without results: {open:?}"))?;
        }
        match role {
            "system" | "developer" => content(&message["content"], &["text"])?,
            "user" => content(
                &message["content"],
                &["text", "image_url", "file", "input_audio"],
            )?,
            "assistant" => open = assistant(message)?,
            _ => {
                let id = text(
                    &message[if role == "tool" {
                        "tool_call_id"
                    } else {
                        "name"
                    }],
                )?;
                let at = open.iter().position(|have| *have == id);
                let at = at.ok_or_else(|| format!("a result of no call: {id}"))?;
                open.remove(at);
                content(&message["content"], &["text"])?;
            }
        }
    }
    require(open.is_empty(), format!("calls without results: {open:?}"))
}

fn assistant(message: &Value) -> Result<Vec<&str>, Refusal> {
    let mut ids = Vec::new();
    if let Some(calls) = given(message, "tool_calls") {
        for call in list(calls)? {
            let id = filled(&call["id"])?;
            require(
                id.chars().count() <= ID_CHARS_MAX,
                format!("a long id: {id}"),
            )?;
            ids.push(id);
            match one_of(&call["type"], &["function", "custom"])? {
                "function" => {
                    plain(&call["function"]["name"], NAME_CHARS_MAX)?;
                    arguments(&call["function"]["arguments"])?;
                }
                _ => {
                    plain(&call["custom"]["name"], NAME_CHARS_MAX)?;
                    text(&call["custom"]["input"])?;
                }
            }
        }
    }
    if let Some(call) = given(message, "function_call") {
        ids.push(plain(&call["name"], NAME_CHARS_MAX)?);
        arguments(&call["arguments"])?;
    }
    distinct(&ids)?;
    match given(message, "content") {
        Some(said) => content(said, &["text", "refusal"])?,
        None => {
            let refuses = given(message, "refusal").is_some();
            require(refuses || !ids.is_empty(), "an answer of nothing")?;
        }
    }
    Ok(ids)
}

fn content(content: &Value, kinds: &[&str]) -> Result<(), Refusal> {
    if content.is_string() {
        return Ok(());
    }
    for part in list(content)? {
        match one_of(&part["type"], kinds)? {
            "text" => text(&part["text"]).map(drop)?,
            "refusal" => text(&part["refusal"]).map(drop)?,
            "image_url" => {
                url(&part["image_url"]["url"])?;
                if let Some(detail) = given(&part["image_url"], "detail") {
                    one_of(detail, &["auto", "low", "high"])?;
                }
            }
            "file" => {
                let file = &part["file"];
                let has = given(file, "file_data").or(given(file, "file_id"));
                require(has.is_some(), "a file of nothing")?;
            }
            _ => {
                filled(&part["input_audio"]["data"])?;
                one_of(&part["input_audio"]["format"], &["wav", "mp3"])?;
            }
        }
    }
    Ok(())
}

/// Each tool with its type.
type Tools<'a> = Vec<(&'a str, &'a str)>;

fn tools(body: &Value) -> Result<Tools<'_>, Refusal> {
    let mut tools = Vec::new();
    let Some(listed) = given(body, "tools") else {
        return Ok(tools);
    };
    for tool in list(listed)? {
        let kind = one_of(&tool["type"], &["function", "custom"])?;
        let named = &tool[kind];
        let name = plain(&named["name"], NAME_CHARS_MAX)?;
        if kind == "function" {
            only(named, &["name", "description", "parameters", "strict"])?;
            if let Some(parameters) = given(named, "parameters") {
                schema(parameters)?;
            }
        } else {
            only(named, &["name", "description", "format"])?;
            if let Some(format) = given(named, "format")
                && one_of(&format["type"], &["text", "grammar"])? == "grammar"
            {
                one_of(&format["grammar"]["syntax"], &["lark", "regex"])?;
                text(&format["grammar"]["definition"])?;
            }
        }
        tools.push((kind, name));
    }
    let names: Vec<&str> = tools.iter().map(|(_, name)| *name).collect();
    distinct(&names)?;
    Ok(tools)
}

fn choice(body: &Value, tools: &Tools<'_>) -> Result<(), Refusal> {
    if given(body, "parallel_tool_calls").is_some() {
        require(!tools.is_empty(), "parallel_tool_calls without tools")?;
    }
    let Some(choice) = given(body, "tool_choice") else {
        return Ok(());
    };
    require(!tools.is_empty(), "tool_choice without tools")?;
    if choice.is_string() {
        return one_of(choice, &["none", "auto", "required"]).map(drop);
    }
    if choice["type"] == "allowed_tools" {
        let allowed = object(&choice["allowed_tools"])?;
        one_of(&allowed["mode"], &["auto", "required"])?;
        for tool in list(&allowed["tools"])? {
            named(tool, tools)?;
        }
        return Ok(());
    }
    named(choice, tools)
}

fn named(choice: &Value, tools: &Tools<'_>) -> Result<(), Refusal> {
    let kind = one_of(&choice["type"], &["function", "custom"])?;
    let name = text(&choice[kind]["name"])?;
    require(
        tools.contains(&(kind, name)),
        format!("no such tool: {name}"),
    )
}

fn settings(body: &Value) -> Result<(), Refusal> {
    number_within(body, "temperature", 0.0, 2.0)?;
    number_within(body, "top_p", 0.0, 1.0)?;
    number_within(body, "n", 1.0, 128.0)?;
    number_within(body, "max_completion_tokens", 1.0, f64::MAX)?;
    number_within(body, "top_logprobs", 0.0, 20.0)?;
    if given(body, "top_logprobs").is_some() {
        require(body["logprobs"] == true, "top_logprobs without logprobs")?;
    }
    if let Some(stop) = body["stop"].as_array() {
        require((1..=STOPS_MAX).contains(&stop.len()), "too many stops")?;
    }
    if let Some(effort) = given(body, "reasoning_effort") {
        one_of(
            effort,
            &["none", "minimal", "low", "medium", "high", "xhigh"],
        )?;
    }
    if let Some(verbosity) = given(body, "verbosity") {
        one_of(verbosity, &["low", "medium", "high"])?;
    }
    if let Some(tier) = given(body, "service_tier") {
        one_of(tier, &["auto", "default", "flex", "scale", "priority"])?;
    }
    if given(body, "stream_options").is_some() {
        require(body["stream"] == true, "stream_options without stream")?;
    }
    if let Some(format) = given(body, "response_format")
        && one_of(&format["type"], &["text", "json_object", "json_schema"])? == "json_schema"
    {
        plain(&format["json_schema"]["name"], NAME_CHARS_MAX)?;
    }
    Ok(())
}
