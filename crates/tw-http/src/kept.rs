//! Answers that are kept for their clients: which of them a request may use, and what is in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tw_core::id::{OrgId, TurnId};
use tw_core::json::shared::SharedText;
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::auth::Principal;
use tw_runtime::chain::{ChainHistory, ChainKept, ChainWanted};
use tw_runtime::retold::{self, TextsShown};
use tw_store::read::ReadError;
use tw_store::read::turn::TurnRow;
use tw_store::read::view::ResultDetail;
use tw_wire::client_request::body_text;
use tw_wire::format::{ItemOrigin, KeptItems, Projection, WholeFold};
use tw_wire::stored::context::TurnContext;

use crate::access::TurnReader;
use crate::error::ApiError;
use crate::gateway::RequestOrigin;
use crate::server::AppState;

/// Turns that the references of one request may lead to.
const REFERENCED_TURNS_MAX: usize = 256;
/// Events of one read of a log.
const PAGE_EVENTS_MAX: usize = 1024;

/// A turn that was made by a surface, and is kept for its client.
pub(crate) struct KeptAnswer {
    pub(crate) row: TurnRow,
    pub(crate) context: TurnContext,
}

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

/// A turn's answer as its log has it now; `None` if the log is not kept any more.
async fn folded(
    surfaces: &AppState,
    organization: OrgId,
    turn: TurnId,
    projection: Projection,
) -> Result<Option<WholeFold>, ReadError> {
    let store = surfaces.runtime().store();
    let mut fold = WholeFold::new(turn, projection);
    let mut after = 0;
    loop {
        let page = store.events_after(organization, turn, after, PAGE_EVENTS_MAX);
        let Some(page) = page.await?.filter(|page| !page.erased && !page.deleted) else {
            return Ok(None);
        };
        for numbered in &page.events {
            fold.push(&numbered.event);
            after = numbered.number;
        }
        if after >= page.last || page.events.is_empty() {
            return Ok(Some(fold));
        }
    }
}

impl KeptAnswer {
    /// The answer as its log has it now, or the record where the log is not kept any more; `None` if nothing is.
    pub(crate) async fn folded(&self, surfaces: &AppState) -> Result<Option<WholeFold>, ReadError> {
        let TurnRow {
            id, organization, ..
        } = self.row;
        let projection = self.context.projection.clone();
        let of_log = folded(surfaces, organization, id, projection.clone()).await?;
        if of_log.is_some() || !self.row.status.is_final() {
            return Ok(of_log);
        }
        let store = surfaces.runtime().store();
        let view = store
            .turn_view(organization, id, ResultDetail::Shown)
            .await?;
        let Some(view) = view.filter(|view| view.turn.erased.is_none()) else {
            return Ok(None);
        };
        let texts = self.texts_shown(surfaces).await?;
        let mut fold = WholeFold::new(id, projection);
        for event in retold::log_of(&view, texts) {
            fold.push(&event);
        }
        Ok(Some(fold))
    }

    /// The texts that the client was shown. Of an answer that is one JSON text, and was made with tools of this server,
    /// only those of its last round were.
    async fn texts_shown(&self, surfaces: &AppState) -> Result<TextsShown, ReadError> {
        if self.context.tools.is_none() {
            return Ok(TextsShown::OfAllRounds);
        }
        let TurnRow {
            id, organization, ..
        } = self.row;
        let body = surfaces.runtime().store().turn_body(organization, id);
        let body = body_text(body.await?.unwrap_or_default()).unwrap_or_default();
        let limits = surfaces.runtime().request_limits();
        let request = self
            .context
            .projection
            .format()
            .decode_request(&body, limits);
        Ok(match request {
            Ok(request) if request.input.is_structured => TextsShown::OfLastRound,
            Ok(_) | Err(_) => TextsShown::OfAllRounds,
        })
    }

    /// The items of its input, by their ids.
    pub(crate) async fn input_items(
        &self,
        surfaces: &AppState,
    ) -> Result<Vec<(String, tw_core::json::Json)>, ReadError> {
        let TurnRow {
            id, organization, ..
        } = self.row;
        let body = surfaces.runtime().store().turn_body(organization, id);
        let body = body.await?.unwrap_or_default();
        // It was read as text when it came.
        let body = body_text(body).unwrap_or_default();
        Ok(self.context.projection.format().input_items(&body, id))
    }
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
        let items = answer.items(of.surfaces).await;
        let items = items.map_err(|error| ApiError::of_read(&error, of.id))?;
        let wanted = items.into_iter().filter(|(id, _)| ids.contains(&&**id));
        known.extend(wanted);
    }
    Ok(format.with_items(&body, &known))
}

impl KeptAnswer {
    /// The items of its input and output, by their ids; none of one that has not ended.
    async fn items(
        &self,
        surfaces: &AppState,
    ) -> Result<Vec<(String, tw_core::json::Json)>, ReadError> {
        if !self.row.status.is_final() {
            return Ok(Vec::new());
        }
        let mut items = self.input_items(surfaces).await?;
        if let Some(fold) = self.folded(surfaces).await? {
            items.extend(fold.items());
        }
        Ok(items)
    }
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
