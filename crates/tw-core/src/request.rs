//! The request of a client, whatever format it wrote it in.
//!
//! Each part keeps the text it came in, so that a part that needs no change goes out untouched.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::id::CallId;
use crate::json::{Json, Literal};
use crate::model::{CallForm, CallNative};
use crate::native::{AnswerOrigin, FormatName, NativeFields, NativeLabel, NativePart};
use crate::tool::Tool;

/// A request for a turn.
#[derive(Clone, Debug)]
pub struct ModelInput {
    pub model: String,
    /// What the client wrote outside of the messages for the model to obey; empty in a format that has no such place.
    pub instructions: Vec<Block>,
    pub messages: Vec<Message>,
    pub tools: RequestTools,
    pub tool_choice: ToolChoice,
    pub stream: bool,
    /// The client asked for usage in a stream.
    pub include_usage: bool,
    /// Alternative answers that are asked for, at least 1.
    pub choices: u32,
    /// `max_completion_tokens`, or its old name; the budget of the whole turn.
    pub completion_tokens_max: Option<u64>,
    /// The answer is to be one JSON text (`response_format` of `json_schema`, `json_object` and the like).
    pub is_structured: bool,
    /// `store`; `None` means the key's own setting.
    pub store: Option<bool>,
    /// `safety_identifier`, else `user`.
    pub user: Option<String>,
    /// The format in which the client wrote the request.
    pub format: FormatName,
    /// Every field but the messages in the client's order, as written.
    pub fields: NativeFields,
    pub ends: MessageEnds,
    /// Lists of calls with nothing in them, which are left out.
    pub empty_lists: u32,
    /// Halves of characters that were replaced as the request was read.
    pub half_characters: u32,
    /// Ids of calls in the messages that this server ran, in a format that shows them.
    pub shown_calls: BTreeSet<String>,
}

impl ModelInput {
    /// Bytes that its parts take beside the text that they share. A body of very many small parts takes several times
    /// its text.
    pub fn parts_bytes(&self) -> usize {
        let blocks: usize = self
            .messages
            .iter()
            .map(|message| message.blocks.len())
            .sum();
        self.messages.len() * size_of::<Message>() + blocks * size_of::<Block>()
    }
}

/// The ends of messages in the body that they were read from, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageEnds {
    /// The last message before the last one of the assistant; `None` if there is none.
    pub before_answer: Option<usize>,
    /// The last message.
    pub last: usize,
}

/// The tools that a client describes in its request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestTools {
    Absent,
    /// In the client's order; may be empty.
    List(Vec<ToolEntry>),
    /// Tools whose calls have no ids, in the client's order.
    ByName(Vec<ToolEntry>),
}

impl RequestTools {
    pub fn entries(&self) -> &[ToolEntry] {
        match self {
            Self::Absent => &[],
            Self::List(entries) | Self::ByName(entries) => entries,
        }
    }
}

/// A tool as the client described it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolEntry {
    pub name: String,
    pub form: CallForm,
    pub description: Option<String>,
    pub strict: Option<bool>,
    /// A tool that the provider runs itself: no other one knows what it is.
    pub is_of_provider: bool,
    /// `parameters`, if any.
    pub parameters: Option<Json>,
    /// The whole entry as written.
    pub raw: Json,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ToolChoice {
    Absent,
    None,
    Auto,
    Required,
    /// A function by name.
    Named(String),
    /// Another object, such as `allowed_tools`.
    Other(Json),
}

impl ToolChoice {
    /// Whether the model is made to call a tool, which must hold for the first round only.
    pub fn is_forced(&self) -> bool {
        match self {
            Self::Absent | Self::None | Self::Auto => false,
            Self::Required | Self::Named(_) | Self::Other(_) => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
    /// The message as the client wrote it; `None` for one that we made.
    pub raw: Option<Json>,
    /// Ids, arguments or native fields of the blocks are other ones than in `raw`.
    pub is_changed: bool,
    /// Where the model's answer that this is came from, if that is known.
    pub origin: Option<Arc<AnswerOrigin>>,
    /// The call whose approval was asked for, and whose result this is once that is known.
    pub awaits: Option<CallId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
    /// Carries results of calls.
    Tool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(Literal),
    Refusal(Literal),
    Reasoning(ReasoningBlock),
    Call(CallBlock),
    Result(ResultBlock),
    /// An image, a file, audio or another part.
    Part(PartBlock),
    /// A block that only its format understands, or what only it knows of the block before.
    Native(NativePart),
}

/// A thought of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningBlock {
    /// The place where the format wrote it.
    pub place: NativeLabel,
    pub text: Literal,
    /// The proof by which the upstream that made it knows it again.
    pub signature: Option<Literal>,
    /// The block as its format wrote it, where that says more.
    pub native: Option<NativePart>,
}

impl ReasoningBlock {
    pub fn of(place: NativeLabel, text: Literal) -> Self {
        Self {
            place,
            text,
            signature: None,
            native: None,
        }
    }
}

/// A part of a content that is no text.
#[derive(Clone, Debug, PartialEq)]
pub struct PartBlock {
    pub kind: PartKind,
    /// The address of what it holds, which may be a `data:` URL; `None` where the part has none.
    pub url: Option<Literal>,
    pub format: FormatName,
    /// The part as written.
    pub json: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    Image,
    File,
    Audio,
    Other,
}

/// A call in an assistant message.
#[derive(Clone, Debug, PartialEq)]
pub struct CallBlock {
    pub id: String,
    pub name: String,
    pub form: CallForm,
    /// Arguments as the model wrote them; may not be JSON.
    pub arguments: Literal,
    pub native: Option<Box<CallNative>>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultBlock {
    pub call_id: String,
    /// Text and parts.
    pub content: Vec<Block>,
    /// The format says that the call failed.
    pub is_error: bool,
}

/// Bytes of a part of a content around its text, at the least.
const TEXT_PART_BYTES: usize = 24;

/// The gap between the texts of two rounds, where a client sees them as one message.
pub const ROUND_GAP: &str = "\n\n";

/// The call that stands among the blocks under this id.
pub fn call_in<'a>(blocks: &'a [Block], id: &str) -> Option<&'a CallBlock> {
    blocks.iter().find_map(|block| match block {
        Block::Call(call) if call.id == id => Some(call),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    })
}

