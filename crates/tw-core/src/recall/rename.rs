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
    let mut blocks = Vec::with_capacity(renamed.blocks.len());
    for mut block in std::mem::take(&mut renamed.blocks) {
        let mut behind: &[Block] = &[];
        match &mut block {
            Block::Call(call) => {
                if let Some(known) = sent_call(&call.id, sent) {
                    known.id.clone_into(&mut call.id);
                    if call.native.is_none() {
                        call.native.clone_from(&known.native);
                    }
                    of_model = of_model.or(known.message.as_ref());
                    behind = &known.behind;
                    renamed.is_changed = true;
                }
            }
            Block::Result(result) => {
                if let Some(known) = sent_call(&result.call_id, sent) {
                    known.id.clone_into(&mut result.call_id);
                    renamed.is_changed = true;
                }
            }
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Part(_)
            | Block::Native(_) => {}
        }
        blocks.push(block);
        blocks.extend_from_slice(behind);
    }
    // What a format has behind a text or a call, as Responses has the item, is none of the model's thoughts.
    let brings_own = !super::of_whole_message(&message.blocks).is_empty();
    renamed.blocks = blocks;
    if let Some(of_model) = of_model {
        renamed.origin = Some(Arc::clone(&of_model.origin));
        if !brings_own {
            renamed.blocks.splice(0..0, of_model.blocks.iter().cloned());
        }
    }
    renamed
}
