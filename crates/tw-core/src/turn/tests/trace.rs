//! Steps and requests as short lines of text.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::call::{CallEnd, CallReason, CallRunner};
use crate::change::{ChargedUse, CloseAttempt, EndTurn, TurnChange};
use crate::event::{LogEvent, TurnEnd};
use crate::fault::{FaultClass, TurnFault};
use crate::id::{CallId, CallRef};
use crate::json::Json;
use crate::model::CallForm;
use crate::model::{AnswerDelta, Finish, TokenUsage};
use crate::request::{
    Block, ChoiceSent, MessageEnds, MixedTool, ModelInput, OfferedTools, RequestTools, ToolChoice,
    ToolEntry,
};
use crate::turn::{Effect, MixedListEntry, Step, Timer, ToolOffer, Turn};
use crate::turn_status::{TurnReason, TurnStatus};

/// How much of a text a line holds, in characters.
const TEXT_CHARS_MAX: usize = 60;

pub(super) fn of_step(step: &Step) -> Vec<String> {
    let writes = step
        .write
        .iter()
        .map(|change| format!("write {}", of_change(change)));
    let shows = step
        .show
        .iter()
        .map(|event| format!("show {}", of_event(event)));
    let effects = step
        .then
        .iter()
        .map(|effect| format!("do {}", of_effect(effect)));
    writes.chain(shows).chain(effects).collect()
}

/// The next request: what is offered, the choice, the budget, and the rounds that go back.
pub(super) fn of_request(turn: &Turn) -> Vec<String> {
    let input = input(RequestTools::Absent);
    let input = ModelInput {
        tools: RequestTools::List(client_entries(turn)),
        ..input
    };
    let origin = turn.origin_of(1);
    let request = turn.model_request(&input, Vec::new(), &origin, true);
    let tools = match &request.tools {
        OfferedTools::AsSent => "as sent".to_owned(),
        OfferedTools::Ours(tools) => {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            names.join(",")
        }
        OfferedTools::Mixed(tools) => {
            let names = tools.iter().map(|tool| match tool {
                MixedTool::Ours(tool) => tool.name.clone(),
                MixedTool::Client(entry) => entry.raw.as_str().to_owned(),
            });
            names.collect::<Vec<_>>().join(",")
        }
    };
    let choice = match request.tool_choice {
        ChoiceSent::AsSent => "as sent",
        ChoiceSent::Auto => "auto",
        ChoiceSent::None => "none",
    };
    let mut head = format!("tools {tools}; choice {choice}");
    if let Some(left) = request.completion_tokens_left {
        let _ = write!(head, "; left {left}");
    }
    let mut lines = vec![head];
    for round in &request.rounds {
        lines.push(format!("sent{}", of_blocks(round.assistant)));
        for (id, shown) in &round.results {
            lines.push(format!("result {} {}", id_text(id), text(shown)));
        }
    }
    lines
}

/// The client's own tools, each with its name as its text.
fn client_entries(turn: &Turn) -> Vec<ToolEntry> {
    let ToolOffer::Mixed(listed) = &turn.setup().offer else {
        return Vec::new();
    };
    let names = listed.iter().filter_map(|listed| match listed {
        MixedListEntry::Client(name) => Some(name),
        MixedListEntry::Ours(_) => None,
    });
    names
        .map(|name| ToolEntry {
            name: name.clone(),
            form: CallForm::Function,
            description: None,
            strict: None,
            is_of_provider: false,
            parameters: None,
            raw: Json::from_value(&name.as_str().into()),
        })
        .collect()
}

pub(super) fn input(tools: RequestTools) -> ModelInput {
    ModelInput {
        model: "m".to_owned(),
        messages: Vec::new(),
        tools,
        tool_choice: ToolChoice::Absent,
        stream: true,
        include_usage: false,
        choices: 1,
        is_structured: false,
        completion_tokens_max: None,
        store: None,
        user: None,
        format: super::FORMAT,
        instructions: Vec::new(),
        fields: Vec::new(),
        ends: MessageEnds::default(),
        empty_lists: 0,
        half_characters: 0,
        shown_calls: BTreeSet::new(),
    }
}

