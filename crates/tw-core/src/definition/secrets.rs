//! Which secrets a definition names, and where each would go.

use super::Definition;
use crate::parameters::{Parameters, SecretRef, Source, Value};

/// One place of a definition that names a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    /// A path such as `headers.authorization`.
    pub field: String,
    pub name: String,
    /// The host that it is sent to, with the port if that is not the scheme's default.
    pub host: String,
}

impl Definition {
    /// All uses of secrets, those of the look-up too.
    pub fn secrets(&self) -> Vec<SecretUse> {
        let request = &self.request;
        let mut found = Found {
            host: request.url.host_and_port().to_owned(),
            uses: Vec::new(),
        };
        found.in_members("headers", &request.headers);
        found.in_members("query", &request.query);
        found.in_members("body", &request.body);
        found.in_parameters("parameters", &self.parameters);
        if let Some(look_up) = &request.look_up {
            look_up.url.host_and_port().clone_into(&mut found.host);
            found.in_members("look_up.headers", &look_up.headers);
            found.in_members("look_up.query", &look_up.query);
        }
        found.uses
    }
}

struct Found {
    host: String,
    uses: Vec<SecretUse>,
}

impl Found {
    fn in_members(&mut self, field: &str, members: &[(String, Value)]) {
        for (name, value) in members {
            self.in_value(&format!("{field}.{name}"), value);
        }
    }

    fn in_value(&mut self, field: &str, value: &Value) {
        match value {
            Value::Literal(_) | Value::Text(_) => {}
            Value::Secret(SecretRef { name, .. }) => self.uses.push(SecretUse {
                field: field.to_owned(),
                name: name.clone(),
                host: self.host.clone(),
            }),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.in_value(&format!("{field}[{index}]"), item);
                }
            }
            Value::Object(members) => self.in_members(field, members),
        }
    }

    fn in_parameters(&mut self, field: &str, parameters: &Parameters) {
        for (name, parameter) in parameters {
            self.in_source(&format!("{field}.{name}"), &parameter.source);
        }
    }

    fn in_source(&mut self, field: &str, source: &Source) {
        match source {
            Source::Ai(_) => {}
            Source::Fixed(fixed) => self.in_value(&format!("{field}.value"), &fixed.value),
            Source::ArrayExtendable { fixed, .. } => {
                for (index, item) in fixed.iter().enumerate() {
                    self.in_value(&format!("{field}.fixedValues[{index}]"), item);
                }
            }
            Source::Object { properties, .. } => {
                self.in_parameters(&format!("{field}.properties"), properties);
            }
            Source::Array { items, .. } => {
                for (index, item) in items.iter().enumerate() {
                    self.in_source(&format!("{field}.items[{index}]"), &item.source);
                }
            }
        }
    }
}
