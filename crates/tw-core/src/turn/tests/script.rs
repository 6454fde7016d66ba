//! Events as short lines of text.

use std::time::Duration;

use crate::call::{CallEnd, CallReason};
use crate::id::CallRef;
use crate::json::{Json, Literal};
use crate::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, Finish, ModelEvent,
    ReasoningText, ReportedError, TokenUsage,
};
use crate::native::{NativeLabel, NativePart};
use crate::tool::{LookUp, ToolOutcome, ToolOutput};
use crate::turn::{Event, ModelFailure, ModelFailureKind, ModelRequestNumber, Timer};

/// Reads one line. `@1#2 done` is of attempt 2 of round 1, `@2 done` of attempt 2 of the newest
/// round, `done` of the newest model request, `asked`.
///
/// | line | event |
/// |---|---|
/// | `named m 5` | the answer's own name and time |
/// | `text Hel`, `reasoning Hm`, `logprobs {}` | an addition to the first choice |
/// | `extra key "value"` | a field beside the choices |
/// | `details [..]`, `native {..}`, `signed 0 "x"` | what only the format knows, of the message, as a block, of a call |
/// | `sealed`, `sealed x` | the end of a block, with a signature |
/// | `call 0 name {…}`, `call 0 name@id {…}`, `call 0 name@ {…}` | the first piece of a call with the id `c0`, `id`, or none; `legacy` for the old form |
/// | `more 0 …` | more of its arguments |
/// | `finish stop`, `usage 10 5`, `error 429 busy`, `error - bad`, `done`, `closed` | |
/// | `failed connect`, `failed status 429 retry 3` | |
/// | `slot 1.0`, `end 1.0#1 ok text`, `end 1.0#1 come_back 3 busy`, `found 1.0#1 absent` | of a call |
/// | `record 1.0 completed text`, `record 1.0 timeout text` | an end of a call that the record holds; after `refused`, the step before it was not written |
/// | `timer ask 1#2`, `timer call 1.0#2`, `deadline`, `leave`, `cancel`, `drain` | |
pub(super) fn event(line: &str, asked: ModelRequestNumber) -> Event {
    let (ask, line) = match line.strip_prefix('@') {
        Some(rest) => {
            let (attempt, rest) = cut(rest);
            let ask = match attempt.split_once('#') {
                Some((round, n)) => ModelRequestNumber {
                    round: number(round),
                    n: number(n),
                },
                None => ModelRequestNumber {
                    n: number(attempt),
                    ..asked
                },
            };
            (ask, rest)
        }
        None => (asked, line),
    };
    let (word, rest) = cut(line);
    let of_model = |event| Event::Model { ask, event };
    match word {
        "named" => {
            let (model, created) = cut(rest);
            of_model(ModelEvent::Start {
                model: Some(model.to_owned()),
                created_s: Some(created.parse().unwrap()),
            })
        }
        "text" => of_model(ModelEvent::Delta(AnswerDelta {
            text: Some(Literal::from_text(rest)),
            ..AnswerDelta::default()
        })),
        "reasoning" => of_model(delta(DeltaRest {
            reasoning: Some(ReasoningText {
                place: NativeLabel::new("thought"),
                text: Literal::from_text(rest),
            }),
            ..DeltaRest::default()
        })),
        "details" => of_model(delta(DeltaRest {
            extra: vec![("details".into(), json(rest))],
            ..DeltaRest::default()
        })),
        "logprobs" => of_model(delta(DeltaRest {
            logprobs: Some(json(rest)),
            ..DeltaRest::default()
        })),
        "sealed" => of_model(ModelEvent::BlockEnd(Box::new(BlockEnd {
            signature: (!rest.is_empty()).then(|| Literal::from_text(rest)),
            ..BlockEnd::default()
        }))),
        "native" => of_model(ModelEvent::Native {
            choice: 0,
            part: Box::new(NativePart {
                format: super::FORMAT,
                json: json(rest),
            }),
        }),
        "signed" => {
            let (place, value) = cut(rest);
            of_model(ModelEvent::Call(CallDelta {
                native: Some(Box::new(CallNative {
                    beside: vec![("sign".into(), json(value))],
                    ..CallNative::default()
                })),
                arguments: None,
                ..more(place)
            }))
        }
        "extra" => {
            let (key, value) = cut(rest);
            of_model(ModelEvent::Extra {
                key: key.into(),
                value: json(value),
            })
        }
        "call" | "legacy" => of_model(ModelEvent::Call(first_piece(word, rest))),
        "more" => of_model(ModelEvent::Call(more(rest))),
        "finish" => of_model(ModelEvent::Finish {
            choice: 0,
            reason: finish(rest),
        }),
        "usage" => of_model(ModelEvent::Usage(Box::new(usage(rest)))),
        "error" => of_model(ModelEvent::Error(Box::new(reported(rest)))),
        "done" => of_model(ModelEvent::Done),
        "closed" => Event::ModelEnded { ask },
        "failed" => Event::ModelFailed {
            ask,
            failure: failure(rest),
        },
        "slot" => Event::SlotGranted { call: call(rest) },
        "quota" => {
            let (at, told) = cut(rest);
            Event::QuotaReached {
                call: call(at),
                told: told.to_owned(),
            }
        }
        "end" => {
            let (attempt, outcome) = cut(rest);
            let (call, n) = attempt_of(attempt);
            Event::CallEnded {
                call,
                n,
                outcome: tool_outcome(outcome),
                http_status: None,
            }
        }
        "found" => {
            let (attempt, found) = cut(rest);
            let (call, n) = attempt_of(attempt);
            Event::LookedUp {
                call,
                n,
                found: look_up(found),
            }
        }
        "record" => {
            let (at, end) = cut(rest);
            Event::EndFound {
                call: call(at),
                end: found_end(end),
            }
        }
        "timer" => Event::TimerFired(timer(rest)),
        "deadline" => Event::TimerFired(Timer::Deadline),
        "leave" => Event::ClientLeft,
        "cancel" => Event::CancelRequested,
        "drain" => Event::Drained,
        _ => panic!("no such event: {line}"),
    }
}