pub(super) fn of_change(change: &TurnChange) -> String {
    match change {
        TurnChange::OpenAttempt(open) => {
            let whom = open.upstream.as_deref().filter(|name| *name != "up");
            let whom = whom.map_or(String::new(), |name| format!(" of {name}"));
            format!("open {}{whom}", attempt(open.round, open.position, open.n))
        }
        TurnChange::CloseAttempt(close) => of_close(close),
        TurnChange::AddMessage(message) => {
            format!("message {}{}", message.round, of_blocks(&message.blocks))
        }
        TurnChange::AddCall(call) => match (&call.runs, &call.end) {
            (CallRunner::Client | CallRunner::Outside, end) => {
                let mut line = format!(
                    "client call {} {} {} {}",
                    at(call.call),
                    call.tool_name,
                    id_text(&call.tool_call_id),
                    call.arguments
                );
                if let Some(reason) = end.as_ref().and_then(|end| end.reason) {
                    let _ = write!(line, " failed {}", reason.as_str());
                }
                line.trim_end().to_owned()
            }
            (CallRunner::Server, None) => {
                format!(
                    "call {} {} {}",
                    at(call.call),
                    call.tool_name,
                    call.status.as_str()
                )
            }
            (CallRunner::Server, Some(end)) => {
                format!(
                    "call {} {} {}",
                    at(call.call),
                    call.tool_name,
                    of_end_in_full(end)
                )
            }
        },
        TurnChange::HandOverCall(handed) => format!(
            "hand over {} {} {} {}",
            at(handed.call),
            handed.tool_name,
            id_text(&handed.tool_call_id),
            handed.arguments
        ),
        TurnChange::AskApproval {
            call,
            until,
            at: now,
        } => {
            format!(
                "ask approval {} for {}s",
                at(*call),
                until.since(*now).as_secs()
            )
        }
        TurnChange::AwaitCallback(awaited) => format!(
            "await {} {} for {}s{}",
            at(awaited.call),
            awaited.external_id.as_deref().unwrap_or("-"),
            awaited.until.since(awaited.at).as_secs(),
            awaited.poll_at.map_or_else(String::new, |poll| {
                format!(", poll in {}s", poll.since(awaited.at).as_secs())
            })
        ),
        TurnChange::DetachCall { call, told, .. } => {
            format!("detach {} {}", at(*call), text(told))
        }
        TurnChange::StartCall { call, .. } => format!("start {}", at(*call)),
        TurnChange::EndCall { call, end, .. } => {
            format!("ended {} {}", at(*call), of_end_in_full(end))
        }
        TurnChange::Charge(charge) => {
            let of = match charge.of {
                ChargedUse::ModelRequest { round, n } => attempt(round, None, n),
                ChargedUse::Call(call) => at(call),
            };
            format!("charge {of} {}", charge.cost.0)
        }
        TurnChange::CountTokens { tokens, .. } => format!("count {tokens} tokens"),
        TurnChange::NoteStop { reason, .. } => format!("stopping {}", reason.as_str()),
        TurnChange::EndTurn(end) => of_end_turn(end),
        TurnChange::NoteResumed { .. }
        | TurnChange::AppendEvents(_)
        | TurnChange::EndOutsideCall { .. }
        | TurnChange::TakeQueuedRow(_) => {
            panic!("the machine does not write {change:?}")
        }
    }
}

fn of_close(close: &CloseAttempt) -> String {
    let mut line = format!(
        "close {} {}",
        attempt(close.round, close.position, close.n),
        close.outcome.as_str()
    );
    if let Some(status) = close.http_status {
        let _ = write!(line, " {status}");
    }
    push_usage(&mut line, close.usage.as_ref());
    line
}

