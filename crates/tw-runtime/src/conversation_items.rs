//! The items of a conversation: read in pages, added and taken out.
//!
//! They are those of the turns on the path to the conversation's head, so nothing is stored twice: a turn that
//! completes moves the head, and its items are there with that write.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tw_core::change::{Change, EndTurn, EventFlush, NewMessage, NewTurn, Outcome, TurnChange};
use tw_core::conversation::{
    AddedItems, ChangeConversation, DeleteItem, ItemPlace, ItemSource, NewConversation,
};
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::id::{ApiKeyId, TurnId};
use tw_core::json::Json;
use tw_core::json::shared::SharedText;
use tw_core::memory::MemoryVerdict;
use tw_core::request::ModelInput;
use tw_core::request_changes::RequestChanges;
use tw_core::tenant::TurnOwner;
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::conversations::ListOrder;
use tw_store::read::items::{ConversationPath, PathStart, PathTurn};
use tw_wire::format::{ItemOrigin, Projection, WireFormat};
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::stored::context::{self, TurnContext};

use crate::accept::stored_role;
use crate::auth::Principal;
use crate::chain::{ChainError, ChainHistory};
use crate::conversations::Deletion;
use crate::kept_answer::KeptAnswer;
use crate::runtime::Runtime;

/// The beginning of the ids of conversations that clients make.
const ID_PREFIX: &str = "conv_";

/// The metadata of a conversation that has none.
const NO_METADATA: &str = "{}";

/// A part of a conversation's items.
#[derive(Clone, Debug)]
pub struct ItemsWanted {
    pub order: ListOrder,
    /// The item that the part follows.
    pub after: Option<String>,
    pub items_max: usize,
    /// What items leave out unless it is asked for.
    pub include: Vec<String>,
}

/// A part of a conversation's items, each by its id.
#[derive(Clone, Debug)]
pub struct ItemPage {
    pub items: Vec<(String, Json)>,
    pub has_more: bool,
}

/// An item of a conversation.
#[derive(Clone, Debug)]
pub struct FoundItem {
    pub id: String,
    pub json: Json,
    /// The turn that brought it or made it.
    pub turn: TurnId,
    /// The key of that turn.
    pub api_key: ApiKeyId,
    /// It is the last one that is left of those that a client added with one request.
    is_last_added: bool,
}

/// Items that a client adds.
#[derive(Debug)]
pub struct ItemsSent<'a> {
    pub caller: &'a Principal,
    /// The end user whose they are, if they are somebody's.
    pub end_user: Option<String>,
    /// The body whose input they are, and what was read of it.
    pub body: SharedText,
    pub input: Arc<ModelInput>,
    /// SHA-256 of the request, by which a repetition of it is known.
    pub sent_hash: [u8; 32],
    pub request_id: String,
}

/// The place where items are added.
#[derive(Clone, Debug)]
pub enum AddTo {
    /// A conversation that is made with them; the metadata is the JSON of an object.
    New { metadata: String },
    /// The same under a name that the client chose.
    Named { conversation: String },
    Known {
        conversation: String,
        path: ConversationPath,
    },
}

/// Reasons for which nothing was added.
#[derive(Debug, thiserror::Error)]
pub enum AddItemsError {
    #[error("a turn works on the conversation")]
    Busy,
    #[error("the conversation is not there any more")]
    Gone,
    #[error("adding to a conversation")]
    Write(#[from] StoreApplyError),
}

/// A conversation's history for a request that is made in it.
#[derive(Debug)]
pub struct ConversationHistory {
    pub path: ConversationPath,
    /// The end user whose the conversation is, as far as the request sees it.
    pub end_user: Option<String>,
    /// `None` for a conversation in which nothing was said.
    pub chain: Option<ChainHistory>,
}

impl Runtime {
    /// Makes a conversation without items, and returns its public id.
    ///
    /// # Errors
    /// When the store fails; after `Unknown` it may be there.
    pub async fn create_conversation(
        &self,
        caller: &Principal,
        end_user: Option<String>,
        metadata: String,
    ) -> Result<String, StoreApplyError> {
        let id = self.conversation_id();
        let new = NewConversation {
            organization: caller.organization,
            id: id.clone(),
            api_key: caller.api_key,
            end_user,
            metadata,
            at: self.env().now(),
        };
        self.store()
            .apply(vec![Change::CreateConversation(new)])
            .await?;
        Ok(id)
    }

