//! The table of surfaces: how their clients write a request and read an answer.
//!
//! A test of what holds on each surface says what it asks in the words of chat completions, the widest of the three,
//! and gets what it is answered in the same words; here is what becomes of them on the way. [`on_each_surface`] makes a
//! test for each surface of one that takes a surface. Where a surface cannot say something, [`Wish::refusal`] gives the
//! reason.

mod read;
mod write;

use serde_json::Value;
use tw_core::turn_policy::Surface;
use tw_testkit::client::{OpenAnswer, ReadAnswer, TestClient};
use tw_wire::format::WireFormat;

pub use read::{plain, read, without_our_calls};
pub use write::{append, written};

/// Member of a message that a surface gave: its own form of it, which its client sends back as long as it changed
/// nothing in the message.
const AS_GIVEN: &str = "as_given";

/// Makes a test for each surface of functions that take one.
macro_rules! on_each_surface {
    ($($test:ident),+ $(,)?) => { $(
        mod $test {
            use tw_wire::format::WireFormat;

            #[tokio::test]
            async fn chat() {
                super::$test(WireFormat::OpenAiChat).await;
            }

            #[tokio::test]
            async fn messages() {
                super::$test(WireFormat::AnthropicMessages).await;
            }

            #[tokio::test]
            async fn responses() {
                super::$test(WireFormat::OpenAiResponses).await;
            }
        }
    )+ };
}
pub(crate) use on_each_surface;

/// A thing that not every surface has words for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Errors with a code that programs read.
    ErrorCode,
    /// Errors that name the field that is wrong.
    ErrorField,
    /// A request that says whether its contents are stored.
    Unstored,
    /// A second field for the end user.
    SafetyField,
    /// Several answers to one request.
    Choices,
}

impl Wish {
    /// Why a surface has it not; `None` if it has.
    pub fn refusal(self, surface: WireFormat) -> Option<&'static str> {
        match (self, surface) {
            (_, WireFormat::OpenAiChat) => None,
            (Self::ErrorCode, WireFormat::AnthropicMessages) => {
                Some("an error is a type and a message; only that of threads has a code")
            }
            (Self::ErrorField, WireFormat::AnthropicMessages) => {
                Some("an error is a type and a message, which names the field")
            }
            (Self::Unstored, WireFormat::AnthropicMessages) => {
                Some("there is no field for it; the key's record policy says it")
            }
            (Self::SafetyField, WireFormat::AnthropicMessages) => {
                Some("metadata has one field for the user")
            }
            (
                Self::ErrorCode | Self::ErrorField | Self::Unstored | Self::SafetyField,
                WireFormat::OpenAiResponses,
            ) => None,
            (Self::Choices, _) => Some("there is one answer to a request"),
        }
    }
}

/// The path at which a surface is asked.
pub fn path(surface: WireFormat) -> &'static str {
    match surface {
        WireFormat::OpenAiChat => crate::app::CHAT,
        WireFormat::AnthropicMessages => "/v1/messages",
        WireFormat::OpenAiResponses => "/v1/responses",
    }
}

/// The surface's name in the record.
pub fn recorded(surface: WireFormat) -> Surface {
    match surface {
        WireFormat::OpenAiChat => Surface::ChatCompletions,
        WireFormat::AnthropicMessages => Surface::Messages,
        WireFormat::OpenAiResponses => Surface::Responses,
    }
}

/// The last event of a stream that went well.
pub fn stream_end(surface: WireFormat) -> &'static str {
    match surface {
        WireFormat::OpenAiChat | WireFormat::OpenAiResponses => "data: [DONE]\n\n",
        WireFormat::AnthropicMessages => {
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
        }
    }
}

/// Sends a request that is written as a chat completion, and reads the whole answer.
pub async fn send(
    client: &TestClient,
    surface: WireFormat,
    headers: &[(&str, &str)],
    chat: &Value,
) -> ReadAnswer {
    open(client, surface, headers, chat).await.read().await
}

/// The same up to the answer's head.
pub async fn open(
    client: &TestClient,
    surface: WireFormat,
    headers: &[(&str, &str)],
    chat: &Value,
) -> OpenAnswer {
    let body = written(surface, chat).to_string();
    let opened = client.open("POST", path(surface), headers, body).await;
    opened.unwrap()
}

/// The text of an answer that went well.
pub fn text(surface: WireFormat, got: &ReadAnswer) -> String {
    let message = read(surface, got).message;
    message["content"].as_str().unwrap_or_default().to_owned()
}

/// An error as a client reads it.
#[derive(Debug)]
pub struct SurfaceError {
    pub kind: String,
    pub message: String,
    pub code: Value,
    pub param: Value,
}

impl SurfaceError {
    /// The error of an answer, which is its body or an event of its stream.
    pub fn of(surface: WireFormat, got: &ReadAnswer) -> Self {
        let whole = if read::is_stream(got) {
            let mut events = read::events(&got.text()).into_iter();
            let error = events.find(|event| event["type"] == "error" || event["error"].is_object());
            error.unwrap_or_else(|| panic!("no error in {}", got.text()))
        } else {
            got.json()
        };
        let inner = match (surface, whole.get("error")) {
            (WireFormat::AnthropicMessages, _) => {
                assert_eq!(whole["type"], "error", "{whole}");
                &whole["error"]
            }
            // An event of a response is the error itself.
            (WireFormat::OpenAiChat | WireFormat::OpenAiResponses, Some(inner)) => inner,
            (WireFormat::OpenAiChat | WireFormat::OpenAiResponses, None) => &whole,
        };
        let word = |name: &str| inner[name].as_str().unwrap_or_default().to_owned();
        Self {
            kind: word("type"),
            message: word("message"),
            code: inner["code"].clone(),
            param: inner["param"].clone(),
        }
    }
}

/// Checks an error's status and, where the surface has codes, its code.
#[track_caller]
pub fn assert_refused(surface: WireFormat, got: &ReadAnswer, status: u16, code: &str) {
    assert_eq!(got.status, status, "{surface:?}: {}", got.text());
    let error = SurfaceError::of(surface, got);
    assert!(!error.message.is_empty(), "{surface:?}: {}", got.text());
    match Wish::ErrorCode.refusal(surface) {
        None => assert_eq!(error.code, code, "{surface:?}"),
        Some(why) => assert!(error.kind.ends_with("_error"), "{why}: {}", got.text()),
    }
}

/// Checks which field of the request an error is about, where the surface tells.
#[track_caller]
pub fn assert_field(surface: WireFormat, got: &ReadAnswer, field: &str) {
    let error = SurfaceError::of(surface, got);
    match Wish::ErrorField.refusal(surface) {
        None => assert_eq!(error.param, field, "{surface:?}"),
        Some(why) => assert!(error.message.contains(field), "{why}: {}", error.message),
    }
}
