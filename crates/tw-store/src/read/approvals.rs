//! Calls whose approval was asked for, and what became of them.

use tw_core::approval::ApprovalState;
use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::id::{ApiKeyId, CallId, OrgId, ToolVersionKey, TurnId};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::Surface;

use super::ReadError;
use super::columns::{get, optional_time, optional_word, time, word};
use crate::enum_words;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::store::Store;

/// A call whose approval was asked for, with what is needed to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRow {
    pub asked: CallId,
    /// The turn that asked.
    pub turn: TurnId,
    pub api_key: ApiKeyId,
    pub end_user: Option<String>,
    pub surface: Surface,
    /// The public id of the turn's conversation.
    pub conversation: String,
    pub created: Timestamp,
    /// Its contents are gone.
    pub erased: bool,
    pub state: ApprovalState,
    /// The time until which the question is open.
    pub until: Option<Timestamp>,
    pub tool_name: String,
    pub tool_version: Option<ToolVersionKey>,
    pub effect: Option<EffectClass>,
    /// The id by which the upstream knows the call.
    pub sent_id: String,
    pub arguments: String,
    /// The call that acted on the answer.
    pub acted: Option<ActedCall>,
}

/// A call that acts on the answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct ActedCall {
    /// The turn that brought the answer.
    pub turn: TurnId,
    pub api_key: ApiKeyId,
    pub body_hash: [u8; 32],
    /// `None` while it runs.
    pub end: Option<CallEnd>,
    /// Its contents are gone.
    pub erased: bool,
}

/// The answer to a question, as the record tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswered {
    /// The turn that brought it.
    pub turn: TurnId,
    /// The first characters of the key that it came under.
    pub key_shown: String,
    pub end_user: Option<String>,
    pub at: Timestamp,
}

impl Store {
    /// Those of these calls whose approval was asked for by turns that are not deleted.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn approvals(
        &self,
        organization: OrgId,
        asked: Vec<CallId>,
    ) -> Result<Vec<ApprovalRow>, ReadError> {
        self.read(move |conn| approvals(conn, organization, &asked))
            .await
    }
}

/// The list of ids is one bound text, a JSON array.
const ASKED: Sql = Sql {
    sqlite: "SELECT c.id, t.id AS turn, t.api_key, u.name AS end_user, t.surface, v.id AS conversation,
        t.created_us, t.erased_us IS NOT NULL AS erased, c.approval, c.deadline_us, c.tool_name, c.tool_version,
        c.effect, c.tool_call_id, c.arguments, a.status AS acted_status, a.reason AS acted_reason,
        coalesce(a.told, a.shown) AS acted_shown, a.is_error AS acted_is_error, a.cached AS acted_cached, b.id AS acted_turn,
        b.api_key AS acted_key, bs.body_hash AS acted_hash, bs.erased_us IS NOT NULL AS acted_erased
    FROM json_each(?2) AS asked
    CROSS JOIN tool_call c ON c.organization = ?1 AND c.id = asked.value
    JOIN turn t ON t.key = c.turn
    JOIN conversation v ON v.key = t.conversation
    LEFT JOIN end_user u ON u.key = t.end_user
    LEFT JOIN tool_call a ON a.organization = ?1 AND a.approves = c.id
    LEFT JOIN turn_start b ON b.key = a.turn
    LEFT JOIN turn_state bs ON bs.turn = a.turn
    WHERE c.approval IS NOT NULL AND c.approval <> 'needed' AND t.deleted_us IS NULL
    ORDER BY asked.key",
    postgres: "SELECT c.id, t.id AS turn, t.api_key, u.name AS end_user, t.surface, v.id AS conversation,
        t.created_us, t.erased_us IS NOT NULL AS erased, c.approval, c.deadline_us, c.tool_name, c.tool_version,
        c.effect, c.tool_call_id, c.arguments, a.status AS acted_status, a.reason AS acted_reason,
        coalesce(a.told, a.shown) AS acted_shown, a.is_error AS acted_is_error, a.cached AS acted_cached, b.id AS acted_turn,
        b.api_key AS acted_key, bs.body_hash AS acted_hash, bs.erased_us IS NOT NULL AS acted_erased
    FROM json_array_elements_text(CAST(?2 AS json)) WITH ORDINALITY AS asked (value, place)
    JOIN tool_call c ON c.organization = ?1 AND c.id = asked.value
    JOIN turn t ON t.key = c.turn
    JOIN conversation v ON v.key = t.conversation
    LEFT JOIN end_user u ON u.key = t.end_user
    LEFT JOIN tool_call a ON a.organization = ?1 AND a.approves = c.id
    LEFT JOIN turn_start b ON b.key = a.turn
    LEFT JOIN turn_state bs ON bs.turn = a.turn
    WHERE c.approval IS NOT NULL AND c.approval <> 'needed' AND t.deleted_us IS NULL
    ORDER BY asked.place",
};

