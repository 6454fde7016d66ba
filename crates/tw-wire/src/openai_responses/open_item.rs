//! An item of an answer while it is being written.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, ModelEvent, ReasoningText,
};
use tw_core::native::NativeFields;

use super::request::PART_GAP;
use super::{REASONING_TEXT, SUMMARY, native};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::surrogates::{mend_all, with_half, without_half};

/// The place in an item where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartPlace {
    Text,
    Refusal,
    Summary,
    Reasoning,
    Arguments,
}

/// Different parts of one item that are told apart.
const PARTS_MAX: usize = 1024;
/// Fields of one call that are kept.
const FIELDS_MAX: usize = 64;

#[derive(Debug)]
pub struct OpenItem {
    index: u64,
    id: Option<String>,
    kind: ItemForm,
    /// The parts that said something.
    said: Vec<(PartPlace, u64)>,
    /// The first half of a surrogate pair, and where it stands.
    half: Option<(PartPlace, Box<str>)>,
    has_annotations: bool,
}

#[derive(Debug)]
enum ItemForm {
    Message,
    Reasoning,
    Call(OpenCall),
    /// Only this format knows it.
    Other,
}

#[derive(Debug)]
struct OpenCall {
    form: CallForm,
    number: u32,
    has_id: bool,
    has_name: bool,
}

impl OpenItem {
    pub fn new(index: u64, item: &RawValue) -> Self {
        let fields = ObjectFields::parse(item.get()).unwrap_or_default();
        let call = |form| {
            ItemForm::Call(OpenCall {
                form,
                number: 0,
                has_id: false,
                has_name: false,
            })
        };
        let kind = raw::filled_string(fields.get("type")).unwrap_or_default();
        Self {
            index,
            id: raw::filled_string(fields.get("id")).map(Cow::into_owned),
            kind: match &*kind {
                "message" => ItemForm::Message,
                "reasoning" => ItemForm::Reasoning,
                "function_call" => call(CallForm::Function),
                "custom_tool_call" => call(CallForm::Custom),
                _ => ItemForm::Other,
            },
            said: Vec::new(),
            half: None,
            has_annotations: false,
        }
    }

    /// An item whose beginning did not come.
    pub fn unseen(index: u64, place: PartPlace) -> Self {
        Self {
            index,
            id: None,
            kind: match place {
                PartPlace::Text | PartPlace::Refusal => ItemForm::Message,
                PartPlace::Summary | PartPlace::Reasoning => ItemForm::Reasoning,
                PartPlace::Arguments => ItemForm::Other,
            },
            said: Vec::new(),
            half: None,
            has_annotations: false,
        }
    }

    pub fn index(&self) -> u64 {
        self.index
    }

    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub fn has_id(&self, id: &str) -> bool {
        self.id() == Some(id)
    }

    pub fn is_call(&self) -> bool {
        matches!(self.kind, ItemForm::Call(_))
    }

    /// Gives a call its place among the calls of its answer.
    pub fn number(&mut self, number: u32) {
        if let ItemForm::Call(call) = &mut self.kind {
            call.number = number;
        }
    }

    pub fn has_said(&self, place: PartPlace, part: u64) -> bool {
        self.said.contains(&(place, part))
    }

    fn has_said_in(&self, place: PartPlace) -> bool {
        self.said.iter().any(|(said, _)| *said == place)
    }

    /// The events of the item's beginning.
    pub fn begin(&mut self, item: &RawValue) -> Vec<ModelEvent> {
        match &mut self.kind {
            ItemForm::Call(call) => call.begin(item).into_iter().collect(),
            ItemForm::Message | ItemForm::Reasoning | ItemForm::Other => Vec::new(),
        }
    }

    /// Whether a text goes on as it came: nothing waits for it.
    pub fn takes_text_as_it_is(&self) -> bool {
        self.half.is_none() && matches!(self.kind, ItemForm::Message)
    }

    /// The event of such a text.
    pub fn said(&mut self, part: u64, text: Literal) -> ModelEvent {
        self.note(PartPlace::Text, part);
        ModelEvent::Delta(AnswerDelta {
            choice: 0,
            text: Some(text),
            rest: None,
        })
    }