fn of_end_turn(end: &EndTurn) -> String {
    let mut line = format!("turn {}", outcome(end.status, end.reason));
    assert_eq!(end.has_tool_calls, end.tool_count > 0);
    if end.has_tool_calls {
        let _ = write!(line, " calls {}", end.tool_count);
    }
    push_usage(&mut line, end.usage.as_ref());
    if let Some(erase) = end.erase_after {
        let _ = write!(line, " erase {}s", erase.since(end.at).as_secs());
    }
    line
}

fn of_event(event: &LogEvent) -> String {
    match event {
        LogEvent::Start { model, created_s } => format!("start {model} {created_s}"),
        LogEvent::Round { round, .. } => format!("round {round}"),
        LogEvent::BlockEnd(end) => match &end.signature {
            Some(signature) => format!("sealed {}", signature.to_text()),
            None => "sealed".to_owned(),
        },
        LogEvent::Native { part, .. } => format!("native {}", part.json.as_str()),
        LogEvent::Delta(delta) => of_delta(delta),
        LogEvent::ClientCall(piece) => format!(
            "client call {} {}{} {}",
            piece.call,
            piece.name.as_deref().unwrap_or("-"),
            piece.id.as_deref().map_or_else(String::new, handed_id),
            piece
                .arguments
                .as_ref()
                .map_or_else(String::new, |more| more.to_text())
        ),
        LogEvent::Progress { key, value } => format!("progress {key} {}", value.as_str()),
        LogEvent::Extra { key, value } => format!("extra {key} {}", value.as_str()),
        LogEvent::CallStarted {
            call,
            name,
            approves,
            ..
        } => {
            let approved = if approves.is_some() {
                " by approval"
            } else {
                ""
            };
            format!("call {} {name}{approved}", at(*call))
        }
        LogEvent::ApprovalAsked {
            call,
            name,
            arguments,
            ..
        } => format!("ask approval {} {name} {}", at(*call), arguments.to_text()),
        LogEvent::CallEnded { call, end, .. } => format!("ended {} {}", at(*call), of_end(end)),
        LogEvent::CallDetached { call, .. } => format!("detached {}", at(*call)),
        LogEvent::Finish { choice: 0, reason } => format!("finish {}", of_finish(*reason)),
        LogEvent::Finish { choice, reason } => {
            format!("finish {} of choice {choice}", of_finish(*reason))
        }
        LogEvent::Usage(usage) => {
            format!("usage {}+{}", usage.prompt_tokens, usage.completion_tokens)
        }
        LogEvent::End(end) => of_turn_end(end),
    }
}

fn of_delta(delta: &AnswerDelta) -> String {
    let mut line = String::new();
    if let Some(more) = &delta.text {
        let _ = write!(line, "text {}", more.to_text());
    }
    let Some(rest) = &delta.rest else {
        return line;
    };
    if let Some(reasoning) = &rest.reasoning {
        let _ = write!(line, "reasoning {}", reasoning.text.to_text());
    }
    for (key, value) in &rest.extra {
        let _ = write!(line, "{key} {}", value.as_str());
    }
    if let Some(logprobs) = &rest.logprobs {
        let _ = write!(line, "logprobs {}", logprobs.as_str());
    }
    line
}

fn of_turn_end(end: &TurnEnd) -> String {
    let mut line = format!("end {}", outcome(end.status, end.reason));
    if let Some(fault) = &end.fault {
        let _ = write!(line, " ({})", of_fault(fault));
    }
    for ran in &end.effects {
        let _ = write!(line, "; ran {} {}", ran.name, ran.status.as_str());
    }
    line
}

fn of_fault(fault: &TurnFault) -> String {
    let mut line = fault.class.as_str().to_owned();
    if let FaultClass::Refused { status } = fault.class {
        let _ = write!(line, " {status}");
    }
    let _ = write!(line, ": {}", fault.message);
    if let Some(wait) = fault.retry_after_s {
        let _ = write!(line, ", retry {wait}s");
    }
    for detail in [&fault.code, &fault.kind, &fault.param]
        .into_iter()
        .flatten()
    {
        let _ = write!(line, ", {detail}");
    }
    line
}

