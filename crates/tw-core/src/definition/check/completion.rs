//! The rules of a tool that completes by webhook.

use std::time::Duration;

use super::{CheckedDefinition, refuse, rules};
use crate::definition::{CallbackRules, CallbackVerification, ToolDefinition, select, walk};
use crate::hmac_rule::SignedPart;
use crate::parameters::ParameterValue;
use crate::tool::CallCompletion;
use crate::variables::CALLBACK_URL;

const STATUSES_MAX: usize = 32;
const ADDRESSES_MAX: usize = 32;
/// Secrets at once: an old and a new one, and a few more.
const SECRETS_MAX: usize = 8;
const DEADLINE_MIN: Duration = Duration::from_secs(1);
/// Longer than any job that somebody still waits for.
const DEADLINE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) fn check(definition: &ToolDefinition) -> CheckedDefinition {
    let (CallCompletion::Webhook(completion), Some(callback)) =
        (&definition.policy.completion, &definition.callback)
    else {
        return Ok(());
    };
    if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&completion.deadline) {
        return refuse(
            "completion.deadline_s",
            format!(
                "must be from {} to {}",
                DEADLINE_MIN.as_secs(),
                DEADLINE_MAX.as_secs()
            ),
        );
    }
    if definition.policy.cache.is_some() {
        return refuse("policy.cache", "may not stand with a completion by webhook");
    }
    if !names_callback_url(definition) {
        return refuse(
            "completion",
            format!(
                "the request must name the variable {{{{{CALLBACK_URL}}}}}, or nobody could call back"
            ),
        );
    }
    check_callback(callback)
}

fn check_callback(callback: &CallbackRules) -> CheckedDefinition {
    let status = callback.status.as_ref();
    for (field, path) in [
        ("completion.external_id", callback.external_id.as_ref()),
        (
            "completion.callback.status",
            status.map(|status| &status.path),
        ),
        ("completion.callback.error", callback.error.as_ref()),
    ] {
        path.map_or(Ok(()), |path| check_single(field, path))?;
    }
    if let Some(result) = &callback.result {
        rules::check_select("completion.callback.result", result)?;
    }
    if let Some(status) = status {
        let (completed, failed) = (&status.completed, &status.failed);
        if completed.is_empty() || completed.len() + failed.len() > STATUSES_MAX {
            let problem = format!("must be 1 to {STATUSES_MAX} values with those of \"failed\"");
            return refuse("completion.callback.completed", problem);
        }
        if failed.iter().any(|value| completed.contains(value)) {
            let problem = "must not hold a value of \"completed\"";
            return refuse("completion.callback.failed", problem);
        }
    }
    if callback.addresses.len() > ADDRESSES_MAX {
        let problem = format!("must be at most {ADDRESSES_MAX}");
        return refuse("completion.callback.addresses", problem);
    }
    check_verification(&callback.verification)
}

fn check_verification(verification: &CallbackVerification) -> CheckedDefinition {
    let field = "completion.callback.verification";
    let secrets = verification.secrets();
    match verification {
        CallbackVerification::TokenAlone => return Ok(()),
        CallbackVerification::StandardWebhooks { .. } => {}
        CallbackVerification::Hmac { rule, .. } => {
            if !rule.signed.iter().any(is_of_request) {
                let problem =
                    "must hold the body, or a header, or nothing of the message is signed";
                return refuse(&format!("{field}.signed"), problem);
            }
        }
        CallbackVerification::SharedSecret { .. } => {}
    }
    if !(1..=SECRETS_MAX).contains(&secrets.len()) {
        let problem = format!("must be 1 to {SECRETS_MAX} names");
        return refuse(&format!("{field}.secrets"), problem);
    }
    Ok(())
}

fn is_of_request(part: &SignedPart) -> bool {
    match part {
        SignedPart::Body | SignedPart::SortedForm | SignedPart::Header(_) => true,
        SignedPart::Url | SignedPart::Element(_) | SignedPart::Text(_) => false,
    }
}

/// A path that finds one node at most.
fn check_single(field: &str, path: &serde_json_path::JsonPath) -> CheckedDefinition {
    select::check(path).or_else(|problem| refuse(field, problem))?;
    if select::is_singular(path) {
        Ok(())
    } else {
        refuse(field, "must be a path that finds one value at most")
    }
}

fn names_callback_url(definition: &ToolDefinition) -> bool {
    let mut is_named = definition
        .request
        .url
        .variables()
        .any(|name| name == CALLBACK_URL);
    walk::request(definition, &mut |_, value| {
        if let ParameterValue::Text(template) = value {
            is_named |= template.variables().any(|name| name == CALLBACK_URL);
        }
    });
    is_named
}