    /// The events of a piece of text.
    pub fn add(
        &mut self,
        place: PartPlace,
        part: u64,
        text: &RawValue,
        logprobs: Option<&RawValue>,
    ) -> Vec<ModelEvent> {
        let fits = match (&self.kind, place) {
            (ItemForm::Message, PartPlace::Text | PartPlace::Refusal)
            | (ItemForm::Reasoning, PartPlace::Summary | PartPlace::Reasoning)
            | (ItemForm::Call(_), PartPlace::Arguments) => true,
            (ItemForm::Message | ItemForm::Reasoning | ItemForm::Call(_) | ItemForm::Other, _) => {
                false
            }
        };
        let Some(text) = literal_of(text).filter(|text| fits && !text.is_empty()) else {
            return Vec::new();
        };
        if let ItemForm::Call(call) = &self.kind {
            let events = vec![call.piece(Some(text), None)];
            self.note(place, part);
            return events;
        }
        let mut events = Vec::new();
        let half = match self.half.take() {
            Some((of, half)) if of == place => Some(half),
            Some((of, half)) => {
                events.extend(lone(of, &half));
                None
            }
            None => None,
        };
        let (said, half) = match with_half(half, text) {
            Some(text) => without_half(text),
            None => (None, None),
        };
        self.half = half.map(|half| (place, half));
        // The parts of a summary are paragraphs.
        let is_further = self.has_said_in(place) && !self.has_said(place, part);
        let is_thought = matches!(place, PartPlace::Summary | PartPlace::Reasoning);
        self.note(place, part);
        if is_further && is_thought {
            events.extend(delta(place, Literal::from_text(PART_GAP), None));
        }
        let logprobs = logprobs.filter(|raw| raw.get().starts_with('[') && raw.get() != "[]");
        match said {
            Some(text) => events.extend(delta(place, text, logprobs)),
            None => {
                events.extend(logprobs.and_then(|_| delta(place, Literal::default(), logprobs)))
            }
        }
        events
    }

    fn note(&mut self, place: PartPlace, part: u64) {
        if self.said.len() < PARTS_MAX && !self.has_said(place, part) {
            self.said.push((place, part));
        }
    }

    /// The event of an annotation.
    pub fn annotation(&mut self, annotation: &RawValue) -> Vec<ModelEvent> {
        if !matches!(self.kind, ItemForm::Message) || raw::is_null(annotation) {
            return Vec::new();
        }
        self.has_annotations = true;
        vec![annotated(&format!("[{}]", annotation.get()))]
    }

    /// The events of the item's end, with what was not told of before.
    pub fn done(&mut self, item: &RawValue) -> Vec<ModelEvent> {
        let fields = ObjectFields::parse(item.get()).unwrap_or_default();
        let mut events = Vec::new();
        match &self.kind {
            ItemForm::Message => self.message_done(&fields, &mut events),
            ItemForm::Reasoning => self.reasoning_done(&fields, &mut events),
            ItemForm::Call(_) => {
                self.call_done(&fields, &mut events);
                return events;
            }
            ItemForm::Other => {
                if !fields.0.is_empty() {
                    events.push(ModelEvent::Native {
                        choice: 0,
                        part: Box::new(native(Json::from_raw(item))),
                    });
                }
                return events;
            }
        }
        events.extend(self.settle());
        events.push(ModelEvent::BlockEnd(Box::new(BlockEnd {
            choice: 0,
            signature: None,
            native: Some(native(Json::from_raw(item))),
        })));
        events
    }

    /// The events of an item that was cut off.
    pub fn cut(&mut self) -> Vec<ModelEvent> {
        self.settle().into_iter().collect()
    }

    fn settle(&mut self) -> Option<ModelEvent> {
        let (place, half) = self.half.take()?;
        lone(place, &half)
    }

    fn message_done(&mut self, fields: &ObjectFields<'_>, events: &mut Vec<ModelEvent>) {
        let parts = fields.get("content").and_then(raw::array);
        let (has_text, has_refusal) = (
            self.has_said_in(PartPlace::Text),
            self.has_said_in(PartPlace::Refusal),
        );
        for (part, index) in parts.unwrap_or_default().into_iter().zip(0u64..) {
            let Ok(part) = ObjectFields::parse(part.get()) else {
                continue;
            };
            let kind = raw::filled_string(part.get("type")).unwrap_or_default();
            match &*kind {
                "refusal" if !has_refusal => {
                    if let Some(text) = part.get("refusal") {
                        events.extend(self.add(PartPlace::Refusal, index, text, None));
                    }
                }
                "output_text" | "text" if !has_text => {
                    if let Some(text) = part.get("text") {
                        let logprobs = part.get("logprobs");
                        events.extend(self.add(PartPlace::Text, index, text, logprobs));
                    }
                }
                _ => {}
            }
            let annotations = part.get("annotations").filter(|list| {
                !self.has_annotations && list.get().starts_with('[') && list.get() != "[]"
            });
            if let Some(list) = annotations {
                events.push(annotated(list.get()));
            }
        }
    }

    fn reasoning_done(&mut self, fields: &ObjectFields<'_>, events: &mut Vec<ModelEvent>) {
        for (place, name) in [
            (PartPlace::Reasoning, "content"),
            (PartPlace::Summary, "summary"),
        ] {
            if self.has_said_in(place) {
                continue;
            }
            let parts = fields.get(name).and_then(raw::array).unwrap_or_default();
            for (part, index) in parts.into_iter().zip(0u64..) {
                let part = ObjectFields::parse(part.get()).unwrap_or_default();
                if let Some(text) = part.get("text") {
                    events.extend(self.add(place, index, text, None));
                }
            }
        }
    }

