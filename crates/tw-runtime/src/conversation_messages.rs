//! What was said in a conversation, as rows of a shape: read in pages along the path to its head.

use std::collections::{BTreeMap, BTreeSet};

use tw_core::change::NewMessage;
use tw_core::id::TurnId;
use tw_core::shape::Shape;
use tw_core::tenant::TurnOwner;
use tw_store::read::ReadError;
use tw_store::read::conversations::{ListOrder, RowPage};
use tw_store::read::head_path::{PathPage, PathPageWanted, PathTurnView};
use tw_store::read::view::{CallView, ResultDetail, TurnView};
use tw_wire::format::WireFormat;
use tw_wire::shapes::{KnownAnswer, SaidCall, SaidTurn, ShapeRow, TurnRecord, rows_of};

use crate::accept::stored_role;
use crate::auth::Principal;
use crate::kept_answer::KeptAnswer;
use crate::recover::accepted_limits;
use crate::runtime::Runtime;

/// A part of a conversation's rows.
#[derive(Clone, Debug)]
pub struct ShapedPageWanted {
    pub shape: Shape,
    pub order: ListOrder,
    /// The row that the part follows.
    pub after: Option<String>,
    pub rows_max: usize,
}

/// The result of a look at a conversation's rows.
#[derive(Clone, Debug)]
pub enum ShapedPage {
    NoConversation,
    /// The row to go on behind is none of them.
    NoCursor,
    Page(RowPage<ShapeRow>),
}

impl Runtime {
    /// Rows of what `whose` turns said in a conversation.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn shaped_messages(
        &self,
        caller: &Principal,
        conversation: &str,
        whose: TurnOwner,
        wanted: &ShapedPageWanted,
    ) -> Result<ShapedPage, ReadError> {
        let mut from = None;
        if let Some(after) = &wanted.after {
            let turn = after.split('.').next().and_then(TurnId::parse);
            let Some(turn) = turn else {
                return Ok(ShapedPage::NoCursor);
            };
            from = Some(turn);
        }
        let mut rows: Vec<ShapeRow> = Vec::new();
        let mut is_behind = wanted.after.is_none();
        // Of the turn that a page begins with, what was read before is passed over.
        let (mut is_read, mut messages_max) = (false, wanted.rows_max.saturating_add(1));
        let mut masker = self.call_masker(caller.organization);
        loop {
            let page = PathPageWanted {
                order: wanted.order,
                from,
                messages_max,
                detail: if wanted.shape.shows_whole_results() {
                    ResultDetail::Full
                } else {
                    ResultDetail::Shown
                },
            };
            let (organization, name) = (caller.organization, conversation.to_owned());
            let page = self
                .store()
                .head_path(organization, name, whose.clone(), page);
            let mut page = match page.await? {
                PathPage::NoConversation => return Ok(ShapedPage::NoConversation),
                PathPage::NoCursor => return Ok(ShapedPage::NoCursor),
                PathPage::Page(page) => page,
            };
            for of_turn in page.items.iter_mut().skip(usize::from(is_read)) {
                masker.mask_turn(&mut of_turn.view).await?;
                let turn = SaidTurn::of(self.record_of(of_turn).await?);
                let mut of_turn = rows_of(wanted.shape, &turn);
                match wanted.order {
                    ListOrder::NewestFirst => of_turn.reverse(),
                    ListOrder::OldestFirst => {}
                }
                if let Some(after) = wanted.after.as_ref().filter(|_| !is_behind) {
                    let Some(at) = of_turn.iter().position(|row| row.id == *after) else {
                        return Ok(ShapedPage::NoCursor);
                    };
                    of_turn.drain(..=at);
                    is_behind = true;
                }
                rows.extend(of_turn);
            }
            let Some(last) = page.items.last() else { break };
            if rows.len() > wanted.rows_max || !page.has_more {
                break;
            }
            from = Some(last.view.turn.id);
            messages_max = last
                .messages
                .saturating_add(wanted.rows_max)
                .saturating_add(1);
            is_read = true;
        }
        let has_more = rows.len() > wanted.rows_max;
        rows.truncate(wanted.rows_max);
        Ok(ShapedPage::Page(RowPage {
            items: rows,
            has_more,
        }))
    }

    /// What shapes need of a turn. Of one with items that were taken out of its conversation, what is left is told by
    /// its items.
    pub(crate) async fn record_of(&self, of: &PathTurnView) -> Result<TurnRecord, ReadError> {
        if of.deleted_items.is_empty() {
            return Ok(record(of));
        }
        let turn = &of.view.turn;
        let found = self.store().turn_with_context(turn.organization, turn.id);
        let mut left = Vec::new();
        if let Some((row, context)) = found.await? {
            let kept = KeptAnswer { row, context };
            let mut items = kept.conversation_items(self, &[]).await?;
            items.retain(|(id, _)| !of.deleted_items.contains(id));
            let body = WireFormat::body_of_items(items.iter().map(|(_, item)| item));
            let request = WireFormat::OF_ITEMS.decode_request(&body, &accepted_limits());
            left = request.map_or_else(
                |error| {
                    tracing::error!(turn.id = %turn.id, error = %error, "the items of a turn cannot be read");
                    Vec::new()
                },
                |request| request.input.messages,
            );
        }
        let messages = left.into_iter().zip(0..).map(|(message, seq)| NewMessage {
            round: 0,
            seq,
            role: stored_role(message.role),
            blocks: message.blocks,
            origin: None,
            at: turn.created,
        });
        Ok(TurnRecord {
            messages: messages.collect(),
            calls: Vec::new(),
            ..record(of)
        })
    }
}

fn record(of: &PathTurnView) -> TurnRecord {
    let TurnView { turn, .. } = &of.view;
    let rounds = of.view.rounds.iter();
    let messages = rounds.clone().flat_map(|round| &round.messages);
    let calls = rounds.flat_map(|round| &round.calls);
    let answered = of.answered.iter().map(|(id, call)| {
        let known = KnownAnswer {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            is_error: call.is_error,
        };
        (id.clone(), known)
    });
    TurnRecord {
        id: turn.id,
        conversation: turn.conversation.clone(),
        end_user: turn.end_user.clone(),
        model: turn.model.clone(),
        created: turn.created,
        updated: turn.ended.unwrap_or(turn.created),
        messages: of.view.input.iter().chain(messages).cloned().collect(),
        calls: calls.map(said_call).collect(),
        answered: answered.collect::<BTreeMap<_, _>>(),
        answers: of.answers.ids.iter().cloned().collect::<BTreeSet<_>>(),
        answers_over: of.answers.is_over,
    }
}

/// A call as shapes need it.
pub fn said_call(call: &CallView) -> SaidCall {
    let end = call.end.as_ref();
    SaidCall {
        call: call.call,
        id: call.id,
        runs: call.runs,
        tool_name: call.tool_name.clone(),
        tool_call_id: call.tool_call_id.clone(),
        arguments: call.arguments.clone(),
        status: call.status,
        reason: end.and_then(|end| end.reason),
        is_error: end.is_some_and(|end| end.is_error),
        shown: end.map(|end| end.shown.clone()),
        result: end.and_then(|end| end.result.clone()),
        approval: call.approval.as_ref().map(|approval| approval.state),
        approves: call.approves.is_some(),
        external_id: call.external_id.clone(),
        cost_microusd: call.cost_microusd,
        created: call.created,
        updated: call.ended.or(call.started).unwrap_or(call.created),
    }
}
