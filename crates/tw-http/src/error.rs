//! Errors, one of each kind; the format of the surface that a request came by gives them their shape.

mod files;
mod hooks;
mod kept;
mod money;
pub(crate) mod no_room;
mod open_calls;
mod quota;
mod socket;
mod webhooks;

use axum::response::Response;
use http::header::RETRY_AFTER;
use http::{HeaderName, HeaderValue, StatusCode};
use tw_core::event::EffectRan;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_core::rate::BucketStanding;
use tw_runtime::accept::TurnRefused;
use tw_runtime::accept::counting::CountRefused;
use tw_runtime::error_chain::ErrorChain;
use tw_runtime::keys::ManageKeyError;
use tw_runtime::models::UnlistedUpstream;
use tw_runtime::quotas::TokensReached;
use tw_runtime::relay::RelayRefused;
use tw_runtime::spending::SpentLimit;
use tw_runtime::tools::ToolError;
use tw_store::read::ReadError;
use tw_wire::client_error::{ClientError, ErrorKind};
use tw_wire::client_request::RequestError;
use tw_wire::format::WireFormat;
use tw_wire::response_socket;

use crate::answer_body::json;
use crate::gateway::TURN_HEADER;
use crate::server::RequestId;
use money::put_spent;
use no_room::put_standing;
use quota::put_tokens;

/// An error as a client is answered with it.
#[derive(Clone, Debug)]
pub struct ApiError {
    error: ClientError,
    retry_after_s: Option<u32>,
    /// Value of `x-should-retry`, which the official clients obey before their own judgement.
    should_retry: Option<bool>,
    turn: Option<TurnId>,
    /// Standing of the limit of requests.
    requests: Option<BucketStanding>,
    /// The limit of a month's money that is spent.
    spent: Option<SpentLimit>,
    /// The quota of tokens that is used up.
    tokens: Option<TokensReached>,
}

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Seconds after which a refused request may be sent again: the time a short queue takes to drain.
const OVERLOAD_RETRY_AFTER_S: u32 = 1;
/// Seconds after which to come back to an upstream that is at its limit and does not say.
const LIMITED_RETRY_AFTER_S: u32 = 1;
/// The format in which routes answer that are no surface of a model: those of records, tools and keys.
pub(crate) const FORMAT_DEFAULT: WireFormat = WireFormat::OpenAiChat;
/// Longest path that an error repeats, in characters.
const PATH_SHOWN_MAX: usize = 200;

impl ApiError {
    fn new(kind: ErrorKind, code: Option<&str>, message: impl Into<String>) -> Self {
        Self::of(ClientError::new(kind, code, message))
    }

    fn of(error: ClientError) -> Self {
        Self {
            error,
            retry_after_s: None,
            should_retry: None,
            turn: None,
            requests: None,
            spent: None,
            tokens: None,
        }
    }

    pub(crate) fn invalid(
        param: Option<&str>,
        code: Option<&str>,
        message: impl Into<String>,
    ) -> Self {
        let mut error = Self::new(ErrorKind::Invalid, code, message);
        error.error.param = param.map(str::to_owned);
        error
    }

    pub(crate) fn too_large(bytes_max: usize) -> Self {
        Self::new(
            ErrorKind::TooLarge,
            Some("request_too_large"),
            format!("The request body is larger than {bytes_max} bytes."),
        )
    }

    pub(crate) fn body_timeout() -> Self {
        Self::new(
            ErrorKind::BodyTimeout,
            Some("request_timeout"),
            "The request body did not arrive in time.",
        )
    }

    pub(crate) fn body_broken() -> Self {
        Self::invalid(None, None, "The request body could not be read to its end.")
    }

    /// The error of a request without a key; `own_header` may hold one as well as `Authorization`.
    pub(crate) fn no_key(own_header: Option<&str>) -> Self {
        let own = own_header.map_or_else(String::new, |name| format!("'{name}: KEY' or "));
        let message = format!("No API key was given: send it as {own}'Authorization: Bearer KEY'.");
        Self::new(ErrorKind::Unauthenticated, Some("missing_api_key"), message)
    }

    pub(crate) fn wrong_key() -> Self {
        Self::new(
            ErrorKind::Unauthenticated,
            Some("invalid_api_key"),
            "Incorrect API key provided. The keys of this server begin with 'tw-'; whoever runs it makes them with \
             'turnwright keys create'.",
        )
    }

    pub(crate) fn expired_key() -> Self {
        Self::new(
            ErrorKind::Unauthenticated,
            Some("expired_api_key"),
            "Incorrect API key provided: it has expired or was revoked. Whoever runs this server makes another one \
             with 'turnwright keys create'.",
        )
    }

