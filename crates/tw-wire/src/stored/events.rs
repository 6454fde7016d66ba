//! Log events as stored: one JSON array per event, each ending its line.

mod array;
pub mod lines;

use serde_json::value::RawValue;
use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::event::{EffectRan, LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::{CallId, CallRef};
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, Finish, ReasoningText,
    TokenUsage,
};
use tw_core::native::{FormatName, NativeFields, NativeLabel, NativePart};
use tw_core::time::Timestamp;
use tw_core::turn_status::{TurnReason, TurnStatus};

use super::DamagedRecord;
use crate::{native_words, openai_chat};
use array::{StoredEventArray, push_literal, push_number, push_string};
use lines::FlushReader;

const WHAT: &str = "log events";

/// Encodes a flush: events keep their boundaries.
pub fn encode(events: &[LogEvent]) -> String {
    let mut out = String::with_capacity(events.len() * 48);
    for event in events {
        encode_event(event, &mut out);
        out.push('\n');
    }
    out
}

fn encode_event(event: &LogEvent, out: &mut String) {
    match event {
        LogEvent::Delta(delta) => encode_delta(delta, out),
        LogEvent::Start { model, created_s } => StoredEventArray::of("start", out)
            .string(model)
            .number(*created_s)
            .end(),
        LogEvent::Round { round, format } => {
            let mut array = StoredEventArray::of("round", out).number(*round);
            // Left out where it is the first format that there was.
            if *format != openai_chat::FORMAT {
                array = array.word(format.as_str());
            }
            array.end();
        }
        LogEvent::BlockEnd(end) => {
            let array = StoredEventArray::of("block_end", out)
                .number(end.choice)
                .optional_literal(end.signature.as_ref());
            match &end.native {
                Some(part) => array.json(&encode_native(part)).end(),
                None => array.json("null").end(),
            }
        }
        LogEvent::Native { choice, part } => StoredEventArray::of("native", out)
            .number(*choice)
            .json(&encode_native(part))
            .end(),
        LogEvent::ClientCall(piece) => {
            let mut array = StoredEventArray::of("call", out)
                .number(piece.choice)
                .number(piece.call)
                .optional_string(piece.id.as_deref())
                .optional_string(piece.name.as_deref())
                .word(form_word(piece.form))
                .optional_literal(piece.arguments.as_ref());
            if let Some(native) = &piece.native {
                array = array.json(&encode_call_native(native));
            }
            array.end();
        }
        LogEvent::Extra { key, value } => StoredEventArray::of("extra", out)
            .string(key)
            .json(value.as_str())
            .end(),
        LogEvent::Progress { key, value } => StoredEventArray::of("progress", out)
            .string(key)
            .json(value.as_str())
            .end(),
        LogEvent::CallStarted {
            call,
            id,
            name,
            arguments,
            approves,
        } => {
            let mut array = StoredEventArray::of("call_started", out)
                .number(call.round)
                .number(call.position)
                .word(&id.plain())
                .string(name)
                .optional_literal(Some(arguments));
            // Left out where there is none, as in all logs written before there were approvals.
            if let Some(asked) = approves {
                array = array.word(&asked.plain());
            }
            array.end();
        }
        LogEvent::ApprovalAsked {
            call,
            id,
            name,
            arguments,
        } => StoredEventArray::of("approval_asked", out)
            .number(call.round)
            .number(call.position)
            .word(&id.plain())
            .string(name)
            .optional_literal(Some(arguments))
            .end(),
        LogEvent::CallEnded { call, id, end } => {
            let mut array = StoredEventArray::of("call_ended", out)
                .number(call.round)
                .number(call.position)
                .word(&id.plain())
                .optional_string(end.reason.map(CallReason::as_str))
                .optional_string(end.result.as_deref())
                .string(&end.shown)
                .json(if end.is_error { "true" } else { "false" });
            // Left out where it is false, as in all logs written before there was a cache.
            if end.cached {
                array = array.json("true");
            }
            array.end();
        }
        LogEvent::CallDetached { call, id, told } => StoredEventArray::of("call_detached", out)
            .number(call.round)
            .number(call.position)
            .word(&id.plain())
            .string(told)
            .end(),
        LogEvent::Finish { choice, reason } => StoredEventArray::of("finish", out)
            .number(*choice)
            .word(finish_word(*reason))
            .end(),
        LogEvent::Usage(usage) => {
            let mut array = StoredEventArray::of("usage", out);
            push_usage(array.field(), usage);
            array.end();
        }
        LogEvent::End(end) => encode_end(end, out),
    }
}

