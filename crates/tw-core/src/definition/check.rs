//! Checks of a tool's definition, each of which names the field that makes it unusable.

mod completion;
mod parameters;
mod request;
mod rules;
mod schema;
mod uses;
mod values;

use super::{DefinitionError, ToolDefinition, offered};
use crate::limits::RequestLimits;
use crate::template::TextTemplate;
use crate::variables::{
    ALWAYS_THERE, CALLBACK_URL, EXTERNAL_ID, IN_POLLS, IN_PROMPTS, REFERENCE, VALUE_BYTES_MAX,
    is_name,
};

const NAME_BYTES_MAX: usize = 64;
const LABEL_BYTES_MAX: usize = 256;
const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
const VARIABLES_MAX: usize = 64;

type CheckedDefinition = Result<(), DefinitionError>;

fn refuse<T>(field: &str, problem: impl Into<String>) -> Result<T, DefinitionError> {
    Err(DefinitionError::new(field, problem))
}

impl ToolDefinition {
    /// Whether the definition can be used.
    ///
    /// # Errors
    /// [`DefinitionError`] names the first field that is wrong.
    pub fn check(&self, limits: &RequestLimits) -> CheckedDefinition {
        check_names(self)?;
        check_variables(self)?;
        // Before everything that walks them.
        parameters::check_nesting(self, limits)?;
        for (field, prompt) in offered::prompts(self) {
            check_prompt(self, &field, prompt)?;
        }
        request::check(self, limits)?;
        parameters::check(self, limits)?;
        uses::check(self)?;
        rules::check(self)?;
        completion::check(self)
    }
}

fn check_names(definition: &ToolDefinition) -> CheckedDefinition {
    let name = &definition.name;
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_fit) {
        return refuse(
            "name",
            format!("must have 1 to {NAME_BYTES_MAX} letters, digits, _ and -"),
        );
    }
    let label = &definition.label;
    if label.is_empty() || label.len() > LABEL_BYTES_MAX || label.contains(char::is_control) {
        return refuse(
            "label",
            format!("must have 1 to {LABEL_BYTES_MAX} bytes and no control characters"),
        );
    }
    if definition.description.written().len() > DESCRIPTION_BYTES_MAX {
        return refuse(
            "description",
            format!("must have at most {DESCRIPTION_BYTES_MAX} bytes"),
        );
    }
    Ok(())
}

fn check_variables(definition: &ToolDefinition) -> CheckedDefinition {
    let declared = &definition.variables;
    if declared.len() > VARIABLES_MAX {
        return refuse("variables", format!("must be at most {VARIABLES_MAX}"));
    }
    for (index, variable) in declared.iter().enumerate() {
        let name = variable.name.as_str();
        let field = format!("variables.{name}");
        if !is_name(name) {
            return refuse(
                &field,
                "names of variables begin with a letter or _ and go on with letters, digits, _, - and .",
            );
        }
        let reserved = [REFERENCE, CALLBACK_URL, EXTERNAL_ID];
        if ALWAYS_THERE.contains(&name) || reserved.contains(&name) {
            return refuse(&field, "is always there and cannot be declared");
        }
        if declared[..index].iter().any(|other| other.name == name) {
            return refuse(&field, "is declared twice");
        }
        let default = variable.default.as_deref().unwrap_or_default();
        if default.len() > VALUE_BYTES_MAX {
            return refuse(
                &format!("{field}.default"),
                format!("must have at most {VALUE_BYTES_MAX} bytes"),
            );
        }
    }
    Ok(())
}

fn check_prompt(
    definition: &ToolDefinition,
    field: &str,
    prompt: &TextTemplate,
) -> CheckedDefinition {
    for name in prompt.variables() {
        if is_declared(definition, name) || IN_PROMPTS.contains(&name) {
            continue;
        }
        if ALWAYS_THERE.contains(&name) {
            return refuse(
                field,
                format!(
                    "the variable {name:?} changes with every turn, which would defeat the provider's prompt cache"
                ),
            );
        }
        return refuse(field, unknown_variable(name));
    }
    Ok(())
}

/// The variables that a template may name, beside the declared ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Request,
    LookUp,
    Poll,
}

fn check_used<'a>(
    definition: &ToolDefinition,
    scope: Scope,
    field: &str,
    names: impl Iterator<Item = &'a str>,
) -> CheckedDefinition {
    for name in names {
        let of_turn = is_declared(definition, name) || ALWAYS_THERE.contains(&name);
        let is_known = match scope {
            Scope::Request => {
                let job = definition.job.as_ref();
                let calls_back = job.is_some_and(|job| job.callback.is_some());
                of_turn || (name == CALLBACK_URL && calls_back)
            }
            Scope::LookUp => of_turn || name == REFERENCE,
            // The turn may be long over.
            Scope::Poll => IN_POLLS.contains(&name) || [REFERENCE, EXTERNAL_ID].contains(&name),
        };
        if !is_known && scope == Scope::Poll && of_turn {
            let problem = format!(
                "the variable {name:?} is not known any more when a job is asked about; known are {}",
                [&IN_POLLS[..], &[REFERENCE, EXTERNAL_ID]]
                    .concat()
                    .join(", ")
            );
            return refuse(field, problem);
        }
        if !is_known {
            return refuse(field, unknown_variable(name));
        }
    }
    Ok(())
}

fn is_declared(definition: &ToolDefinition, name: &str) -> bool {
    definition
        .variables
        .iter()
        .any(|variable| variable.name == name)
}

fn unknown_variable(name: &str) -> String {
    if name == REFERENCE {
        return format!("the variable {name:?} is there in a poll and in a look-up only");
    }
    if name == EXTERNAL_ID {
        return format!("the variable {name:?} is there in a poll only");
    }
    if name == CALLBACK_URL {
        return format!(
            "the variable {name:?} is there in the request of a tool that completes by webhook only"
        );
    }
    format!("the variable {name:?} is not declared")
}
