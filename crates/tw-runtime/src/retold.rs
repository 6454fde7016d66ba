//! The log of a turn, told again from its record where the log itself is not kept any more.
//!
//! Known differences from the log that was: the model is named as the client named it, a text is one piece, and what
//! only the log held is not there, which is probabilities, annotations, fields beside the answer and the words of a
//! failure.

use tw_core::approval::{ANSWERED_ROUND, ApprovalState};
use tw_core::call::CallRunner;
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::json::Literal;
use tw_core::model::{AnswerDelta, BlockEnd, CallDelta, DeltaRest, Finish, ReasoningText};
use tw_core::native::NativePart;
use tw_core::request::{Block, ReasoningBlock, call_in};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::view::{CallView, RoundView, TurnView};

/// The texts of a turn that its client was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextsShown {
    OfAllRounds,
    /// The answer is one JSON text.
    OfLastRound,
}

/// The log of a turn that has ended, with its contents.
pub fn log_of(view: &TurnView, texts: TextsShown) -> Vec<LogEvent> {
    let turn = &view.turn;
    let mut log = vec![LogEvent::Start {
        model: turn.model.clone(),
        created_s: turn.id.created_s(),
    }];
    let rounds = view.rounds.iter();
    let answered = rounds.filter(|round| !round.messages.is_empty());
    let answered: Vec<&RoundView> = answered.collect();
    let ran_first = view
        .rounds
        .iter()
        .filter(|round| round.round == ANSWERED_ROUND);
    for call in ran_first.flat_map(|round| &round.calls) {
        let arguments = Literal::from_text(&call.arguments);
        own_call(call, arguments, &mut log);
        own_end(call, &mut log);
    }
    for (at, round) in answered.iter().enumerate() {
        let is_last = at + 1 == answered.len();
        let shown = RoundShown {
            texts: texts == TextsShown::OfAllRounds || is_last,
            // Calls of a round that a limit cut off did not run.
            own_calls: !is_last || turn.status != TurnStatus::Incomplete,
        };
        round_of(round, shown, &mut log);
    }
    let handed = view.rounds.iter().flat_map(handed).next().is_some();
    let finish = match (turn.status, handed) {
        (TurnStatus::Completed, true) => Some(Finish::ToolCalls),
        (TurnStatus::Completed, false) => Some(Finish::Stop),
        (TurnStatus::Incomplete, _) if is_by_limit(turn.reason) => Some(Finish::Length),
        (
            TurnStatus::Incomplete
            | TurnStatus::Failed
            | TurnStatus::Cancelled
            | TurnStatus::Running,
            _,
        ) => None,
    };
    log.extend(finish.map(|reason| LogEvent::Finish { choice: 0, reason }));
    let usage = turn.usage.clone();
    log.extend(usage.map(|usage| LogEvent::Usage(Box::new(usage))));
    log.push(LogEvent::End(Box::new(TurnEnd {
        status: turn.status,
        reason: turn.reason,
        fault: None,
        effects: Vec::new(),
        at: turn.ended,
    })));
    log
}

fn is_by_limit(reason: Option<TurnReason>) -> bool {
    matches!(
        reason,
        Some(TurnReason::Length | TurnReason::Rounds | TurnReason::Calls | TurnReason::Cost)
    )
}

/// The parts of a round that its client was shown.
#[derive(Clone, Copy)]
struct RoundShown {
    texts: bool,
    own_calls: bool,
}

fn round_of(round: &RoundView, shown: RoundShown, log: &mut Vec<LogEvent>) {
    let blocks = round.messages.iter().flat_map(|message| &message.blocks);
    let blocks: Vec<Block> = blocks.cloned().collect();
    let mut said = Vec::new();
    let mut before: Option<&Block> = None;
    for block in &blocks {
        say(block, before, shown, &mut said);
        before = Some(block);
    }
    let handed: Vec<&CallView> = handed(round).collect();
    let has_natives = handed
        .iter()
        .any(|call| call_in(&blocks, &call.tool_call_id).is_some_and(|made| made.native.is_some()));
    // A round that shows nothing of its own is told by its calls alone.
    let origin = round.messages.iter().find_map(|made| made.origin.as_ref());
    if let Some(origin) = origin
        && (!said.is_empty() || has_natives)
    {
        log.push(LogEvent::Round {
            round: round.round,
            format: origin.format,
        });
    }
    log.append(&mut said);
    let own = round.calls.iter();
    let own = own.filter(|call| {
        call.runs == CallRunner::Server && shown.own_calls && call.approval.is_none()
    });
    let written = |call: &CallView| {
        let made = call_in(&blocks, &call.tool_call_id);
        made.map(|made| made.arguments.clone()).unwrap_or_default()
    };
    for call in own.clone() {
        own_call(call, written(call), log);
    }
    for call in own {
        own_end(call, log);
    }
    for call in round.calls.iter().filter(|call| was_asked_about(call)) {
        log.push(LogEvent::ApprovalAsked {
            call: call.call,
            id: call.id,
            name: call.tool_name.clone(),
            arguments: written(call),
        });
    }
    for (call, place) in handed.into_iter().zip(0..) {
        let made = call_in(&blocks, &call.tool_call_id);
        log.push(LogEvent::ClientCall(CallDelta {
            choice: 0,
            call: place,
            id: Some(call.id.handed().into()),
            name: Some(call.tool_name.as_str().into()),
            form: made.map_or(tw_core::model::CallForm::Function, |made| made.form),
            arguments: Some(Literal::from_text(&call.arguments)),
            native: made.and_then(|made| made.native.clone()),
        }));
    }
}