    fn conversation_id(&self) -> String {
        format!("{ID_PREFIX}{}", self.env().ordered_id().simple())
    }

    /// Gives a conversation other metadata; `false` when no client made it by itself.
    ///
    /// # Errors
    /// When the store fails; after `Unknown` it may have it.
    pub async fn change_conversation(
        &self,
        caller: &Principal,
        conversation: String,
        metadata: String,
    ) -> Result<bool, StoreApplyError> {
        let change = ChangeConversation {
            organization: caller.organization,
            conversation,
            metadata,
            at: self.env().now(),
        };
        let outcomes = self
            .store()
            .apply(vec![Change::ChangeConversation(change)])
            .await?;
        Ok(outcomes.first() == Some(&Outcome::Done))
    }

    /// Adds items to a conversation, as a turn that asked no model. Returns the turn and the conversation's public id.
    ///
    /// # Errors
    /// [`AddItemsError`].
    pub async fn add_items(
        &self,
        sent: ItemsSent<'_>,
        to: AddTo,
    ) -> Result<(TurnId, String), AddItemsError> {
        let new = self.turn_of_items(sent, to);
        self.accept_items(new, Vec::new()).await
    }

    /// Stores a turn of items, with the calls that it makes and completes.
    pub(crate) async fn accept_items(
        &self,
        new: NewTurn,
        calls: Vec<TurnChange>,
    ) -> Result<(TurnId, String), AddItemsError> {
        let (turn, conversation) = (new.id, new.conversation.clone());
        let made = calls
            .iter()
            .filter(|change| matches!(change, TurnChange::AddCall(_)));
        let made = u32::try_from(made.count()).unwrap_or(u32::MAX);
        let told = LogEvent::End(Box::new(TurnEnd {
            status: TurnStatus::Completed,
            reason: None,
            fault: None,
            effects: Vec::new(),
            at: Some(new.at),
        }));
        let log = TurnChange::AppendEvents(EventFlush {
            first: 1,
            events: vec![told],
            at: new.at,
        });
        let end = TurnChange::EndTurn(EndTurn {
            status: TurnStatus::Completed,
            reason: None,
            usage: None,
            has_tool_calls: made > 0,
            tool_count: made,
            had_effects: false,
            remembered: None,
            erase_after: None,
            at: new.at,
        });
        let mut changes = calls;
        changes.extend([log, end]);
        let outcomes = self.store().accept_turn(Box::new(new), changes).await?;
        match outcomes.first() {
            Some(Outcome::ConversationBusy) => Err(AddItemsError::Busy),
            Some(Outcome::ParentDeleted) => Err(AddItemsError::Gone),
            Some(_) | None => Ok((turn, conversation)),
        }
    }

    pub(crate) fn turn_of_items(&self, sent: ItemsSent<'_>, to: AddTo) -> NewTurn {
        let now = self.env().now();
        let (conversation, place, parent, owner) = match to {
            AddTo::New { metadata } => {
                let place = ItemPlace::First { metadata };
                (self.conversation_id(), place, None, None)
            }
            AddTo::Named { conversation } => {
                let metadata = NO_METADATA.to_owned();
                (conversation, ItemPlace::First { metadata }, None, None)
            }
            AddTo::Known { conversation, path } => {
                let parent = path.turns.first().map(|turn| turn.id);
                let owner = path.made.and_then(|made| made.end_user);
                let place = ItemPlace::Behind { head: path.head };
                (conversation, place, parent, owner)
            }
        };
        let messages = sent.input.messages.iter().zip(0..);
        let messages = messages.map(|(message, seq)| NewMessage {
            round: 0,
            seq,
            role: stored_role(message.role),
            blocks: message.blocks.clone(),
            origin: None,
            at: now,
        });
        let source = ItemSource::Client;
        NewTurn {
            id: TurnId(self.env().ordered_id()),
            organization: sent.caller.organization,
            api_key: sent.caller.api_key,
            end_user: sent.end_user.or(owner),
            context: context::encode(&context_of_items(&conversation)),
            conversation,
            conversation_named: true,
            adds_items: Some(AddedItems { source, place }),
            answers: Vec::new(),
            parent,
            memory: MemoryVerdict::Off,
            memory_turn: None,
            surface: Surface::Responses,
            streamed: false,
            on_leave: OnLeave::Finish,
            record: RecordPolicy::Full,
            model: String::new(),
            request_id: sent.request_id,
            deadline: now,
            owner: self.0.boot.clone(),
            messages: messages.collect(),
            body: sent.body,
            body_hash: sent.sent_hash,
            cuts: None,
            idempotency_key: None,
            keys_since: now,
            at: now,
        }
    }

