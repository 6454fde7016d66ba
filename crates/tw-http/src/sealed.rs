//! Requests with sealed items: what a client was given to keep stands for itself again before anything else is read.

use tw_core::json::shared::SharedText;
use tw_runtime::auth::Principal;
use tw_runtime::sealing::SealFault;
use tw_wire::compaction::{BrokenSealAt, OpenedSeal};
use tw_wire::relayed::body;

use crate::error::ApiError;
use crate::gateway::RequestOrigin;

/// The request with what its sealed items stand for. Another server's stay as they are, if an upstream that may have
/// made them serves the model.
pub(crate) async fn opened(
    of: &RequestOrigin<'_>,
    caller: &Principal,
    request: SharedText,
) -> Result<SharedText, ApiError> {
    let (format, runtime) = (of.surface.format, of.surfaces.runtime());
    if !format.may_hold_sealed(&request) {
        return Ok(request);
    }
    let sealer = runtime.sealer().await;
    let sealer = sealer.map_err(|error| ApiError::of_read(&error, of.id))?;
    let open = |sealed: &str| match sealer.open(caller.organization, sealed) {
        Ok(content) => OpenedSeal::Content(content),
        Err(SealFault::Foreign) => OpenedSeal::Foreign,
        Err(SealFault::Broken) => OpenedSeal::Broken,
    };
    let unfolded = format.unfold(&request, open).map_err(not_opened)?;
    if let Some(at) = unfolded.foreign {
        let read = body::read(None, unfolded.body.as_str().as_bytes());
        let model = read.map_err(|error| ApiError::of_request(&error))?.model;
        // What is wrong with the name of the model is told by whoever reads it.
        if model.is_some_and(|model| runtime.serves(&model) && !runtime.serves_in(&model, format)) {
            return Err(not_opened(BrokenSealAt(at)));
        }
    }
    Ok(unfolded.body)
}

fn not_opened(BrokenSealAt(at): BrokenSealAt) -> ApiError {
    let param = format!("input[{at}].encrypted_content");
    let message = "The encrypted content of this item is not as this server made it for this organization: it was \
                   changed, or another server made it.";
    ApiError::invalid(Some(&param), Some("invalid_encrypted_content"), message)
}
