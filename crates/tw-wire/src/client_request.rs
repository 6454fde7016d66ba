//! A client's request before its format is looked at, and the refusal of one.

use tw_core::json::shared::SharedText;

/// The reason for which a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub kind: RequestErrorKind,
    pub message: String,
    /// The place of the problem, such as `messages[2].role`.
    pub param: Option<String>,
    pub code: Option<&'static str>,
}

/// Longest id that a refusal repeats, in characters.
const ID_SHOWN_MAX: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestErrorKind {
    Invalid,
    TooLarge,
    /// It names something that is not there.
    NotFound,
}

/// The text of a body.
///
/// # Errors
/// When it is not UTF-8.
pub fn body_text(body: Vec<u8>) -> Result<SharedText, RequestError> {
    let text = String::from_utf8(body).map_err(|_| {
        RequestError::whole(
            RequestErrorKind::Invalid,
            "The request body is not valid UTF-8.",
        )
    })?;
    Ok(SharedText::new(text))
}

impl RequestError {
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: RequestErrorKind::Invalid,
            message: message.into(),
            param: Some(param.into()),
            code: None,
        }
    }

    pub(crate) fn whole(kind: RequestErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            param: None,
            code: None,
        }
    }

    /// The refusal of a reference to an item that nobody has.
    pub(crate) fn no_item(id: &str) -> Self {
        let shown: String = id.chars().take(ID_SHOWN_MAX).collect();
        Self {
            kind: RequestErrorKind::NotFound,
            code: Some("item_not_found"),
            ..Self::invalid("input", format!("Item with id '{shown}' not found."))
        }
    }

    pub(crate) fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("Missing required parameter: '{param}'.");
        Self {
            code: Some("missing_required_parameter"),
            ..Self::invalid(param, message)
        }
    }

    pub(crate) fn wrong_type(param: impl Into<String>, wanted: &str) -> Self {
        let param = param.into();
        let message = format!("Invalid type for '{param}': expected {wanted}.");
        Self {
            code: Some("invalid_type"),
            ..Self::invalid(param, message)
        }
    }

    pub(crate) fn wrong_value(param: impl Into<String>, message: String) -> Self {
        Self {
            code: Some("invalid_value"),
            ..Self::invalid(param, message)
        }
    }
}
