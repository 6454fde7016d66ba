//! Errors about answers that are kept, and what is said of them.

use tw_runtime::chain::ChainError;
use tw_wire::client_error::ErrorKind;

use super::ApiError;
use crate::server::RequestId;

impl ApiError {
    /// The error of a request that continues an answer which is not there for it.
    pub(crate) fn no_previous() -> Self {
        let message = "There is no such previous response: it is unknown, was deleted or not stored, or ended without an answer.";
        let mut error = Self::new(
            ErrorKind::NotFound,
            Some("previous_response_not_found"),
            message,
        );
        error.error.param = Some("previous_response_id".to_owned());
        error
    }

    /// The error of a request that answers a question which was not asked just before it, or not of it.
    pub(crate) fn no_such_question() -> Self {
        let mut error = Self::new(
            ErrorKind::NotFound,
            Some("approval_request_not_found"),
            "There is no such approval request for this request: only the newest response may be answered, by who got it.",
        );
        error.error.param = Some("input".to_owned());
        error
    }

    /// The error of a second answer to a question.
    pub(crate) fn question_closed() -> Self {
        let mut error = Self::new(
            ErrorKind::Conflict,
            Some("approval_request_answered"),
            "The approval request was answered before. Send the request without the answer to go on: the model is told \
             what came of the call.",
        );
        error.error.param = Some("input".to_owned());
        error.should_retry = Some(false);
        error
    }

    pub(crate) fn no_response() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("not_found"),
            "There is no such response.",
        )
    }

    /// The error of a response of which nothing is kept any more.
    pub(crate) fn response_expired() -> Self {
        let message = "The response is not kept any more.";
        Self::new(ErrorKind::Gone, Some("response_expired"), message)
    }

    /// The error of a request for the background whose answer would not be there later.
    pub(crate) fn background_unstored() -> Self {
        let message = "'background' needs a response that is stored: 'store' must not be false, nor may the key keep less.";
        Self::invalid(Some("background"), Some("invalid_value"), message)
    }

    pub(crate) fn of_chain(error: &ChainError, id: &RequestId) -> Self {
        match error {
            ChainError::NotFound => Self::no_previous(),
            ChainError::TooLong => Self::invalid(
                Some("previous_response_id"),
                Some("context_length_exceeded"),
                "The previous response and those before it are more than one request may hold.",
            ),
            ChainError::Read(error) => Self::of_read(error, id),
        }
    }
}