fn approvals(
    conn: ReadSession<'_>,
    organization: OrgId,
    asked: &[CallId],
) -> Result<Vec<ApprovalRow>, ReadError> {
    // Ids are hexadecimal digits and hyphens.
    let ids: Vec<String> = asked.iter().map(|id| format!("\"{id}\"")).collect();
    let ids = format!("[{}]", ids.join(","));
    let mut statement = conn.prepare_cached(ASKED)?;
    let mut rows = statement.query(params![organization.0, ids])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(approval(row)?);
    }
    Ok(found)
}

fn approval(row: Row<'_>) -> Result<ApprovalRow, ReadError> {
    let version: Option<i64> = get(row, "tool_version")?;
    Ok(ApprovalRow {
        asked: word(row, "id", CallId::parse)?,
        turn: word(row, "turn", TurnId::parse)?,
        api_key: ApiKeyId(get(row, "api_key")?),
        end_user: get(row, "end_user")?,
        surface: word(row, "surface", enum_words::read_surface)?,
        conversation: get(row, "conversation")?,
        created: time(row, "created_us")?,
        erased: get(row, "erased")?,
        state: word(row, "approval", ApprovalState::parse)?,
        until: optional_time(row, "deadline_us")?,
        tool_name: get(row, "tool_name")?,
        tool_version: version.map(ToolVersionKey),
        effect: optional_word(row, "effect", EffectClass::parse)?,
        sent_id: get(row, "tool_call_id")?,
        arguments: get(row, "arguments")?,
        acted: acted(row)?,
    })
}

fn acted(row: Row<'_>) -> Result<Option<ActedCall>, ReadError> {
    let Some(turn) = optional_word(row, "acted_turn", TurnId::parse)? else {
        return Ok(None);
    };
    let status: CallStatus = word(row, "acted_status", CallStatus::parse)?;
    let end = if status.is_final() {
        Some(CallEnd {
            reason: optional_word(row, "acted_reason", CallReason::parse)?,
            result: None,
            shown: get(row, "acted_shown")?,
            is_error: get(row, "acted_is_error")?,
            cached: get(row, "acted_cached")?,
        })
    } else {
        None
    };
    Ok(Some(ActedCall {
        turn,
        api_key: ApiKeyId(get(row, "acted_key")?),
        body_hash: get(row, "acted_hash")?,
        end,
        erased: get(row, "acted_erased")?,
    }))
}

const ANSWERED: &str = "SELECT t.id, k.shown, u.name, a.created_us
    FROM tool_call a JOIN turn_start t ON t.key = a.turn JOIN api_key k ON k.key = t.api_key
    LEFT JOIN end_user u ON u.key = t.end_user
    WHERE a.organization = ?1 AND a.approves = ?2";

/// The answer to the question whether a call may run; `None` if there was none.
pub(super) fn answered(
    conn: ReadSession<'_>,
    organization: OrgId,
    asked: CallId,
) -> Result<Option<ApprovalAnswered>, ReadError> {
    let mut statement = conn.prepare_cached(ANSWERED)?;
    let mut rows = statement.query(params![organization.0, asked.to_string()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(ApprovalAnswered {
        turn: word(row, "id", TurnId::parse)?,
        key_shown: get(row, "shown")?,
        end_user: get(row, "name")?,
        at: time(row, "created_us")?,
    }))
}
