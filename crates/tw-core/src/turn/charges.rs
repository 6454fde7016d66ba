//! What a turn's use of models and tools costs, as it is recorded.

use super::{Now, Step, Turn};
use crate::change::{ChargedUse, NewCharge, TurnChange};
use crate::id::CallRef;
use crate::model::TokenUsage;
use crate::price::MicroUsd;

impl Turn {
    /// Charges an answer, or what came of one, where its model has a price.
    pub(super) fn charge_answer(
        &self,
        n: u32,
        usage: Option<&TokenUsage>,
        now: &Now<'_>,
        step: &mut Step,
    ) {
        let Some(usage) = usage else {
            return;
        };
        if self.setup.counts_tokens {
            let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
            step.write
                .push(TurnChange::CountTokens { tokens, at: now.at });
        }
        let origin = self.origin_of(n);
        if let Some(price) = self.setup.prices.of_model(&origin.upstream, &origin.model) {
            let round = self.round_number();
            let of = ChargedUse::ModelRequest { round, n };
            charge(of, price.cost(usage), now, step);
        }
    }

    /// Charges a call that is started, where its tool has a price. It is paid for once, however often it is tried.
    pub(super) fn charge_call(&self, at: CallRef, name: &str, now: &Now<'_>, step: &mut Step) {
        if let Some(cost) = self.setup.prices.of_tool(name) {
            charge(ChargedUse::Call(at), cost, now, step);
        }
    }
}

fn charge(of: ChargedUse, cost: MicroUsd, now: &Now<'_>, step: &mut Step) {
    step.write.push(TurnChange::Charge(NewCharge {
        of,
        cost,
        at: now.at,
    }));
}
