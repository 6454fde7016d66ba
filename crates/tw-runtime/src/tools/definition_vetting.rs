//! The vetting of definitions: whether an organization may keep one.

use std::sync::Arc;

use tw_core::change::ToolRoom;
use tw_core::definition::{CallbackRules, CallbackVerification, DefinitionError, ToolDefinition};
use tw_core::limits::RequestLimits;
use tw_egress::callbacks::Networks;
use tw_egress::client::EgressClient;
use tw_egress::secrets::{Secrets, Tenancy};
use tw_egress::webhook_signature::SigningSecret;

/// The settings that definitions are vetted by.
#[derive(Clone, Debug)]
pub struct DefinitionVetting {
    pub secrets: Arc<Secrets>,
    /// Callbacks can reach this server.
    pub takes_callbacks: bool,
    pub client: EgressClient,
    pub limits: RequestLimits,
    /// Names of tools that come with the program.
    pub taken: Vec<String>,
    /// Room for all tools of an organization.
    pub room: ToolRoom,
}

impl DefinitionVetting {
    /// Checks what needs the operator's settings: names, addresses, secrets.
    ///
    /// A secret that is not granted and one that does not exist get the same answer.
    ///
    /// # Errors
    /// [`DefinitionError`] names the field.
    pub fn vet(
        &self,
        definition: &ToolDefinition,
        organization: &str,
        tenancy: Tenancy,
    ) -> Result<(), DefinitionError> {
        definition.check(&self.limits)?;
        if self.taken.contains(&definition.name) {
            return Err(error(
                "name",
                "is the name of a tool that comes with this server",
            ));
        }
        let request = &definition.request;
        self.check_origin("url", request.url.origin(), organization)?;
        if let Some(look_up) = &request.look_up {
            self.check_origin("look_up.url", look_up.url.origin(), organization)?;
        }
        let job = definition.job.as_ref();
        let callback = job.and_then(|job| job.callback.as_ref());
        if callback.is_some() && !self.takes_callbacks {
            return Err(error(
                "completion",
                "this server has no address for callbacks: its operator sets hooks.public_url",
            ));
        }
        if let Some(poll) = job.and_then(|job| job.poll.as_ref()) {
            let origin = poll.request.url.origin();
            self.check_origin("completion.poll.url", origin, organization)?;
        }
        if let Some(callback) = callback {
            self.vet_callback(callback, organization)?;
        }
        for used in definition.secrets() {
            let granted = self
                .secrets
                .resolve(&used.name, organization, &used.host, tenancy);
            if granted.is_none() {
                return Err(error(
                    &used.field,
                    "no secret of this name may be used here",
                ));
            }
        }
        Ok(())
    }

    fn vet_callback(
        &self,
        callback: &CallbackRules,
        organization: &str,
    ) -> Result<(), DefinitionError> {
        Networks::parse(&callback.addresses)
            .map_err(|bad| error("completion.callback.addresses", &bad.to_string()))?;
        for (index, name) in callback.verification.secrets().iter().enumerate() {
            let field = format!("completion.callback.verification.secrets[{index}]");
            let Some(secret) = self.secrets.to_verify(name, organization) else {
                return Err(error(&field, "no secret of this name may be used here"));
            };
            let is_standard = matches!(
                callback.verification,
                CallbackVerification::StandardWebhooks { .. }
            );
            if is_standard && SigningSecret::parse(secret.reveal()).is_none() {
                let problem =
                    "is no secret of Standard Webhooks: whsec_ and base64 of 24 to 64 bytes";
                return Err(error(&field, problem));
            }
        }
        Ok(())
    }

    /// Checks the address of a definition. Its name may still resolve to one that is refused when it is used.
    fn check_origin(
        &self,
        field: &str,
        origin: &str,
        organization: &str,
    ) -> Result<(), DefinitionError> {
        self.client
            .check_url(origin, organization)
            .map_err(|failure| error(field, &failure.kind.message()))
    }
}

fn error(field: &str, problem: &str) -> DefinitionError {
    DefinitionError {
        field: field.to_owned(),
        problem: problem.to_owned(),
    }
}
