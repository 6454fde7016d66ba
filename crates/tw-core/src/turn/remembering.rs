//! The hashes by which an ended turn is found.

use super::Turn;
use crate::call::CallRunner;
use crate::json::{Literal, LiteralBuf};
use crate::memory::{HiddenCall, HiddenHash, RememberedHash};
use crate::model::CallForm;
use crate::request::{Block, Message, Role, call_in};
use crate::turn_status::{TurnReason, TurnStatus};

impl Turn {
    /// The hashes by which the next request finds this turn; `None` for a turn without memory, and
    /// for one that leaves its client no answer to send back.
    pub(super) fn remembered(
        &self,
        status: TurnStatus,
        reason: Option<TurnReason>,
    ) -> Option<RememberedHash> {
        let memory = self.setup.memory.as_ref()?;
        let is_answer = match (status, reason) {
            (TurnStatus::Completed, _) => true,
            (
                TurnStatus::Incomplete,
                Some(
                    TurnReason::Length | TurnReason::Rounds | TurnReason::Calls | TurnReason::Cost,
                ),
            ) => true,
            // Clients are told of a failure, and do not send such an answer back.
            (TurnStatus::Incomplete, _)
            | (TurnStatus::Failed | TurnStatus::Cancelled | TurnStatus::Running, _) => false,
        };
        if !is_answer {
            return None;
        }
        let history = memory
            .history
            .then(&self.answer_seen(memory.round_gap))
            .hash();
        let hidden = HiddenHash::of(memory.hidden, history, self.hidden_calls());
        Some(RememberedHash { history, hidden })
    }

    /// The assistant message as the client has it after the turn.
    fn answer_seen(&self, round_gap: &str) -> Message {
        let (mut text, mut refusal) = (LiteralBuf::default(), LiteralBuf::default());
        let gap = Literal::from_text(round_gap);
        for round in &self.rounds {
            let mut is_first = true;
            for block in &round.blocks {
                match block {
                    Block::Text(said) if said.is_empty() => {}
                    Block::Text(said) => {
                        if is_first && !text.is_empty() {
                            text.push(&gap);
                        }
                        is_first = false;
                        text.push(said);
                    }
                    Block::Refusal(said) => refusal.push(said),
                    Block::Call(_)
                    | Block::Reasoning(_)
                    | Block::Result(_)
                    | Block::Part(_)
                    | Block::Native(_) => {}
                }
            }
        }
        // The old form has room for one.
        let is_legacy = self
            .handed
            .first()
            .is_some_and(|call| call.form == CallForm::ByName);
        let calls_max = if is_legacy { 1 } else { usize::MAX };
        let calls = self.handed.iter().take(calls_max);
        let mut blocks = vec![
            Block::Text(text.to_literal()),
            Block::Refusal(refusal.to_literal()),
        ];
        blocks.extend(calls.cloned().map(Block::Call));
        Message::made(Role::Assistant, blocks)
    }

    /// The calls that we ran, as the model saw them.
    fn hidden_calls(&self) -> impl Iterator<Item = HiddenCall<'_>> {
        self.rounds.iter().flat_map(|round| {
            round.calls.iter().filter_map(move |call| {
                let written = call_in(&round.blocks, &call.sent_id);
                if call.is_ended() && call.runs == CallRunner::Client {
                    return None;
                }
                Some(HiddenCall {
                    name: &call.name,
                    arguments: written.map_or("", |written| written.arguments.as_str()),
                    shown: call.result_text()?,
                })
            })
        })
    }
}
