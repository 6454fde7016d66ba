//! Turns as responses.

use serde_json::{Value, json};
use tw_core::call::{CallEnd, CallReason};
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::{CallId, CallRef, TurnId};
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, DeltaRest, Finish, ModelEvent, ReasoningText,
    TokenUsage,
};
use tw_core::native::{FormatName, NativePart};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_wire::openai_chat;
use tw_wire::openai_responses::fold::{OwnCallItems, ResponseFacts, ResponseFold};
use tw_wire::openai_responses::options::ResponsesOptions;
use tw_wire::openai_responses::{FORMAT, SUMMARY};

use super::answers::of_recording;
use super::requests::read;
use crate::shared::recordings;

fn facts(own_calls: OwnCallItems) -> ResponseFacts {
    ResponseFacts {
        turn: TurnId::parse("0192f0aa-0000-7000-8000-000000000001").expect("an id"),
        model: "m".to_owned(),
        created_s: 1_700_000_000,
        store: true,
        own_calls,
    }
}

fn options(more: Value) -> ResponsesOptions {
    let mut body = json!({"model": "m", "input": "x", "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "f"}]});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    read(&body).expect("a request").options
}

fn stream(log: &[LogEvent], own: OwnCallItems, more: &Value, after: Option<u64>) -> String {
    let mut fold = ResponseFold::stream(facts(own), options(more.clone()), after);
    let mut out = Vec::new();
    for event in log {
        fold.push(event, &mut out);
    }
    String::from_utf8(out).expect("text")
}

fn whole(log: &[LogEvent], own: OwnCallItems, more: &Value) -> Value {
    let mut fold = ResponseFold::whole(facts(own), options(more.clone()));
    let mut out = Vec::new();
    for event in log {
        fold.push(event, &mut out);
    }
    assert!(out.is_empty());
    serde_json::from_slice(&fold.body()).expect("JSON")
}

/// The events of a stream, of which each has its name, its number and one line of data.
fn events(stream: &str) -> Vec<Value> {
    let body = stream.strip_suffix("data: [DONE]\n\n").unwrap_or(stream);
    let blocks = body.split_terminator("\n\n");
    blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').expect("two lines");
            let data = data.strip_prefix("data: ").expect("data");
            let event: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(
                Some(name),
                event["type"]
                    .as_str()
                    .map(|kind| format!("event: {kind}"))
                    .as_deref()
            );
            event
        })
        .collect()
}

const RESPONSE_FIELDS: [&str; 32] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "object",
];
const NOT_NULL: [&str; 12] = [
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "tool_choice",
    "truncation",
    "background",
    "service_tier",
    "tools",
    "output",
    "model",
];

fn check_response(response: &Value) {
    for name in RESPONSE_FIELDS {
        assert!(response.get(name).is_some(), "{name} in {response}");
    }
    for name in NOT_NULL {
        assert!(!response[name].is_null(), "{name} in {response}");
    }
}

/// Checks what openai-node demands of a stream, and returns its last response.
fn check_stream(events: &[Value]) -> Value {
    let mut items: Vec<(Value, bool)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
        let kind = event["type"].as_str().expect("a type");
        if let Some(response) = event.get("response") {
            check_response(response);
        }
        let Some(at) = event["output_index"].as_u64() else {
            continue;
        };
        let at = at as usize;
        if kind == "response.output_item.added" {
            assert_eq!(at, items.len(), "{event}");
            let id = &event["item"]["id"];
            assert!(items.iter().all(|(item, _)| item["id"] != *id), "{event}");
            items.push((event["item"].clone(), false));
            continue;
        }
        let (item, is_done) = &mut items[at];
        assert!(!*is_done, "{event}");
        if kind == "response.output_item.done" {
            assert_eq!(event["item"]["id"], item["id"], "{event}");
            assert_eq!(event["item"]["type"], item["type"], "{event}");
            assert_eq!(event["item"]["call_id"], item["call_id"], "{event}");
            (*item, *is_done) = (event["item"].clone(), true);
        } else {
            assert_eq!(event["item_id"], item["id"], "{event}");
        }
    }
    assert!(items.iter().all(|(_, is_done)| *is_done));
    let last = events.last().expect("events")["response"].clone();
    let shown: Vec<Value> = items.into_iter().map(|(item, _)| item).collect();
    assert_eq!(last["output"], Value::from(shown));
    last
}