/// What only a format knows, as stored: its name and the value.
pub(super) fn encode_native(part: &NativePart) -> String {
    format!("[\"{}\",{}]", part.format.as_str(), part.json.as_str())
}

pub(super) fn decode_native(
    what: &'static str,
    raw: &RawValue,
) -> Result<NativePart, DamagedRecord> {
    let (word, json): (String, &RawValue) =
        serde_json::from_str(raw.get()).map_err(|error| DamagedRecord::new(what, error))?;
    Ok(NativePart {
        format: read_format(what, &word)?,
        json: Json::from_raw(json),
    })
}

pub(super) fn read_format(what: &'static str, word: &str) -> Result<FormatName, DamagedRecord> {
    native_words::format(word)
        .ok_or_else(|| DamagedRecord::new(what, format!("unknown format {word:?}")))
}

/// The native fields of a call, as stored: those beside and those inside its object.
pub(super) fn encode_call_native(native: &CallNative) -> String {
    let fields = |fields: &NativeFields| {
        let members = fields
            .iter()
            .map(|(key, value)| format!("[{},{}]", json_string(key), value.as_str()));
        members.collect::<Vec<_>>().join(",")
    };
    format!(
        "[[{}],[{}]]",
        fields(&native.beside),
        fields(&native.inside)
    )
}

pub(super) fn decode_call_native(
    what: &'static str,
    raw: &RawValue,
) -> Result<CallNative, DamagedRecord> {
    type Written<'a> = Vec<(Box<str>, &'a RawValue)>;
    let (beside, inside): (Written<'_>, Written<'_>) =
        serde_json::from_str(raw.get()).map_err(|error| DamagedRecord::new(what, error))?;
    let fields = |written: Written<'_>| {
        let fields = written.into_iter();
        fields
            .map(|(key, value)| (key, Json::from_raw(value)))
            .collect()
    };
    Ok(CallNative {
        beside: fields(beside),
        inside: fields(inside),
    })
}

/// A usage as stored: the three sums, the object, its format and the further sums.
pub fn encode_usage(usage: &TokenUsage) -> String {
    // Room for the sums and what stands between them.
    let native = usage.native.as_ref();
    let mut out = String::with_capacity(native.map_or(0, |part| part.json.as_str().len()) + 96);
    push_usage(&mut out, usage);
    out
}

fn push_usage(out: &mut String, usage: &TokenUsage) {
    out.push('[');
    for tokens in [
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
    ] {
        push_number(out, tokens);
        out.push(',');
    }
    match &usage.native {
        Some(part) => {
            out.push_str(part.json.as_str());
            out.push_str(",\"");
            out.push_str(part.format.as_str());
            out.push('"');
        }
        None => out.push_str("null,null"),
    }
    for tokens in [
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    ] {
        out.push(',');
        match tokens {
            Some(tokens) => push_number(out, tokens),
            None => out.push_str("null"),
        }
    }
    out.push(']');
}

fn encode_delta(delta: &AnswerDelta, out: &mut String) {
    let array = StoredEventArray::of("d", out)
        .number(delta.choice)
        .optional_literal(delta.text.as_ref());
    let Some(rest) = delta.rest.as_deref() else {
        return array.end();
    };
    let mut array = array.optional_literal(rest.refusal.as_ref());
    match &rest.reasoning {
        Some(reasoning) => {
            let out = array.field();
            out.push_str("[\"");
            out.push_str(reasoning.place.as_str());
            out.push_str("\",");
            push_literal(out, Some(&reasoning.text));
            out.push(']');
        }
        None => array = array.json("null"),
    }
    // The second one held what stands among the further fields now.
    array = array
        .json("null")
        .json(rest.logprobs.as_ref().map_or("null", Json::as_str));
    for (key, value) in &rest.extra {
        array = array.string(key).json(value.as_str());
    }
    if !rest.beside.is_empty() {
        array = array.json("null");
    }
    for (key, value) in &rest.beside {
        array = array.string(key).json(value.as_str());
    }
    array.end();
}

