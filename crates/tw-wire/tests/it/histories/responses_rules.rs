//! What OpenAI refuses of a response's request: `wire-formats.md`, sections 3.2, 3.3 and 5.

use serde_json::Value;

use super::rules::{
    Refusal, arguments, distinct, filled, given, list, number_within, one_of, only, plain, require,
    schema, text, url,
};

const FIELDS: [&str; 31] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "previous_response_id",
    "conversation",
    "store",
    "background",
    "stream",
    "stream_options",
    "include",
    "reasoning",
    "text",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "truncation",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "context_management",
    "moderation",
    "user",
];
const NAME_CHARS_MAX: usize = 128;
/// Longest id of a call.
const ID_CHARS_MAX: usize = 64;
const OUTPUT_TOKENS_MIN: f64 = 16.0;
const IDENTIFIER_CHARS_MAX: usize = 64;

pub fn check(body: &Value) -> Result<(), Refusal> {
    only(body, &FIELDS)?;
    filled(&body["model"])?;
    let tools = tools(body)?;
    choice(body, &tools)?;
    settings(body)?;
    if body["input"].is_string() {
        return Ok(());
    }
    let items = list(&body["input"])?;
    let mut calls = Calls::default();
    for (at, item) in items.iter().enumerate() {
        let kind = match given(item, "type") {
            Some(kind) => text(kind)?,
            None => "message",
        };
        match kind {
            "message" => message(item)?,
            "reasoning" => reasoning(item, items.get(at + 1), &body["store"])?,
            "function_call" | "custom_tool_call" => calls.call(kind, item)?,
            "function_call_output" | "custom_tool_call_output" => calls.output(kind, item)?,
            other => return Err(format!("an item of no known type: {other}")),
        }
    }
    let ids: Vec<&str> = items
        .iter()
        .filter_map(|item| item["id"].as_str())
        .collect();
    distinct(&ids)?;
    require(
        calls.open.is_empty(),
        format!("calls without outputs: {:?}", calls.open),
    )
}

#[derive(Default)]
struct Calls<'a> {
    /// Calls whose output has not come yet, by type and id.
    open: Vec<(&'a str, &'a str)>,
}

impl<'a> Calls<'a> {
    fn call(&mut self, kind: &'a str, item: &'a Value) -> Result<(), Refusal> {
        let id = filled(&item["call_id"])?;
        require(
            id.chars().count() <= ID_CHARS_MAX,
            format!("a long id: {id}"),
        )?;
        plain(&item["name"], NAME_CHARS_MAX)?;
        text(
            &item[if kind == "function_call" {
                "arguments"
            } else {
                "input"
            }],
        )?;
        if kind == "function_call" {
            arguments(&item["arguments"])?;
        }
        if let Some(own) = given(item, "id") {
            let begin = if kind == "function_call" { "fc" } else { "ctc" };
            require(
                text(own)?.starts_with(begin),
                format!("an id of another item: {own}"),
            )?;
        }
        require(
            !self.open.iter().any(|(_, open)| *open == id),
            format!("twice: {id}"),
        )?;
        self.open.push((kind, id));
        Ok(())
    }

    fn output(&mut self, kind: &str, item: &Value) -> Result<(), Refusal> {
        let id = text(&item["call_id"])?;
        let of = |open: &(&str, &str)| open.1 == id && kind.strip_suffix("_output") == Some(open.0);
        let at = self.open.iter().position(of);
        let at = at.ok_or_else(|| format!("an output of no call: {id}"))?;
        self.open.remove(at);
        parts(
            &item["output"],
            &["input_text", "input_image", "input_file"],
        )
    }
}

fn message(item: &Value) -> Result<(), Refusal> {
    let kinds: &[&str] = match one_of(&item["role"], &["user", "assistant", "system", "developer"])?
    {
        "assistant" => &["output_text", "refusal"],
        "user" => &["input_text", "input_image", "input_file", "input_audio"],
        _ => &["input_text"],
    };
    if let Some(id) = given(item, "id") {
        require(
            text(id)?.starts_with("msg"),
            format!("an id of another item: {id}"),
        )?;
    }
    parts(&item["content"], kinds)
}

