//! Writing the request to the upstream.

use tw_core::accepts::{Accepts, FieldRule, TokenLimit};
use tw_core::json::Json;
use tw_core::native::NativeFields;
use tw_core::request::{
    ChoiceSent, MixedTool, ModelRequest, OfferedTools, RequestTools, ToolChoice,
};
use tw_core::tool::Tool;

use super::adapt_tools::{self, AdaptedTools};
use super::render::StrictMark;
use super::{adapt, render};
use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::write;

pub fn body(request: &ModelRequest<'_>, accepts: &Accepts) -> Vec<u8> {
    let tools = (!accepts.all_tools()).then(|| adapt_tools::tools(request, accepts));
    let mut writer = Writer {
        request,
        accepts,
        adapted: tools.filter(|tools| tools.differs),
        out: Vec::with_capacity(size_hint(request)),
        written: Written::default(),
    };
    writer.out.push(b'{');
    writer.messages();
    for (name, value) in &request.input.fields {
        writer.field(name, value);
    }
    writer.missing();
    writer.out.push(b'}');
    writer.out
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

/// Fields that may have to be added, each with whether it was written already.
#[derive(Default)]
struct Written {
    tools: bool,
    choice: bool,
    limit: bool,
    stream_options: bool,
}

struct Writer<'a> {
    request: &'a ModelRequest<'a>,
    accepts: &'a Accepts,
    /// The tools, where they are not sent as they are.
    adapted: Option<AdaptedTools>,
    out: Vec<u8>,
    written: Written,
}

/// Whether a stream is asked for its usage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Usage {
    Asked,
    NotAsked,
}

