//! Errors of webhooks.

use tw_runtime::webhooks::WebhookError;
use tw_wire::client_error::ErrorKind;

use super::{ApiError, capitalized};
use crate::server::RequestId;

impl ApiError {
    pub(crate) fn of_webhook(error: &WebhookError, id: &RequestId) -> Self {
        let said = |kind, code| Self::new(kind, Some(code), capitalized(&error.to_string()));
        match error {
            WebhookError::Invalid { field, problem } => {
                let message = format!("{field}: {problem}.");
                Self::invalid(Some(field), Some("invalid_webhook"), message)
            }
            WebhookError::NotFound | WebhookError::NoDelivery => {
                said(ErrorKind::NotFound, "not_found")
            }
            WebhookError::Disabled => said(ErrorKind::Conflict, "webhook_disabled"),
            WebhookError::StillPending => said(ErrorKind::Conflict, "delivery_pending"),
            WebhookError::TooMany => said(ErrorKind::Conflict, "too_many_webhooks"),
            WebhookError::OutOfScope(_) => {
                let mut missing = said(ErrorKind::Forbidden, "insufficient_scope");
                missing.error.param = Some("contents".to_owned());
                missing
            }
            WebhookError::Read(error) => Self::of_read(error, id),
            WebhookError::Write(_) => {
                let _ = Self::internal(error, id);
                Self::unavailable("The change may not have been recorded; look and try again.")
            }
        }
    }
}