    pub(crate) fn out_of_scope(scope: &str) -> Self {
        Self::new(
            ErrorKind::Forbidden,
            Some("insufficient_scope"),
            format!("The API key lacks the scope '{scope}'."),
        )
    }

    pub(crate) fn no_turn() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("not_found"),
            "There is no such turn.",
        )
    }

    pub(crate) fn no_conversation() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("not_found"),
            "There is no such conversation.",
        )
    }

    /// The error of a model that is not there. The name is the client's own and may be of any
    /// length, so it is not repeated.
    pub(crate) fn no_model() -> Self {
        let mut error = Self::new(
            ErrorKind::NotFound,
            Some("model_not_found"),
            "There is no such model here; GET /v1/models lists those that there are.",
        );
        error.error.param = Some("model".to_owned());
        error
    }

    /// The error of a list of models when no upstream says which models it has, and the config names none.
    pub(crate) fn no_list(missing: &[UnlistedUpstream]) -> Self {
        let each = missing
            .iter()
            .map(|one| format!("'{}' {}", one.name, one.reason));
        let reasons: Vec<String> = each.collect();
        Self::new(
            ErrorKind::UpstreamFailed,
            Some("upstream_failed"),
            format!(
                "No upstream gave its list of models: {}.",
                reasons.join("; ")
            ),
        )
    }

    /// The error of a relayed request that names no model, and whose API has no default.
    pub(crate) fn no_model_named() -> Self {
        let message = "Missing required parameter: 'model'.";
        Self::invalid(Some("model"), Some("missing_required_parameter"), message)
    }

    pub(crate) fn no_organization() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("not_found"),
            "There is no such organization.",
        )
    }

    pub(crate) fn no_tool() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("not_found"),
            "There is no such tool.",
        )
    }

    pub(crate) fn damaged_tool() -> Self {
        Self::new(
            ErrorKind::Internal,
            Some("damaged_tool"),
            "The stored definition cannot be read.",
        )
    }

    pub(crate) fn of_tool(error: &ToolError, id: &RequestId) -> Self {
        let conflict = |code| {
            let message = capitalized(&error.to_string());
            Self::new(ErrorKind::Conflict, Some(code), message)
        };
        match error {
            ToolError::Invalid(wrong) => {
                let message = format!("{}: {}.", wrong.field, wrong.problem);
                Self::invalid(Some(&wrong.field), Some("invalid_tool"), message)
            }
            ToolError::Arguments(problem) => {
                Self::invalid(Some("arguments"), Some("invalid_arguments"), problem)
            }
            ToolError::NotFound => Self::no_tool(),
            ToolError::NameTaken => {
                let mut taken = conflict("name_taken");
                taken.error.param = Some("name".to_owned());
                taken
            }
            ToolError::Conflict => conflict("changed_meanwhile"),
            ToolError::TooMany(_) => conflict("too_many_tools"),
            ToolError::TooLarge(_) => conflict("tools_too_large"),
            ToolError::Damaged => Self::damaged_tool(),
            ToolError::Read(error) => Self::of_read(error, id),
            ToolError::Write(_) => {
                let _ = Self::internal(error, id);
                Self::unavailable("The change may not have been recorded; look and try again.")
            }
        }
    }

    pub(crate) fn no_end_user() -> Self {
        let message = "There is no such end user.";
        Self::new(ErrorKind::NotFound, Some("end_user_not_found"), message)
    }

    pub(crate) fn no_key_of_id() -> Self {
        Self::new(
            ErrorKind::NotFound,
            Some("not_found"),
            "There is no such key.",
        )
    }

    pub(crate) fn of_key(error: &ManageKeyError, id: &RequestId) -> Self {
        match error {
            ManageKeyError::Invalid { field, problem } => {
                let message = format!("{field}: {problem}.");
                Self::invalid(Some(field), Some("invalid_key"), message)
            }
            ManageKeyError::Beyond { field, problem } => {
                let message = format!("{field}: {problem}.");
                let mut beyond = Self::new(ErrorKind::Forbidden, Some("insufficient_key"), message);
                beyond.error.param = Some((*field).to_owned());
                beyond
            }
            ManageKeyError::NotFound => Self::no_key_of_id(),
            ManageKeyError::Ended => {
                let message = "The key has ended; make another one.";
                Self::new(ErrorKind::Conflict, Some("key_ended"), message)
            }
            ManageKeyError::Read(error) => Self::of_read(error, id),
            ManageKeyError::Write(_) => {
                let _ = Self::internal(error, id);
                Self::unavailable("The change may not have been recorded; look and try again.")
            }
        }
    }

    pub(crate) fn offset_lost() -> Self {
        Self::new(
            ErrorKind::Gone,
            Some("offset_lost"),
            "The log does not hold what was shown there; read it from its start.",
        )
    }

    pub(crate) fn no_route(method: &str, path: &str, paths: &[String]) -> Self {
        let path: String = path.chars().take(PATH_SHOWN_MAX).collect();
        Self::new(
            ErrorKind::NotFound,
            Some("unknown_url"),
            format!(
                "Unknown request URL: {method} {path}. There are: {}.",
                paths.join(", ")
            ),
        )
    }

    pub(crate) fn no_method(method: &str, path: &str) -> Self {
        let path: String = path.chars().take(PATH_SHOWN_MAX).collect();
        Self::new(
            ErrorKind::MethodNotAllowed,
            Some("method_not_allowed"),
            format!("{method} is not a method of {path}."),
        )
    }

    /// The error of a turn whose driver is gone before its end; the turn goes on elsewhere or later.
    pub(crate) fn handed_over(turn: TurnId) -> Self {
        let mut error =
            Self::unavailable("The server stopped before the answer; send the request again.");
        error.turn = Some(turn);
        error
    }

    pub(crate) fn unavailable(message: &str) -> Self {
        let mut error = Self::new(ErrorKind::Unavailable, Some("unavailable"), message);
        error.retry_after_s = Some(OVERLOAD_RETRY_AFTER_S);
        error
    }

    /// The error of a fault of ours. What happened goes to the log; the client gets the request id.
    pub(crate) fn internal(error: &dyn std::error::Error, id: &RequestId) -> Self {
        tracing::error!(request.id = %id.0, error = %ErrorChain(error), "a request failed");
        Self::new(
            ErrorKind::Internal,
            None,
            "The server failed; its log knows more under this request id.",
        )
    }

    pub(crate) fn of_request(error: &RequestError) -> Self {
        Self::of(ClientError::of_request(error))
    }

    /// The error of a turn that ended with a fault before anything of its answer was sent.
    pub(crate) fn of_end(turn: TurnId, fault: &TurnFault, effects: &[EffectRan]) -> Self {
        if !effects.is_empty() {
            return Self::effects_ran(turn, Some(fault), effects);
        }
        let mut error = Self::of_fault(fault);
        error.turn = Some(turn);
        error
    }

    /// The error of a fault before anything of the answer was sent.
    fn of_fault(fault: &TurnFault) -> Self {
        let should_retry = match fault.class {
            // A repetition would only be told the same.
            FaultClass::Deadline | FaultClass::Cancelled => Some(false),
            // The upstream was asked as often as it makes sense. An official client asks three
            // times by itself, each of which would ask the upstream three times.
            FaultClass::UpstreamFailed
            | FaultClass::UpstreamReported
            | FaultClass::UpstreamLimited
            | FaultClass::UpstreamSilent => Some(false),
            FaultClass::Refused { .. } | FaultClass::Interrupted | FaultClass::Internal => None,
        };
        Self {
            error: ClientError::of_fault(fault),
            retry_after_s: match fault.class {
                FaultClass::UpstreamLimited if fault.is_used_up() => fault.retry_after_s,
                FaultClass::UpstreamLimited => {
                    Some(fault.retry_after_s.unwrap_or(LIMITED_RETRY_AFTER_S))
                }
                FaultClass::Refused { .. }
                | FaultClass::UpstreamFailed
                | FaultClass::UpstreamReported
                | FaultClass::UpstreamSilent
                | FaultClass::Deadline
                | FaultClass::Interrupted
                | FaultClass::Cancelled
                | FaultClass::Internal => fault.retry_after_s,
            },
            should_retry,
            turn: None,
            requests: None,
            spent: None,
            tokens: None,
        }
    }

    /// The error of a relayed request that was refused; `default` is the model that it was given since it named none.
    pub(crate) fn of_relay_refusal(refused: &RelayRefused, default: Option<&str>) -> Self {
        match refused {
            RelayRefused::NoRoom(no_room) => Self::no_room(no_room),
            RelayRefused::ShuttingDown => Self::unavailable("The server is shutting down."),
            RelayRefused::UnknownModel => match default {
                Some(model) => {
                    let message = format!(
                        "The request names no model, and no upstream here serves '{model}', which would stand for it."
                    );
                    Self::invalid(Some("model"), Some("missing_required_parameter"), message)
                }
                None => Self::no_model(),
            },
            RelayRefused::Failed(fault) => Self::of_fault(fault),
        }
    }

    /// The error of a request whose tokens are not counted.
    pub(crate) fn of_count_refusal(refused: &CountRefused, id: &RequestId) -> Self {
        match refused {
            CountRefused::Turn(refused) => Self::of_refusal(refused, id),
            CountRefused::Relay(refused) => Self::of_relay_refusal(refused, None),
            CountRefused::NoCounter => {
                let message = "No upstream that serves this model counts tokens: only those of the kinds 'anthropic' \
                               and 'openai_responses' can.";
                let mut error = Self::new(ErrorKind::NotFound, Some("not_counted"), message);
                error.error.param = Some("model".to_owned());
                error
            }
        }
    }

    /// The error of a compaction for which the model wrote nothing.
    pub(crate) fn no_summary() -> Self {
        let message = "The model gave no summary of the conversation.";
        Self::new(ErrorKind::UpstreamFailed, Some("no_summary"), message)
    }

    /// The error of a request that may not be repeated, since calls that change the world were dispatched.
    pub(crate) fn effects_ran(
        turn: TurnId,
        fault: Option<&TurnFault>,
        effects: &[EffectRan],
    ) -> Self {
        let ran: Vec<String> = effects
            .iter()
            .map(|ran| format!("{} ({})", ran.name, ran.status.as_str()))
            .collect();
        let why = fault.map_or("An earlier try of this request failed", |fault| {
            fault.message.as_str()
        });
        let ran = if ran.is_empty() {
            "see the turn".to_owned()
        } else {
            ran.join(", ")
        };
        let message = format!(
            "{why}. Calls that must not be repeated had been made: {ran}. Turn {turn} holds the record; \
             the request is not tried again."
        );
        let mut error = Self::new(ErrorKind::EffectsRan, Some("effects_ran"), message);
        error.should_retry = Some(false);
        error.turn = Some(turn);
        error
    }

    pub(crate) fn of_refusal(refused: &TurnRefused, id: &RequestId) -> Self {
        match refused {
            TurnRefused::Invalid {
                message,
                param,
                code,
            } => Self::invalid(Some(param), Some(code), capitalized(message)),
            TurnRefused::KeyReused => Self::new(
                ErrorKind::KeyReused,
                Some("idempotency_key_reused"),
                "This idempotency key was used with another request body, or in another conversation.",
            ),
            TurnRefused::EffectsRan { turn, effects } => Self::effects_ran(*turn, None, effects),
            TurnRefused::DeletedEffectsRan => {
                let mut error = Self::new(
                    ErrorKind::EffectsRan,
                    Some("effects_ran"),
                    "An earlier try of this request was deleted. Calls that must not be repeated had been made; \
                     the request is not tried again.",
                );
                error.should_retry = Some(false);
                error
            }
            TurnRefused::NoRoom(no_room) => Self::no_room(no_room),
            TurnRefused::Spent(limit) => Self::spent(limit),
            TurnRefused::TokensReached(reached) => Self::tokens_reached(reached),
            TurnRefused::ShuttingDown => Self::unavailable("The server is shutting down."),
            TurnRefused::PreviousGone => Self::no_previous(),
            TurnRefused::NoSuchQuestion => Self::no_such_question(),
            TurnRefused::QuestionClosed => Self::question_closed(),
            TurnRefused::ConversationBusy => Self::conversation_locked(),
            TurnRefused::UnknownModel => Self::no_model(),
            TurnRefused::Write(_) => {
                let _ = Self::internal(refused, id);
                Self::unavailable("The request may not have been recorded; send it again.")
            }
            TurnRefused::Read(error) => Self::of_read(error, id),
        }
    }

    pub(crate) fn of_read(error: &ReadError, id: &RequestId) -> Self {
        let told = Self::internal(error, id);
        if error.may_pass() {
            Self::unavailable("The database cannot be read now; send the request again.")
        } else {
            told
        }
    }

    /// The event by which a WebSocket tells it.
    pub(crate) fn socket_event(&self, format: WireFormat, id: &RequestId) -> String {
        response_socket::error_event(&self.error, format.error_status(&self.error), &id.0)
    }

    /// The answer of a route that has no format of its own.
    pub(crate) fn render(&self, id: Option<&RequestId>) -> Response {
        self.render_in(FORMAT_DEFAULT, id)
    }

    /// The answer of a surface that speaks this format.
    pub(crate) fn render_in(&self, format: WireFormat, id: Option<&RequestId>) -> Response {
        let body = format.render_error(&self.error, id.map(|id| id.0.as_str()));
        let mut response = json(body);
        *response.status_mut() = StatusCode::from_u16(format.error_status(&self.error))
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(standing) = &self.requests {
            put_standing(headers, format, standing);
        }
        if let Some(limit) = &self.spent {
            put_spent(headers, limit);
        }
        if let Some(reached) = &self.tokens {
            put_tokens(headers, reached);
        }
        if let Some(should) = self.should_retry {
            headers.insert(
                SHOULD_RETRY,
                HeaderValue::from_static(if should { "true" } else { "false" }),
            );
        }
        if let Some(turn) = self.turn
            && let Ok(value) = HeaderValue::from_str(&turn.to_string())
        {
            headers.insert(TURN_HEADER, value);
        }
        response
    }
}

fn capitalized(message: &str) -> String {
    let mut chars = message.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str()),
        None => String::new(),
    }
}
