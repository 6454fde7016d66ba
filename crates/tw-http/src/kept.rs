//! Answers that are kept for their clients: which of them a request may use, and what is in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tw_core::id::TurnId;
use tw_core::json::shared::SharedText;
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::auth::Principal;
use tw_runtime::chain::{ChainError, ChainHistory, ChainKept, ChainWanted};
use tw_runtime::conversation_items::ConversationHistory;
use tw_runtime::kept_answer::KeptAnswer;
use tw_store::read::ReadError;
use tw_store::read::turn::TurnRow;
use tw_wire::format::{ItemOrigin, KeptItems, Projection};

use crate::access::TurnReader;
use crate::error::ApiError;
use crate::gateway::RequestOrigin;
use crate::server::AppState;

/// Turns that the references of one request may lead to.
const REFERENCED_TURNS_MAX: usize = 256;
/// The reader that a request is as it uses what is kept: a named end user sees their own alone.
pub(crate) fn reader(caller: &Principal, end_user: Option<String>) -> TurnReader {
    TurnReader {
        caller: caller.clone(),
        whose: TurnOwner {
            api_key: (!caller.may(KeyScope::TurnsReadAll)).then_some(caller.api_key),
            end_user,
        },
    }
}

/// A kept answer, if the reader may see it.
pub(crate) async fn find(
    of: &RequestOrigin<'_>,
    reader: &TurnReader,
    turn: TurnId,
) -> Result<Option<KeptAnswer>, ApiError> {
    let store = of.surfaces.runtime().store();
    let found = store.turn_with_context(reader.caller.organization, turn);
    let found = found
        .await
        .map_err(|error| ApiError::of_read(&error, of.id))?;
    let is_kept = |row: &TurnRow| {
        row.surface == of.surface.surface && row.record == RecordPolicy::Full && reader.sees(row)
    };
    Ok(found
        .filter(|(row, _)| is_kept(row))
        .map(|(row, context)| KeptAnswer { row, context }))
}

/// The body with the items themselves where it refers to kept ones. One that is not there stays a reference, which the
/// reading of the body refuses.
pub(crate) async fn with_items(
    of: &RequestOrigin<'_>,
    caller: &Principal,
    end_user: Option<String>,
    body: SharedText,
) -> Result<SharedText, ApiError> {
    let format = of.surface.format;
    let ids = format.item_references(&body);
    if ids.is_empty() {
        return Ok(body);
    }
    let reader = reader(caller, end_user);
    let organization = caller.organization;
    let store = of.surfaces.runtime().store();
    let mut by_turn: BTreeMap<TurnId, Vec<&str>> = BTreeMap::new();
    for id in &ids {
        let turn = match format.item_origin(id) {
            Some(ItemOrigin::Turn(turn)) => Some(turn),
            Some(ItemOrigin::Call(call)) => {
                let turn = store.turn_of_call(organization, call).await;
                turn.map_err(|error| ApiError::of_read(&error, of.id))?
            }
            None => None,
        };
        let Some(turn) = turn else {
            continue;
        };
        by_turn.entry(turn).or_default().push(id);
        if by_turn.len() > REFERENCED_TURNS_MAX {
            let message = format!(
                "The items that 'input' refers to are of more than {REFERENCED_TURNS_MAX} responses."
            );
            return Err(ApiError::invalid(
                Some("input"),
                Some("array_above_max_length"),
                message,
            ));
        }
    }
    let mut known = KeptItems::new();
    for (turn, ids) in by_turn {
        let Some(answer) = find(of, &reader, turn).await? else {
            continue;
        };
        let items = items_of(&answer, of.surfaces).await;
        let items = items.map_err(|error| ApiError::of_read(&error, of.id))?;
        let wanted = items.into_iter().filter(|(id, _)| ids.contains(&&**id));
        known.extend(wanted);
    }
    Ok(format.with_items(&body, &known))
}

/// The items of its input and output, by their ids; none of one that has not ended. Those of its input have a second id,
/// under which their conversation has them.
async fn items_of(
    answer: &KeptAnswer,
    surfaces: &AppState,
) -> Result<Vec<(String, tw_core::json::Json)>, ReadError> {
    if !answer.row.status.is_final() {
        return Ok(Vec::new());
    }
    let runtime = surfaces.runtime();
    let mut items = answer.input_items(runtime).await?;
    items.extend(answer.conversation_items(runtime, &[]).await?);
    Ok(items)
}

/// What a request is put behind, if it continues an answer by name.
pub(crate) async fn previous(
    of: &RequestOrigin<'_>,
    caller: &Principal,
    end_user: Option<&str>,
    projection: &Projection,
) -> Result<Option<Arc<ChainHistory>>, ApiError> {
    let Some(name) = projection.continues() else {
        return Ok(None);
    };
    let turn = of.surface.format.turn_of_answer(name);
    let wanted = ChainWanted {
        caller,
        end_user,
        surface: of.surface.surface,
        turn: turn.ok_or_else(ApiError::no_previous)?,
        kept: ChainKept::Stored,
    };
    let chain = of.surfaces.runtime().chain(wanted).await;
    let chain = chain.map_err(|error| ApiError::of_chain(&error, of.id))?;
    Ok(Some(Arc::new(chain)))
}

/// The conversation that a request is made in, if it names one, with what was said in it before.
pub(crate) async fn conversation(
    of: &RequestOrigin<'_>,
    caller: &Principal,
    end_user: Option<&str>,
    projection: &Projection,
) -> Result<Option<ConversationHistory>, ApiError> {
    let Some(name) = projection.conversation() else {
        return Ok(None);
    };
    if caller.record != RecordPolicy::Full {
        return Err(ApiError::conversation_unstored());
    }
    let history = of.surfaces.runtime();
    let history = history.conversation_history(caller, name, end_user).await;
    match history {
        Ok(history) => Ok(Some(history)),
        Err(ChainError::NotFound) => Err(ApiError::no_such_conversation()),
        Err(error) => Err(ApiError::of_chain_in(&error, "conversation", of.id)),
    }
}
