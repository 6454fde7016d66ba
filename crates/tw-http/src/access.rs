//! Who asks, and whether they may.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tw_core::change::Scope;
use tw_runtime::admin::{AuthenticateError, Caller};

use crate::error::ApiError;
use crate::server::{RequestId, Surfaces};

/// Resolves the request's key and checks one scope.
pub(crate) async fn caller(
    surfaces: &Surfaces,
    headers: &HeaderMap,
    scope: Option<Scope>,
    id: &RequestId,
) -> Result<Caller, ApiError> {
    let given = headers.get(AUTHORIZATION).ok_or_else(ApiError::no_key)?;
    let given = given.to_str().map_err(|_| ApiError::wrong_key())?;
    let key = match given.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
        Some(_) | None => return Err(ApiError::no_key()),
    };
    if key.is_empty() {
        return Err(ApiError::no_key());
    }
    let caller = surfaces
        .runtime()
        .authenticate(key)
        .await
        .map_err(|error| match error {
            AuthenticateError::Unknown => ApiError::wrong_key(),
            AuthenticateError::Expired => ApiError::expired_key(),
            AuthenticateError::Read(_) => ApiError::internal(&error, id),
        })?;
    match scope {
        Some(scope) if !caller.may(scope) => Err(ApiError::out_of_scope(scope.as_str())),
        Some(_) | None => Ok(caller),
    }
}