    /// The turn by which the same request added its items before, if it was the last that did; a client that sends it
    /// again did not hear of that.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn added_before(
        &self,
        caller: &Principal,
        path: &ConversationPath,
        sent_hash: [u8; 32],
    ) -> Result<Option<TurnId>, ReadError> {
        let Some(newest) = path.turns.first() else {
            return Ok(None);
        };
        let found = self
            .store()
            .turn_with_context(caller.organization, newest.id);
        Ok(found
            .await?
            .filter(|(row, _)| {
                row.item_source == Some(ItemSource::Client)
                    && row.api_key == caller.api_key
                    && row.body_hash == sent_hash
            })
            .map(|(row, _)| row.id))
    }

    /// A conversation as a request of this caller stands in it: its own turns, and those of the end user who is named,
    /// or else of whom the newest one was for.
    ///
    /// # Errors
    /// [`ChainError`]; `NotFound` for a conversation that is not seen.
    pub async fn conversation_history(
        &self,
        caller: &Principal,
        conversation: &str,
        named: Option<&str>,
    ) -> Result<ConversationHistory, ChainError> {
        let mut whose = TurnOwner {
            api_key: Some(caller.api_key),
            end_user: named.map(str::to_owned),
        };
        let path = self.seen_path(caller, conversation, whose.clone()).await?;
        let newest = path.turns.first().and_then(|turn| turn.end_user.clone());
        let (path, end_user) = match (&path.made, newest) {
            (Some(made), newest) => {
                let end_user = made.end_user.clone().or(newest);
                (path, end_user)
            }
            (None, Some(newest)) if named.is_none() => {
                whose.end_user = Some(newest.clone());
                let path = self.seen_path(caller, conversation, whose).await?;
                (path, Some(newest))
            }
            (None, newest) => (path, newest),
        };
        let chain = ChainHistory::of_path(self, caller.organization, &path.turns).await?;
        Ok(ConversationHistory {
            path,
            end_user,
            chain,
        })
    }

    async fn seen_path(
        &self,
        caller: &Principal,
        conversation: &str,
        whose: TurnOwner,
    ) -> Result<ConversationPath, ChainError> {
        let path = self.store().conversation_path(
            caller.organization,
            conversation.to_owned(),
            whose,
            PathStart::Head,
        );
        path.await?.ok_or(ChainError::NotFound)
    }

