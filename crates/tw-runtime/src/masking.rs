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

impl Runtime {
    /// Puts `***` for what is sensitive in the arguments and results of a turn's calls. What nobody can judge is left out
    /// whole.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn mask(&self, organization: OrgId, view: &mut TurnView) -> Result<(), ReadError> {
        let calls = view.rounds.iter().flat_map(|round| &round.calls);
        let versions: Vec<ToolVersionKey> = calls
            .filter_map(|call| Some(call.tool_version?.key))
            .collect();
        let mut definitions: HashMap<ToolVersionKey, Option<ToolDefinition>> = HashMap::new();
        for version in versions {
            if definitions.contains_key(&version) {
                continue;
            }
            let row = self.store().tool_version(organization, version).await?;
            let definition = row.and_then(|row| tool::decode(&row.definition).ok());
            definitions.insert(version, definition);
        }
        for round in &mut view.rounds {
            mask_round(round, &definitions);
        }
        Ok(())
    }
}

fn mask_round(
    round: &mut RoundView,
    definitions: &HashMap<ToolVersionKey, Option<ToolDefinition>>,
) {
    for call in &mut round.calls {
        let Some(version) = call.tool_version else {
            continue;
        };
        let definition = definitions.get(&version.key).and_then(Option::as_ref);
        if call.arguments.is_empty() {
            // It is erased, and so are its results.
            continue;
        }
        let written = std::mem::take(&mut call.arguments);
        call.arguments = mask_call(call, &written, definition);
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

/// Masks the results of a call, and returns its arguments as they are shown.
fn mask_call(call: &mut CallView, written: &str, definition: Option<&ToolDefinition>) -> String {
    let masked = |shown: &str| match definition {
        Some(definition) => definition.masked_call(written, shown).shown,
        None => String::new(),
    };
    if let Some(end) = &mut call.end {
        end.shown = masked(&end.shown);
        end.result = end.result.as_deref().map(masked);
    }
    match definition {
        Some(definition) => definition.masked_call(written, "").arguments,
        None => String::new(),
    }
}