fn own_call(call: &CallView, arguments: Literal, log: &mut Vec<LogEvent>) {
    log.push(LogEvent::CallStarted {
        call: call.call,
        id: call.id,
        name: call.tool_name.clone(),
        arguments,
        approves: call.approves,
    });
}

fn own_end(call: &CallView, log: &mut Vec<LogEvent>) {
    if let Some(told) = &call.told {
        log.push(LogEvent::CallDetached {
            call: call.call,
            id: call.id,
            told: told.as_str().into(),
        });
    } else if let Some(end) = &call.end {
        log.push(LogEvent::CallEnded {
            call: call.call,
            id: call.id,
            end: Box::new(end.clone()),
        });
    }
}

fn was_asked_about(call: &CallView) -> bool {
    let approval = call.approval.as_ref();
    approval.is_some_and(|approval| approval.state != ApprovalState::Needed)
}

/// Calls of a round that its client was handed whole.
fn handed(round: &RoundView) -> impl Iterator<Item = &CallView> {
    let is_whole = |call: &CallView| call.end.as_ref().is_some_and(|end| end.reason.is_none());
    round
        .calls
        .iter()
        .filter(move |call| call.runs == CallRunner::Client && is_whole(call))
}

/// Adds the events of a block, of which `before` is the one before it.
fn say(block: &Block, before: Option<&Block>, shown: RoundShown, log: &mut Vec<LogEvent>) {
    match block {
        Block::Text(text) if shown.texts && !text.is_empty() => {
            log.push(LogEvent::Delta(AnswerDelta {
                text: Some(text.clone()),
                ..AnswerDelta::default()
            }));
        }
        Block::Refusal(text) => log.push(rest(DeltaRest {
            refusal: Some(text.clone()),
            ..DeltaRest::default()
        })),
        Block::Reasoning(reasoning) => thought(reasoning, log),
        Block::Native(part) => match before {
            // What its format says of the text or call before it.
            Some(Block::Text(_) | Block::Refusal(_) | Block::Call(_)) if !is_item(part) => {
                log.push(block_end(None, Some(part)));
            }
            // What it says of the whole message has no place in a block.
            None if !has_kind(part) => {}
            _ => log.push(LogEvent::Native {
                choice: 0,
                part: Box::new(part.clone()),
            }),
        },
        Block::Text(_) | Block::Call(_) | Block::Result(_) | Block::Part(_) => {}
    }
}

fn thought(reasoning: &ReasoningBlock, log: &mut Vec<LogEvent>) {
    if !reasoning.text.is_empty() {
        log.push(rest(DeltaRest {
            reasoning: Some(ReasoningText {
                place: reasoning.place,
                text: reasoning.text.clone(),
            }),
            ..DeltaRest::default()
        }));
    }
    let (signature, native) = (&reasoning.signature, &reasoning.native);
    if signature.is_some() || native.is_some() {
        log.push(block_end(signature.clone(), native.as_ref()));
    }
}

fn rest(rest: DeltaRest) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        rest: Some(Box::new(rest)),
        ..AnswerDelta::default()
    })
}

fn block_end(signature: Option<Literal>, native: Option<&NativePart>) -> LogEvent {
    LogEvent::BlockEnd(Box::new(BlockEnd {
        choice: 0,
        signature,
        native: native.cloned(),
    }))
}

/// Whether the part is a block of its own: not the whole of a message or call whose parts stand before it.
fn is_item(part: &NativePart) -> bool {
    const OF_BLOCKS: [&str; 3] = ["message", "function_call", "custom_tool_call"];
    let value = part.json.to_value();
    let kind = value["type"].as_str();
    kind.is_some_and(|kind| !OF_BLOCKS.contains(&kind))
}

fn has_kind(part: &NativePart) -> bool {
    part.json.to_value()["type"].is_string()
}