/// What is added to a part, joined, is what the part has at its end.
fn check_texts(events: &[Value]) {
    let key = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        let kind = kind
            .rsplit_once('.')
            .map_or(kind, |(kind, _)| kind)
            .to_owned();
        (
            kind,
            event["item_id"].to_string(),
            event["content_index"].to_string(),
            event["summary_index"].to_string(),
        )
    };
    for event in events {
        let names = ["text", "refusal", "arguments", "input"];
        let Some(whole) = names.iter().find_map(|name| event[*name].as_str()) else {
            continue;
        };
        let pieces = events.iter().filter(|piece| key(piece) == key(event));
        let pieces = pieces.filter_map(|piece| piece["delta"].as_str());
        assert_eq!(pieces.collect::<String>(), whole, "{event}");
    }
}

/// The log of a relayed answer.
fn log_of(events: &[ModelEvent], format: FormatName) -> Vec<LogEvent> {
    let mut log = vec![
        LogEvent::Start {
            model: "upstream-model".to_owned(),
            created_s: 5,
        },
        LogEvent::Round { round: 1, format },
    ];
    let mut finish = None;
    for event in events {
        match event.clone() {
            ModelEvent::Delta(delta) => log.push(LogEvent::Delta(delta)),
            ModelEvent::Call(piece) => log.push(LogEvent::ClientCall(piece)),
            ModelEvent::BlockEnd(end) => log.push(LogEvent::BlockEnd(end)),
            ModelEvent::Native { choice, part } => log.push(LogEvent::Native { choice, part }),
            ModelEvent::Extra { key, value } => log.push(LogEvent::Extra { key, value }),
            ModelEvent::Progress { key, value } => log.push(LogEvent::Progress { key, value }),
            ModelEvent::Finish { reason, .. } => finish = Some(reason),
            ModelEvent::Usage(usage) => log.push(LogEvent::Usage(usage)),
            ModelEvent::Start { .. } | ModelEvent::Error(_) | ModelEvent::Done => {}
        }
    }
    match finish {
        Some(reason) => {
            log.push(LogEvent::Finish { choice: 0, reason });
            log.push(ended(TurnStatus::Completed, None));
        }
        None => log.push(ended(TurnStatus::Failed, Some(TurnReason::Upstream))),
    }
    log
}

fn ended(status: TurnStatus, reason: Option<TurnReason>) -> LogEvent {
    let fault = (status == TurnStatus::Failed)
        .then(|| TurnFault::new(FaultClass::UpstreamReported, "it failed"));
    LogEvent::End(Box::new(TurnEnd {
        status,
        reason,
        fault,
        effects: Vec::new(),
        at: None,
    }))
}

/// Checks a log in every way: as a stream, from every place in it, and as a response.
fn check(name: &str, log: &[LogEvent], own: OwnCallItems, more: &Value) -> (Vec<Value>, Value) {
    let text = stream(log, own, more, None);
    assert!(text.ends_with("data: [DONE]\n\n"), "{name}");
    let all = events(&text);
    check_texts(&all);
    let last = check_stream(&all);
    assert_eq!(whole(log, own, more), last, "{name}");
    for after in 0..all.len() as u64 {
        let tail = stream(log, own, more, Some(after));
        assert!(text.ends_with(&tail), "{name} after {after}");
        assert_eq!(
            events(&tail),
            all[after as usize + 1..],
            "{name} after {after}"
        );
    }
    for events in 0..log.len() {
        check_response(&whole(&log[..events], own, more));
    }
    (all, last)
}

#[test]
fn recordings_pass_through_as_responses() {
    for recording in recordings("openai.responses") {
        let log = log_of(&of_recording(&recording), FORMAT);
        let (_, response) = check(&recording.file, &log, OwnCallItems::Mcp, &json!({}));
        let items = response["output"].as_array().expect("items");
        let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
        let expected = recording.expect["item_types"].as_array();
        let expected: Vec<&Value> = expected.into_iter().flatten().collect();
        assert_eq!(kinds, expected, "{}", recording.file);
        if recording.expect["finish"][0] != "response.failed" {
            assert_eq!(response["status"], "completed", "{}", recording.file);
        }
    }
}

#[test]
fn chat_recordings_become_responses() {
    for recording in recordings("openai.chat.completions") {
        if !recording.is_stream {
            continue;
        }
        let mut decoder = openai_chat::stream::StreamDecoder::new(
            &tw_wire::upstream_answer::StreamLimits::defaults(),
        );
        let mut answer = Vec::new();
        decoder
            .feed(&recording.bytes, &mut answer)
            .expect("an answer");
        decoder.finish(&mut answer).expect("an answer");
        let log = log_of(&answer, openai_chat::FORMAT);
        let all = events(&stream(&log, OwnCallItems::Mcp, &json!({}), None));
        check_texts(&all);
        check_stream(&all);
    }
}

