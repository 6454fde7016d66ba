//! Turns as they are read again later: the answer by its log or its record, and the items of both sides.

use tw_core::conversation::ItemSource;
use tw_core::id::TurnId;
use tw_core::json::Json;
use tw_core::json::shared::SharedText;
use tw_core::request::Role;
use tw_store::read::ReadError;
use tw_store::read::turn::TurnRow;
use tw_store::read::view::ResultDetail;
use tw_wire::client_request::body_text;
use tw_wire::format::{ClientRequest, Projection, WholeFold, WireFormat};
use tw_wire::stored::context::TurnContext;

use crate::retold::{self, TextsShown};
use crate::runtime::Runtime;

/// Events of one read of a log.
const PAGE_EVENTS_MAX: usize = 1024;

/// A turn with what its answer is written by.
#[derive(Clone, Debug)]
pub struct KeptAnswer {
    pub row: TurnRow,
    pub context: TurnContext,
}

impl KeptAnswer {
    /// The answer as its log has it now, or the record where the log is not kept any more; `None` if nothing is.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn folded(&self, runtime: &Runtime) -> Result<Option<WholeFold>, ReadError> {
        self.folded_as(runtime, self.context.projection.clone())
            .await
    }

    async fn folded_as(
        &self,
        runtime: &Runtime,
        projection: Projection,
    ) -> Result<Option<WholeFold>, ReadError> {
        let TurnRow {
            id, organization, ..
        } = self.row;
        let of_log = self.folded_log(runtime, projection.clone()).await?;
        if of_log.is_some() || !self.row.status.is_final() {
            return Ok(of_log);
        }
        let view = runtime
            .store()
            .turn_view(organization, id, ResultDetail::Shown)
            .await?;
        let Some(view) = view.filter(|view| view.turn.erased.is_none()) else {
            return Ok(None);
        };
        let texts = self.texts_shown(runtime).await?;
        let mut fold = WholeFold::new(id, projection);
        for event in retold::log_of(&view, texts) {
            fold.push(&event);
        }
        Ok(Some(fold))
    }

    /// The answer as the log has it now; `None` if the log is not kept any more.
    async fn folded_log(
        &self,
        runtime: &Runtime,
        projection: Projection,
    ) -> Result<Option<WholeFold>, ReadError> {
        let TurnRow {
            id, organization, ..
        } = self.row;
        let mut fold = WholeFold::new(id, projection);
        let mut after = 0;
        loop {
            let page = runtime
                .store()
                .events_after(organization, id, after, PAGE_EVENTS_MAX);
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

    /// The texts that the client was shown. Of an answer that is one JSON text, and was made with tools of this server,
    /// only those of its last round were.
    async fn texts_shown(&self, runtime: &Runtime) -> Result<TextsShown, ReadError> {
        if self.context.tools.is_none() {
            return Ok(TextsShown::OfAllRounds);
        }
        Ok(match self.request(runtime).await? {
            Some(request) if request.input.is_structured => TextsShown::OfLastRound,
            Some(_) | None => TextsShown::OfAllRounds,
        })
    }

    /// The request as it was read; `None` if it is not kept any more.
    async fn request(&self, runtime: &Runtime) -> Result<Option<ClientRequest>, ReadError> {
        let body = self.body(runtime).await?;
        let format = self.context.projection.format();
        let request = format.decode_request(&body, runtime.request_limits());
        Ok(request.ok())
    }

    async fn body(&self, runtime: &Runtime) -> Result<SharedText, ReadError> {
        let TurnRow {
            id, organization, ..
        } = self.row;
        let body = runtime.store().turn_body(organization, id).await?;
        // It was read as text when it came.
        Ok(body_text(body.unwrap_or_default()).unwrap_or_default())
    }

    /// The items of its input, by their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn input_items(&self, runtime: &Runtime) -> Result<Vec<(String, Json)>, ReadError> {
        let body = self.body(runtime).await?;
        let format = self.context.projection.format();
        Ok(format.input_items(&body, self.row.id))
    }

    /// The items that it adds to its conversation, oldest first, by ids that tell the turn.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn conversation_items(
        &self,
        runtime: &Runtime,
        include: &[String],
    ) -> Result<Vec<(String, Json)>, ReadError> {
        let mut items = self.brought_items(runtime).await?;
        match self.row.item_source {
            Some(ItemSource::Client) => return Ok(items),
            Some(ItemSource::Answer) | None => {}
        }
        let projection = self.context.projection.clone();
        let mut projection = projection.read_as(WireFormat::OF_ITEMS);
        for what in include {
            projection.include(what);
        }
        if let Some(fold) = self.folded_as(runtime, projection).await? {
            items.extend(fold.items());
        }
        Ok(items)
    }

    /// The items of its request that no turn before it has.
    async fn brought_items(&self, runtime: &Runtime) -> Result<Vec<(String, Json)>, ReadError> {
        let turn: TurnId = self.row.id;
        let projection = &self.context.projection;
        let format = projection.format();
        let repeats = self.row.parent.is_some() && !projection.follows_others();
        if !repeats && format == WireFormat::OF_ITEMS {
            let body = self.body(runtime).await?;
            return Ok(format.conversation_items(&body, None, turn));
        }
        let Some(request) = self.request(runtime).await? else {
            return Ok(Vec::new());
        };
        let messages = &request.input.messages;
        let said_before = messages
            .iter()
            .rposition(|message| message.role == Role::Assistant);
        let from = said_before.filter(|_| repeats).map_or(0, |at| at + 1);
        let added = Some(&messages[from..]);
        Ok(format.conversation_items(&SharedText::default(), added, turn))
    }
}
