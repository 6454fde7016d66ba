//! Errors of open calls.

use tw_runtime::open_calls::OpenCallError;
use tw_wire::client_error::ErrorKind;

use super::{ApiError, capitalized};
use crate::server::RequestId;

impl ApiError {
    pub(crate) fn no_open_call() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("call_not_open"),
            "No such call is open.",
        )
    }

    pub(crate) fn of_open_call(error: &OpenCallError, id: &RequestId) -> Self {
        let said = |kind, code| Self::new(kind, Some(code), capitalized(&error.to_string()));
        match error {
            OpenCallError::NotOpen => Self::no_open_call(),
            OpenCallError::NotPolled => said(ErrorKind::Conflict, "call_not_polled"),
            OpenCallError::Outside => said(ErrorKind::Conflict, "call_of_an_application"),
            OpenCallError::Text(_) => said(ErrorKind::Invalid, "text_length"),
            OpenCallError::Read(error) => Self::of_read(error, id),
            OpenCallError::Write(_) => {
                let _ = Self::internal(error, id);
                Self::unavailable("The call may not have been changed; look at it and try again.")
            }
        }
    }
}