impl Writer<'_> {
    fn messages(&mut self) {
        let request = self.request;
        write::key(&mut self.out, "messages");
        self.out.push(b'[');
        adapt::messages(&mut self.out, request, self.accepts);
        self.out.push(b']');
    }

    fn field(&mut self, name: &str, value: &Json) {
        let is_given = !value.is_null();
        match (self.accepts.fields.get(name), name) {
            (Some(FieldRule::LeftOut), _) => return,
            (Some(FieldRule::Renamed(other)), _) => {
                let has_other =
                    |fields: &NativeFields| fields.iter().any(|(name, _)| name == other);
                if !has_other(&self.request.input.fields) {
                    self.untouched(other, value);
                }
                return;
            }
            (None, "metadata") if self.is_for_our_tools() => return,
            (Some(FieldRule::Sent) | None, _) => {}
        }
        match name {
            "model" if *self.request.to.model != *self.request.input.model => self.model(),
            "tools" | "functions" if is_given && self.tools(name) => {}
            "tool_choice" | "function_call" if is_given && self.choice(name) => {}
            // Upstreams refuse it when no tools are offered.
            "parallel_tool_calls" if self.offers_nothing() => {}
            "max_completion_tokens" | "max_tokens" if is_given && self.limit(name) => {}
            "stream_options" if is_given && self.request.ask_usage => {
                self.stream_options(value, Usage::Asked);
            }
            "stream_options" if is_given && !self.accepts.usage_in_streams => {
                self.stream_options(value, Usage::NotAsked);
            }
            _ if !is_given && self.is_added(name) => {}
            _ => self.untouched(name, value),
        }
    }

    /// Whether `metadata` is for the variables of this server's tools; a client that means an upstream to keep it says
    /// `store` as well.
    fn is_for_our_tools(&self) -> bool {
        let has_ours = !matches!(self.request.tools, OfferedTools::AsSent);
        has_ours && self.request.input.store != Some(true)
    }

    /// Whether the client wrote null where we write a value at the end.
    fn is_added(&self, name: &str) -> bool {
        match name {
            "tools" => !matches!(self.request.tools, OfferedTools::AsSent),
            "tool_choice" | "function_call" => self.request.tool_choice == ChoiceSent::None,
            "stream_options" => self.request.ask_usage,
            _ => false,
        }
    }

    fn untouched(&mut self, name: &str, value: &Json) {
        write::foreign_key(&mut self.out, name);
        write::raw(&mut self.out, value);
    }

    fn model(&mut self) {
        write::key(&mut self.out, "model");
        write::string(&mut self.out, &self.request.to.model);
    }

    fn is_old_form(&self) -> bool {
        matches!(self.request.input.tools, RequestTools::ByName(_))
    }

    fn offers_nothing(&self) -> bool {
        let has_none = |adapted: &AdaptedTools| adapted.entries.is_empty();
        self.adapted.as_ref().is_some_and(has_none)
            || match &self.request.tools {
                OfferedTools::AsSent => match &self.request.input.tools {
                    RequestTools::Absent => false,
                    RequestTools::List(entries) | RequestTools::ByName(entries) => {
                        entries.is_empty()
                    }
                },
                OfferedTools::Ours(tools) => tools.is_empty(),
                OfferedTools::Mixed(tools) => tools.is_empty(),
            }
    }

    /// Whether the client makes the model call a tool that is left out.
    fn choice_is_left_out(&self) -> bool {
        let ToolChoice::Named(name) = &self.request.input.tool_choice else {
            return false;
        };
        let adapted = self.adapted.as_ref();
        adapted.is_some_and(|adapted| adapted.left_out.contains(name))
    }

    /// Writes the tools. Like `choice` and `limit`, the function says whether it has dealt with the
    /// field.
    fn tools(&mut self, name: &str) -> bool {
        let is_as_sent = matches!(self.request.tools, OfferedTools::AsSent);
        if self.adapted.is_none() && is_as_sent && !self.offers_nothing() {
            return false;
        }
        self.written.tools = true;
        // An empty list is refused by upstreams.
        if self.offers_nothing() {
            return true;
        }
        write::key(&mut self.out, name);
        self.out.push(b'[');
        match (&self.adapted, &self.request.tools) {
            (Some(adapted), _) => {
                for entry in &adapted.entries {
                    write::separate(&mut self.out);
                    self.out.extend_from_slice(entry);
                }
            }
            (None, OfferedTools::Ours(tools)) => {
                for tool in tools {
                    self.our_tool(tool);
                }
            }
            (None, OfferedTools::Mixed(tools)) => {
                for tool in tools {
                    match tool {
                        MixedTool::Ours(tool) => self.our_tool(tool),
                        MixedTool::Client(entry) => {
                            write::separate(&mut self.out);
                            write::raw(&mut self.out, &entry.raw);
                        }
                    }
                }
            }
            (None, OfferedTools::AsSent) => {}
        }
        self.out.push(b']');
        true
    }

    fn our_tool(&mut self, tool: &Tool) {
        let is_old_form = self.is_old_form();
        write::separate(&mut self.out);
        let (parameters, strict) = (&tool.parameters, StrictMark::Unsaid);
        if is_old_form {
            render::function(&mut self.out, tool, parameters, strict);
        } else {
            render::tool(&mut self.out, tool, parameters, strict);
        }
    }

    fn choice(&mut self, name: &str) -> bool {
        self.written.choice = true;
        let word = match self.request.tool_choice {
            _ if self.offers_nothing() => return true,
            ChoiceSent::AsSent if self.choice_is_left_out() => "auto",
            ChoiceSent::AsSent => return false,
            ChoiceSent::Auto => "auto",
            ChoiceSent::None => "none",
        };
        write::key(&mut self.out, name);
        write::quoted(&mut self.out, word);
        true
    }

    fn limit(&mut self, name: &str) -> bool {
        let Some(max) = self.request.input.completion_tokens_max else {
            return false;
        };
        let left = self.request.completion_tokens_left;
        let wanted = match self.accepts.token_limit {
            TokenLimit::AsSent => name,
            TokenLimit::MaxTokens => "max_tokens",
            TokenLimit::MaxCompletionTokens => "max_completion_tokens",
        };
        // Both may have been written; under one name the limit stands once.
        let again = self.written.limit && self.accepts.token_limit != TokenLimit::AsSent;
        self.written.limit = true;
        if again {
            return true;
        }
        if left.is_none() && self.accepts.token_limit == TokenLimit::AsSent {
            return false;
        }
        write::key(&mut self.out, wanted);
        write::number(&mut self.out, left.unwrap_or(max));
        true
    }

    fn stream_options(&mut self, value: &Json, usage: Usage) {
        self.written.stream_options = true;
        let mut options = vec![b'{'];
        // It was read as an object when the request came in.
        for (name, value) in ObjectFields::parse(value.as_str())
            .map(|fields| fields.0)
            .unwrap_or_default()
        {
            if name != "include_usage" {
                write::foreign_key(&mut options, &name);
                options.extend_from_slice(value.get().as_bytes());
            }
        }
        if usage == Usage::Asked {
            write::key(&mut options, "include_usage");
            options.extend_from_slice(b"true");
        }
        // An upstream that gives no usage may refuse the whole field.
        if options.len() > 1 {
            options.push(b'}');
            write::key(&mut self.out, "stream_options");
            self.out.append(&mut options);
        }
    }

    /// Adds what the client did not write.
    fn missing(&mut self) {
        let is_old_form = self.is_old_form();
        if !self.written.tools {
            self.tools(if is_old_form { "functions" } else { "tools" });
        }
        if !self.written.choice && self.request.tool_choice == ChoiceSent::None {
            self.choice(if is_old_form {
                "function_call"
            } else {
                "tool_choice"
            });
        }
        if !self.written.limit {
            self.limit("max_completion_tokens");
        }
        if !self.written.stream_options && self.request.ask_usage {
            write::key(&mut self.out, "stream_options");
            self.out.extend_from_slice(b"{\"include_usage\":true}");
        }
    }
}

#[cfg(test)]
mod tests;