fn cut(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn delta(rest: DeltaRest) -> ModelEvent {
    ModelEvent::Delta(AnswerDelta {
        rest: Some(Box::new(rest)),
        ..AnswerDelta::default()
    })
}

fn first_piece(word: &str, rest: &str) -> CallDelta {
    let (place, rest) = cut(rest);
    let (name, arguments) = cut(rest);
    let (name, id) = match name.split_once('@') {
        Some((name, "")) => (name, None),
        Some((name, id)) => (name, Some(id.to_owned())),
        None => (name, Some(format!("c{place}"))),
    };
    CallDelta {
        choice: 0,
        call: number(place),
        id: id.map(Into::into),
        name: Some(name.into()),
        form: if word == "legacy" {
            CallForm::ByName
        } else {
            CallForm::Function
        },
        arguments: (!arguments.is_empty()).then(|| Literal::from_text(arguments)),
        native: None,
    }
}

fn more(rest: &str) -> CallDelta {
    let (place, arguments) = cut(rest);
    CallDelta {
        choice: 0,
        call: number(place),
        id: None,
        name: None,
        form: CallForm::Function,
        arguments: Some(Literal::from_text(arguments)),
        native: None,
    }
}

fn finish(word: &str) -> Finish {
    match word {
        "stop" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" => Finish::ToolCalls,
        "content_filter" => Finish::ContentFilter,
        "stop_sequence" => Finish::StopSequence,
        "refusal" => Finish::Refusal,
        "pause" => Finish::Pause,
        _ => panic!("no such finish: {word}"),
    }
}

fn usage(text: &str) -> TokenUsage {
    let (prompt, completion) = cut(text);
    let (prompt, completion) = (u64::from(number(prompt)), u64::from(number(completion)));
    TokenUsage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        native: Some(NativePart {
            format: super::FORMAT,
            json: json(&format!(
                r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion}}}"#
            )),
        }),
        ..TokenUsage::default()
    }
}

fn reported(text: &str) -> ReportedError {
    let (status, message) = cut(text);
    ReportedError {
        message: message.to_owned(),
        status: status.parse().ok(),
        ..ReportedError::default()
    }
}

