//! Writing the request to the upstream.

use tw_core::accepts::{Accepts, FieldRule};
use tw_core::json::Json;
use tw_core::request::{ChoiceSent, ModelRequest, OfferedTools, ToolChoice};
use tw_core::request_changes::RequestChanges;

use super::blocks::SentBlocks;
use super::cache_marks::MarkBudget;
use super::crossing;
use super::history::{WrittenHistory, history};
use super::tools_sent::{self, SentTools};
use crate::anthropic_messages::FORMAT;
use crate::openai_chat::content::CACHE_CONTROL;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// Least budget for thoughts, in tokens: the API's own.
pub const THINKING_TOKENS_MIN: u64 = 1024;

/// A request as it is sent.
pub struct SentBody {
    pub out: Vec<u8>,
    /// What the upstream does not get as it was written.
    pub changes: RequestChanges,
}

pub fn body(request: &ModelRequest<'_>, accepts: &Accepts) -> SentBody {
    let is_native = request.input.format == FORMAT;
    let mut marks = if is_native {
        MarkBudget::default()
    } else {
        MarkBudget::of(request)
    };
    // In the order of the prompt.
    let tools = tools_sent::tools(request, accepts, &mut marks);
    let system = if is_native {
        SentBlocks::default()
    } else {
        crossing::system(request, &mut marks)
    };
    let sent = Sent {
        request,
        accepts,
        history: history(request, accepts, &mut marks),
        tools,
        system,
    };
    let mut body = if is_native {
        native(&sent)
    } else {
        crossing::body(&sent)
    };
    body.changes.add_times(CACHE_CONTROL, marks.dropped);
    body.changes.add_all(&sent.system.changes);
    body.changes.add_all(&sent.history.changes);
    body
}

/// The parts of a request that take some work.
pub struct Sent<'a> {
    pub request: &'a ModelRequest<'a>,
    pub accepts: &'a Accepts,
    pub history: WrittenHistory,
    pub tools: SentTools,
    /// What stands in `system` of a request of another format.
    pub system: SentBlocks,
}

impl Sent<'_> {
    pub fn messages(&self, out: &mut Vec<u8>) {
        write::key(out, "messages");
        out.push(b'[');
        self.history.write(out);
        out.push(b']');
    }

    /// Writes the tools; nothing if there are none.
    pub fn tools(&self, out: &mut Vec<u8>) {
        if self.tools.entries.is_empty() {
            return;
        }
        write::key(out, "tools");
        out.push(b'[');
        for entry in &self.tools.entries {
            write::separate(out);
            out.extend_from_slice(entry);
        }
        out.push(b']');
    }
}

/// A request that was written in this format.
fn native(sent: &Sent<'_>) -> SentBody {
    let mut writer = NativeWriter {
        sent,
        out: Vec::with_capacity(size_hint(sent.request)),
        changes: RequestChanges::default(),
        has_tools: false,
        has_choice: false,
    };
    writer.out.push(b'{');
    sent.messages(&mut writer.out);
    for (name, value) in &sent.request.input.fields {
        writer.field(name, value);
    }
    writer.missing();
    writer.out.push(b'}');
    SentBody {
        out: writer.out,
        changes: writer.changes,
    }
}

fn size_hint(request: &ModelRequest<'_>) -> usize {
    let messages = request
        .messages
        .iter()
        .filter_map(|message| message.raw.as_ref());
    let fields = request.input.fields.iter().map(|(_, value)| value);
    messages
        .chain(fields)
        .map(|json| json.as_str().len() + 32)
        .sum()
}

struct NativeWriter<'a> {
    sent: &'a Sent<'a>,
    out: Vec<u8>,
    changes: RequestChanges,
    has_tools: bool,
    has_choice: bool,
}