    fn call_done(&mut self, fields: &ObjectFields<'_>, events: &mut Vec<ModelEvent>) {
        let is_told = self.has_said_in(PartPlace::Arguments);
        let ItemForm::Call(call) = &mut self.kind else {
            return;
        };
        events.extend(call.names(fields));
        let name = match call.form {
            CallForm::Custom => "input",
            CallForm::Function | CallForm::ByName => "arguments",
        };
        let text = fields.get(name).filter(|_| !is_told).and_then(literal_of);
        let text = text.filter(|text| !text.is_empty());
        let known = ["type", "call_id", "name", name];
        let beside = fields
            .0
            .iter()
            .filter(|(key, value)| !known.contains(&&**key) && !raw::is_null(value));
        let beside: NativeFields = beside
            .take(FIELDS_MAX)
            .map(|(key, value)| (Box::from(&**key), Json::from_raw(value)))
            .collect();
        let native = (!beside.is_empty()).then(|| {
            Box::new(CallNative {
                beside,
                inside: NativeFields::new(),
            })
        });
        if text.is_some() || native.is_some() {
            events.push(call.piece(text, native));
        }
    }
}

impl OpenCall {
    fn begin(&mut self, item: &RawValue) -> Option<ModelEvent> {
        let fields = ObjectFields::parse(item.get()).ok()?;
        // A call is one from here on, even if it has no name yet.
        Some(
            self.names(&fields)
                .unwrap_or_else(|| self.piece(None, None)),
        )
    }

    /// The piece with the id and the name, where they were not told of.
    fn names(&mut self, fields: &ObjectFields<'_>) -> Option<ModelEvent> {
        let text = |name| raw::filled_string(fields.get(name));
        let id =
            text("call_id").or_else(|| text("id").filter(|_| fields.get("arguments").is_some()));
        let id = id.filter(|_| !self.has_id);
        let name = text("name").filter(|_| !self.has_name);
        if id.is_none() && name.is_none() {
            return None;
        }
        self.has_id |= id.is_some();
        self.has_name |= name.is_some();
        Some(ModelEvent::Call(CallDelta {
            choice: 0,
            call: self.number,
            id: id.map(Box::from),
            name: name.map(Box::from),
            form: self.form,
            arguments: None,
            native: None,
        }))
    }

    fn piece(&self, arguments: Option<Literal>, native: Option<Box<CallNative>>) -> ModelEvent {
        ModelEvent::Call(CallDelta {
            choice: 0,
            call: self.number,
            id: None,
            name: None,
            form: self.form,
            arguments,
            native,
        })
    }
}

/// A text, which ought to be a string; an object is taken as the text of it.
fn literal_of(raw: &RawValue) -> Option<Literal> {
    match raw.get().as_bytes().first() {
        Some(b'"') => raw::literal(raw),
        Some(b'{') => Some(Literal::from_text(raw.get())),
        Some(_) | None => None,
    }
}

/// The event of half a character that stays alone.
fn lone(place: PartPlace, half: &str) -> Option<ModelEvent> {
    let text = Literal::checked(&mend_all(half).0)?;
    delta(place, text, None)
}

fn annotated(list: &str) -> ModelEvent {
    rest_event(DeltaRest {
        extra: vec![("annotations".into(), Json::of_read(list))],
        ..DeltaRest::default()
    })
}

fn rest_event(rest: DeltaRest) -> ModelEvent {
    ModelEvent::Delta(AnswerDelta {
        choice: 0,
        text: None,
        rest: Some(Box::new(rest)),
    })
}

fn delta(place: PartPlace, text: Literal, logprobs: Option<&RawValue>) -> Option<ModelEvent> {
    let reasoning = |place, text| {
        rest_event(DeltaRest {
            reasoning: Some(ReasoningText { place, text }),
            ..DeltaRest::default()
        })
    };
    Some(match place {
        PartPlace::Text => {
            // The form in which chat completions has them, too.
            let logprobs = logprobs.map(|list| format!("{{\"content\":{}}}", list.get()));
            let rest = logprobs.map(|logprobs| {
                Box::new(DeltaRest {
                    logprobs: Some(Json::of_read(&logprobs)),
                    ..DeltaRest::default()
                })
            });
            ModelEvent::Delta(AnswerDelta {
                choice: 0,
                text: (!text.is_empty()).then_some(text),
                rest,
            })
        }
        PartPlace::Refusal => rest_event(DeltaRest {
            refusal: Some(text),
            ..DeltaRest::default()
        }),
        PartPlace::Summary => reasoning(SUMMARY, text),
        PartPlace::Reasoning => reasoning(REASONING_TEXT, text),
        PartPlace::Arguments => return None,
    })
}