fn encode_end(end: &TurnEnd, out: &mut String) {
    let mut array = StoredEventArray::of("end", out)
        .word(end.status.as_str())
        .optional_string(end.reason.map(TurnReason::as_str));
    array = match &end.fault {
        Some(fault) => array.json(&encode_fault(fault)),
        None => array.json("null"),
    };
    let out = array.field();
    out.push('[');
    for (at, ran) in end.effects.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str("[\"");
        out.push_str(&ran.id.plain());
        out.push_str("\",");
        push_string(out, &ran.name);
        out.push_str(",\"");
        out.push_str(ran.status.as_str());
        out.push_str("\"]");
    }
    out.push(']');
    if let Some(at) = end.at {
        array = array.json(&at.0.to_string());
    }
    array.end();
}

fn encode_fault(fault: &TurnFault) -> String {
    let status = match fault.class {
        FaultClass::Refused { status } => status.to_string(),
        FaultClass::UpstreamFailed
        | FaultClass::UpstreamReported
        | FaultClass::UpstreamLimited
        | FaultClass::UpstreamSilent
        | FaultClass::Deadline
        | FaultClass::Interrupted
        | FaultClass::Cancelled
        | FaultClass::Internal => "null".to_owned(),
    };
    format!(
        "[{},{status},{},{},{},{},{}]",
        quoted(fault.class.as_str()),
        json_string(&fault.message),
        optional_string(fault.code.as_deref()),
        optional_string(fault.kind.as_deref()),
        optional_string(fault.param.as_deref()),
        fault
            .retry_after_s
            .map_or("null".to_owned(), |seconds| seconds.to_string()),
    )
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

pub(super) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

pub(super) fn optional_string(text: Option<&str>) -> String {
    text.map_or("null".to_owned(), json_string)
}

/// Reads a flush.
///
/// # Errors
/// [`DamagedRecord`] when the text is not what [`encode`] wrote.
pub fn decode(text: &str) -> Result<Vec<LogEvent>, DamagedRecord> {
    FlushReader::new(text).collect()
}

/// Reads what [`encode_usage`] wrote.
///
/// # Errors
/// [`DamagedRecord`] when the text is something else.
pub fn decode_usage(text: &str) -> Result<TokenUsage, DamagedRecord> {
    let values: Vec<&RawValue> = serde_json::from_str(text).map_err(damaged)?;
    let mut fields = Fields {
        values: values.into_iter(),
    };
    let mut usage = TokenUsage {
        prompt_tokens: fields.read()?,
        completion_tokens: fields.read()?,
        total_tokens: fields.read()?,
        ..TokenUsage::default()
    };
    let json = Json::from_raw(fields.next()?);
    // A record of the time when there was one format ends here.
    let format = match fields.optional::<Option<String>>()? {
        None => Some(openai_chat::FORMAT),
        Some(None) => None,
        Some(Some(word)) => Some(read_format(WHAT, &word)?),
    };
    usage.native = format.map(|format| NativePart { format, json });
    usage.cached_tokens = fields.optional()?.flatten();
    usage.cache_write_tokens = fields.optional()?.flatten();
    usage.reasoning_tokens = fields.optional()?.flatten();
    Ok(usage)
}

fn damaged(problem: impl ToString) -> DamagedRecord {
    DamagedRecord::new(WHAT, problem)
}

/// The fields of a stored event behind its kind.
struct Fields<'a> {
    values: std::vec::IntoIter<&'a RawValue>,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a RawValue, DamagedRecord> {
        self.values
            .next()
            .ok_or_else(|| damaged("a field is missing"))
    }

    fn read<T: serde::Deserialize<'a>>(&mut self) -> Result<T, DamagedRecord> {
        serde_json::from_str(self.next()?.get()).map_err(damaged)
    }

    /// The next field, if there is one.
    fn optional<T: serde::Deserialize<'a>>(&mut self) -> Result<Option<T>, DamagedRecord> {
        if self.values.len() == 0 {
            return Ok(None);
        }
        self.read().map(Some)
    }

    fn literal(&mut self) -> Result<Option<Literal>, DamagedRecord> {
        let raw = self.next()?;
        if raw.get() == "null" {
            return Ok(None);
        }
        read_literal(WHAT, raw).map(Some)
    }

    fn word<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Result<T, DamagedRecord> {
        let word: String = self.read()?;
        read(&word).ok_or_else(|| damaged(format!("unknown word {word:?}")))
    }

    fn optional_word<T>(
        &mut self,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, DamagedRecord> {
        let Some(word): Option<String> = self.read()? else {
            return Ok(None);
        };
        read(&word)
            .map(Some)
            .ok_or_else(|| damaged(format!("unknown word {word:?}")))
    }

    fn call(&mut self) -> Result<(CallRef, CallId), DamagedRecord> {
        let call = CallRef {
            round: self.read()?,
            position: self.read()?,
        };
        Ok((call, self.word(CallId::parse)?))
    }
}

