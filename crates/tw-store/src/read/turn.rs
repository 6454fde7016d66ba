//! A turn's row, and all that a driver needs to go on with a turn that another one left.

use tw_core::change::{AttemptOutcome, NewCall, NewMessage};
use tw_core::conversation::ItemSource;
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::memory::{HistoryHash, MemoryVerdict};
use tw_core::model::TokenUsage;
use tw_core::time::Timestamp;
use tw_core::tool::ToolVersion;
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_wire::stored;
use tw_wire::stored::context::{self, TurnContext};

use super::ReadError;
use super::calls::{self, ContentsRead};
use super::columns::{get, optional_time, optional_word, time, usage, word};
use super::events::{self, NumberedEvent};
use crate::body;
use crate::enum_words;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// A turn without its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRow {
    pub id: TurnId,
    pub organization: OrgId,
    /// The key that started the turn; whether somebody else may see it is for the caller to decide.
    pub api_key: ApiKeyId,
    pub end_user: Option<String>,
    pub conversation: String,
    pub conversation_named: bool,
    /// Who the items are from that it adds to its conversation; `None` for a turn that adds none.
    pub item_source: Option<ItemSource>,
    /// The turn that this one continues.
    pub parent: Option<TurnId>,
    pub memory: MemoryVerdict,
    /// The nearest of the turns before it that has hidden calls.
    pub memory_turn: Option<TurnId>,
    /// The hash by which the turn is found; set when it has ended.
    pub history: Option<HistoryHash>,
    pub surface: Surface,
    pub streamed: bool,
    pub on_leave: OnLeave,
    pub record: RecordPolicy,
    pub model: String,
    pub request_id: String,
    pub body_hash: [u8; 32],
    pub owner: String,
    pub fence: i64,
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    /// The reason for which the turn is being stopped, or was.
    pub stop: Option<TurnReason>,
    pub usage: Option<TokenUsage>,
    pub cost_microusd: Option<i64>,
    pub has_tool_calls: bool,
    pub tool_count: u32,
    pub deadline: Timestamp,
    pub created: Timestamp,
    /// The whole answer was handed to the client's connection.
    pub answered: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    pub erase_after: Option<Timestamp>,
    /// Contents are gone since.
    pub erased: Option<Timestamp>,
    /// Time since which nobody sees the turn.
    pub deleted: Option<Timestamp>,
}

/// A call as it was added, with its status and end as they are now.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    pub call: NewCall,
    /// The version that `call.tool_version` names.
    pub tool_version: Option<ToolVersion>,
    /// The write that came before its first dispatch.
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// The time until which its approval may be given, or its callback must have come, once it waits for that.
    pub until: Option<Timestamp>,
    /// The id by which its tool knows the job that it started.
    pub external_id: Option<String>,
    /// What the model was told in place of a result, when its turn went on without its end.
    pub told: Option<String>,
    /// `None` where its tool had no price, or it was not started.
    pub cost_microusd: Option<i64>,
}

impl CallRow {
    /// What the model was shown of it; `None` for a call that its turn did not go on from.
    pub fn seen(&self) -> Option<&str> {
        let end = self.call.end.as_ref().map(|end| end.shown.as_str());
        self.told.as_deref().or(end)
    }

    /// Whether a callback is to end it.
    pub fn awaits_callback(&self) -> bool {
        self.until.is_some() && self.call.approval.is_none() && self.call.end.is_none()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRow {
    pub round: u32,
    /// The call's position in its round; `None` for the model request.
    pub position: Option<u32>,
    pub n: u32,
    pub upstream: Option<String>,
    pub started: Timestamp,
    /// `None` while it is open.
    pub end: Option<AttemptEnd>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AttemptEnd {
    pub outcome: AttemptOutcome,
    pub http_status: Option<u16>,
    pub usage: Option<TokenUsage>,
    /// `None` where its model had no price.
    pub cost_microusd: Option<i64>,
    pub at: Timestamp,
}

/// The rows of a turn that a machine is rebuilt from. The turn may be final already.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredTurn {
    pub turn: TurnRow,
    pub organization_slug: String,
    /// The first characters of the turn's key.
    pub key_shown: String,
    pub body: Vec<u8>,
    pub context: String,
    /// Messages by round and place.
    pub messages: Vec<NewMessage>,
    /// Calls in call order, with full results.
    pub calls: Vec<CallRow>,
    pub attempts: Vec<AttemptRow>,
    pub events: Vec<NumberedEvent>,
}

impl Store {
    /// The whole record of a turn, read in one state of the database.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_for_recovery(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<RecoveredTurn>, ReadError> {
        self.read(move |conn| recovered(conn, organization, turn, 0))
            .await
    }

    /// [`Store::turn_for_recovery`] without the messages that the request brought, which its body holds, too.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_to_drive(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<RecoveredTurn>, ReadError> {
        self.read(move |conn| recovered(conn, organization, turn, 1))
            .await
    }

