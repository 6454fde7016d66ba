//! The turns that lead to a conversation's head, page by page, with what was said in them.
//!
//! A page costs what is in it: turns on the path are marked, so that neither the path is walked nor the table.

use std::collections::{BTreeMap, BTreeSet};

use tw_core::call::CallRunner;
use tw_core::change::NewMessage;
use tw_core::conversation::ItemSource;
use tw_core::id::{CallId, OrgId, TurnId};
use tw_core::request::{Block, ResultBlock};
use tw_core::tenant::TurnOwner;

use super::ReadError;
use super::calls::{self, ContentsRead};
use super::columns::{get, word};
use super::conversations::{ListOrder, OwnerKeys, PAGE_BYTES_MAX, RowPage, content_bytes};
use super::items::{NEWEST, deleted_items, walk};
use super::turn::find_turn;
use super::view::{ResultDetail, TurnView, view};
use crate::session::ReadSession;
use crate::session::bound::{Params, params};
use crate::store::Store;

/// A part of the path to a conversation's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPageWanted {
    pub order: ListOrder,
    /// The turn that the part begins with; `None` for the first part.
    pub from: Option<TurnId>,
    /// The part ends with the turn that passes this many messages and calls.
    pub messages_max: usize,
    pub detail: ResultDetail,
}

/// The result of a look at a conversation's path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathPage {
    NoConversation,
    /// The turn to begin with is not on the path.
    NoCursor,
    Page(RowPage<PathTurnView>),
}

/// A turn on the path, with what its neighbours say about its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTurnView {
    pub view: TurnView,
    /// Ids of its items that were taken out of the conversation.
    pub deleted_items: Vec<String>,
    /// The calls that results answer which the turn brings, by the ids that the results name.
    pub answered: BTreeMap<String, KnownCall>,
    pub answers: LaterAnswers,
    /// Messages and calls in it.
    pub messages: usize,
}

/// What the turns behind one say about its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaterAnswers {
    /// Ids by which results name the calls that they answer.
    pub ids: BTreeSet<String>,
    /// Something else was said since, so that no other result comes.
    pub is_over: bool,
}

/// A call as the record knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCall {
    /// The id that the upstream gave it.
    pub tool_call_id: String,
    pub tool_name: String,
    /// It was run by whoever wrote it, and failed there.
    pub is_error: bool,
}

impl Store {
    /// Turns on the path to a conversation's head, as `whose` turns are seen. Where the head is a branch that is not
    /// seen, the path is that of the newest turn that is.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn head_path(
        &self,
        organization: OrgId,
        conversation: String,
        whose: TurnOwner,
        wanted: PathPageWanted,
    ) -> Result<PathPage, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            let Some(key) = seen.find(conn, &conversation)? else {
                return Ok(PathPage::NoConversation);
            };
            let made = seen.made(conn, key)?.is_some();
            let path = if made {
                HeadPath::marked_only(seen.of_everybody(), key)
            } else {
                HeadPath::of(conn, seen, key)?
            };
            path.page(conn, &wanted)
        })
        .await
    }
}

/// The path to a conversation's head, as somebody sees it.
struct HeadPath {
    seen: OwnerKeys,
    conversation: i64,
    /// The turns of a path that is not marked, oldest first.
    walked: Option<Vec<TurnId>>,
}

const FIND: &str = "SELECT key, on_head_path FROM turn
    WHERE organization = ?1 AND conversation = ?2 AND id = ?5 AND deleted_us IS NULL AND erased_us IS NULL
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)";

const FORWARD: &str = "SELECT id FROM turn
    WHERE organization = ?1 AND conversation = ?2 AND key >= ?5 AND deleted_us IS NULL AND erased_us IS NULL
      AND on_head_path = 1 AND status IN ('completed', 'incomplete')
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)
    ORDER BY key LIMIT ?6";

const BACKWARD: &str = "SELECT id FROM turn
    WHERE organization = ?1 AND conversation = ?2 AND key <= ?5 AND deleted_us IS NULL AND erased_us IS NULL
      AND on_head_path = 1 AND status IN ('completed', 'incomplete')
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)
    ORDER BY key DESC LIMIT ?6";

impl HeadPath {
    /// Of a conversation that was made, turns that merely name it are no part.
    fn marked_only(seen: OwnerKeys, conversation: i64) -> Self {
        Self {
            seen,
            conversation,
            walked: None,
        }
    }

