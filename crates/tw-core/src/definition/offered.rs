//! A definition as the model meets it: a tool with a description and a function schema.

use std::sync::Arc;

use super::{Definition, DefinitionError};
use crate::arguments::Schema;
use crate::parameters::{Parameters, Source, function_parameters};
use crate::template::Template;
use crate::tool::{Tool, ToolKind, ToolVersion};
use crate::variables::{ALWAYS_THERE, Variables};

impl Definition {
    /// The tool that a turn offers; prompts are rendered with `variables`.
    ///
    /// # Errors
    /// [`DefinitionError`] when the function schema does not compile, which
    /// [`Definition::check`] rules out.
    pub fn tool(
        self: &Arc<Self>,
        version: Option<ToolVersion>,
        variables: &Variables,
    ) -> Result<Tool, DefinitionError> {
        let parameters = function_parameters(&self.parameters, variables);
        let schema = Schema::compile(&parameters)
            .map_err(|error| DefinitionError::new("parameters", error.to_string()))?;
        Ok(Tool {
            name: self.name.clone(),
            description: self.description.render_or_empty(variables),
            parameters,
            schema,
            policy: self.policy.clone(),
            kind: ToolKind::ApiRequest(Arc::clone(self)),
            version,
        })
    }

    /// Whether what the model sees depends on the turn.
    pub fn prompts_use_variables(&self) -> bool {
        prompts(self).any(|(_, prompt)| prompt.variables().next().is_some())
    }

    /// The values that the definition's templates are filled with: those that are `always` there,
    /// and the declared ones from the request's `metadata`, else their defaults.
    ///
    /// Nothing else of `metadata` gets in, and it cannot replace what is always there.
    pub fn variables(&self, always: &Variables, metadata: &Variables) -> Variables {
        let mut variables = always.clone();
        for declared in &self.variables {
            if ALWAYS_THERE.contains(&declared.name.as_str()) {
                continue;
            }
            let value = metadata.get(&declared.name).or(declared.default.as_deref());
            if let Some(value) = value {
                variables.set(&declared.name, value.to_owned());
            }
        }
        variables
    }
}

/// Every text that the model is shown, with its field.
pub(super) fn prompts(definition: &Definition) -> impl Iterator<Item = (String, &Template)> {
    let mut found = vec![("description".to_owned(), &definition.description)];
    in_parameters("parameters", &definition.parameters, &mut found);
    found.into_iter()
}

fn in_parameters<'a>(
    field: &str,
    parameters: &'a Parameters,
    found: &mut Vec<(String, &'a Template)>,
) {
    for (name, parameter) in parameters {
        in_source(&format!("{field}.{name}"), &parameter.source, found);
    }
}

fn in_source<'a>(field: &str, source: &'a Source, found: &mut Vec<(String, &'a Template)>) {
    let mut note = |member: &str, prompt: &'a Option<Template>| {
        found.extend(
            prompt
                .iter()
                .map(|text| (format!("{field}.{member}"), text)),
        );
    };
    match source {
        Source::Ai(ai) => note("prompt", &ai.prompt),
        Source::Fixed(_)
        | Source::ArrayExtendable {
            extension: None, ..
        } => {}
        Source::ArrayExtendable {
            extension: Some(extension),
            ..
        } => note("aiExtension.prompt", &extension.prompt),
        Source::Object {
            properties,
            description,
        } => {
            note("description", description);
            in_parameters(&format!("{field}.properties"), properties, found);
        }
        Source::Array { items, description } => {
            note("description", description);
            for (index, item) in items.iter().enumerate() {
                in_source(&format!("{field}.items[{index}]"), &item.source, found);
            }
        }
    }
}
