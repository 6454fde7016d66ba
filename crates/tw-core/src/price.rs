//! Prices of models and tools, and what their use costs, in whole micro-dollars.

use std::collections::BTreeMap;
use std::ops::Add;

use crate::model::TokenUsage;
use crate::model_names::NamePattern;

/// An amount of money in micro-dollars, a millionth of a dollar each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MicroUsd(pub i64);

impl Add for MicroUsd {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

/// The price of a million tokens, in micro-dollars: a dollar for a million is a micro-dollar for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MillionTokensPrice(pub u64);

/// The prices of a model's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelPrice {
    pub input: MillionTokensPrice,
    pub output: MillionTokensPrice,
    /// Of input that was read from a cache; that of other input if it is not set.
    pub cached_input: Option<MillionTokensPrice>,
    /// Of input that was written to a cache; that of other input if it is not set.
    pub cache_write: Option<MillionTokensPrice>,
    /// Of output that was reasoning; that of other output if it is not set.
    pub reasoning: Option<MillionTokensPrice>,
}

const MILLION: u128 = 1_000_000;
/// The most that one answer costs: a million dollars. Sums of it stay far from what a column holds.
const COST_MAX: MicroUsd = MicroUsd(1_000_000_000_000);

impl ModelPrice {
    /// The cost of one answer, rounded up to a whole micro-dollar.
    ///
    /// Tokens of the cache are a part of those of the input, and reasoning is a part of the output: what an upstream
    /// says of a part beyond the whole costs nothing.
    pub fn cost(&self, usage: &TokenUsage) -> MicroUsd {
        let part = |of: Option<u64>, left: u64| of.unwrap_or_default().min(left);
        let read = part(usage.cached_tokens, usage.prompt_tokens);
        let written = part(usage.cache_write_tokens, usage.prompt_tokens - read);
        let fresh = usage.prompt_tokens - read - written;
        let thought = part(usage.reasoning_tokens, usage.completion_tokens);
        let said = usage.completion_tokens - thought;
        let parts = [
            (fresh, self.input),
            (read, self.cached_input.unwrap_or(self.input)),
            (written, self.cache_write.unwrap_or(self.input)),
            (said, self.output),
            (thought, self.reasoning.unwrap_or(self.output)),
        ];
        let parts = parts.map(|(tokens, price)| u128::from(tokens) * u128::from(price.0));
        let sum = parts
            .iter()
            .fold(0_u128, |sum, part| sum.saturating_add(*part));
        let cost = i64::try_from(sum.div_ceil(MILLION)).map_or(COST_MAX, MicroUsd);
        cost.min(COST_MAX)
    }
}

/// A price, and the models that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PricedModels {
    /// The upstream that serves them; `None` for any.
    pub upstream: Option<String>,
    /// By the upstream's own names.
    pub models: NamePattern,
    pub price: ModelPrice,
}

/// The prices that an operator has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    /// In the order in which they are looked at: the most exact first.
    models: Vec<PricedModels>,
    /// Of one call, by the tool's name.
    tools: BTreeMap<String, MicroUsd>,
}

impl PriceTable {
    pub fn new(mut models: Vec<PricedModels>, tools: BTreeMap<String, MicroUsd>) -> Self {
        models.sort_by_key(|priced| {
            std::cmp::Reverse((priced.upstream.is_some(), priced.models.exactness()))
        });
        Self { models, tools }
    }

    /// The price of a model by the upstream's own name of it; `None` where none is set.
    pub fn of_model(&self, upstream: &str, model: &str) -> Option<&ModelPrice> {
        let is_of = |priced: &&PricedModels| {
            let named = priced.upstream.as_deref();
            named.is_none_or(|named| named == upstream) && priced.models.matches(model)
        };
        self.models.iter().find(is_of).map(|priced| &priced.price)
    }

    /// The price of one call of a tool; `None` where none is set.
    pub fn of_tool(&self, name: &str) -> Option<MicroUsd> {
        self.tools.get(name).copied()
    }
}

#[cfg(test)]
mod tests;