fn delta(text: &str) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: Some(Literal::from_text(text)),
        rest: None,
    })
}

fn thought(text: &str) -> LogEvent {
    let rest = DeltaRest {
        reasoning: Some(ReasoningText {
            place: SUMMARY,
            text: Literal::from_text(text),
        }),
        ..DeltaRest::default()
    };
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: None,
        rest: Some(Box::new(rest)),
    })
}

fn item_end(item: Value) -> LogEvent {
    LogEvent::BlockEnd(Box::new(BlockEnd {
        choice: 0,
        signature: None,
        native: Some(NativePart {
            format: FORMAT,
            json: Json::from_value(&item),
        }),
    }))
}

fn id(n: u8) -> CallId {
    CallId::parse(&format!("0192f0aa-0000-7000-8000-0000000000{n:02x}")).expect("an id")
}

fn started(n: u8) -> LogEvent {
    LogEvent::CallStarted {
        call: CallRef {
            round: 1,
            position: u32::from(n),
        },
        id: id(n),
        name: format!("tool_{n}"),
        arguments: Literal::from_text("{\"a\":1}"),
        approves: None,
    }
}

fn call_ended(n: u8, shown: &str, reason: Option<CallReason>) -> LogEvent {
    LogEvent::CallEnded {
        call: CallRef {
            round: 1,
            position: u32::from(n),
        },
        id: id(n),
        end: Box::new(CallEnd {
            reason,
            result: None,
            shown: shown.to_owned(),
            is_error: reason.is_some(),
            cached: false,
        }),
    }
}

fn round(round: u32) -> LogEvent {
    LogEvent::Round {
        round,
        format: FORMAT,
    }
}

fn start() -> LogEvent {
    LogEvent::Start {
        model: "u".to_owned(),
        created_s: 1,
    }
}

fn finish(reason: Finish) -> LogEvent {
    LogEvent::Finish { choice: 0, reason }
}

fn two_rounds() -> Vec<LogEvent> {
    let usage = TokenUsage {
        prompt_tokens: 3,
        completion_tokens: 4,
        total_tokens: 7,
        ..TokenUsage::default()
    };
    vec![
        start(),
        round(1),
        thought("I"),
        thought(" think"),
        item_end(
            json!({"type": "reasoning", "id": "rs_u", "summary": [], "encrypted_content": "E"}),
        ),
        delta("Let me"),
        delta(" see."),
        item_end(json!({"type": "message", "id": "msg_u", "phase": "commentary", "content": []})),
        started(1),
        started(2),
        call_ended(2, "no", Some(CallReason::ToolError)),
        call_ended(1, "5", None),
        round(2),
        delta("It is 5."),
        finish(Finish::Stop),
        LogEvent::Usage(Box::new(usage)),
        ended(TurnStatus::Completed, None),
    ]
}

