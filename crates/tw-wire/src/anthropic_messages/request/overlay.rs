//! A client's message of the model of which something had to change: everything else keeps its bytes.

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::request::{Block, CallBlock};

use super::blocks::{self, Home, SentBlock};
use super::history::SentRole;
use super::own_calls;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// The blocks of the message as they were written, with the ids and inputs of its calls; `None` where it has to be
/// written anew. Results of calls that this server ran are the user's to say.
pub fn written(raw: &Json, blocks: &[Block], home: Home) -> Option<Vec<(SentRole, SentBlock)>> {
    let fields = ObjectFields::parse(raw.as_str()).ok()?;
    let content = fields.get("content")?;
    let mut writing = Overlay {
        calls: blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => None,
        }),
        home,
        own: Vec::new(),
        open: Vec::new(),
        sent: Vec::new(),
    };
    let Some(parts) = raw::array(content) else {
        let text = raw::literal(content)?;
        writing.added(blocks);
        let said = blocks::said(&text, None, None);
        let said = said.into_iter().map(|block| (SentRole::Assistant, block));
        writing.sent.extend(said);
        return Some(writing.sent);
    };
    writing.own = own_calls::whole_calls(&parts);
    let has_thoughts = parts.iter().any(|part| {
        let fields = ObjectFields::parse(part.get()).ok();
        let kind = fields.and_then(|fields| fields.get("type").and_then(raw::string));
        !matches!(kind.as_deref(), Some("text" | "tool_use"))
    });
    if !has_thoughts {
        writing.added(blocks);
    }
    for part in &parts {
        writing.part(part, &parts)?;
    }
    writing.answer_own(&parts);
    Some(writing.sent)
}

struct Overlay<I> {
    /// Calls that were not written yet.
    calls: I,
    home: Home,
    /// Calls that this server ran, both halves of which are there.
    own: Vec<String>,
    /// Those of them that were written and have no result yet.
    open: Vec<String>,
    sent: Vec<(SentRole, SentBlock)>,
}

impl<'a, I: Iterator<Item = &'a CallBlock>> Overlay<I> {
    fn push(&mut self, block: SentBlock) {
        self.sent.push((SentRole::Assistant, block));
    }

    /// Adds what the client left out of the model's own message.
    fn added(&mut self, blocks: &[Block]) {
        let is_own = |block: &&Block| matches!(block, Block::Reasoning(_) | Block::Native(_));
        let left_out: Vec<Block> = blocks.iter().filter(is_own).cloned().collect();
        for block in blocks::sent(&left_out, &[], self.home).blocks {
            self.push(block);
        }
    }

    fn part(&mut self, part: &RawValue, parts: &[&RawValue]) -> Option<()> {
        let fields = ObjectFields::parse(part.get()).ok()?;
        let kind = raw::filled_string(fields.get("type"))?;
        let is_own = own_calls::is_own(&fields);
        if !is_own {
            self.answer_own(parts);
        }
        let as_written = || SentBlock::of(part.get().as_bytes().to_vec());
        let is_blank = || {
            let text = fields.get("text").and_then(raw::literal);
            text.is_some_and(|text| blocks::is_blank(&text))
        };
        match (&*kind, self.home) {
            ("text", _) if is_blank() => {}
            ("text", Home::Other) => self.push(SentBlock::of(without(&fields, "citations"))),
            ("text" | "image" | "document", _) => self.push(as_written()),
            ("thinking", Home::Own) => {
                if raw::filled_string(fields.get("signature")).is_some() {
                    self.push(SentBlock {
                        is_thinking: true,
                        ..as_written()
                    });
                }
            }
            ("tool_use", _) => {
                let call = self.calls.next()?;
                self.push(tool_use(&fields, call));
            }
            ("mcp_tool_use", _) if is_own => {
                let id = raw::filled_string(fields.get("id"))?.into_owned();
                if self.own.contains(&id) {
                    let name = raw::filled_string(fields.get("name")).unwrap_or_default();
                    let input = fields.get("input").filter(|input| raw::is_object(input));
                    let input = input.map_or("{}", RawValue::get);
                    self.push(blocks::tool_use(&id, &name, input, None));
                    self.open.push(id);
                }
            }
            _ if is_own => {}
            (kind, Home::Own) => self.push(SentBlock {
                is_thinking: kind == "redacted_thinking",
                ..as_written()
            }),
            (_, Home::Other) => {}
        }
        Some(())
    }

    /// Writes the results of the calls that this server ran, which stand directly behind all of them.
    fn answer_own(&mut self, parts: &[&RawValue]) {
        for id in std::mem::take(&mut self.open) {
            let results = parts.iter().filter_map(|part| {
                let fields = ObjectFields::parse(part.get()).ok()?;
                let of = raw::filled_string(fields.get("tool_use_id"))?;
                (of == id).then_some(fields)
            });
            let Some(result) = results.into_iter().next() else {
                continue;
            };
            let mut json = b"{\"type\":\"tool_result\"".to_vec();
            for (name, value) in &result.0 {
                if matches!(
                    &**name,
                    "tool_use_id" | "content" | "is_error" | "cache_control"
                ) {
                    write::foreign_key(&mut json, name);
                    json.extend_from_slice(value.get().as_bytes());
                }
            }
            json.push(b'}');
            self.sent.push((SentRole::User, SentBlock::of(json)));
        }
    }
}

fn without(fields: &ObjectFields<'_>, left_out: &str) -> Vec<u8> {
    let mut json = vec![b'{'];
    for (name, value) in fields.0.iter().filter(|(name, _)| name != left_out) {
        write::foreign_key(&mut json, name);
        json.extend_from_slice(value.get().as_bytes());
    }
    json.push(b'}');
    json
}

fn tool_use(fields: &ObjectFields<'_>, call: &CallBlock) -> SentBlock {
    let mut json = vec![b'{'];
    let input = blocks::input_of(call);
    for (name, value) in &fields.0 {
        write::foreign_key(&mut json, name);
        match &**name {
            "id" => write::string(&mut json, &call.id),
            "input" => json.extend_from_slice(input.as_bytes()),
            _ => json.extend_from_slice(value.get().as_bytes()),
        }
    }
    if fields.written("input").is_none() {
        write::key(&mut json, "input");
        json.extend_from_slice(input.as_bytes());
    }
    json.push(b'}');
    SentBlock {
        is_call: true,
        ..SentBlock::of(json)
    }
}