    fn of(conn: ReadSession<'_>, seen: OwnerKeys, conversation: i64) -> Result<Self, ReadError> {
        let mut path = Self::marked_only(seen, conversation);
        if path
            .marked(conn, ListOrder::NewestFirst, i64::MAX, 1)?
            .is_empty()
        {
            let seen = &path.seen;
            let bound = params![
                seen.organization.0,
                conversation,
                seen.api_key,
                seen.end_user
            ];
            let mut statement = conn.prepare_cached(NEWEST)?;
            let newest = statement.first(bound, |row| row.get(0))?;
            let mut turns = walk(conn, seen, conversation, newest)?;
            turns.reverse();
            path.walked = Some(turns.into_iter().map(|turn| turn.id).collect());
        }
        Ok(path)
    }

    fn marked(
        &self,
        conn: ReadSession<'_>,
        order: ListOrder,
        from: i64,
        max: usize,
    ) -> Result<Vec<TurnId>, ReadError> {
        let sql = match order {
            ListOrder::OldestFirst => FORWARD,
            ListOrder::NewestFirst => BACKWARD,
        };
        let bound = params![
            self.seen.organization.0,
            self.conversation,
            self.seen.api_key,
            self.seen.end_user,
            from,
            i64::try_from(max).unwrap_or(i64::MAX),
        ];
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(bound)?;
        let mut turns = Vec::new();
        while let Some(row) = rows.next()? {
            turns.push(word(row, "id", TurnId::parse)?);
        }
        Ok(turns)
    }

    /// At most so many turns from one on, which is the first of them; `None` if that one is not on the path.
    fn turns(
        &self,
        conn: ReadSession<'_>,
        order: ListOrder,
        from: Option<TurnId>,
        max: usize,
    ) -> Result<Option<Vec<TurnId>>, ReadError> {
        if let Some(walked) = &self.walked {
            let mut turns = walked.clone();
            if order == ListOrder::NewestFirst {
                turns.reverse();
            }
            let at = match from {
                None => Some(0),
                Some(from) => turns.iter().position(|turn| *turn == from),
            };
            return Ok(at.map(|at| turns.into_iter().skip(at).take(max).collect()));
        }
        let from = match (from, order) {
            (None, ListOrder::OldestFirst) => 0,
            (None, ListOrder::NewestFirst) => i64::MAX,
            (Some(from), _) => match self.key_of(conn, from)? {
                Some(key) => key,
                None => return Ok(None),
            },
        };
        Ok(Some(self.marked(conn, order, from, max)?))
    }

    fn key_of(&self, conn: ReadSession<'_>, turn: TurnId) -> Result<Option<i64>, ReadError> {
        let bound = params![
            self.seen.organization.0,
            self.conversation,
            self.seen.api_key,
            self.seen.end_user,
            turn.to_string(),
        ];
        let mut statement = conn.prepare_cached(FIND)?;
        let mut rows = statement.query(bound)?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let is_marked: bool = get(row, "on_head_path")?;
        let key = get(row, "key")?;
        Ok(is_marked.then_some(key))
    }

    fn page(&self, conn: ReadSession<'_>, wanted: &PathPageWanted) -> Result<PathPage, ReadError> {
        let turns_max = wanted.messages_max.saturating_add(1);
        let Some(turns) = self.turns(conn, wanted.order, wanted.from, turns_max)? else {
            return Ok(PathPage::NoCursor);
        };
        let (mut items, mut messages, mut bytes) = (Vec::new(), 0, 0);
        let mut has_more = false;
        // Whoever goes on behind a turn gets at least the next one, however much that one holds.
        let passed_over = usize::from(wanted.from.is_some());
        for id in turns {
            let is_full = messages >= wanted.messages_max || bytes >= PAGE_BYTES_MAX;
            if is_full && items.len() > passed_over {
                has_more = true;
                break;
            }
            let Some((key, turn)) = find_turn(conn, self.seen.organization, id)? else {
                continue;
            };
            bytes += content_bytes(conn, key)?;
            let view = view(conn, key, turn, wanted.detail)?;
            let in_turn = messages_in(&view);
            messages += in_turn;
            items.push(PathTurnView {
                messages: in_turn,
                deleted_items: deleted_items(conn, key)?,
                answered: answered(conn, key, &view)?,
                answers: self.answers(conn, &view)?,
                view,
            });
        }
        Ok(PathPage::Page(RowPage { items, has_more }))
    }