    /// [`Store::turn_for_recovery`] on the caller's thread.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn turn_for_recovery_now(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<RecoveredTurn>, ReadError> {
        self.read_now(|conn| recovered(conn, organization, turn, 0))
    }

    /// The request as it came; `None` if there is no such turn or nobody may read it any more.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_body(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.read(move |conn| {
            let sql = "SELECT key FROM turn
                WHERE organization = ?1 AND id = ?2 AND erased_us IS NULL AND deleted_us IS NULL";
            let bound = params![organization.0, turn.to_string()];
            let mut statement = conn.prepare_cached(sql)?;
            let key = statement.first(bound, |row| row.get(0))?;
            key.map_or(Ok(None), |key| body::whole(conn, key))
        })
        .await
    }

    /// The context that was stored with the request; `None` as for [`Store::turn_body`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_context(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<TurnContext>, ReadError> {
        self.read(move |conn| {
            let sql = "SELECT i.context FROM turn t JOIN turn_input i ON i.turn = t.key
                WHERE t.organization = ?1 AND t.id = ?2 AND t.erased_us IS NULL AND t.deleted_us IS NULL";
            let bound = params![organization.0, turn.to_string()];
            let mut statement = conn.prepare_cached(sql)?;
            let stored: Option<String> = statement.first(bound, |row| row.get(0))?;
            Ok(stored.as_deref().map(context::decode).transpose()?)
        })
        .await
    }

    /// A turn with its context; `None` as for [`Store::turn_body`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_with_context(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<(TurnRow, TurnContext)>, ReadError> {
        self.read(move |conn| {
            let found = find_turn(conn, organization, turn)?;
            let is_there = |row: &TurnRow| row.deleted.is_none() && row.erased.is_none();
            let Some((key, row)) = found.filter(|(_, row)| is_there(row)) else {
                return Ok(None);
            };
            Ok(Some((row, context_of(conn, key)?)))
        })
        .await
    }

    /// The turn that made a call; `None` if there is no such call, or the turn was deleted.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_of_call(
        &self,
        organization: OrgId,
        call: CallId,
    ) -> Result<Option<TurnId>, ReadError> {
        self.read(move |conn| {
            let sql = "SELECT t.id FROM tool_call c JOIN turn_start t ON t.key = c.turn
                WHERE c.organization = ?1 AND c.id = ?2 AND t.deleted_us IS NULL";
            let mut statement = conn.prepare_cached(sql)?;
            let mut rows = statement.query(params![organization.0, call.to_string()])?;
            rows.next()?
                .map(|row| word(row, "id", TurnId::parse))
                .transpose()
        })
        .await
    }

    /// The status of a turn, which says whether it still runs.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_status(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<TurnStatus>, ReadError> {
        self.read(move |conn| {
            let sql = "SELECT status FROM turn WHERE organization = ?1 AND id = ?2";
            let mut statement = conn.prepare_cached(sql)?;
            let mut rows = statement.query(params![organization.0, turn.to_string()])?;
            rows.next()?
                .map(|row| word(row, "status", TurnStatus::parse))
                .transpose()
        })
        .await
    }
}

/// The context that was stored with a turn's request.
pub(super) fn context_of(conn: ReadSession<'_>, turn: i64) -> Result<TurnContext, ReadError> {
    let sql = "SELECT context FROM turn_input WHERE turn = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let stored: String = statement.one(params![turn], |row| row.get("context"))?;
    Ok(context::decode(&stored)?)
}

