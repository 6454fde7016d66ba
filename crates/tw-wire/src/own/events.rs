//! Log events as stored: one JSON array per event, each ending its line.

pub mod lines;

use serde_json::value::RawValue;
use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::event::{EffectRan, LogEvent, TurnEnd, TurnReason, TurnStatus};
use tw_core::fault::{Fault, FaultClass};
use tw_core::id::{CallId, CallRef};
use tw_core::json::{Json, Literal};
use tw_core::model::{
    CallForm, CallPiece, Delta, DeltaRest, Finish, ReasoningField, ReasoningText, Usage,
};

use super::DamagedRecord;
use lines::Events;

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
        LogEvent::Start { model, created_s } => {
            array(out, "start", &[&json_string(model), &created_s.to_string()]);
        }
        LogEvent::Round { round } => array(out, "round", &[&round.to_string()]),
        LogEvent::ClientCall(piece) => array(
            out,
            "call",
            &[
                &piece.choice.to_string(),
                &piece.call.to_string(),
                &optional_string(piece.id.as_deref()),
                &optional_string(piece.name.as_deref()),
                &quoted(form_word(piece.form)),
                &optional_literal(piece.arguments.as_ref()),
            ],
        ),
        LogEvent::Extra { key, value } => array(out, "extra", &[&json_string(key), value.as_str()]),
        LogEvent::CallStarted { call, id, name } => array(
            out,
            "call_started",
            &[
                &call.round.to_string(),
                &call.position.to_string(),
                &quoted(&id.plain()),
                &json_string(name),
            ],
        ),
        LogEvent::CallEnded { call, id, end } => {
            let (round, position) = (call.round.to_string(), call.position.to_string());
            let id = quoted(&id.plain());
            let reason = optional_string(end.reason.map(CallReason::as_str));
            let result = optional_string(end.result.as_deref());
            let shown = json_string(&end.shown);
            let is_error = if end.is_error { "true" } else { "false" };
            let mut fields = vec![
                round.as_str(),
                &position,
                &id,
                &reason,
                &result,
                &shown,
                is_error,
            ];
            // Left out where it is false, as in all logs written before there was a cache.
            if end.cached {
                fields.push("true");
            }
            array(out, "call_ended", &fields);
        }
        LogEvent::Finish { choice, reason } => {
            array(
                out,
                "finish",
                &[&choice.to_string(), &quoted(finish_word(*reason))],
            );
        }
        LogEvent::Usage(usage) => array(out, "usage", &[&encode_usage(usage)]),
        LogEvent::End(end) => encode_end(end, out),
    }
}

/// A usage as stored: the three sums and the object.
pub fn encode_usage(usage: &Usage) -> String {
    format!(
        "[{},{},{},{}]",
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        usage.json.as_str()
    )
}

fn encode_delta(delta: &Delta, out: &mut String) {
    out.push_str("[\"d\",");
    out.push_str(&delta.choice.to_string());
    out.push(',');
    push_literal(out, delta.text.as_ref());
    if let Some(rest) = delta.rest.as_deref() {
        out.push(',');
        push_literal(out, rest.refusal.as_ref());
        out.push(',');
        match &rest.reasoning {
            Some(reasoning) => {
                out.push_str("[\"");
                out.push_str(reasoning_word(reasoning.field));
                out.push_str("\",");
                push_literal(out, Some(&reasoning.text));
                out.push(']');
            }
            None => out.push_str("null"),
        }
        out.push(',');
        out.push_str(rest.reasoning_details.as_ref().map_or("null", Json::as_str));
        out.push(',');
        out.push_str(rest.logprobs.as_ref().map_or("null", Json::as_str));
        for (key, value) in &rest.extra {
            out.push(',');
            out.push_str(&json_string(key));
            out.push(',');
            out.push_str(value.as_str());
        }
    }
    out.push(']');
}

fn encode_end(end: &TurnEnd, out: &mut String) {
    let effects: Vec<String> = end
        .effects
        .iter()
        .map(|ran| {
            format!(
                "[{},{},{}]",
                quoted(&ran.id.plain()),
                json_string(&ran.name),
                quoted(ran.status.as_str())
            )
        })
        .collect();
    let fault = end.fault.as_ref().map_or("null".to_owned(), encode_fault);
    array(
        out,
        "end",
        &[
            &quoted(end.status.as_str()),
            &optional_string(end.reason.map(TurnReason::as_str)),
            &fault,
            &format!("[{}]", effects.join(",")),
        ],
    );
}