#[test]
fn calls_of_ours_are_items_of_one_lifecycle() {
    let (all, response) = check("two rounds", &two_rounds(), OwnCallItems::Mcp, &json!({}));
    let kinds: Vec<&str> = all
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.mcp_call.failed",
            "response.output_item.done",
            "response.mcp_call.completed",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let turn = "0192f0aa000070008000000000000001";
    assert_eq!(response["id"], format!("resp_{turn}"));
    assert_eq!(response["status"], "completed");
    assert_eq!(
        response["usage"],
        json!({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 4,
               "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 7})
    );
    assert_eq!(
        response["output"],
        json!([
            {"id": format!("rs_{turn}_1_0"), "type": "reasoning", "summary": [{"type": "summary_text", "text": "I think"}], "encrypted_content": "E"},
            {"id": format!("msg_{turn}_1_1"), "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
             "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Let me see."}]},
            {"id": "mcp_0192f0aa000070008000000000000001", "type": "mcp_call", "status": "completed", "server_label": "turnwright",
             "name": "tool_1", "arguments": "{\"a\":1}", "approval_request_id": null, "output": "5", "error": null},
            {"id": "mcp_0192f0aa000070008000000000000002", "type": "mcp_call", "status": "failed", "server_label": "turnwright",
             "name": "tool_2", "arguments": "{\"a\":1}", "approval_request_id": null, "output": null, "error": "no"},
            {"id": format!("msg_{turn}_2_0"), "type": "message", "status": "completed", "role": "assistant", "phase": "final_answer",
             "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "It is 5."}]},
        ])
    );
}

/// A question is one item, whole at once; the call that acts on an answer names it.
#[test]
fn questions_and_the_calls_that_act_on_answers_are_items() {
    let asks = LogEvent::ApprovalAsked {
        call: CallRef {
            round: 1,
            position: 0,
        },
        id: id(1),
        name: "pay".to_owned(),
        arguments: Literal::from_text("{\"a\":1}"),
    };
    let mut acts = started(2);
    if let LogEvent::CallStarted { approves, .. } = &mut acts {
        *approves = Some(id(1));
    }
    let log = [
        start(),
        acts,
        call_ended(2, "5", None),
        round(1),
        delta("I have to pay again."),
        asks,
        finish(Finish::Stop),
        ended(TurnStatus::Completed, None),
    ];
    for own_calls in [OwnCallItems::Mcp, OwnCallItems::Hidden] {
        let (events, response) = check("approvals", &log, own_calls, &json!({}));
        let question = json!({"id": "mcpr_0192f0aa000070008000000000000001", "type": "mcp_approval_request",
                              "server_label": "turnwright", "name": "pay", "arguments": "{\"a\":1}"});
        let output = response["output"].as_array().expect("items");
        assert_eq!(output.last(), Some(&question));
        let said = &output[output.len() - 2];
        assert_eq!(
            (&said["type"], &said["phase"]),
            (&json!("message"), &json!("commentary"))
        );
        let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
        assert_eq!(
            kinds[kinds.len() - 3..],
            [
                "response.output_item.added",
                "response.output_item.done",
                "response.completed"
            ]
        );
        if own_calls == OwnCallItems::Mcp {
            assert_eq!(output[0]["approval_request_id"], question["id"]);
        }
    }
}

#[test]
fn calls_of_ours_are_shown_as_the_key_says() {
    let (_, hidden) = check("hidden", &two_rounds(), OwnCallItems::Hidden, &json!({}));
    let kinds = |response: &Value| -> Vec<String> {
        let items = response["output"].as_array().expect("items").iter();
        items
            .map(|item| item["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(kinds(&hidden), ["reasoning", "message", "message"]);
    let (_, functions) = check(
        "functions",
        &two_rounds(),
        OwnCallItems::Function,
        &json!({}),
    );
    assert_eq!(
        kinds(&functions),
        [
            "reasoning",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
            "message"
        ]
    );
    assert_eq!(
        functions["output"][4]["call_id"],
        functions["output"][3]["call_id"]
    );
    assert_eq!(functions["output"][5]["output"], "5");
}

#[test]
fn encrypted_reasoning_is_shown_to_who_asks_for_it() {
    let (_, response) = check(
        "not included",
        &two_rounds(),
        OwnCallItems::Mcp,
        &json!({"include": []}),
    );
    assert!(response["output"][0].get("encrypted_content").is_none());
}

fn piece(call: u32, first: Option<(&str, &str)>, arguments: &str) -> LogEvent {
    LogEvent::ClientCall(CallDelta {
        choice: 0,
        call,
        id: first.map(|(id, _)| id.into()),
        name: first.map(|(_, name)| name.into()),
        form: if first.is_some_and(|(_, name)| name == "sql") {
            CallForm::Custom
        } else {
            CallForm::Function
        },
        arguments: (!arguments.is_empty()).then(|| Literal::from_text(arguments)),
        native: None,
    })
}

/// A name, a log, its last event, the status, why it is incomplete, and the status of its item.
type Ending = (
    &'static str,
    Vec<LogEvent>,
    &'static str,
    &'static str,
    Value,
    &'static str,
);

#[test]
fn endings_are_told_by_status_and_reason() {
    let said = || vec![start(), round(1), delta("half")];
    let with = |more: Vec<LogEvent>| -> Vec<LogEvent> { said().into_iter().chain(more).collect() };
    let rows: Vec<Ending> = vec![
        (
            "answered",
            with(vec![
                finish(Finish::Stop),
                ended(TurnStatus::Completed, None),
            ]),
            "response.completed",
            "completed",
            Value::Null,
            "completed",
        ),
        (
            "length",
            with(vec![
                finish(Finish::Length),
                ended(TurnStatus::Incomplete, Some(TurnReason::Length)),
            ]),
            "response.incomplete",
            "incomplete",
            json!({"reason": "max_output_tokens"}),
            "incomplete",
        ),
        (
            "filtered",
            with(vec![
                finish(Finish::ContentFilter),
                ended(TurnStatus::Completed, None),
            ]),
            "response.incomplete",
            "incomplete",
            json!({"reason": "content_filter"}),
            "incomplete",
        ),
        (
            "rounds",
            with(vec![
                finish(Finish::Length),
                ended(TurnStatus::Incomplete, Some(TurnReason::Rounds)),
            ]),
            "response.incomplete",
            "incomplete",
            json!({"reason": "max_tool_calls"}),
            "incomplete",
        ),
        (
            "interrupted",
            with(vec![ended(
                TurnStatus::Incomplete,
                Some(TurnReason::Interrupted),
            )]),
            "response.failed",
            "failed",
            Value::Null,
            "incomplete",
        ),
        (
            "failed",
            with(vec![ended(TurnStatus::Failed, Some(TurnReason::Upstream))]),
            "response.failed",
            "failed",
            Value::Null,
            "incomplete",
        ),
        (
            "cancelled",
            with(vec![ended(
                TurnStatus::Cancelled,
                Some(TurnReason::Requested),
            )]),
            "response.failed",
            "cancelled",
            Value::Null,
            "incomplete",
        ),
    ];
    for (name, log, event, status, details, item) in rows {
        let (all, response) = check(name, &log, OwnCallItems::Mcp, &json!({}));
        assert_eq!(all.last().expect("events")["type"], event, "{name}");
        assert_eq!(response["status"], status, "{name}");
        assert_eq!(response["incomplete_details"], details, "{name}");
        assert_eq!(response["output"][0]["status"], item, "{name}");
        let errors: Vec<&Value> = all
            .iter()
            .filter(|event| event["type"] == "error")
            .collect();
        assert_eq!(errors.len(), usize::from(status == "failed"), "{name}");
        if status == "failed" {
            let said = match name {
                "interrupted" => "the answer was cut by a restart of the server",
                _ => "it failed",
            };
            assert_eq!(errors[0]["error"]["message"], said, "{name}");
            assert_eq!(response["error"]["message"], said, "{name}");
            assert!(response["error"]["code"].is_string(), "{name}");
        }
    }
}

#[test]
fn a_turn_that_never_began_has_a_lifecycle() {
    let log = [ended(TurnStatus::Failed, Some(TurnReason::Upstream))];
    let (all, response) = check(
        "nothing",
        &log,
        OwnCallItems::Mcp,
        &json!({"background": true}),
    );
    let kinds: Vec<&str> = all
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.queued",
            "response.in_progress",
            "error",
            "response.failed"
        ]
    );
    assert_eq!(response["model"], "m");
    let waiting = whole(&[], OwnCallItems::Mcp, &json!({"background": true}));
    assert_eq!(waiting["status"], "queued");
}

#[test]
fn calls_of_the_client_are_items_in_their_order() {
    let log = vec![
        start(),
        round(1),
        delta("text"),
        piece(0, Some(("call_a", "f")), "{\"x\""),
        piece(1, Some(("call_b", "f")), "{}"),
        piece(0, None, ":1}"),
        piece(2, Some(("call_a", "sql")), "SELECT"),
        finish(Finish::ToolCalls),
        ended(TurnStatus::Completed, None),
    ];
    let (_, response) = check("calls", &log, OwnCallItems::Mcp, &json!({}));
    let output = &response["output"];
    assert_eq!(output[0]["phase"], "commentary");
    assert_eq!(output[1]["arguments"], "{\"x\":1}");
    assert_eq!(output[1]["call_id"], "call_a");
    assert_eq!(output[2]["arguments"], "{}");
    assert_eq!(output[3]["type"], "custom_tool_call");
    assert_eq!(output[3]["input"], "SELECT");
    assert_ne!(output[3]["call_id"], "call_a");
}

#[test]
fn a_call_that_runs_shows_in_the_middle_of_a_turn() {
    let log = two_rounds();
    let response = whole(&log[..10], OwnCallItems::Mcp, &json!({}));
    assert_eq!(response["status"], "in_progress");
    assert_eq!(response["usage"], Value::Null);
    assert_eq!(response["output"][2]["status"], "in_progress");
    assert_eq!(response["output"][2]["output"], Value::Null);
    let cut: Vec<LogEvent> = log[..10]
        .iter()
        .cloned()
        .chain([ended(TurnStatus::Cancelled, Some(TurnReason::Requested))])
        .collect();
    let (_, response) = check("cut", &cut, OwnCallItems::Mcp, &json!({}));
    assert_eq!(response["output"][2]["status"], "incomplete");
}
