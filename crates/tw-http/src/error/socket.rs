//! Errors of WebSockets, beside those of their responses.

use tw_wire::client_error::ErrorKind;

use super::ApiError;
use crate::socket::places::NoSocketPlace;

/// Longest id of a call that an error repeats, in characters.
const ID_SHOWN_MAX: usize = 100;

impl ApiError {
    /// The error of a request that would be another protocol's.
    pub(crate) fn not_upgraded() -> Self {
        let message = "GET of this path opens a WebSocket; for a response of its own use POST.";
        Self::new(
            ErrorKind::MethodNotAllowed,
            Some("websocket_required"),
            message,
        )
    }

    /// The error of a WebSocket that is one too many.
    pub(crate) fn no_place(none_left: &NoSocketPlace) -> Self {
        let NoSocketPlace::OfKey(max) = none_left else {
            return Self::overloaded();
        };
        let message = format!(
            "This API key has {max} WebSockets open, the most that one may have at once. Close one first."
        );
        Self::new(ErrorKind::Limited, Some("rate_limit_exceeded"), message)
    }

    /// The error of a message while a response is under way.
    pub(crate) fn response_under_way() -> Self {
        let message = "A response is under way on this connection: send the next message behind its last event.";
        Self::new(ErrorKind::Conflict, Some("response_under_way"), message)
    }

    pub(crate) fn not_a_text() -> Self {
        let message = "Messages are texts that hold JSON; this one is binary.";
        Self::invalid(None, Some("invalid_message"), message)
    }

    pub(crate) fn not_a_message() -> Self {
        let message = "What came is no message of the WebSocket protocol.";
        Self::invalid(None, Some("invalid_message"), message)
    }

    /// The error of a connection that has been open for as long as one may be.
    pub(crate) fn socket_too_old(minutes: u64) -> Self {
        let message = format!(
            "This connection has been open for {minutes} minutes, the longest that one may be; open another one."
        );
        Self::invalid(None, Some("websocket_connection_limit_reached"), message)
    }

    /// The error of a result whose call nobody made.
    pub(crate) fn no_such_call(id: &str) -> Self {
        let id: String = id.chars().take(ID_SHOWN_MAX).collect();
        let message = format!("No tool call found for function call output with call_id {id}.");
        Self::invalid(Some("input"), Some("no_such_call"), message)
    }
}