fn encode_fault(fault: &Fault) -> String {
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

fn array(out: &mut String, kind: &str, fields: &[&str]) {
    out.push_str("[\"");
    out.push_str(kind);
    out.push('"');
    for field in fields {
        out.push(',');
        out.push_str(field);
    }
    out.push(']');
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn optional_string(text: Option<&str>) -> String {
    text.map_or("null".to_owned(), json_string)
}

pub(super) fn optional_literal(literal: Option<&Literal>) -> String {
    literal.map_or("null".to_owned(), |literal| quoted(literal.as_str()))
}

fn push_literal(out: &mut String, literal: Option<&Literal>) {
    match literal {
        Some(literal) => {
            out.push('"');
            out.push_str(literal.as_str());
            out.push('"');
        }
        None => out.push_str("null"),
    }
}

/// Reads a flush.
///
/// # Errors
/// [`DamagedRecord`] when the text is not what [`encode`] wrote.
pub fn decode(text: &str) -> Result<Vec<LogEvent>, DamagedRecord> {
    Events::new(text).collect()
}

/// Reads what [`encode_usage`] wrote.
///
/// # Errors
/// [`DamagedRecord`] when the text is something else.
pub fn decode_usage(text: &str) -> Result<Usage, DamagedRecord> {
    let (prompt_tokens, completion_tokens, total_tokens, json): (u64, u64, u64, &RawValue) =
        serde_json::from_str(text).map_err(damaged)?;
    Ok(Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens,
        json: Json::from_raw(json),
    })
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
        },
        "call" => LogEvent::ClientCall(CallPiece {
            choice: fields.read()?,
            call: fields.read()?,
            id: fields.read()?,
            name: fields.read()?,
            form: fields.word(|word| read_form(WHAT, word).ok())?,
            arguments: fields.literal()?,
        }),
        "extra" => LogEvent::Extra {
            key: fields.read()?,
            value: Json::from_raw(fields.next()?),
        },
        "call_started" => {
            let (call, id) = fields.call()?;
            LogEvent::CallStarted {
                call,
                id,
                name: fields.read()?,
            }
        }
        "call_ended" => {
            let (call, id) = fields.call()?;
            let reason = fields.optional_word(CallReason::parse)?;
            let end = CallEnd {
                reason,
                result: fields.read()?,
                shown: fields.read()?,
                is_error: fields.read()?,
                cached: fields.values.len() > 0 && fields.read()?,
            };
            LogEvent::CallEnded { call, id, end }
        }
        "finish" => LogEvent::Finish {
            choice: fields.read()?,
            reason: fields.word(read_finish)?,
        },
        "usage" => LogEvent::Usage(decode_usage(fields.next()?.get())?),
        "end" => LogEvent::End(decode_end(&mut fields)?),
        _ => return Err(damaged(format!("unknown event {kind:?}"))),
    };
    Ok(event)
}

fn decode_delta(fields: &mut Fields<'_>) -> Result<Delta, DamagedRecord> {
    let choice = fields.read()?;
    let text = fields.literal()?;
    if fields.values.len() == 0 {
        return Ok(Delta {
            choice,
            text,
            rest: None,
        });
    }
    let refusal = fields.literal()?;
    let reasoning = match fields.read::<Option<(String, &RawValue)>>()? {
        Some((word, raw)) => Some(ReasoningText {
            field: read_field(WHAT, &word)?,
            text: read_literal(WHAT, raw)?,
        }),
        None => None,
    };
    let mut optional_json = || -> Result<Option<Json>, DamagedRecord> {
        let json = Json::from_raw(fields.next()?);
        Ok(if json.is_null() { None } else { Some(json) })
    };
    let reasoning_details = optional_json()?;
    let logprobs = optional_json()?;
    let mut extra = Vec::new();
    while fields.values.len() > 0 {
        let key: Box<str> = fields.read()?;
        extra.push((key, Json::from_raw(fields.next()?)));
    }
    Ok(Delta {
        choice,
        text,
        rest: Some(Box::new(DeltaRest {
            refusal,
            reasoning,
            reasoning_details,
            logprobs,
            extra,
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
    Ok(TurnEnd {
        status,
        reason,
        fault,
        effects,
    })
}

fn decode_fault(fields: &mut Fields<'_>) -> Result<Fault, DamagedRecord> {
    let class: String = fields.read()?;
    let status: Option<u16> = fields.read()?;
    let class = FaultClass::parse(&class, status)
        .ok_or_else(|| damaged(format!("unknown fault {class:?}")))?;
    Ok(Fault {
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
        CallForm::Legacy => "legacy",
    }
}

pub(super) fn read_form(what: &'static str, word: &str) -> Result<CallForm, DamagedRecord> {
    [CallForm::Function, CallForm::Custom, CallForm::Legacy]
        .into_iter()
        .find(|form| form_word(*form) == word)
        .ok_or_else(|| DamagedRecord::new(what, format!("unknown form {word:?}")))
}

pub(super) fn reasoning_word(field: ReasoningField) -> &'static str {
    match field {
        ReasoningField::ReasoningContent => "reasoning_content",
        ReasoningField::Reasoning => "reasoning",
        ReasoningField::ThinkingPart => "thinking",
    }
}

pub(super) fn read_field(what: &'static str, word: &str) -> Result<ReasoningField, DamagedRecord> {
    [
        ReasoningField::ReasoningContent,
        ReasoningField::Reasoning,
        ReasoningField::ThinkingPart,
    ]
    .into_iter()
    .find(|field| reasoning_word(*field) == word)
    .ok_or_else(|| DamagedRecord::new(what, format!("unknown reasoning field {word:?}")))
}

pub(super) fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
        Finish::FunctionCall => "function_call",
    }
}

fn read_finish(word: &str) -> Option<Finish> {
    [
        Finish::Stop,
        Finish::Length,
        Finish::ToolCalls,
        Finish::ContentFilter,
        Finish::FunctionCall,
    ]
    .into_iter()
    .find(|finish| finish_word(*finish) == word)
}
