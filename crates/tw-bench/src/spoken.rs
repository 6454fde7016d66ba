//! The formats that clients and model servers speak here, a row each.

use tw_wire::format::WireFormat;

/// A format as the bench speaks it: what it asks for, and what it looks for in a streamed answer.
#[derive(Debug)]
pub struct SpokenFormat {
    pub format: WireFormat,
    /// `kind` of an upstream that speaks it, in the server's configuration.
    pub upstream_kind: &'static str,
    /// Beginning of the names of models that the server looks for at such an upstream; empty for all that are left.
    pub model_prefix: &'static str,
    /// Text before a piece of the answer's text, in its event and in no other one.
    pub text: &'static str,
    /// Text in the event that says that the answer is whole.
    pub finish: &'static str,
    /// Text in the last event.
    pub end: &'static str,
}

const CHAT: SpokenFormat = SpokenFormat {
    format: WireFormat::OpenAiChat,
    upstream_kind: "openai",
    model_prefix: "",
    text: r#""content":""#,
    finish: r#""finish_reason":"stop""#,
    end: "[DONE]",
};
const MESSAGES: SpokenFormat = SpokenFormat {
    format: WireFormat::AnthropicMessages,
    upstream_kind: "anthropic",
    model_prefix: "messages-",
    text: r#""type":"text_delta","text":""#,
    finish: r#""stop_reason":"end_turn""#,
    end: r#""type":"message_stop""#,
};
const RESPONSES: SpokenFormat = SpokenFormat {
    format: WireFormat::OpenAiResponses,
    upstream_kind: "openai_responses",
    model_prefix: "responses-",
    text: r#""delta":""#,
    finish: r#""type":"response.completed""#,
    end: "[DONE]",
};

impl SpokenFormat {
    /// Each before those whose models' names may begin with anything: the first upstream that serves a model is asked.
    pub const ALL: [&Self; 3] = [&MESSAGES, &RESPONSES, &CHAT];

    pub fn of(format: WireFormat) -> &'static Self {
        match format {
            WireFormat::OpenAiChat => &CHAT,
            WireFormat::AnthropicMessages => &MESSAGES,
            WireFormat::OpenAiResponses => &RESPONSES,
        }
    }

    /// The format that is asked for at this path.
    pub fn at(path: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|spoken| spoken.path() == path)
    }

    /// The path at which it is asked for, at the server and at the fake upstream.
    pub fn path(&self) -> String {
        format!("/v1/{}", self.format.path())
    }

    /// The name by which the server's clients ask a model of such an upstream.
    pub fn model(&self, model: &str) -> String {
        format!("{}{model}", self.model_prefix)
    }
}
