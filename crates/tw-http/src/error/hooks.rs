//! Errors of callbacks.

use tw_runtime::callbacks::CallbackError;
use tw_wire::client_error::ErrorKind;

use super::{ApiError, capitalized};
use crate::server::RequestId;

impl ApiError {
    pub(crate) fn of_callback(error: &CallbackError, id: &RequestId) -> Self {
        let said = |kind, code| Self::new(kind, Some(code), capitalized(&error.to_string()));
        match error {
            CallbackError::NotAccepted => said(ErrorKind::Unauthenticated, "callback_refused"),
            CallbackError::Malformed => said(ErrorKind::Invalid, "callback_malformed"),
            CallbackError::Read(error) => Self::of_read(error, id),
            CallbackError::Write(_) => {
                let _ = Self::internal(error, id);
                Self::unavailable("The callback may not have been recorded; send it again.")
            }
        }
    }
}
