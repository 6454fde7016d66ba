//! Access: the principal of a request, and what it may see and do.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_runtime::auth::{AuthenticateError, Principal};
use tw_store::read::turn::TurnRow;
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::trace_context::TraceContext;

use crate::error::ApiError;
use crate::server::{AppState, RequestId};

/// The same for an end user and an idempotency key.
pub(crate) use tw_runtime::conversation_rows::NAME_BYTES_MAX;

/// A principal that looks at turns, and whose turns those are.
#[derive(Debug)]
pub(crate) struct TurnReader {
    pub(crate) caller: Principal,
    pub(crate) whose: TurnOwner,
}

/// Resolves the request's key and whom it asks for.
///
/// A key sees the turns it made, and with `turns:read_all` those of its organization. Where an end
/// user is named, only theirs.
pub(crate) async fn reader(
    surfaces: &AppState,
    headers: &HeaderMap,
    scope: Option<KeyScope>,
    id: &RequestId,
) -> Result<TurnReader, ApiError> {
    let caller = caller(surfaces, headers, scope, id).await?;
    let whose = TurnOwner {
        api_key: (!caller.may(KeyScope::TurnsReadAll)).then_some(caller.api_key),
        end_user: end_user(surfaces, headers)?,
    };
    Ok(TurnReader { caller, whose })
}

impl TurnReader {
    pub(crate) fn sees(&self, turn: &TurnRow) -> bool {
        let TurnOwner { api_key, end_user } = &self.whose;
        api_key.is_none_or(|key| key == turn.api_key)
            && (end_user.is_none() || *end_user == turn.end_user)
    }
}

/// Resolves the request's key and checks one scope.
pub(crate) async fn caller(
    surfaces: &AppState,
    headers: &HeaderMap,
    scope: Option<KeyScope>,
    id: &RequestId,
) -> Result<Principal, ApiError> {
    let key = given_key(headers, None)?;
    authenticated(surfaces, key, scope, id).await
}

/// The key that a request brings: in the header of that name, or as a bearer's token.
pub(crate) fn given_key<'a>(
    headers: &'a HeaderMap,
    own_header: Option<&'static str>,
) -> Result<&'a str, ApiError> {
    let no_key = || ApiError::no_key(own_header);
    let own = own_header.and_then(|name| headers.get(name));
    let (given, is_bearer) = match (own, headers.get(AUTHORIZATION)) {
        (Some(own), _) => (own, false),
        (None, Some(authorization)) => (authorization, true),
        (None, None) => return Err(no_key()),
    };
    let given = given.to_str().map_err(|_| ApiError::wrong_key())?;
    let key = match given.split_once(' ') {
        _ if !is_bearer => given.trim(),
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
        Some(_) | None => return Err(no_key()),
    };
    if key.is_empty() {
        return Err(no_key());
    }
    Ok(key)
}

/// Resolves a key and checks one scope.
pub(crate) async fn authenticated(
    surfaces: &AppState,
    key: &str,
    scope: Option<KeyScope>,
    id: &RequestId,
) -> Result<Principal, ApiError> {
    let caller = surfaces
        .runtime()
        .authenticate(key)
        .await
        .map_err(|error| match error {
            AuthenticateError::Unknown => ApiError::wrong_key(),
            AuthenticateError::Expired => ApiError::expired_key(),
            AuthenticateError::Read(error) => ApiError::of_read(&error, id),
        })?;
    match scope {
        Some(scope) if !caller.may(scope) => Err(ApiError::out_of_scope(scope.as_str())),
        Some(_) | None => Ok(caller),
    }
}

/// Whom the request is for, by the one of the configured headers that is there.
///
/// Two of them are refused like one that is there twice: the client must not choose which counts.
pub(crate) fn end_user(
    surfaces: &AppState,
    headers: &HeaderMap,
) -> Result<Option<String>, ApiError> {
    let mut found: Option<(&HeaderName, String)> = None;
    for name in &surfaces.0.options.end_user_headers {
        let Some(user) = named(headers, name.as_str())? else {
            continue;
        };
        if let Some((earlier, _)) = found {
            return Err(ApiError::invalid(
                Some(name.as_str()),
                None,
                format!("{earlier} and {name} both name the end user; send one of them."),
            ));
        }
        found = Some((name, user));
    }
    Ok(found.map(|(_, user)| user))
}

/// The headers that go to upstreams.
pub(crate) fn passed(headers: &HeaderMap) -> Result<PassedHeaders, ApiError> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    PassedHeaders::read(values).map_err(|error| {
        let message = format!("{error}.");
        ApiError::invalid(Some(error.name()), None, message)
    })
}

/// The client's trace, if this server is a part of it.
pub(crate) fn trace(surfaces: &AppState, headers: &HeaderMap) -> Option<TraceContext> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let is_traced = surfaces.runtime().traces();
    is_traced.then(|| TraceContext::read(values)).flatten()
}

/// A header that names something; an empty one counts as absent.
///
/// A second one is refused: of a name that a proxy adds, the client must not choose which counts.
pub(crate) fn named(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(ApiError::invalid(
            Some(name),
            None,
            format!("{name} must be there once."),
        ));
    }
    let printable = value
        .to_str()
        .ok()
        .map(str::trim)
        .filter(|text| text.len() <= NAME_BYTES_MAX);
    match printable {
        Some("") => Ok(None),
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(ApiError::invalid(
            Some(name),
            None,
            format!("{name} must be printable ASCII of at most {NAME_BYTES_MAX} bytes."),
        )),
    }
}