fn parts(content: &Value, kinds: &[&str]) -> Result<(), Refusal> {
    if content.is_string() {
        return Ok(());
    }
    for part in list(content)? {
        match one_of(&part["type"], kinds)? {
            "input_text" | "output_text" => text(&part["text"]).map(drop)?,
            "refusal" => text(&part["refusal"]).map(drop)?,
            "input_image" => {
                match (given(part, "image_url"), given(part, "file_id")) {
                    (Some(of), _) => url(of)?,
                    (None, Some(_)) => {}
                    (None, None) => return Err("an image of nothing".to_owned()),
                }
                if let Some(detail) = given(part, "detail") {
                    one_of(detail, &["auto", "low", "high", "original"])?;
                }
            }
            "input_file" => {
                let names = ["file_data", "file_url", "file_id"];
                let has = names.iter().any(|name| given(part, name).is_some());
                require(has, "a file of nothing")?;
            }
            _ => filled(&part["input_audio"]["data"]).map(drop)?,
        }
    }
    Ok(())
}

fn reasoning(item: &Value, next: Option<&Value>, store: &Value) -> Result<(), Refusal> {
    require(item["summary"].is_array(), "reasoning without a summary")?;
    let is_kept = *store != false;
    let is_whole = given(item, "encrypted_content").is_some() || item["content"].is_array();
    require(is_kept || is_whole, "reasoning that nobody keeps")?;
    let next = next.ok_or("reasoning with nothing behind it")?;
    let is_answer = next["role"] == "assistant"
        || ["reasoning", "function_call", "custom_tool_call"]
            .iter()
            .any(|kind| next["type"] == *kind);
    require(is_answer, "reasoning without its answer")
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
        let name = plain(&tool["name"], NAME_CHARS_MAX)?;
        if kind == "function" {
            only(
                tool,
                &["type", "name", "description", "parameters", "strict"],
            )?;
            if let Some(parameters) = given(tool, "parameters") {
                schema(parameters)?;
                let strict = tool["strict"] != false;
                let closed = parameters["additionalProperties"] == false;
                require(
                    !strict || closed,
                    format!("a strict tool with an open schema: {name}"),
                )?;
            }
        } else {
            only(tool, &["type", "name", "description", "format"])?;
            if let Some(format) = given(tool, "format")
                && one_of(&format["type"], &["text", "grammar"])? == "grammar"
            {
                one_of(&format["syntax"], &["lark", "regex"])?;
                text(&format["definition"])?;
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
        one_of(&choice["mode"], &["auto", "required"])?;
        for tool in list(&choice["tools"])? {
            named(tool, tools)?;
        }
        return Ok(());
    }
    named(choice, tools)
}

fn named(choice: &Value, tools: &Tools<'_>) -> Result<(), Refusal> {
    let kind = one_of(&choice["type"], &["function", "custom"])?;
    let name = text(&choice["name"])?;
    require(
        tools.contains(&(kind, name)),
        format!("no such tool: {name}"),
    )
}

fn settings(body: &Value) -> Result<(), Refusal> {
    number_within(body, "temperature", 0.0, 2.0)?;
    number_within(body, "top_p", 0.0, 1.0)?;
    number_within(body, "top_logprobs", 0.0, 20.0)?;
    number_within(body, "max_output_tokens", OUTPUT_TOKENS_MIN, f64::MAX)?;
    if let Some(user) = given(body, "safety_identifier") {
        require(
            text(user)?.chars().count() <= IDENTIFIER_CHARS_MAX,
            "a long safety_identifier",
        )?;
    }
    if let Some(effort) = given(&body["reasoning"], "effort") {
        one_of(
            effort,
            &["none", "minimal", "low", "medium", "high", "xhigh"],
        )?;
    }
    if let Some(summary) = given(&body["reasoning"], "summary") {
        one_of(summary, &["auto", "concise", "detailed"])?;
    }
    if let Some(truncation) = given(body, "truncation") {
        one_of(truncation, &["auto", "disabled"])?;
    }
    if let Some(tier) = given(body, "service_tier") {
        one_of(tier, &["auto", "default", "flex", "scale", "priority"])?;
    }
    if let Some(format) = given(&body["text"], "format")
        && one_of(&format["type"], &["text", "json_object", "json_schema"])? == "json_schema"
    {
        plain(&format["name"], NAME_CHARS_MAX)?;
        schema(&format["schema"])?;
    }
    for word in body["include"].as_array().into_iter().flatten() {
        let known = [
            "reasoning.encrypted_content",
            "message.output_text.logprobs",
        ];
        one_of(word, &known)?;
    }
    Ok(())
}