impl ResultBlock {
    /// Bytes of the content, about as it was written.
    pub fn bytes(&self) -> usize {
        // A text alone stands between quotes, one of several in a part of its own.
        let around = match &self.content[..] {
            [_] => 2,
            _ => TEXT_PART_BYTES,
        };
        let bytes = self.content.iter().map(|block| match block {
            Block::Text(text) => text.as_str().len() + around,
            Block::Part(part) => part.json.as_str().len(),
            // There are none in a result.
            Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Native(_) => 0,
        });
        bytes.sum()
    }

    /// A result of text alone.
    pub fn of_text(call_id: impl Into<String>, text: Literal) -> Self {
        Self {
            call_id: call_id.into(),
            content: vec![Block::Text(text)],
            is_error: false,
        }
    }
}

impl Message {
    /// A message that no client wrote.
    pub fn made(role: Role, blocks: Vec<Block>) -> Self {
        Self {
            role,
            blocks,
            raw: None,
            is_changed: false,
            origin: None,
            awaits: None,
        }
    }

    pub fn calls(&self) -> impl Iterator<Item = &CallBlock> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => None,
        })
    }

    pub fn result(&self) -> Option<&ResultBlock> {
        self.blocks.iter().find_map(|block| match block {
            Block::Result(result) => Some(result),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Part(_)
            | Block::Native(_) => None,
        })
    }
}

/// A request to a model: what the client asked for, and what the turn has added to it.
#[derive(Clone, Debug)]
pub struct ModelRequest<'a> {
    pub input: &'a ModelInput,
    /// The history to send; repaired if it had to be.
    pub messages: Vec<&'a Message>,
    /// Where the request goes, and the name that the upstream knows the model by.
    pub to: &'a AnswerOrigin,
    pub tools: OfferedTools<'a>,
    pub tool_choice: ChoiceSent,
    /// Rounds of this turn so far, oldest first.
    pub rounds: Vec<RoundSent<'a>>,
    /// Tokens left of the turn's budget; `None` leaves the client's field untouched.
    pub completion_tokens_left: Option<u64>,
    /// The upstream is asked for usage in the stream.
    pub ask_usage: bool,
}

/// The names of the tools that an upstream is told about.
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    pub all: Arc<[Box<str>]>,
    /// Those whose input is any text.
    pub custom: Arc<[Box<str>]>,
}

impl ModelRequest<'_> {
    /// The names of all tools that the upstream is told about.
    pub fn tool_names(&self) -> ToolNames {
        let of_entry = |entry: &ToolEntry| (Box::from(entry.name.as_str()), entry.form);
        let of_ours = |tool: &Tool| (Box::from(tool.name.as_str()), CallForm::Function);
        let named: Vec<(Box<str>, CallForm)> = match &self.tools {
            OfferedTools::AsSent => self.input.tools.entries().iter().map(of_entry).collect(),
            OfferedTools::Ours(tools) => tools.iter().map(|tool| of_ours(tool)).collect(),
            OfferedTools::Mixed(tools) => tools
                .iter()
                .map(|tool| match tool {
                    MixedTool::Ours(tool) => of_ours(tool),
                    MixedTool::Client(entry) => of_entry(entry),
                })
                .collect(),
        };
        let custom = named.iter().filter(|(_, form)| *form == CallForm::Custom);
        ToolNames {
            custom: custom.map(|(name, _)| name.clone()).collect(),
            all: named.into_iter().map(|(name, _)| name).collect(),
        }
    }
}

/// The tools that the upstream is told about.
#[derive(Clone, Debug)]
pub enum OfferedTools<'a> {
    /// The client's own list, untouched.
    AsSent,
    /// Ours, in this order.
    Ours(Vec<&'a Tool>),
    /// Ours and the client's own, in the client's order.
    Mixed(Vec<MixedTool<'a>>),
}

/// A tool of a list that mixes ours with the client's own.
#[derive(Clone, Copy, Debug)]
pub enum MixedTool<'a> {
    Ours(&'a Tool),
    /// The client's entry as written.
    Client(&'a ToolEntry),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceSent {
    AsSent,
    Auto,
    None,
}

/// An assistant message of this turn and the results that follow it.
#[derive(Clone, Debug)]
pub struct RoundSent<'a> {
    /// Text, refusal, reasoning and calls, in the order in which they go back.
    /// The calls' ids are the upstream's own, or minted where it gave none.
    pub assistant: &'a [Block],
    pub origin: Option<&'a AnswerOrigin>,
    /// Results of the calls, in call order: the id as in `assistant`, and the text that the model is given.
    pub results: Vec<(&'a str, &'a str)>,
}