impl NativeWriter<'_> {
    fn field(&mut self, name: &str, value: &Json) {
        let request = self.sent.request;
        match self.sent.accepts.fields.get(name) {
            Some(FieldRule::LeftOut) => return self.changes.add(name.to_owned()),
            Some(FieldRule::Renamed(other)) => {
                let fields = &request.input.fields;
                if !fields.iter().any(|(name, _)| name == other) {
                    self.untouched(other, value);
                }
                return;
            }
            Some(FieldRule::Sent) | None => {}
        }
        match name {
            "model" if *request.to.model != *request.input.model => {
                write::key(&mut self.out, "model");
                write::string(&mut self.out, &request.to.model);
            }
            "tools" => self.tools(value),
            "tool_choice" => self.choice(value),
            "max_tokens" => match request.completion_tokens_left {
                Some(left) => {
                    write::key(&mut self.out, "max_tokens");
                    write::number(&mut self.out, left);
                }
                None => self.untouched(name, value),
            },
            "thinking" => self.thinking(value),
            _ => self.untouched(name, value),
        }
    }

    fn untouched(&mut self, name: &str, value: &Json) {
        write::foreign_key(&mut self.out, name);
        write::raw(&mut self.out, value);
    }

    fn tools(&mut self, value: &Json) {
        self.has_tools = true;
        let is_as_sent = matches!(self.sent.request.tools, OfferedTools::AsSent);
        if is_as_sent && !self.sent.tools.differs && !self.sent.tools.entries.is_empty() {
            return self.untouched("tools", value);
        }
        self.sent.tools(&mut self.out);
    }

    fn choice(&mut self, value: &Json) {
        self.has_choice = true;
        let request = self.sent.request;
        let is_left_out = match &request.input.tool_choice {
            ToolChoice::Named(name) => self.sent.tools.left_out.contains(name),
            ToolChoice::Absent
            | ToolChoice::None
            | ToolChoice::Auto
            | ToolChoice::Required
            | ToolChoice::Other(_) => false,
        };
        let is_as_sent = request.tool_choice == ChoiceSent::AsSent
            && !is_left_out
            && !self.sent.tools.are_past
            && !self.sent.tools.entries.is_empty();
        if is_as_sent {
            return self.untouched("tool_choice", value);
        }
        if is_left_out {
            self.changes.add("tool_choice");
        }
        self.chosen();
    }

    fn chosen(&mut self) {
        if let Some(choice) = tools_sent::choice(self.sent.request, &self.sent.tools) {
            write::key(&mut self.out, "tool_choice");
            self.out.extend_from_slice(&choice);
        }
    }

    /// A budget for thoughts has to be within that of the answer, and thoughts have to be there from the beginning.
    fn thinking(&mut self, value: &Json) {
        let fields = ObjectFields::parse(value.as_str()).ok();
        let get = |name| fields.as_ref().and_then(|fields| fields.get(name));
        let is_enabled = get("type").and_then(raw::string).as_deref() == Some("enabled");
        let budget = get("budget_tokens").and_then(raw::count);
        let left = self.sent.request.completion_tokens_left;
        let (Some(budget), true) = (budget, is_enabled) else {
            return self.untouched("thinking", value);
        };
        let is_too_much = left.is_some_and(|left| budget >= left);
        if !is_too_much && !self.sent.history.lacks_thought() {
            return self.untouched("thinking", value);
        }
        self.changes.add("thinking");
        let rest = left.map_or(budget, |left| budget.min(left.saturating_sub(1)));
        if self.sent.history.lacks_thought() || rest < THINKING_TOKENS_MIN {
            return;
        }
        write::key(&mut self.out, "thinking");
        self.out.push(b'{');
        for (name, value) in fields.iter().flat_map(|fields| &fields.0) {
            write::foreign_key(&mut self.out, name);
            if name == "budget_tokens" {
                write::number(&mut self.out, rest);
            } else {
                self.out.extend_from_slice(value.get().as_bytes());
            }
        }
        self.out.push(b'}');
    }

    /// Adds what the client did not write.
    fn missing(&mut self) {
        if !self.has_tools {
            self.sent.tools(&mut self.out);
        }
        let needs_choice =
            self.sent.tools.are_past || self.sent.request.tool_choice == ChoiceSent::None;
        if !self.has_choice && needs_choice {
            self.chosen();
        }
    }
}
