//! A turn as content blocks, one after the other: all its rounds are one message.
//!
//! The API's blocks never overlap, so a call whose pieces come between those of another one waits until that is whole.

use tw_core::event::LogEvent;
use tw_core::history::INVALID_ARGUMENTS;
use tw_core::id::{CallId, TurnId};
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{AnswerDelta, BlockEnd, CallDelta, CallForm, Finish};
use tw_core::native::NativeFields;

use super::request::shown_id;
use super::{FORMAT, SERVER_NAME, TEXT_INPUT_FIELD, stop};
use crate::openai_chat::client_calls::ClientCalls;
use crate::openai_chat::write;

/// What a client sees of the calls that this server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanCalls {
    /// Calls of an MCP server and their results, which clients know as run elsewhere.
    Shown,
    Hidden,
}

/// A step in the writing of the content.
#[derive(Debug)]
pub enum BlockStep<'a> {
    Text,
    Thinking,
    ToolUse {
        id: &'a str,
        name: &'a str,
        more: Option<&'a NativeFields>,
    },
    /// A block that is written whole, and ended.
    Whole(&'a Json),
    /// More of the open block: its text, its thought, or the arguments of its call.
    More(&'a Literal),
    Signature(&'a Literal),
    /// What else the format says of the open block.
    Fields(&'a Json),
    End,
}

/// Folds a turn's log into steps.
#[derive(Clone, Debug)]
pub struct BlockFold {
    turn: TurnId,
    ran: RanCalls,
    round: u32,
    /// The round's answer came in this format, so that what only it knows means the same here.
    is_native: bool,
    open: OpenKind,
    slots: ClientCalls,
    calls: Vec<HandedCall>,
    /// Calls that were shown and have no result yet.
    running: Vec<CallId>,
    has_refused: bool,
    finish: Option<Finish>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenKind {
    Nothing,
    Text,
    Thinking,
    /// The call at this place.
    Call(usize),
}

/// A call that the client is to run.
#[derive(Clone, Debug)]
struct HandedCall {
    id: String,
    name: String,
    more: NativeFields,
    /// Arguments that were not written yet.
    waiting: LiteralBuf,
    extent: ObjectExtent,
    form: InputForm,
    is_written: bool,
}

/// How a call's arguments become its input, which is an object here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputForm {
    /// Nothing came yet that would tell.
    Unknown,
    Object,
    /// A text in an object, under this name.
    Wrapped(&'static str),
}

impl InputForm {
    fn of(call: CallForm, arguments: &str) -> Self {
        match (call, arguments.trim_start().as_bytes().first()) {
            (CallForm::Custom, _) => Self::Wrapped(TEXT_INPUT_FIELD),
            (CallForm::Function | CallForm::ByName, None) => Self::Unknown,
            (CallForm::Function | CallForm::ByName, Some(b'{')) => Self::Object,
            (CallForm::Function | CallForm::ByName, Some(_)) => Self::Wrapped(INVALID_ARGUMENTS),
        }
    }

    /// Writes what stands before the arguments.
    fn open(self, sink: &mut impl FnMut(BlockStep<'_>)) {
        if let Self::Wrapped(name) = self {
            more(&Literal::from_text(&format!("{{\"{name}\":\"")), sink);
        }
    }

    fn more(self, arguments: &Literal, sink: &mut impl FnMut(BlockStep<'_>)) {
        match self {
            // As it stands in a string.
            Self::Wrapped(_) => more(&Literal::from_text(arguments.as_str()), sink),
            Self::Unknown | Self::Object => more(arguments, sink),
        }
    }

    fn close(self, sink: &mut impl FnMut(BlockStep<'_>)) {
        if let Self::Wrapped(_) = self {
            more(&Literal::from_text("\"}"), sink);
        }
    }
}

/// Finds the end of a JSON object whose text comes in pieces.
#[derive(Clone, Debug, Default)]
struct ObjectExtent {
    depth: u32,
    has_begun: bool,
    is_in_string: bool,
    is_escaped: bool,
}

impl ObjectExtent {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => {
                    self.has_begun = true;
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_in_string
    }
}

impl BlockFold {
    pub fn new(turn: TurnId, ran: RanCalls) -> Self {
        Self {
            turn,
            ran,
            round: 0,
            is_native: true,
            open: OpenKind::Nothing,
            slots: ClientCalls::default(),
            calls: Vec::new(),
            running: Vec::new(),
            has_refused: false,
            finish: None,
        }
    }

    /// Whether fields beside the content mean the same here.
    pub fn is_native(&self) -> bool {
        self.is_native
    }

    /// Whether a client sees the calls that this server runs.
    pub fn shows_calls(&self) -> bool {
        self.ran == RanCalls::Shown
    }

    /// Gives `sink` the steps of an event.
    pub fn push(&mut self, event: &LogEvent, sink: &mut impl FnMut(BlockStep<'_>)) {
        match event {
            LogEvent::Round { round, format } => {
                self.close(sink);
                self.round = *round;
                self.is_native = *format == FORMAT;
            }
            LogEvent::Delta(delta) if delta.choice == 0 => self.delta(delta, sink),
            LogEvent::BlockEnd(end) if end.choice == 0 => self.block_end(end, sink),
            LogEvent::Native { choice: 0, part } if part.format == FORMAT => {
                self.close(sink);
                sink(BlockStep::Whole(&part.json));
            }
            LogEvent::ClientCall(piece) if piece.choice == 0 => self.call(piece, sink),
            LogEvent::CallStarted {
                id,
                name,
                arguments,
                ..
            } if self.ran == RanCalls::Shown => {
                self.close(sink);
                self.running.push(*id);
                sink(BlockStep::Whole(&started(*id, name, arguments)));
            }
            LogEvent::CallDetached { id, told, .. } => {
                if let Some(at) = self.running.iter().position(|running| running == id) {
                    self.running.remove(at);
                    self.close(sink);
                    sink(BlockStep::Whole(&ended(*id, told, false)));
                }
            }
            LogEvent::CallEnded { id, end, .. } => {
                if let Some(at) = self.running.iter().position(|running| running == id) {
                    self.running.remove(at);
                    self.close(sink);
                    sink(BlockStep::Whole(&ended(*id, &end.shown, end.is_error)));
                }
            }
            LogEvent::Finish { choice: 0, reason } => self.finish = Some(*reason),
            LogEvent::End(_) => self.close(sink),
            // Only the first choice has a place here.
            LogEvent::Delta(_)
            | LogEvent::BlockEnd(_)
            | LogEvent::Native { .. }
            | LogEvent::ClientCall(_)
            | LogEvent::CallStarted { .. }
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::Finish { .. }
            | LogEvent::Start { .. }
            | LogEvent::Extra { .. }
            | LogEvent::Progress { .. }
            | LogEvent::Usage(_) => {}
        }
    }

    /// The word for the end of the turn.
    pub fn stop_reason(&self) -> &'static str {
        let has_calls = !self.calls.is_empty();
        stop::word(match self.finish {
            Some(Finish::Stop | Finish::ToolCalls) | None if has_calls => Finish::ToolCalls,
            Some(Finish::Stop | Finish::ToolCalls) | None if self.has_refused => Finish::Refusal,
            Some(Finish::ToolCalls) | None => Finish::Stop,
            Some(
                reason @ (Finish::Stop
                | Finish::Length
                | Finish::ContentFilter
                | Finish::StopSequence
                | Finish::Refusal
                | Finish::Pause),
            ) => reason,
        })
    }

    fn delta(&mut self, delta: &AnswerDelta, sink: &mut impl FnMut(BlockStep<'_>)) {
        let rest = delta.rest.as_deref();
        if let Some(reasoning) = rest.and_then(|rest| rest.reasoning.as_ref()) {
            // An empty one is a thought that is not shown, or, elsewhere, none.
            if self.is_native || !reasoning.text.is_empty() {
                self.begin(OpenKind::Thinking, sink);
                more(&reasoning.text, sink);
            }
        }
        let refusal = rest.and_then(|rest| rest.refusal.as_ref());
        if let Some(refusal) = refusal.filter(|text| !text.is_empty()) {
            self.has_refused = true;
            self.begin(OpenKind::Text, sink);
            more(refusal, sink);
        }
        if let Some(text) = delta.text.as_ref().filter(|text| !text.is_empty()) {
            self.begin(OpenKind::Text, sink);
            more(text, sink);
        }
    }

    fn begin(&mut self, kind: OpenKind, sink: &mut impl FnMut(BlockStep<'_>)) {
        if self.open == kind {
            return;
        }
        self.close(sink);
        self.open = kind;
        sink(match kind {
            OpenKind::Thinking => BlockStep::Thinking,
            OpenKind::Text | OpenKind::Nothing | OpenKind::Call(_) => BlockStep::Text,
        });
    }

    fn block_end(&mut self, end: &BlockEnd, sink: &mut impl FnMut(BlockStep<'_>)) {
        match self.open {
            OpenKind::Text | OpenKind::Thinking => {}
            // A call ends with its round at the latest.
            OpenKind::Nothing | OpenKind::Call(_) => return,
        }
        let native = end.native.as_ref().filter(|part| part.format == FORMAT);
        if let Some(native) = native.filter(|_| self.is_native) {
            sink(BlockStep::Fields(&native.json));
        }
        let signature = end.signature.as_ref().filter(|_| self.is_native);
        if let Some(signature) = signature.filter(|_| self.open == OpenKind::Thinking) {
            sink(BlockStep::Signature(signature));
        }
        self.close(sink);
    }

    fn call(&mut self, piece: &CallDelta, sink: &mut impl FnMut(BlockStep<'_>)) {
        let slot = self.slots.slot(self.turn, self.round, piece);
        let at = slot.index;
        if let Some(id) = slot.id {
            self.calls.push(HandedCall {
                id: id.to_owned(),
                name: String::new(),
                more: Vec::new(),
                waiting: LiteralBuf::default(),
                extent: ObjectExtent::default(),
                form: InputForm::of(piece.form, ""),
                is_written: false,
            });
        }
        let Some(call) = self.calls.get_mut(at) else {
            return;
        };
        if let Some(name) = piece.name.as_deref().filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        if let Some(native) = piece.native.as_ref().filter(|_| self.is_native) {
            call.more.extend(native.beside.iter().cloned());
        }
        if let Some(arguments) = &piece.arguments {
            call.extent.add(&arguments.to_text());
            let is_open = self.open == OpenKind::Call(at);
            if is_open && call.form != InputForm::Unknown {
                call.form.more(arguments, sink);
            } else if is_open || !call.is_written {
                call.waiting.push(arguments);
            }
            if call.form == InputForm::Unknown {
                call.form = InputForm::of(piece.form, &call.waiting.to_literal().to_text());
                if is_open && call.form != InputForm::Unknown {
                    call.begin_input(sink);
                }
            }
        }
        self.advance(Patience::Waits, sink);
    }

    /// Writes the calls that wait, as long as the one that is open is whole.
    fn advance(&mut self, patience: Patience, sink: &mut impl FnMut(BlockStep<'_>)) {
        loop {
            let next = self.calls.iter().position(|call| !call.is_written);
            let Some(next) = next else {
                return;
            };
            if patience == Patience::Waits {
                if let OpenKind::Call(open) = self.open
                    && !self.calls[open].extent.is_whole()
                {
                    return;
                }
                if self.calls[next].name.is_empty() {
                    return;
                }
            }
            self.end_open(sink);
            self.open = OpenKind::Call(next);
            let call = &mut self.calls[next];
            call.is_written = true;
            sink(BlockStep::ToolUse {
                id: &call.id,
                name: &call.name,
                more: Some(&call.more).filter(|more| !more.is_empty()),
            });
            if call.form != InputForm::Unknown {
                call.begin_input(sink);
            }
        }
    }

    fn close(&mut self, sink: &mut impl FnMut(BlockStep<'_>)) {
        self.advance(Patience::AtEnd, sink);
        self.end_open(sink);
    }

    fn end_open(&mut self, sink: &mut impl FnMut(BlockStep<'_>)) {
        if let OpenKind::Call(at) = self.open {
            self.calls[at].form.close(sink);
        }
        if self.open != OpenKind::Nothing {
            sink(BlockStep::End);
            self.open = OpenKind::Nothing;
        }
    }
}

impl HandedCall {
    /// Writes the arguments that waited until the form of the input was known.
    fn begin_input(&mut self, sink: &mut impl FnMut(BlockStep<'_>)) {
        let waiting = std::mem::take(&mut self.waiting);
        self.form.open(sink);
        self.form.more(&waiting.to_literal(), sink);
    }
}

/// Whether calls wait for one another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Waits,
    /// Nothing more comes of them.
    AtEnd,
}

fn more(text: &Literal, sink: &mut impl FnMut(BlockStep<'_>)) {
    if !text.is_empty() {
        sink(BlockStep::More(text));
    }
}

fn started(id: CallId, name: &str, arguments: &Literal) -> Json {
    let mut json = b"{\"type\":\"mcp_tool_use\"".to_vec();
    write::key(&mut json, "id");
    write::quoted(&mut json, &shown_id(id));
    write::key(&mut json, "name");
    write::string(&mut json, name);
    write::key(&mut json, "server_name");
    write::quoted(&mut json, SERVER_NAME);
    write::key(&mut json, "input");
    json.extend_from_slice(input_object(arguments).as_bytes());
    json.push(b'}');
    as_json(json)
}

fn ended(id: CallId, shown: &str, is_error: bool) -> Json {
    let mut json = b"{\"type\":\"mcp_tool_result\"".to_vec();
    write::key(&mut json, "tool_use_id");
    write::quoted(&mut json, &shown_id(id));
    write::key(&mut json, "is_error");
    json.extend_from_slice(if is_error { b"true" } else { b"false" });
    write::key(&mut json, "content");
    json.push(b'[');
    if !shown.is_empty() {
        json.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        write::string(&mut json, shown);
        json.push(b'}');
    }
    json.extend_from_slice(b"]}");
    as_json(json)
}

/// Arguments as the object that the format has for them; what is no object is put into one.
pub fn input_object(arguments: &Literal) -> String {
    let sendable = tw_core::history::sendable_arguments(arguments);
    sendable.as_ref().unwrap_or(arguments).to_text()
}

/// JSON that was just written.
fn as_json(written: Vec<u8>) -> Json {
    Json::of_read(&String::from_utf8_lossy(&written))
}
