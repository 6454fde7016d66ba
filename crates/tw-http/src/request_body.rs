//! Reading the bodies of requests within their limits.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::ApiError;
use crate::server::{AppState, BODY_UNIT_BYTES};

/// Most bytes of the body of a refused request that are read and dropped: most clients hear an
/// answer only when they have sent theirs, and see a broken connection otherwise.
const DROPPED_BYTES_MAX: usize = 1024 * 1024;
/// Longest time for the reading of what is dropped.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

/// Reads the body within its own limit and within that of all bodies together, of which only
/// what has arrived counts. There is no queue: without room the request is refused.
///
/// One that is too large is read on and dropped, up to as much again: a client that is still
/// sending would else see a broken connection instead of the answer.
pub(crate) async fn read_body(
    surfaces: &AppState,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let bodies = &surfaces.0.bodies;
    read_body_within(bodies, surfaces, headers, body, bytes_max).await
}

/// The same of a body that has room of its own.
pub(crate) async fn read_body_within(
    bodies: &Semaphore,
    surfaces: &AppState,
    headers: &HeaderMap,
    mut body: Body,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    let keeps_max = if length.is_some_and(|length| length > bytes_max) {
        if headers.contains_key(EXPECT) {
            // It has not begun to send, and reading would ask it to.
            return Err(ApiError::too_large(bytes_max));
        }
        0
    } else {
        bytes_max
    };
    let read = async {
        if units(length.unwrap_or(0).min(keeps_max)) > bodies.available_permits() {
            return Err(refused(headers, body, ApiError::overloaded()).await);
        }
        let mut held: Option<SemaphorePermit<'_>> = None;
        let (mut kept, mut bytes) = (Vec::new(), 0usize);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| ApiError::body_broken())?.into_data() else {
                continue;
            };
            bytes = bytes.saturating_add(data.len());
            if bytes <= keeps_max {
                let more = units(bytes) - held.as_ref().map_or(0, SemaphorePermit::num_permits);
                let Ok(more) = bodies.try_acquire_many(u32::try_from(more).unwrap_or(u32::MAX))
                else {
                    drop((kept, held));
                    return Err(refused(headers, body, ApiError::overloaded()).await);
                };
                match &mut held {
                    Some(held) => held.merge(more),
                    None => held = Some(more),
                }
                if kept.capacity() < bytes {
                    // By doubling, but not beyond what was announced: the room stays with the body.
                    let grown = kept.capacity().saturating_mul(2);
                    let wanted = grown.min(length.unwrap_or(grown)).max(bytes);
                    kept.reserve_exact(wanted - kept.len());
                }
                kept.extend_from_slice(&data);
            } else {
                kept = Vec::new();
                held = None;
            }
            if bytes > bytes_max.saturating_mul(2) {
                break;
            }
        }
        if bytes > keeps_max {
            return Err(ApiError::too_large(bytes_max));
        }
        Ok(Bytes::from(kept))
    };
    tokio::time::timeout(surfaces.0.options.body_timeout, read)
        .await
        .unwrap_or_else(|_elapsed| Err(ApiError::body_timeout()))
}

/// The refusal of a request whose body was not read, when the client can hear it.
pub(crate) async fn refused(headers: &HeaderMap, mut body: Body, error: ApiError) -> ApiError {
    if headers.contains_key(EXPECT) {
        // The client asks before it sends.
        return error;
    }
    let dropped = async {
        let mut bytes = 0usize;
        while let Some(Ok(frame)) = body.frame().await {
            bytes = bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            if bytes > DROPPED_BYTES_MAX {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DROPPED_WITHIN, dropped).await;
    error
}

/// Units that so many bytes take.
fn units(bytes: usize) -> usize {
    bytes / BODY_UNIT_BYTES + 1
}
