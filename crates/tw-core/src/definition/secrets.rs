//! Secrets that a definition names, and the host that each would go to.

use super::{ToolDefinition, walk};
use crate::parameters::ParameterValue;

/// A place of a definition that names a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    /// A path such as `headers.authorization`.
    pub field: String,
    pub name: String,
    /// The host that it is sent to, with the port if that is not the scheme's default.
    pub host: String,
}

impl ToolDefinition {
    /// The uses of secrets in the definition, its look-up and its poll included.
    pub fn secrets(&self) -> Vec<SecretUse> {
        let request = &self.request;
        let mut uses = Vec::new();
        let mut note = |host: &str, field: &str, value: &ParameterValue| match value {
            ParameterValue::Secret(secret) => uses.push(SecretUse {
                field: field.to_owned(),
                name: secret.name.clone(),
                host: host.to_owned(),
            }),
            ParameterValue::Literal(_)
            | ParameterValue::Text(_)
            | ParameterValue::Array(_)
            | ParameterValue::Object(_) => {}
        };
        let host = request.url.host_and_port();
        walk::request(self, &mut |field, value| note(host, field, value));
        if let Some(look_up) = &request.look_up {
            let host = look_up.url.host_and_port();
            walk::look_up(look_up, &mut |field, value| note(host, field, value));
        }
        if let Some(poll) = self.job.as_ref().and_then(|job| job.poll.as_ref()) {
            let host = poll.request.url.host_and_port();
            walk::poll(&poll.request, &mut |field, value| note(host, field, value));
        }
        uses
    }
}