fn decode_event(values: Vec<&RawValue>) -> Result<LogEvent, DamagedRecord> {
    let mut fields = Fields {
        values: values.into_iter(),
    };
    let kind: String = fields.read()?;
    let event = match kind.as_str() {
        "d" => LogEvent::Delta(decode_delta(&mut fields)?),
        "start" => LogEvent::Start {
            model: fields.read()?,
            created_s: fields.read()?,
        },
        "round" => LogEvent::Round {
            round: fields.read()?,
            format: match fields.optional::<String>()? {
                Some(word) => read_format(WHAT, &word)?,
                None => openai_chat::FORMAT,
            },
        },
        "block_end" => LogEvent::BlockEnd(Box::new(BlockEnd {
            choice: fields.read()?,
            signature: fields.literal()?,
            native: match fields.next()? {
                raw if raw.get() == "null" => None,
                raw => Some(decode_native(WHAT, raw)?),
            },
        })),
        "native" => LogEvent::Native {
            choice: fields.read()?,
            part: Box::new(decode_native(WHAT, fields.next()?)?),
        },
        "call" => LogEvent::ClientCall(CallDelta {
            choice: fields.read()?,
            call: fields.read()?,
            id: fields.read()?,
            name: fields.read()?,
            form: fields.word(|word| read_form(WHAT, word).ok())?,
            arguments: fields.literal()?,
            native: match fields.values.next() {
                Some(raw) => Some(Box::new(decode_call_native(WHAT, raw)?)),
                None => None,
            },
        }),
        "extra" => LogEvent::Extra {
            key: fields.read()?,
            value: Json::from_raw(fields.next()?),
        },
        "progress" => LogEvent::Progress {
            key: fields.read()?,
            value: Json::from_raw(fields.next()?),
        },
        "call_started" => {
            let (call, id) = fields.call()?;
            LogEvent::CallStarted {
                call,
                id,
                name: fields.read()?,
                arguments: match fields.values.len() {
                    0 => Literal::default(),
                    _ => fields.literal()?.unwrap_or_default(),
                },
                approves: match fields.values.len() {
                    0 => None,
                    _ => Some(fields.word(CallId::parse)?),
                },
            }
        }
        "approval_asked" => {
            let (call, id) = fields.call()?;
            LogEvent::ApprovalAsked {
                call,
                id,
                name: fields.read()?,
                arguments: fields.literal()?.unwrap_or_default(),
            }
        }
        "call_ended" => {
            let (call, id) = fields.call()?;
            let reason = fields.optional_word(CallReason::parse)?;
            let end = Box::new(CallEnd {
                reason,
                result: fields.read()?,
                shown: fields.read()?,
                is_error: fields.read()?,
                cached: fields.values.len() > 0 && fields.read()?,
            });
            LogEvent::CallEnded { call, id, end }
        }
        "call_detached" => {
            let (call, id) = fields.call()?;
            LogEvent::CallDetached {
                call,
                id,
                told: fields.read::<String>()?.into(),
            }
        }
        "finish" => LogEvent::Finish {
            choice: fields.read()?,
            reason: fields.word(read_finish)?,
        },
        "usage" => LogEvent::Usage(Box::new(decode_usage(fields.next()?.get())?)),
        "end" => LogEvent::End(Box::new(decode_end(&mut fields)?)),
        _ => return Err(damaged(format!("unknown event {kind:?}"))),
    };
    Ok(event)
}

fn decode_delta(fields: &mut Fields<'_>) -> Result<AnswerDelta, DamagedRecord> {
    let choice = fields.read()?;
    let text = fields.literal()?;
    if fields.values.len() == 0 {
        return Ok(AnswerDelta {
            choice,
            text,
            rest: None,
        });
    }
    let refusal = fields.literal()?;
    let reasoning = match fields.read::<Option<(String, &RawValue)>>()? {
        Some((word, raw)) => Some(ReasoningText {
            place: read_place(WHAT, &word)?,
            text: read_literal(WHAT, raw)?,
        }),
        None => None,
    };
    let mut optional_json = || -> Result<Option<Json>, DamagedRecord> {
        let json = Json::from_raw(fields.next()?);
        Ok(if json.is_null() { None } else { Some(json) })
    };
    let details = optional_json()?;
    let logprobs = optional_json()?;
    let details = details.map(|details| (openai_chat::REASONING_DETAILS.into(), details));
    let mut extra: NativeFields = details.into_iter().collect();
    let mut beside = NativeFields::new();
    let mut members = &mut extra;
    while fields.values.len() > 0 {
        // What stands behind null are fields of the choice.
        match fields.read::<Option<Box<str>>>()? {
            Some(key) => members.push((key, Json::from_raw(fields.next()?))),
            None => members = &mut beside,
        }
    }
    Ok(AnswerDelta {
        choice,
        text,
        rest: Some(Box::new(DeltaRest {
            refusal,
            reasoning,
            logprobs,
            extra,
            beside,
        })),
    })
}

