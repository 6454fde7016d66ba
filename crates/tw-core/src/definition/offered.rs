//! A definition as the model meets it: a tool with a description and a function schema.

use std::sync::Arc;

use super::{DefinitionError, ToolDefinition};
use crate::arguments::ArgumentsSchema;
use crate::parameters::{ParameterSource, Parameters, function_parameters_with};
use crate::template::{Prompts, TextTemplate};
use crate::tool::{Tool, ToolKind, ToolVersion};
use crate::variables::{ALWAYS_THERE, VALUE_BYTES_MAX, Variables, beginning};

/// Longest beginning of a value that is kept, in bytes: so much that a value which is too long is
/// seen to be, whatever characters it has.
const KEPT_BYTES_MAX: usize = VALUE_BYTES_MAX + 4;

impl ToolDefinition {
    /// The tool that a turn offers; prompts are rendered with `variables`.
    ///
    /// # Errors
    /// [`DefinitionError`] when the function schema does not compile, which
    /// [`ToolDefinition::check`] rules out.
    pub fn tool(
        self: &Arc<Self>,
        version: Option<ToolVersion>,
        variables: &Variables,
    ) -> Result<Tool, DefinitionError> {
        let prompts = Prompts::new(variables);
        let description = prompts.render(&self.description);
        let parameters = function_parameters_with(&self.parameters, &prompts);
        let schema = ArgumentsSchema::compile(&parameters)
            .map_err(|error| DefinitionError::new("parameters", error.to_string()))?;
        Ok(Tool {
            name: self.name.clone(),
            description,
            parameters,
            schema,
            policy: self.policy.clone(),
            kind: ToolKind::ApiRequest(Arc::clone(self)),
            version,
        })
    }

    /// The same tool with its prompts rendered anew. Only texts differ, so that the compiled
    /// schema holds still.
    pub fn told(self: &Arc<Self>, tool: &Tool, variables: &Variables) -> Tool {
        let prompts = Prompts::new(variables);
        Tool {
            description: prompts.render(&self.description),
            parameters: function_parameters_with(&self.parameters, &prompts),
            ..tool.clone()
        }
    }

    /// Whether what the model sees depends on the turn.
    pub fn prompts_use_variables(&self) -> bool {
        prompts(self).any(|(_, prompt)| prompt.variables().next().is_some())
    }

    /// The values that the definition's templates are filled with: those that are `always` there,
    /// and the declared ones from the request's `metadata`, else their defaults.
    ///
    /// Nothing else of `metadata` gets in, and it cannot replace what is always there. Of a
    /// value that is too long to be used there is the beginning, still too long.
    pub fn variables(&self, always: &Variables, metadata: &Variables) -> Variables {
        let mut variables = always.clone();
        for declared in &self.variables {
            if ALWAYS_THERE.contains(&declared.name.as_str()) {
                continue;
            }
            let value = metadata.get(&declared.name).or(declared.default.as_deref());
            if let Some(value) = value {
                variables.set(&declared.name, beginning(value, KEPT_BYTES_MAX).to_owned());
            }
        }
        variables
    }
}

/// Every text that the model is shown, with its field.
pub(super) fn prompts(
    definition: &ToolDefinition,
) -> impl Iterator<Item = (String, &TextTemplate)> {
    let mut found = vec![("description".to_owned(), &definition.description)];
    in_parameters("parameters", &definition.parameters, &mut found);
    found.into_iter()
}

fn in_parameters<'a>(
    field: &str,
    parameters: &'a Parameters,
    found: &mut Vec<(String, &'a TextTemplate)>,
) {
    for (name, parameter) in parameters {
        in_source(&format!("{field}.{name}"), &parameter.source, found);
    }
}

fn in_source<'a>(
    field: &str,
    source: &'a ParameterSource,
    found: &mut Vec<(String, &'a TextTemplate)>,
) {
    let mut note = |member: &str, prompt: &'a Option<TextTemplate>| {
        found.extend(
            prompt
                .iter()
                .map(|text| (format!("{field}.{member}"), text)),
        );
    };
    match source {
        ParameterSource::Ai(ai) => note("prompt", &ai.prompt),
        ParameterSource::Fixed(_)
        | ParameterSource::ArrayExtendable {
            extension: None, ..
        } => {}
        ParameterSource::ArrayExtendable {
            extension: Some(extension),
            ..
        } => note("aiExtension.prompt", &extension.prompt),
        ParameterSource::Object {
            properties,
            description,
        } => {
            note("description", description);
            in_parameters(&format!("{field}.properties"), properties, found);
        }
        ParameterSource::Array { items, description } => {
            note("description", description);
            for (index, item) in items.iter().enumerate() {
                in_source(&format!("{field}.items[{index}]"), &item.source, found);
            }
        }
    }
}
