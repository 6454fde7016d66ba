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
        Self::of_chain_in(error, "previous_response_id", id)
    }

    /// The error of a request that cannot be put behind what it names in `param`.
    pub(crate) fn of_chain_in(error: &ChainError, param: &str, id: &RequestId) -> Self {
        match error {
            ChainError::NotFound => Self::no_previous(),
            ChainError::TooLong => Self::invalid(
                Some(param),
                Some("context_length_exceeded"),
                "What the request continues is more than one request may hold.",
            ),
            ChainError::Read(error) => Self::of_read(error, id),
        }
    }

    /// The error of a request that is made in a conversation which is not there for it.
    pub(crate) fn no_such_conversation() -> Self {
        let message = "There is no such conversation: it is unknown, or was deleted.";
        let code = Some("conversation_not_found");
        let mut error = Self::new(ErrorKind::NotFound, code, message);
        error.error.param = Some("conversation".to_owned());
        error
    }

    /// The error of a request in a conversation of which nothing would be kept.
    pub(crate) fn conversation_unstored() -> Self {
        let message = "Conversations are kept, and this key keeps nothing of what is said.";
        Self::invalid(Some("conversation"), Some("unsupported_parameter"), message)
    }

    /// The error of a request that names two conversations.
    pub(crate) fn two_conversations() -> Self {
        let message =
            "'conversation' and the header turnwright-conversation name two; send one of them.";
        let code = Some("mutually_exclusive_parameters");
        Self::invalid(Some("conversation"), code, message)
    }

    /// The error of a change of a conversation that something else changes at the same time, as OpenAI's clients know it.
    pub(crate) fn conversation_locked() -> Self {
        let message = "Another request is working on this conversation. Send this one again in a few seconds.";
        let code = Some("conversation_locked");
        Self::invalid(Some("conversation"), code, message)
    }

    /// The error of a conversation that is named to be made smaller: what would come of it is an item, and not a
    /// conversation.
    pub(crate) fn not_compacted() -> Self {
        let message = "'conversation' cannot be compacted; give the items as 'input', or 'previous_response_id'.";
        Self::invalid(Some("conversation"), Some("unsupported_parameter"), message)
    }

    pub(crate) fn no_item() -> Self {
        let message = "There is no such item in this conversation.";
        Self::new(ErrorKind::NotFound, Some("not_found"), message)
    }

    /// The error of metadata for a conversation that is only a name.
    pub(crate) fn conversation_unmade() -> Self {
        let message = "Only a conversation that was made by POST /v1/conversations has metadata: this one is a name, \
                       which several may use.";
        Self::invalid(Some("metadata"), Some("unsupported_parameter"), message)
    }
}
