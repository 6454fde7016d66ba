//! The parts of an answer that bear on us, as written; everything else is kept or passed over.
//!
//! Leaves are text until they are needed, so that an odd type in a field that nobody needs does
//! not end a stream.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use super::raw::{FieldRecord, RecordOf, SmallList};

/// A stream chunk or a plain answer.
#[derive(Default)]
pub struct ChatAnswer<'a> {
    pub model: Option<&'a RawValue>,
    pub created: Option<&'a RawValue>,
    pub object: Option<&'a RawValue>,
    pub choices: Option<SmallList<RecordOf<ChatChoice<'a>>, 1>>,
    pub usage: Option<&'a RawValue>,
    pub error: Option<&'a RawValue>,
    /// Fields beside these, except those that are ours to write or mere padding.
    pub extra: SmallList<(Cow<'a, str>, &'a RawValue), 4>,
}

impl<'a> FieldRecord<'a> for ChatAnswer<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "choices" => self.choices = map.next_value()?,
            "model" => self.model = map.next_value()?,
            "created" => self.created = map.next_value()?,
            "object" => self.object = map.next_value()?,
            "usage" => self.usage = map.next_value()?,
            "error" => self.error = map.next_value()?,
            // `p` is Mistral's word for `obfuscation`: random text that evens out sizes.
            "id" | "obfuscation" | "p" | "prompt_filter_results" => {
                map.next_value::<IgnoredAny>()?;
            }
            _ => {
                if let Some(value) = map.next_value()? {
                    self.extra.push((key, value));
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
pub struct ChatChoice<'a> {
    pub index: Option<&'a RawValue>,
    /// `delta` of a chunk.
    pub delta: Option<RecordOf<ChoiceAddition<'a>>>,
    /// `message` of a plain answer; some upstreams send one beside `delta` or in its place.
    pub message: Option<&'a RawValue>,
    pub finish_reason: Option<&'a RawValue>,
    pub logprobs: Option<&'a RawValue>,
    /// Moonshot's place for it.
    pub usage: Option<&'a RawValue>,
    /// OpenRouter's place for a failure of the model behind it.
    pub error: Option<&'a RawValue>,
    pub extra: SmallList<(Cow<'a, str>, &'a RawValue), 2>,
}

impl<'a> FieldRecord<'a> for ChatChoice<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "index" => self.index = map.next_value()?,
            "delta" => self.delta = map.next_value()?,
            "message" => self.message = map.next_value()?,
            "finish_reason" => self.finish_reason = map.next_value()?,
            "logprobs" => self.logprobs = map.next_value()?,
            "usage" => self.usage = map.next_value()?,
            "error" => self.error = map.next_value()?,
            "obfuscation" => {
                map.next_value::<IgnoredAny>()?;
            }
            _ => {
                if let Some(value) = map.next_value()? {
                    self.extra.push((key, value));
                }
            }
        }
        Ok(())
    }
}

/// A `delta` or a `message`: they have the same fields.
#[derive(Default)]
pub struct ChoiceAddition<'a> {
    pub content: Option<&'a RawValue>,
    pub refusal: Option<&'a RawValue>,
    pub reasoning_content: Option<&'a RawValue>,
    pub reasoning: Option<&'a RawValue>,
    pub reasoning_details: Option<&'a RawValue>,
    pub tool_calls: Option<SmallList<RecordOf<CallWritten<'a>>, 1>>,
    pub function_call: Option<RecordOf<NamedText<'a>>>,
    pub extra: SmallList<(Cow<'a, str>, &'a RawValue), 2>,
}

impl ChoiceAddition<'_> {
    /// Whether the addition says nothing: some upstreams send an empty one beside the real one.
    pub fn is_empty(&self) -> bool {
        let texts = [
            self.content,
            self.refusal,
            self.reasoning_content,
            self.reasoning,
            self.reasoning_details,
        ];
        let is_filler = |raw: &RawValue| matches!(raw.get(), "\"\"" | "[]");
        texts.into_iter().flatten().all(is_filler)
            && self.tool_calls.as_ref().is_none_or(SmallList::is_empty)
            && self.function_call.is_none()
            && self.extra.is_empty()
    }
}

impl<'a> FieldRecord<'a> for ChoiceAddition<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "content" => self.content = map.next_value()?,
            "refusal" => self.refusal = map.next_value()?,
            "reasoning_content" => self.reasoning_content = map.next_value()?,
            "reasoning" => self.reasoning = map.next_value()?,
            "reasoning_details" => self.reasoning_details = map.next_value()?,
            "tool_calls" => self.tool_calls = map.next_value()?,
            "function_call" => self.function_call = map.next_value()?,
            "role" | "obfuscation" => {
                map.next_value::<IgnoredAny>()?;
            }
            _ => {
                if let Some(value) = map.next_value()? {
                    self.extra.push((key, value));
                }
            }
        }
        Ok(())
    }
}

/// An entry of `tool_calls`, whole or a piece.
#[derive(Default)]
pub struct CallWritten<'a> {
    pub index: Option<&'a RawValue>,
    pub id: Option<&'a RawValue>,
    pub function: Option<RecordOf<NamedText<'a>>>,
    pub custom: Option<RecordOf<NamedText<'a>>>,
    pub extra: SmallList<(Cow<'a, str>, &'a RawValue), 1>,
}

impl<'a> FieldRecord<'a> for CallWritten<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "index" => self.index = map.next_value()?,
            "id" => self.id = map.next_value()?,
            "function" => self.function = map.next_value()?,
            "custom" => self.custom = map.next_value()?,
            // It is often missing; which of the two objects is there says the same.
            "type" => {
                map.next_value::<IgnoredAny>()?;
            }
            _ => {
                if let Some(value) = map.next_value()? {
                    self.extra.push((key, value));
                }
            }
        }
        Ok(())
    }
}

/// `function`, `custom` or `function_call`.
#[derive(Default)]
pub struct NamedText<'a> {
    pub name: Option<&'a RawValue>,
    /// `arguments`, or a custom tool's `input`.
    pub text: Option<&'a RawValue>,
    pub extra: SmallList<(Cow<'a, str>, &'a RawValue), 1>,
}

impl<'a> FieldRecord<'a> for NamedText<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "name" => self.name = map.next_value()?,
            "arguments" | "input" => self.text = map.next_value()?,
            _ => {
                if let Some(value) = map.next_value()? {
                    self.extra.push((key, value));
                }
            }
        }
        Ok(())
    }
}
