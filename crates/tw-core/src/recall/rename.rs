//! Ids of ours in a client's message, exchanged for those that the upstream knows.

use std::sync::Arc;

use super::{SentCall, SentCalls};
use crate::id::CallId;
use crate::request::{Block, CallBlock, Message, ResultBlock};

/// The call that was handed over under `id`.
pub(super) fn sent_call<'a>(id: &str, sent: &'a SentCalls) -> Option<&'a SentCall> {
    sent.get(&CallId::parse_handed(id)?)
}

/// Whether the message holds an id of ours for a call that the upstream knows by another one.
pub(super) fn has_sent_id(message: &Message, sent: &SentCalls) -> bool {
    let is_known = |id: &str| sent_call(id, sent).is_some();
    !sent.is_empty()
        && message.blocks.iter().any(|block| match block {
            Block::Call(CallBlock { id, .. }) => is_known(id),
            Block::Result(ResultBlock { call_id, .. }) => is_known(call_id),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Part(_)
            | Block::Native(_) => false,
        })
}

/// The message with the upstream's ids, and with what its client left out of the model's own message.
pub(super) fn to_sent(message: &Message, sent: &SentCalls) -> Message {
    let mut renamed = message.clone();
    let mut of_model = None;
    for block in &mut renamed.blocks {
        match block {
            Block::Call(call) => {
                let Some(known) = sent_call(&call.id, sent) else {
                    continue;
                };
                known.id.clone_into(&mut call.id);
                if call.native.is_none() {
                    call.native.clone_from(&known.native);
                }
                of_model = of_model.or(known.message.as_ref());
            }
            Block::Result(result) => {
                let Some(known) = sent_call(&result.call_id, sent) else {
                    continue;
                };
                known.id.clone_into(&mut result.call_id);
            }
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Part(_)
            | Block::Native(_) => continue,
        }
        renamed.is_changed = true;
    }
    if let Some(of_model) = of_model {
        renamed.origin = Some(Arc::clone(&of_model.origin));
        let is_own = |block: &Block| matches!(block, Block::Reasoning(_) | Block::Native(_));
        if !renamed.blocks.iter().any(is_own) {
            renamed.blocks.splice(0..0, of_model.blocks.iter().cloned());
        }
    }
    renamed
}