    /// The ids by which the turns behind this one answer its calls: those of its neighbours that bring nothing but
    /// results, and that of the next one that brings something else.
    fn answers(&self, conn: ReadSession<'_>, of: &TurnView) -> Result<LaterAnswers, ReadError> {
        let calls = of.rounds.iter().flat_map(|round| &round.calls);
        let open = calls.filter(|call| call.runs != CallRunner::Server).count();
        let brought = of.input.iter().flat_map(|message| &message.blocks);
        let open = open
            + brought
                .filter(|block| matches!(block, Block::Call(_)))
                .count();
        let mut found = LaterAnswers::default();
        if open == 0 {
            return Ok(found);
        }
        let behind = self.turns(
            conn,
            ListOrder::OldestFirst,
            Some(of.turn.id),
            open.saturating_add(2),
        )?;
        for id in behind.unwrap_or_default().into_iter().skip(1) {
            let Some((key, turn)) = find_turn(conn, self.seen.organization, id)? else {
                continue;
            };
            let brought = calls::messages_of_round(conn, key, 0, ContentsRead::Shown)?;
            let named = results(&brought).map(|result| result.call_id.clone());
            found.ids.extend(named);
            let is_result = |block: &Block| matches!(block, Block::Result(_));
            let mut blocks = brought.iter().flat_map(|message| &message.blocks);
            if turn.item_source != Some(ItemSource::Client) || !blocks.all(is_result) {
                found.is_over = true;
                break;
            }
        }
        Ok(found)
    }
}

fn messages_in(view: &TurnView) -> usize {
    let of_rounds = view.rounds.iter();
    let of_rounds = of_rounds.map(|round| round.messages.len() + round.calls.len());
    view.input.len() + of_rounds.sum::<usize>()
}

fn results(messages: &[NewMessage]) -> impl Iterator<Item = &ResultBlock> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.filter_map(|block| match block {
        Block::Result(result) => Some(result),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    })
}

const HANDED: &str =
    "SELECT tool_call_id, tool_name, CASE WHEN is_error = 1 THEN 1 ELSE 0 END AS is_error
    FROM tool_call WHERE organization = ?1 AND id = ?2";

/// Ids of upstreams may come again, in other conversations above all: the newest call of this one before the turn is
/// meant, which is mostly one of the turn before it.
const NAMED: &str =
    "SELECT c.tool_call_id, c.tool_name, CASE WHEN c.is_error = 1 THEN 1 ELSE 0 END AS is_error
    FROM turn_start of_result
    JOIN turn_start t ON t.organization = ?1 AND t.conversation = of_result.conversation AND t.key <= ?3
        AND t.deleted_us IS NULL
    JOIN tool_call c ON c.turn = t.key
    WHERE of_result.key = ?3 AND c.tool_call_id = ?2 AND c.runs <> 'server'
    ORDER BY t.key DESC, c.round DESC, c.position DESC LIMIT 1";

fn answered(
    conn: ReadSession<'_>,
    turn: i64,
    view: &TurnView,
) -> Result<BTreeMap<String, KnownCall>, ReadError> {
    let mut found = BTreeMap::new();
    let organization = view.turn.organization.0;
    for result in results(&view.input) {
        let call = match CallId::parse_handed(&result.call_id) {
            Some(call) => known(conn, HANDED, params![organization, call.to_string()])?,
            None => known(conn, NAMED, params![organization, result.call_id, turn])?,
        };
        if let Some(call) = call {
            found.insert(result.call_id.clone(), call);
        }
    }
    Ok(found)
}

fn known(
    conn: ReadSession<'_>,
    sql: &'static str,
    bound: Params<'_>,
) -> Result<Option<KnownCall>, ReadError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(bound)?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(KnownCall {
        tool_call_id: get(row, "tool_call_id")?,
        tool_name: get(row, "tool_name")?,
        is_error: get(row, "is_error")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::{BACKWARD, FIND, FORWARD, HANDED, NAMED};
    use crate::read::plan::assert_each_looks;

    #[test]
    fn each_statement_looks_and_never_walks() {
        let of_path = "turn_conversation (organization=? AND conversation=? AND rowid";
        assert_each_looks(&[
            (FORWARD, of_path),
            (BACKWARD, of_path),
            (
                FIND,
                "sqlite_autoindex_turn_start_1 (organization=? AND id=?)",
            ),
            (HANDED, "(organization=? AND id=?)"),
        ]);
        // The calls of one turn after the other, which are put in order.
        let plan = crate::read::plan::plan(NAMED);
        for by in [
            "turn_conversation (organization=? AND conversation=? AND rowid",
            "PRIMARY KEY (turn=?)",
        ] {
            assert!(plan.iter().any(|line| line.contains(by)), "{plan:#?}");
        }
        let sorted = "USE TEMP B-TREE FOR ORDER BY";
        assert!(!plan.iter().any(|line| line.contains(sorted)), "{plan:#?}");
    }
}
