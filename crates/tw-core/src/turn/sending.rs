//! The contents of the next model request.

use std::sync::Arc;

use super::{MixedListEntry, ToolOffer, Turn};
use crate::native::AnswerOrigin;
use crate::request::{
    ChoiceSent, Message, MixedTool, ModelInput, ModelRequest, OfferedTools, RoundSent,
};
use crate::tool::Tool;

impl Turn {
    /// The request of the round that is asked for.
    ///
    /// `messages` is the client's history, repaired.
    pub fn model_request<'a>(
        &'a self,
        input: &'a ModelInput,
        messages: Vec<&'a Message>,
        to: &'a AnswerOrigin,
        ask_usage: bool,
    ) -> ModelRequest<'a> {
        ModelRequest {
            input,
            messages,
            to,
            tools: match &self.setup.offer {
                ToolOffer::Relay => OfferedTools::AsSent,
                ToolOffer::Ours(_) => OfferedTools::Ours(
                    self.offered_tools()
                        .map(Arc::as_ref)
                        .collect::<Vec<&Tool>>(),
                ),
                ToolOffer::Mixed(listed) => OfferedTools::Mixed(self.mixed(input, listed)),
            },
            tool_choice: self.choice_sent(),
            rounds: self.rounds_sent(),
            completion_tokens_left: if self.rounds.is_empty() {
                None
            } else {
                self.completion_tokens_left()
            },
            ask_usage,
        }
    }

    /// The client's list, with ours in place of those that it names.
    fn mixed<'a>(
        &'a self,
        input: &'a ModelInput,
        listed: &'a [MixedListEntry],
    ) -> Vec<MixedTool<'a>> {
        let entry = |name: &str| {
            let mut entries = input.tools.entries().iter();
            entries.find(|entry| entry.name == name)
        };
        listed
            .iter()
            .filter_map(|listed| match listed {
                MixedListEntry::Ours(tool) => self
                    .is_still_offered(&tool.name)
                    .then(|| MixedTool::Ours(tool)),
                MixedListEntry::Client(name) => entry(name).map(MixedTool::Client),
            })
            .collect()
    }

    /// The names that the next request offers, in order.
    pub(super) fn offered_names(&self) -> Vec<&str> {
        match &self.setup.offer {
            ToolOffer::Relay | ToolOffer::Ours(_) => self
                .offered_tools()
                .map(|tool| tool.name.as_str())
                .collect(),
            ToolOffer::Mixed(listed) => listed
                .iter()
                .filter_map(|listed| match listed {
                    MixedListEntry::Ours(tool) => self
                        .is_still_offered(&tool.name)
                        .then_some(tool.name.as_str()),
                    MixedListEntry::Client(name) => Some(name.as_str()),
                })
                .collect(),
        }
    }

    fn choice_sent(&self) -> ChoiceSent {
        if self.setup.offer.is_relay() {
            return ChoiceSent::AsSent;
        }
        let limits = &self.setup.limits;
        let at_limit = self.round_number() >= limits.rounds_max
            || self.calls_total >= limits.calls_per_turn_max;
        // A choice that names a withheld tool would be refused.
        let is_free = !self.rounds.is_empty() || !self.setup.withheld.is_empty();
        if at_limit {
            ChoiceSent::None
        } else if self.setup.choice_is_forced && is_free {
            ChoiceSent::Auto
        } else {
            ChoiceSent::AsSent
        }
    }

    fn rounds_sent(&self) -> Vec<RoundSent<'_>> {
        self.rounds
            .iter()
            .map(|round| RoundSent {
                assistant: &round.blocks,
                origin: round.origin.as_deref(),
                results: round
                    .calls
                    .iter()
                    // A request is only made when all calls have ended.
                    .filter_map(|call| Some((call.sent_id.as_str(), call.result_text()?)))
                    .collect(),
            })
            .collect()
    }

    /// Tokens left of the budget for the answer; `None` without a budget.
    pub(super) fn completion_tokens_left(&self) -> Option<u64> {
        let used = self
            .usage
            .as_ref()
            .map_or(0, |usage| usage.completion_tokens);
        self.setup
            .completion_tokens_max
            .map(|max| max.saturating_sub(used))
    }
}
