//! The variables of a turn: what tools of this server may name in their definitions.

use std::sync::Arc;

use serde_json::Value;
use tw_core::id::{CallId, TurnId};
use tw_core::request::ModelInput;
use tw_core::time::Timestamp;
use tw_core::tool::{Tool, ToolKind};
use tw_core::turn::ToolOffer;
use tw_core::variables::{CALLBACK_URL, Variables};

/// Variables that the server knows of a turn, and those that its request gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnVariables {
    /// Variables of every turn, without `tool_call`.
    pub(crate) always: Variables,
    /// The request's `metadata`, as far as it is text.
    pub(crate) metadata: Variables,
}

/// The turn that variables are of, and its end user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VariableSubject<'a> {
    pub(crate) end_user: Option<&'a str>,
    pub(crate) conversation: &'a str,
    pub(crate) turn: TurnId,
    pub(crate) created: Timestamp,
}

impl TurnVariables {
    pub(crate) fn new(organization: &str, whose: VariableSubject<'_>, input: &ModelInput) -> Self {
        let mut always = always(organization, whose.created);
        if let Some(end_user) = whose.end_user {
            always.set("end_user", end_user.to_owned());
        }
        always.set("conversation", whose.conversation.to_owned());
        always.set("turn", whose.turn.to_string());
        Self {
            always,
            metadata: metadata_of(input),
        }
    }

    /// The variables that a call of this tool may name.
    pub(crate) fn of_tool(
        &self,
        tool: &Tool,
        call: CallId,
        callback_url: Option<String>,
    ) -> Variables {
        let ToolKind::ApiRequest(definition) = &tool.kind else {
            return Variables::default();
        };
        let mut always = self.always.clone();
        always.set("tool_call", call.to_string());
        if let Some(url) = callback_url {
            always.set(CALLBACK_URL, url);
        }
        definition.variables(&always, &self.metadata)
    }

    /// The tools as this turn's model is told of them.
    pub(crate) fn in_prompts(&self, offer: ToolOffer) -> ToolOffer {
        offer.map_ours(|tool| self.told(tool))
    }

    fn told(&self, tool: Arc<Tool>) -> Arc<Tool> {
        let ToolKind::ApiRequest(definition) = &tool.kind else {
            return tool;
        };
        if !definition.prompts_use_variables() {
            return tool;
        }
        let variables = definition.variables(&self.always, &self.metadata);
        Arc::new(definition.told(&tool, &variables))
    }
}

/// The variables that are there without a turn.
pub(crate) fn always(organization: &str, at: Timestamp) -> Variables {
    let mut variables = Variables::default();
    variables.set("organization", organization.to_owned());
    // Beyond the year 9999 there is no such text, and no such turn.
    if let Ok(time) = jiff::Timestamp::from_microsecond(at.0) {
        let whole = jiff::Timestamp::from_second(time.as_second()).unwrap_or(time);
        let text = whole.to_string();
        variables.set("today", text.chars().take_while(|c| *c != 'T').collect());
        variables.set("now", text);
    }
    variables
}

/// The scalars of a request's `metadata`; numbers and booleans count as they are written.
fn metadata_of(input: &ModelInput) -> Variables {
    let field = input.fields.iter().find(|(name, _)| &**name == "metadata");
    let value = field.map_or(Value::Null, |(_, json)| json.to_value());
    let mut variables = Variables::default();
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => variables.set(name, text.clone()),
            Value::Number(_) | Value::Bool(_) => variables.set(name, value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }
    variables
}
