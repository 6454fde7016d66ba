//! A response by its id, for those who may see it.

use tw_core::conversation::ItemSource;
use tw_core::tenant::KeyScope;
use tw_runtime::kept_answer::KeptAnswer;
use tw_wire::format::WholeFold;

use super::SURFACE;
use crate::access::TurnReader;
use crate::error::ApiError;
use crate::gateway::RequestOrigin;
use crate::kept;

/// The response of an id; one that the reader does not see is not found.
pub(super) async fn found(
    of: &RequestOrigin<'_>,
    reader: &TurnReader,
    name: &str,
) -> Result<KeptAnswer, ApiError> {
    let turn = SURFACE.format.turn_of_answer(name);
    let turn = turn.ok_or_else(ApiError::no_response)?;
    let answer = kept::find(of, reader, turn).await?;
    // Items that a client added have no answer; one that was not to be stored is there for its conversation alone.
    let is_response = |answer: &KeptAnswer| {
        answer.row.item_source != Some(ItemSource::Client) && answer.context.projection.is_kept()
    };
    answer.filter(is_response).ok_or_else(ApiError::no_response)
}

/// Whether the reader may change what it sees: what is not its own is an administrator's.
pub(super) fn check_change(reader: &TurnReader, answer: &KeptAnswer) -> Result<(), ApiError> {
    let caller = &reader.caller;
    if answer.row.api_key != caller.api_key && !caller.may(KeyScope::Admin) {
        return Err(ApiError::out_of_scope(KeyScope::Admin.as_str()));
    }
    Ok(())
}

/// The response as it is now.
pub(super) async fn folded(
    of: &RequestOrigin<'_>,
    answer: &KeptAnswer,
) -> Result<WholeFold, ApiError> {
    let fold = answer.folded(of.surfaces.runtime()).await;
    let fold = fold.map_err(|error| ApiError::of_read(&error, of.id))?;
    fold.ok_or_else(ApiError::response_expired)
}
