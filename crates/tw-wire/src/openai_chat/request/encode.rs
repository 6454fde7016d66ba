//! Writing the request to the upstream.

use tw_core::json::Json;
use tw_core::request::{ChoiceSent, ModelRequest, OfferedTools, Tools};

use super::render;
use crate::openai_chat::raw::Fields;
use crate::openai_chat::write;

pub fn body(request: &ModelRequest<'_>) -> Vec<u8> {
    let mut writer = Writer {
        request,
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

/// Which of the fields that may have to be added the client had written.
#[derive(Default)]
struct Written {
    tools: bool,
    choice: bool,
    limit: bool,
    stream_options: bool,
}

struct Writer<'a> {
    request: &'a ModelRequest<'a>,
    out: Vec<u8>,
    written: Written,
}

impl Writer<'_> {
    fn messages(&mut self) {
        let request = self.request;
        write::key(&mut self.out, "messages");
        self.out.push(b'[');
        for message in request.messages {
            render::message(&mut self.out, message);
        }
        for round in &request.rounds {
            render::round(&mut self.out, round);
        }
        self.out.push(b']');
    }

    fn field(&mut self, name: &str, value: &Json) {
        let is_given = !value.is_null();
        match name {
            "model" if self.request.model != self.request.input.model => self.model(),
            "tools" | "functions" if is_given && self.tools(name) => {}
            "tool_choice" | "function_call" if is_given && self.choice(name) => {}
            // Upstreams refuse it when no tools are offered.
            "parallel_tool_calls" if self.offers_nothing() => {}
            "max_completion_tokens" | "max_tokens" if is_given && self.limit(name) => {}
            "stream_options" if is_given && self.request.ask_usage => self.stream_options(value),
            _ if !is_given && self.is_added(name) => {}
            _ => self.untouched(name, value),
        }
    }

    /// Whether the client wrote null where we write a value at the end.
    fn is_added(&self, name: &str) -> bool {
        match name {
            "tools" => matches!(self.request.tools, OfferedTools::Ours(_)),
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
        write::string(&mut self.out, self.request.model);
    }

    fn is_old_form(&self) -> bool {
        matches!(self.request.input.tools, Tools::Legacy(_))
    }

    fn offers_nothing(&self) -> bool {
        matches!(&self.request.tools, OfferedTools::Ours(tools) if tools.is_empty())
    }

    /// Each of these says whether it has dealt with the field.
    fn tools(&mut self, name: &str) -> bool {
        let OfferedTools::Ours(tools) = &self.request.tools else {
            return false;
        };
        self.written.tools = true;
        // An empty list is refused by upstreams.
        if tools.is_empty() {
            return true;
        }
        write::key(&mut self.out, name);
        self.out.push(b'[');
        for tool in tools {
            if self.is_old_form() {
                render::function(&mut self.out, tool);
            } else {
                render::tool(&mut self.out, tool);
            }
        }
        self.out.push(b']');
        true
    }

    fn choice(&mut self, name: &str) -> bool {
        self.written.choice = true;
        let word = match self.request.tool_choice {
            _ if self.offers_nothing() => return true,
            ChoiceSent::AsSent => return false,
            ChoiceSent::Auto => "auto",
            ChoiceSent::None => "none",
        };
        write::key(&mut self.out, name);
        write::quoted(&mut self.out, word);
        true
    }

    fn limit(&mut self, name: &str) -> bool {
        self.written.limit = true;
        let Some(left) = self.request.completion_tokens_left else {
            return false;
        };
        write::key(&mut self.out, name);
        write::number(&mut self.out, left);
        true
    }

    fn stream_options(&mut self, value: &Json) {
        self.written.stream_options = true;
        write::key(&mut self.out, "stream_options");
        self.out.push(b'{');
        // It was read as an object when the request came in.
        for (name, value) in Fields::parse(value.as_str())
            .map(|fields| fields.0)
            .unwrap_or_default()
        {
            if name != "include_usage" {
                write::foreign_key(&mut self.out, &name);
                self.out.extend_from_slice(value.get().as_bytes());
            }
        }
        write::key(&mut self.out, "include_usage");
        self.out.extend_from_slice(b"true}");
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