fn failure(text: &str) -> ModelFailure {
    let mut words = text.split(' ');
    let kind = match words.next() {
        Some("connect") => ModelFailureKind::Connect,
        Some("reset") => ModelFailureKind::Reset,
        Some("silent") => ModelFailureKind::Silent,
        Some("nonsense") => ModelFailureKind::Nonsense,
        Some("cut") => ModelFailureKind::Cut,
        Some("status") => ModelFailureKind::Status(words.next().unwrap().parse().unwrap()),
        other => panic!("no such failure: {other:?}"),
    };
    let retry_after = match words.next() {
        Some("retry") => Some(Duration::from_secs(words.next().unwrap().parse().unwrap())),
        Some(other) => panic!("no such part of a failure: {other}"),
        None => None,
    };
    ModelFailure {
        kind,
        error: ReportedError {
            message: "upstream says no".to_owned(),
            kind: Some("kind".to_owned()),
            code: Some("code".to_owned()),
            param: Some("param".to_owned()),
            ..ReportedError::default()
        },
        retry_after,
        should_retry: None,
    }
}

pub(super) fn call(text: &str) -> CallRef {
    let (round, position) = text.split_once('.').unwrap();
    CallRef {
        round: number(round),
        position: number(position),
    }
}

fn attempt_of(text: &str) -> (CallRef, u32) {
    let (at, n) = text.split_once('#').unwrap();
    (call(at), number(n))
}

fn output(text: &str) -> ToolOutput {
    ToolOutput::Text {
        text: text.to_owned(),
        cut: false,
        selected: None,
    }
}

fn tool_outcome(text: &str) -> ToolOutcome {
    let (word, rest) = cut(text);
    let message = rest.to_owned();
    match word {
        "ok" => ToolOutcome::Answered(output(rest)),
        "cut" => ToolOutcome::Answered(ToolOutput::Text {
            text: message,
            cut: true,
            selected: None,
        }),
        "accepted" => ToolOutcome::Accepted {
            external_id: (!rest.is_empty()).then_some(message),
        },
        "refused" => ToolOutcome::Refused { message },
        "not_started" => ToolOutcome::NotStarted { message },
        "unclear" => ToolOutcome::Unclear { message },
        "gateway" => ToolOutcome::Gateway {
            message,
            retry_after: None,
        },
        "unavailable" => ToolOutcome::Unavailable {
            message,
            retry_after: None,
        },
        "come_back" => {
            let (seconds, message) = cut(rest);
            ToolOutcome::Unavailable {
                message: message.to_owned(),
                retry_after: Some(Duration::from_secs(number(seconds).into())),
            }
        }
        "unsendable" => ToolOutcome::Unsendable { message },
        "not_sent" => ToolOutcome::NotSent { message },
        "reset" => ToolOutcome::Reset { message },
        "timeout" => ToolOutcome::TimedOut,
        "panicked" => ToolOutcome::Panicked,
        "aborted" => ToolOutcome::Aborted,
        _ => panic!("no such outcome: {text}"),
    }
}

fn look_up(text: &str) -> LookUp {
    let (word, rest) = cut(text);
    match word {
        "happened" => LookUp::Happened(output(rest)),
        "absent" => LookUp::Absent,
        "unknown" => LookUp::Unknown,
        _ => panic!("no such finding: {text}"),
    }
}

fn found_end(text: &str) -> CallEnd {
    let (word, shown) = cut(text);
    let reason = (word != "completed").then(|| CallReason::parse(word).unwrap());
    CallEnd {
        reason,
        result: None,
        shown: shown.to_owned(),
        is_error: reason.is_some(),
        cached: false,
    }
}

fn timer(text: &str) -> Timer {
    let (word, attempt) = cut(text);
    match word {
        "ask" => {
            let (round, n) = attempt.split_once('#').unwrap();
            Timer::AskAgain {
                round: number(round),
                n: number(n),
            }
        }
        "call" => {
            let (call, n) = attempt_of(attempt);
            Timer::CallAgain { call, n }
        }
        "callback" => Timer::CallbackWait {
            call: call(attempt),
        },
        _ => panic!("no such timer: {text}"),
    }
}
