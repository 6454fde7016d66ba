//! What goes back to an upstream of what another one made, and under which ids.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tw_core::accepts::{Accepts, ReasoningSent};
use tw_core::call_ids::CallIdRule;
use tw_core::model::CallForm;
use tw_core::native::AnswerOrigin;
use tw_core::request::{Block, CallBlock, Message, ReasoningBlock, ResultBlock, Role};

/// Whether an answer came from elsewhere. Of one whose origin is not known, its client answers for what it sends.
pub fn is_foreign(origin: Option<&AnswerOrigin>, to: &AnswerOrigin) -> bool {
    origin.is_some_and(|origin| origin != to)
}

/// The blocks of an answer that another upstream or model can take: no signatures, nothing that only its maker
/// understands, and reasoning only where the upstream is said to take it in a place of its own.
pub fn neutral(blocks: &[Block], accepts: &Accepts) -> Vec<Block> {
    let place = match accepts.reasoning {
        ReasoningSent::Field(place) => Some(place),
        ReasoningSent::AsSent | ReasoningSent::Never => None,
    };
    let kept = blocks.iter().filter_map(|block| match block {
        Block::Text(_) | Block::Refusal(_) | Block::Result(_) | Block::Part(_) => {
            Some(block.clone())
        }
        Block::Call(call) => Some(Block::Call(CallBlock {
            native: None,
            ..call.clone()
        })),
        Block::Reasoning(reasoning) if !reasoning.text.is_empty() => {
            place.map(|place| Block::Reasoning(ReasoningBlock::of(place, reasoning.text.clone())))
        }
        Block::Reasoning(_) | Block::Native(_) => None,
    });
    kept.collect()
}

/// The ids of the calls of a request, as its upstream takes them.
pub struct FittedIds<'a> {
    to: &'a AnswerOrigin,
    rule: CallIdRule,
    /// The rule for calls whose maker is not known.
    unknown: CallIdRule,
    /// The ids of the last message's calls that had to become others.
    changed: BTreeMap<String, String>,
}

/// The ids of one message's calls that had to become others.
pub struct FittedMessage {
    changed: BTreeMap<String, String>,
}

impl<'a> FittedIds<'a> {
    pub fn new(to: &'a AnswerOrigin, accepts: &Accepts) -> Self {
        Self {
            to,
            rule: accepts.call_ids,
            unknown: accepts.call_ids.max(accepts.unknown_call_ids),
            changed: BTreeMap::new(),
        }
    }

    /// Gives the calls or results of a message ids that the upstream takes. Results stand behind their calls.
    pub fn fit(&mut self, message: &mut Cow<'_, Message>) {
        if message.role != Role::Tool {
            let origin = message.origin.as_deref();
            self.changed = self.of_blocks(&message.blocks, origin).changed;
        }
        if self.changed.is_empty() {
            return;
        }
        let message = message.to_mut();
        for block in &mut message.blocks {
            let id = match block {
                Block::Call(CallBlock { id, form, .. }) if *form != CallForm::ByName => id,
                Block::Result(ResultBlock { call_id, .. }) => call_id,
                Block::Text(_)
                | Block::Refusal(_)
                | Block::Reasoning(_)
                | Block::Call(_)
                | Block::Part(_)
                | Block::Native(_) => continue,
            };
            if let Some(other) = self.changed.get(id) {
                other.clone_into(id);
                message.is_changed = true;
            }
        }
    }

    pub fn of_blocks(&self, blocks: &[Block], origin: Option<&AnswerOrigin>) -> FittedMessage {
        let rule = match origin {
            // An upstream knows its own ids.
            Some(origin) if origin.upstream == self.to.upstream => self.rule,
            // What another one made has to be plain at the least.
            Some(_) => self.rule.max(CallIdRule::Plain),
            None => self.unknown,
        };
        let calls = blocks.iter().filter_map(|block| match block {
            // A call of the old form goes by its name.
            Block::Call(call) if call.form != CallForm::ByName => Some(call),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => None,
        });
        let changed = calls.filter_map(|call| match rule.fitted(&call.id) {
            Cow::Borrowed(_) => None,
            Cow::Owned(other) => Some((call.id.clone(), other)),
        });
        FittedMessage {
            changed: changed.collect(),
        }
    }
}

impl FittedMessage {
    /// The id under which a call goes.
    pub fn id<'a>(&'a self, id: &'a str) -> &'a str {
        self.changed.get(id).map_or(id, String::as_str)
    }

    /// The message's blocks with these ids.
    pub fn blocks<'a>(&self, blocks: &'a [Block]) -> Cow<'a, [Block]> {
        if self.changed.is_empty() {
            return Cow::Borrowed(blocks);
        }
        let renamed = blocks.iter().map(|block| match block {
            Block::Call(call) if call.form != CallForm::ByName => Block::Call(CallBlock {
                id: self.id(&call.id).to_owned(),
                ..call.clone()
            }),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => block.clone(),
        });
        Cow::Owned(renamed.collect())
    }
}

#[cfg(test)]
mod tests;
