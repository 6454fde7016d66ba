//! Calls as they are shown: without what their tools' definitions call sensitive.

use std::collections::HashMap;

use tw_core::definition::ToolDefinition;
use tw_core::id::{OrgId, ToolVersionKey};
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
