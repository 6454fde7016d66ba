//! Approvals in the sweep: the turn that asked, the answers, and the history in which they stand.

use std::sync::Arc;
use std::time::Duration;

use tw_core::approval::{AnsweredCall, ApprovalGiven, ApprovalState, ApprovalVerdict};
use tw_core::call::{CallRunner, CallStatus};
use tw_core::change::{ChangeGroup, EndTurn, EventFlush, NewCall, TurnChange};
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::id::{CallId, CallRef};
use tw_core::json::Literal;
use tw_core::model::CallForm;
use tw_core::request::{Block, CallBlock, Message, ResultBlock, Role};
use tw_core::turn::TurnSetup;
use tw_core::turn_status::TurnStatus;

use super::config::{Mishap, SweepConfig};
use super::lab::{SweepLab, TOOL};

impl SweepLab {
    /// A turn that ended by asking about calls, and the answers to that: all of them may run.
    pub fn asked(&mut self, config: &SweepConfig) -> Vec<AnsweredCall> {
        let setup = self.setup(&SweepConfig {
            mishap: Mishap::Nothing,
            ..config.clone()
        });
        let new = Box::new(self.new_turn(&setup, "before"));
        let at = self.now();
        let mut changes = Vec::new();
        let mut answered = Vec::new();
        for position in 0..config.calls() {
            let call = CallRef { round: 1, position };
            let id = CallId(self.id());
            let made = AnsweredCall {
                asked: id,
                verdict: ApprovalVerdict::Approved,
                tool_name: TOOL.to_owned(),
                tool: Some(Arc::clone(&self.tool)),
                effect: Some(config.class),
                sent_id: format!("up_{position}"),
                arguments: format!(r#"{{"i":{position}}}"#),
            };
            changes.push(TurnChange::AddCall(Box::new(NewCall {
                call,
                id,
                runs: CallRunner::Server,
                effect: made.effect,
                tool_version: None,
                tool_name: made.tool_name.clone(),
                tool_call_id: made.sent_id.clone(),
                arguments: made.arguments.clone(),
                sensitive: None,
                status: CallStatus::Pending,
                end: None,
                idempotency_key: format!("asked {id}"),
                callback_token: Some(id.to_string()),
                approval: Some(ApprovalState::Needed),
                approves: None,
                at,
            })));
            let until = at.after(Duration::from_secs(60));
            changes.push(TurnChange::AskApproval { call, until, at });
            answered.push(made);
        }
        let end = TurnEnd {
            status: TurnStatus::Completed,
            reason: None,
            fault: None,
            effects: Vec::new(),
            at: Some(at),
        };
        changes.push(TurnChange::AppendEvents(EventFlush {
            first: 1,
            events: vec![LogEvent::End(Box::new(end))],
            at,
        }));
        changes.push(TurnChange::EndTurn(EndTurn {
            status: TurnStatus::Completed,
            reason: None,
            usage: None,
            has_tool_calls: true,
            tool_count: config.calls(),
            had_effects: false,
            remembered: None,
            erase_after: None,
            at,
        }));
        self.store
            .apply_inline(&ChangeGroup::Accept(new, changes))
            .unwrap();
        answered
    }
}

pub fn answers(setup: &TurnSetup) -> Vec<ApprovalGiven> {
    let given = setup.answered.iter().map(|call| ApprovalGiven {
        asked: call.asked,
        verdict: call.verdict.clone(),
    });
    given.collect()
}

/// What a turn goes on from: for one that answers, the calls that were asked about stand behind the request.
pub fn history(setup: &TurnSetup, sent: &[Message]) -> Vec<Message> {
    let mut messages = sent.to_vec();
    if setup.answered.is_empty() {
        return messages;
    }
    let calls = setup.answered.iter().map(|call| {
        Block::Call(CallBlock {
            id: call.sent_id.clone(),
            name: call.tool_name.clone(),
            form: CallForm::Function,
            arguments: Literal::from_text(&call.arguments),
            native: None,
        })
    });
    messages.push(Message::made(Role::Assistant, calls.collect()));
    messages.extend(setup.answered.iter().map(|call| {
        let result = ResultBlock::of_text(call.sent_id.as_str(), Literal::from_text("did nothing"));
        Message {
            awaits: Some(call.asked),
            ..Message::made(Role::Tool, vec![Block::Result(result)])
        }
    }));
    messages
}