    /// A page of the items of these turns; `None` when the cursor is none of them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn conversation_items(
        &self,
        caller: &Principal,
        turns: &[PathTurn],
        wanted: &ItemsWanted,
    ) -> Result<Option<ItemPage>, ReadError> {
        let in_order: Vec<&PathTurn> = match wanted.order {
            ListOrder::NewestFirst => turns.iter().collect(),
            ListOrder::OldestFirst => turns.iter().rev().collect(),
        };
        let mut from = 0;
        if let Some(after) = &wanted.after {
            let Some(turn) = self.turn_of_item(caller, after).await? else {
                return Ok(None);
            };
            let Some(at) = in_order.iter().position(|at| at.id == turn) else {
                return Ok(None);
            };
            from = at;
        }
        let (mut items, mut is_behind) = (Vec::new(), wanted.after.is_none());
        for turn in &in_order[from..] {
            let mut of_turn = self.items_of(caller, turn, &wanted.include).await?;
            match wanted.order {
                ListOrder::NewestFirst => of_turn.reverse(),
                ListOrder::OldestFirst => {}
            }
            if let Some(after) = wanted.after.as_ref().filter(|_| !is_behind) {
                let Some(at) = of_turn.iter().position(|(id, _)| id == after) else {
                    return Ok(None);
                };
                of_turn.drain(..=at);
                is_behind = true;
            }
            items.extend(of_turn);
            if items.len() > wanted.items_max {
                break;
            }
        }
        let has_more = items.len() > wanted.items_max;
        items.truncate(wanted.items_max);
        Ok(Some(ItemPage { items, has_more }))
    }

    /// An item of these turns.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn conversation_item(
        &self,
        caller: &Principal,
        turns: &[PathTurn],
        item: &str,
        include: &[String],
    ) -> Result<Option<FoundItem>, ReadError> {
        let Some(turn) = self.turn_of_item(caller, item).await? else {
            return Ok(None);
        };
        let Some(turn) = turns.iter().find(|known| known.id == turn) else {
            return Ok(None);
        };
        let store = self.store();
        let Some((row, context)) = store
            .turn_with_context(caller.organization, turn.id)
            .await?
        else {
            return Ok(None);
        };
        let kept = KeptAnswer { row, context };
        let mut items = kept.conversation_items(self, include).await?;
        items.retain(|(id, _)| !turn.deleted_items.contains(id));
        let left = items.len();
        let found = items.into_iter().find(|(id, _)| id == item);
        Ok(found.map(|(id, json)| FoundItem {
            id,
            json,
            turn: turn.id,
            api_key: kept.row.api_key,
            is_last_added: kept.row.item_source == Some(ItemSource::Client) && left == 1,
        }))
    }

    async fn turn_of_item(
        &self,
        caller: &Principal,
        item: &str,
    ) -> Result<Option<TurnId>, ReadError> {
        match WireFormat::OF_ITEMS.item_origin(item) {
            Some(ItemOrigin::Turn(turn)) => Ok(Some(turn)),
            Some(ItemOrigin::Call(call)) => {
                self.store().turn_of_call(caller.organization, call).await
            }
            None => Ok(None),
        }
    }

    /// The items of a turn that are left in its conversation, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn items_of(
        &self,
        caller: &Principal,
        turn: &PathTurn,
        include: &[String],
    ) -> Result<Vec<(String, Json)>, ReadError> {
        let found = self.store().turn_with_context(caller.organization, turn.id);
        let Some((row, context)) = found.await? else {
            return Ok(Vec::new());
        };
        let kept = KeptAnswer { row, context };
        let mut items = kept.conversation_items(self, include).await?;
        items.retain(|(id, _)| !turn.deleted_items.contains(id));
        Ok(items)
    }

    /// Takes an item out of its conversation. The turn of the last one that a client added is deleted with it, and so
    /// are its contents.
    ///
    /// # Errors
    /// When the store fails; after `Unknown` it may be out.
    pub async fn delete_item(
        &self,
        caller: &Principal,
        found: &FoundItem,
    ) -> Result<Deletion, StoreApplyError> {
        if found.is_last_added {
            return self.delete_turn(caller, found.turn).await;
        }
        let delete = DeleteItem {
            organization: caller.organization,
            turn: found.turn,
            item: found.id.clone(),
            at: self.env().now(),
        };
        let outcomes = self.store().apply(vec![Change::DeleteItem(delete)]).await?;
        Ok(match outcomes.first() {
            Some(Outcome::Done) => Deletion::Now,
            Some(_) | None => Deletion::NotFound,
        })
    }
}

/// The hash by which a request that adds items is known again.
pub fn hash_of_sent(body: &SharedText) -> [u8; 32] {
    Sha256::digest(body.as_str().as_bytes()).into()
}

fn context_of_items(conversation: &str) -> TurnContext {
    TurnContext {
        tools: None,
        withheld: Vec::new(),
        upstreams: Vec::new(),
        projection: Projection::of_added_items(conversation),
        passed: PassedHeaders::default(),
        trace: None,
        changes: RequestChanges::default(),
    }
}