fn recovered(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
    from_round: u32,
) -> Result<Option<RecoveredTurn>, ReadError> {
    let Some((key, turn)) = find_turn(conn, organization, turn)? else {
        return Ok(None);
    };
    let sql = "SELECT o.slug, k.shown
        FROM turn_start t JOIN api_key k ON k.key = t.api_key JOIN organization o ON o.key = t.organization
        WHERE t.key = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.one(params![key], |row| {
        Ok((row.get("slug")?, row.get("shown")?))
    });
    let (organization_slug, key_shown) = names?;
    let sql = "SELECT context FROM turn_input WHERE turn = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let context = statement.one(params![key], |row| row.get("context"))?;
    Ok(Some(RecoveredTurn {
        turn,
        organization_slug,
        key_shown,
        body: body::whole(conn, key)?.unwrap_or_default(),
        context,
        messages: calls::messages_from(conn, key, from_round, ContentsRead::Full)?,
        calls: calls::calls(conn, key, ContentsRead::Full)?,
        attempts: calls::attempts(conn, key)?,
        events: events::all(conn, key)?,
    }))
}

const FIND_TURN: &str = "SELECT t.key, t.id, t.organization, t.api_key, u.name AS end_user, c.id AS conversation,
        t.conversation_named, t.surface, t.streamed, t.on_leave, t.record, t.model, t.request_id, t.body_hash,
        t.projector_version, t.owner, t.fence, t.status, t.reason, t.stop_reason, t.usage, t.cost_microusd, t.has_tool_calls,
        t.tool_count, t.deadline_us, t.created_us, t.answered_us, t.ended_us, t.erase_after_us, t.erased_us,
        t.deleted_us, t.item_source, t.memory, t.history_hash, p.id AS parent, m.id AS memory_turn
    FROM turn t
    JOIN conversation c ON c.key = t.conversation
    LEFT JOIN end_user u ON u.key = t.end_user
    LEFT JOIN turn_start p ON p.key = t.parent
    LEFT JOIN turn_start m ON m.key = t.memory_turn
    WHERE t.organization = ?1 AND t.id = ?2";

/// The turn's integer key and its row.
pub(super) fn find_turn(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
) -> Result<Option<(i64, TurnRow)>, ReadError> {
    let mut statement = conn.prepare_cached(FIND_TURN)?;
    let mut rows = statement.query(params![organization.0, turn.to_string()])?;
    match rows.next()? {
        Some(row) => Ok(Some((get(row, "key")?, turn_row(row)?))),
        None => Ok(None),
    }
}

fn turn_row(row: Row<'_>) -> Result<TurnRow, ReadError> {
    let found = get(row, "projector_version")?;
    if found > stored::PROJECTOR_VERSION {
        return Err(ReadError::Newer {
            found,
            known: stored::PROJECTOR_VERSION,
        });
    }
    Ok(TurnRow {
        id: word(row, "id", TurnId::parse)?,
        organization: OrgId(get(row, "organization")?),
        api_key: ApiKeyId(get(row, "api_key")?),
        end_user: get(row, "end_user")?,
        conversation: get(row, "conversation")?,
        conversation_named: get(row, "conversation_named")?,
        item_source: optional_word(row, "item_source", ItemSource::parse)?,
        parent: optional_word(row, "parent", TurnId::parse)?,
        memory: optional_word(row, "memory", MemoryVerdict::parse)?.unwrap_or(MemoryVerdict::Off),
        memory_turn: optional_word(row, "memory_turn", TurnId::parse)?,
        history: get::<Option<[u8; 32]>>(row, "history_hash")?.map(HistoryHash),
        surface: word(row, "surface", enum_words::read_surface)?,
        streamed: get(row, "streamed")?,
        on_leave: word(row, "on_leave", enum_words::read_on_leave)?,
        record: word(row, "record", enum_words::read_record)?,
        model: get(row, "model")?,
        request_id: get(row, "request_id")?,
        body_hash: get(row, "body_hash")?,
        owner: get(row, "owner")?,
        fence: get(row, "fence")?,
        status: word(row, "status", TurnStatus::parse)?,
        reason: optional_word(row, "reason", TurnReason::parse)?,
        stop: optional_word(row, "stop_reason", TurnReason::parse)?,
        usage: usage(row, "usage")?,
        cost_microusd: get(row, "cost_microusd")?,
        has_tool_calls: get(row, "has_tool_calls")?,
        tool_count: get(row, "tool_count")?,
        deadline: time(row, "deadline_us")?,
        created: time(row, "created_us")?,
        answered: optional_time(row, "answered_us")?,
        ended: optional_time(row, "ended_us")?,
        erase_after: optional_time(row, "erase_after_us")?,
        erased: optional_time(row, "erased_us")?,
        deleted: optional_time(row, "deleted_us")?,
    })
}
