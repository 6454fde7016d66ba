//! Calls as they are shown: without what their tools' definitions call sensitive.

use std::collections::{HashMap, HashSet};

use tw_core::change::NewMessage;
use tw_core::definition::{MASK, SensitiveCall, ToolDefinition};
use tw_core::id::{CallId, OrgId, ToolVersionKey};
use tw_core::json::Literal;
use tw_core::request::Block;
use tw_store::read::ReadError;
use tw_store::read::view::{CallView, RoundView, TurnView};
use tw_wire::stored::tool;

use crate::runtime::Runtime;

/// Puts `***` for what is sensitive in the arguments and results of an organization's calls. What nobody can judge is
/// left out whole.
pub struct CallMasker<'a> {
    runtime: &'a Runtime,
    organization: OrgId,
    /// Each is read once; `None` for one that cannot be read.
    definitions: HashMap<ToolVersionKey, Option<ToolDefinition>>,
}

impl Runtime {
    pub fn call_masker(&self, organization: OrgId) -> CallMasker<'_> {
        CallMasker {
            runtime: self,
            organization,
            definitions: HashMap::new(),
        }
    }
}

impl CallMasker<'_> {
    /// Masks the calls of a turn.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn mask_turn(&mut self, view: &mut TurnView) -> Result<(), ReadError> {
        for call in view.rounds.iter().flat_map(|round| &round.calls) {
            self.read_definition(call).await?;
        }
        for round in &mut view.rounds {
            mask_round(round, &self.definitions);
        }
        self.mask_brought(&mut view.input).await
    }

    /// Masks calls of tools that a client has brought back, with their results.
    async fn mask_brought(&self, messages: &mut [NewMessage]) -> Result<(), ReadError> {
        let blocks = messages.iter().flat_map(|message| &message.blocks);
        let calls: HashSet<CallId> = blocks.filter_map(handed_call).collect();
        if calls.is_empty() {
            return Ok(());
        }
        let calls = calls.into_iter().collect();
        let store = self.runtime.store();
        let sensitive = store.sensitive_calls(self.organization, calls).await?;
        if sensitive.is_empty() {
            return Ok(());
        }
        for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
            if let Some(call) = handed_call(block).and_then(|id| sensitive.get(&id)) {
                mask_block(block, call);
            }
        }
        Ok(())
    }

    /// Masks a call.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn mask_call(&mut self, call: &mut CallView) -> Result<(), ReadError> {
        self.read_definition(call).await?;
        mask_call(call, &self.definitions);
        Ok(())
    }

    async fn read_definition(&mut self, call: &CallView) -> Result<(), ReadError> {
        let Some(version) = call.tool_version.map(|version| version.key) else {
            return Ok(());
        };
        if !self.definitions.contains_key(&version) {
            let row = self
                .runtime
                .store()
                .tool_version(self.organization, version);
            let definition = row
                .await?
                .and_then(|row| tool::decode(&row.definition).ok());
            self.definitions.insert(version, definition);
        }
        Ok(())
    }
}

/// The call of ours that a block of a client is of.
fn handed_call(block: &Block) -> Option<CallId> {
    match block {
        Block::Call(call) => CallId::parse_handed(&call.id),
        Block::Result(result) => CallId::parse_handed(&result.call_id),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    }
}

/// Masks a call or a result. Of a result's contents, what is no text is hidden whole.
fn mask_block(block: &mut Block, sensitive: &SensitiveCall) {
    match block {
        Block::Call(call) => call.arguments = Literal::from_text(&sensitive.arguments),
        Block::Result(result) => {
            for block in &mut result.content {
                let shown = match block {
                    // As hidden texts are stored.
                    Block::Text(text) => {
                        sensitive.masked(&text.to_text().replace('\0', "\u{fffd}"))
                    }
                    Block::Refusal(_)
                    | Block::Reasoning(_)
                    | Block::Call(_)
                    | Block::Result(_)
                    | Block::Part(_)
                    | Block::Native(_) => MASK.to_owned(),
                };
                *block = Block::Text(Literal::from_text(&shown));
            }
        }
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Part(_)
        | Block::Native(_) => {}
    }
}

fn mask_round(
    round: &mut RoundView,
    definitions: &HashMap<ToolVersionKey, Option<ToolDefinition>>,
) {
    for call in &mut round.calls {
        if !mask_call(call, definitions) {
            continue;
        }
        let blocks = round
            .messages
            .iter_mut()
            .flat_map(|message| &mut message.blocks);
        for block in blocks {
            if let Block::Call(told) = block
                && told.id == call.tool_call_id
            {
                told.arguments = Literal::from_text(&call.arguments);
            }
        }
    }
}

/// Masks a call that a tool of ours ran; returns whether there was something to look at.
fn mask_call(
    call: &mut CallView,
    definitions: &HashMap<ToolVersionKey, Option<ToolDefinition>>,
) -> bool {
    let Some(version) = call.tool_version else {
        return false;
    };
    if call.arguments.is_empty() {
        // It is erased, and so are its results.
        return false;
    }
    let definition = definitions.get(&version.key).and_then(Option::as_ref);
    let written = std::mem::take(&mut call.arguments);
    let masked = |shown: &str| match definition {
        Some(definition) => definition.masked_call(&written, shown).shown,
        None => String::new(),
    };
    if let Some(end) = &mut call.end {
        end.shown = masked(&end.shown);
        end.result = end.result.as_deref().map(masked);
    }
    call.arguments = match definition {
        Some(definition) => definition.masked_call(&written, "").arguments,
        None => String::new(),
    };
    true
}