fn of_effect(effect: &Effect) -> String {
    match effect {
        Effect::Ask { round, n } => format!("ask {round}#{n}"),
        Effect::AbortAsk => "abort ask".to_owned(),
        Effect::RequestSlot { call } => format!("slot {}", at(*call)),
        Effect::ReleaseSlot { call } => format!("release {}", at(*call)),
        Effect::Dispatch { call, n } => format!("dispatch {}#{n}", at(*call)),
        Effect::AbortCall { call } => format!("abort {}", at(*call)),
        Effect::LookUp { call, n } => format!("look up {}#{n}", at(*call)),
        Effect::SetTimer { timer, after } => {
            let what = match timer {
                Timer::Deadline => "deadline".to_owned(),
                Timer::AskAgain { round, n } => format!("ask {round}#{n}"),
                Timer::CallAgain { call, n } => format!("call {}#{n}", at(*call)),
                Timer::CallbackWait { call } => format!("callback {}", at(*call)),
            };
            format!("timer {what} in {}ms", after.as_millis())
        }
        Effect::HandOver => "hand over".to_owned(),
    }
}

/// Status, reason and what the model is given.
fn of_end_in_full(end: &CallEnd) -> String {
    assert_eq!(end.is_error, end.reason.is_some());
    format!("{} {}", of_end(end), text(&end.shown))
}

fn of_end(end: &CallEnd) -> String {
    match end.reason {
        Some(reason) => format!("{} {}", end.status().as_str(), CallReason::as_str(reason)),
        None => end.status().as_str().to_owned(),
    }
}

fn of_blocks(blocks: &[Block]) -> String {
    let mut line = String::new();
    for block in blocks {
        let _ = match block {
            Block::Text(said) => write!(line, " text {}", text(&said.to_text())),
            Block::Refusal(said) => write!(line, " refusal {}", text(&said.to_text())),
            Block::Reasoning(said) => {
                let signature = said.signature.as_ref();
                let signature =
                    signature.map_or(String::new(), |text| format!("!{}", text.to_text()));
                write!(line, " reasoning {}{signature}", text(&said.text.to_text()))
            }
            Block::Native(part) => write!(line, " native {}", part.json.as_str()),
            Block::Call(call) => write!(
                line,
                " call {} {} {}{}",
                id_text(&call.id),
                call.name,
                call.arguments.to_text(),
                call.native.as_ref().map_or(String::new(), |native| format!(
                    " {}",
                    Json::of_fields(&native.beside).as_str()
                ))
            ),
            Block::Result(_) | Block::Part(_) => panic!("the machine does not make {block:?}"),
        };
    }
    line
}

fn outcome(status: TurnStatus, reason: Option<TurnReason>) -> String {
    match reason {
        Some(reason) => format!("{} {}", status.as_str(), reason.as_str()),
        None => status.as_str().to_owned(),
    }
}

fn of_finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
        Finish::StopSequence => "stop_sequence",
        Finish::Refusal => "refusal",
        Finish::Pause => "pause",
    }
}

fn push_usage(line: &mut String, usage: Option<&TokenUsage>) {
    if let Some(usage) = usage {
        let _ = write!(
            line,
            " usage {}+{}",
            usage.prompt_tokens, usage.completion_tokens
        );
    }
}

fn at(call: CallRef) -> String {
    format!("{}.{}", call.round, call.position)
}

fn attempt(round: u32, position: Option<u32>, n: u32) -> String {
    match position {
        Some(position) => format!("{round}.{position}#{n}"),
        None => format!("{round}#{n}"),
    }
}

/// An id that we minted holds the turn's, which is the same in all tests.
/// Ids of ours count up in a test.
fn handed_id(id: &str) -> String {
    let ours = CallId::parse_handed(id).map(|id| id.0.as_u128());
    ours.map_or_else(|| format!("@not ours: {id}"), |n| format!("@{n}"))
}

fn id_text(id: &str) -> String {
    id.replace("00000000000000000000000000000007", "T")
}

fn text(whole: &str) -> String {
    let mut shown: String = whole.chars().take(TEXT_CHARS_MAX).collect();
    if shown.len() < whole.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
