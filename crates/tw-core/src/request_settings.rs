//! What a request says beside its messages and tools, for an upstream of another format than the client's.
//!
//! Within one format the fields go on as they were written, and nobody reads these.

use crate::json::Json;
use crate::native::NativeFields;
use crate::request::PartKind;

/// The settings that formats share; each is `None` where the client did not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSettings {
    pub temperature: Option<Json>,
    pub top_p: Option<Json>,
    pub top_k: Option<Json>,
    pub presence_penalty: Option<Json>,
    pub frequency_penalty: Option<Json>,
    pub seed: Option<Json>,
    /// Texts at which the answer ends.
    pub stop: Vec<String>,
    pub parallel_calls: Option<bool>,
    pub reasoning: ReasoningSettings,
    pub structured: Option<StructuredOutput>,
    /// The wanted length of the answer: `low`, `medium` or `high`.
    pub verbosity: Option<String>,
    pub service_tier: Option<String>,
    /// Names and texts that the client keeps with the request.
    pub metadata: Option<Json>,
    pub prompt_cache_key: Option<String>,
    /// The number of further tokens of which the probability is told.
    pub top_logprobs: Option<Json>,
    /// Anthropic's mark that lets its prompt cache keep what it likes of the request.
    pub cache_control: Option<Json>,
    /// Fields that both of OpenAI's formats have under one name, and no other format has.
    pub of_openai: NativeFields,
    /// Fields that no other format has, by name: they are left out for an upstream of another format, and said so.
    pub without_equal: Vec<String>,
}

/// How much the model is to think before it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasoningSettings {
    /// `none`, `minimal`, `low`, `medium`, `high` and the like.
    pub effort: Option<String>,
    pub budget_tokens: Option<u64>,
    /// How a summary of the reasoning is to be, such as `auto`.
    pub summary: Option<String>,
}

/// The form in which the answer is to be one JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum StructuredOutput {
    /// Any JSON object.
    Object,
    Schema {
        name: String,
        description: Option<String>,
        schema: Json,
        strict: Option<bool>,
    },
}

/// An image, a file or sound, as any format can say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    pub kind: PartKind,
    pub source: MediaSource,
    /// The name of a file.
    pub name: Option<String>,
    /// How closely an image is looked at: `low`, `high` or `auto`.
    pub detail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource {
    Url(String),
    Data {
        /// Such as `image/png`.
        media_type: String,
        base64: String,
    },
    /// A text as a file.
    Text(String),
    /// An id by which one provider knows a file that it was given; no other does.
    FileId(String),
}

impl MediaSource {
    /// The source of a URL, which may hold the data itself.
    pub fn of_url(url: &str) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| {
            let (media_type, base64) = rest.split_once(";base64,")?;
            Some(Self::Data {
                media_type: media_type.to_owned(),
                base64: base64.to_owned(),
            })
        });
        data.unwrap_or_else(|| Self::Url(url.to_owned()))
    }

    /// The source as one URL; `None` for what has none.
    pub fn to_url(&self) -> Option<String> {
        match self {
            Self::Url(url) => Some(url.clone()),
            Self::Data { media_type, base64 } => Some(format!("data:{media_type};base64,{base64}")),
            Self::Text(_) | Self::FileId(_) => None,
        }
    }
}