fn decode_end(fields: &mut Fields<'_>) -> Result<TurnEnd, DamagedRecord> {
    let status = fields.word(TurnStatus::parse)?;
    let reason = fields.optional_word(TurnReason::parse)?;
    let fault = match fields.read::<Option<Vec<&RawValue>>>()? {
        Some(values) => Some(decode_fault(&mut Fields {
            values: values.into_iter(),
        })?),
        None => None,
    };
    let ran: Vec<(String, String, String)> = fields.read()?;
    let effects = ran
        .into_iter()
        .map(|(id, name, status)| {
            let id = CallId::parse(&id).ok_or_else(|| damaged("a call's id"))?;
            let status = CallStatus::parse(&status).ok_or_else(|| damaged("a call's status"))?;
            Ok(EffectRan { id, name, status })
        })
        .collect::<Result<_, DamagedRecord>>()?;
    let at = match fields.values.len() {
        0 => None,
        _ => Some(Timestamp(fields.read()?)),
    };
    Ok(TurnEnd {
        status,
        reason,
        fault,
        effects,
        at,
    })
}

fn decode_fault(fields: &mut Fields<'_>) -> Result<TurnFault, DamagedRecord> {
    let class: String = fields.read()?;
    let status: Option<u16> = fields.read()?;
    let class = FaultClass::parse(&class, status)
        .ok_or_else(|| damaged(format!("unknown fault {class:?}")))?;
    Ok(TurnFault {
        class,
        message: fields.read()?,
        code: fields.read()?,
        kind: fields.read()?,
        param: fields.read()?,
        retry_after_s: fields.read()?,
    })
}

pub(super) fn read_literal(what: &'static str, raw: &RawValue) -> Result<Literal, DamagedRecord> {
    // The text was parsed as JSON on the way here, so a string's inside is a checked literal.
    Json::from_raw(raw)
        .as_literal()
        .ok_or_else(|| DamagedRecord::new(what, "a string was expected"))
}

pub(super) fn form_word(form: CallForm) -> &'static str {
    match form {
        CallForm::Function => "function",
        CallForm::Custom => "custom",
        CallForm::ByName => "legacy",
    }
}

pub(super) fn read_form(what: &'static str, word: &str) -> Result<CallForm, DamagedRecord> {
    [CallForm::Function, CallForm::Custom, CallForm::ByName]
        .into_iter()
        .find(|form| form_word(*form) == word)
        .ok_or_else(|| DamagedRecord::new(what, format!("unknown form {word:?}")))
}

pub(super) fn read_place(what: &'static str, word: &str) -> Result<NativeLabel, DamagedRecord> {
    native_words::place(word)
        .ok_or_else(|| DamagedRecord::new(what, format!("unknown place of reasoning {word:?}")))
}

const FINISHES: [(Finish, &str); 7] = [
    (Finish::Stop, "stop"),
    (Finish::Length, "length"),
    (Finish::ToolCalls, "tool_calls"),
    (Finish::ContentFilter, "content_filter"),
    (Finish::StopSequence, "stop_sequence"),
    (Finish::Refusal, "refusal"),
    (Finish::Pause, "pause"),
];

pub(super) fn finish_word(finish: Finish) -> &'static str {
    let mut all = FINISHES.iter();
    all.find(|(known, _)| *known == finish)
        .map_or("stop", |(_, word)| word)
}

fn read_finish(word: &str) -> Option<Finish> {
    // The old form of calls had a word of its own.
    let word = if word == "function_call" {
        "tool_calls"
    } else {
        word
    };
    let mut all = FINISHES.iter();
    all.find(|(_, known)| *known == word)
        .map(|(finish, _)| *finish)
}
