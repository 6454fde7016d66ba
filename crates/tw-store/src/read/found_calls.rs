//! Calls by the id that their upstream gave them, and those that failed.

use tw_core::id::{CallId, CallRef, OrgId, TurnId};
use tw_core::tenant::TurnOwner;

use super::ReadError;
use super::columns::{get, word};
use super::conversations::{OwnerKeys, PAGE_BYTES_MAX, RowPage, content_bytes};
use super::turn::find_turn;
use super::view::{CallView, ResultDetail, TurnView, view};
use crate::session::ReadSession;
use crate::session::bound::{Params, params};
use crate::store::Store;

/// The calls that are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallsWanted {
    /// Calls of this id: the upstream's, our own, or that under which a client was handed one.
    Named(String),
    /// Calls that failed.
    Failed,
}

/// A call with the place where it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedCall {
    pub turn: TurnId,
    /// The public id of the turn's conversation.
    pub conversation: String,
    pub call: CallView,
}

impl Store {
    /// Calls of turns that `whose` are, newest first, at most `max` behind the one that `after` names; `None` when that
    /// one is not seen.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn found_calls(
        &self,
        organization: OrgId,
        whose: TurnOwner,
        wanted: CallsWanted,
        after: Option<CallId>,
        max: usize,
    ) -> Result<Option<RowPage<PlacedCall>>, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            let from = match after {
                None => Some((i64::MAX, i64::MAX, i64::MAX)),
                Some(after) => place(conn, &seen, after)?,
            };
            let Some(from) = from else {
                return Ok(None);
            };
            found(conn, &seen, &wanted, from, max).map(Some)
        })
        .await
    }
}

/// A call's turn, round and position.
type CallPlace = (i64, i64, i64);

const PLACE: &str =
    "SELECT c.turn, c.round, c.position FROM tool_call c JOIN turn_start t ON t.key = c.turn
    WHERE c.organization = ?1 AND c.id = ?4 AND t.deleted_us IS NULL
      AND (?2 IS NULL OR t.api_key = ?2) AND (?3 IS NULL OR t.end_user = ?3)";

fn place(
    conn: ReadSession<'_>,
    seen: &OwnerKeys,
    call: CallId,
) -> Result<Option<CallPlace>, ReadError> {
    let bound = params![
        seen.organization.0,
        seen.api_key,
        seen.end_user,
        call.to_string(),
    ];
    let mut statement = conn.prepare_cached(PLACE)?;
    let mut rows = statement.query(bound)?;
    let row = rows.next()?;
    row.map(|row| Ok((get(row, "turn")?, get(row, "round")?, get(row, "position")?)))
        .transpose()
}

const FAILED: &str = "SELECT t.id AS turn, c.round, c.position
    FROM tool_call c JOIN turn t ON t.key = c.turn
    WHERE c.organization = ?1 AND c.is_error = 1 AND (c.turn, c.round, c.position) < (?4, ?5, ?6)
      AND t.deleted_us IS NULL AND t.erased_us IS NULL
      AND (?2 IS NULL OR t.api_key = ?2) AND (?3 IS NULL OR t.end_user = ?3)
    ORDER BY c.turn DESC, c.round DESC, c.position DESC LIMIT ?7";

/// Few calls have one id, and they are put in order.
const BY_UPSTREAM: &str = "SELECT t.id AS turn, c.round, c.position
    FROM tool_call c JOIN turn t ON t.key = c.turn
    WHERE c.organization = ?1 AND c.tool_call_id = ?8 AND (c.turn, c.round, c.position) < (?4, ?5, ?6)
      AND t.deleted_us IS NULL AND t.erased_us IS NULL
      AND (?2 IS NULL OR t.api_key = ?2) AND (?3 IS NULL OR t.end_user = ?3)
    ORDER BY c.turn DESC, c.round DESC, c.position DESC LIMIT ?7";

const BY_ID: &str = "SELECT t.id AS turn, c.round, c.position
    FROM tool_call c JOIN turn t ON t.key = c.turn
    WHERE c.organization = ?1 AND c.id = ?8 AND (c.turn, c.round, c.position) < (?4, ?5, ?6)
      AND t.deleted_us IS NULL AND t.erased_us IS NULL
      AND (?2 IS NULL OR t.api_key = ?2) AND (?3 IS NULL OR t.end_user = ?3)
    ORDER BY c.turn DESC, c.round DESC, c.position DESC LIMIT ?7";

fn found(
    conn: ReadSession<'_>,
    seen: &OwnerKeys,
    wanted: &CallsWanted,
    (turn, round, position): CallPlace,
    max: usize,
) -> Result<RowPage<PlacedCall>, ReadError> {
    let one_more = i64::try_from(max.saturating_add(1)).unwrap_or(i64::MAX);
    let (organization, api_key, end_user) = (seen.organization.0, seen.api_key, seen.end_user);
    let read = |sql: &'static str, bound: Params<'_>| places(conn, sql, bound);
    let places = match wanted {
        CallsWanted::Failed => read(
            FAILED,
            params![
                organization,
                api_key,
                end_user,
                turn,
                round,
                position,
                one_more
            ],
        )?,
        CallsWanted::Named(name) => {
            let own = CallId::parse_handed(name).or_else(|| CallId::parse(name));
            let own = own.map(|id| id.to_string());
            let by_id = match own {
                None => Vec::new(),
                Some(id) => read(
                    BY_ID,
                    params![
                        organization,
                        api_key,
                        end_user,
                        turn,
                        round,
                        position,
                        one_more,
                        id
                    ],
                )?,
            };
            if by_id.is_empty() {
                read(
                    BY_UPSTREAM,
                    params![
                        organization,
                        api_key,
                        end_user,
                        turn,
                        round,
                        position,
                        one_more,
                        name
                    ],
                )?
            } else {
                by_id
            }
        }
    };
    let mut has_more = places.len() > max;
    let (mut items, mut bytes) = (Vec::new(), 0);
    // Calls of one turn come one after the other.
    let mut read_last: Option<TurnView> = None;
    for (turn, round, position) in places.into_iter().take(max) {
        if read_last.as_ref().is_none_or(|last| last.turn.id != turn) {
            if bytes >= PAGE_BYTES_MAX {
                has_more = true;
                break;
            }
            let Some((key, row)) = find_turn(conn, seen.organization, turn)? else {
                continue;
            };
            bytes += content_bytes(conn, key)?;
            read_last = Some(view(conn, key, row, ResultDetail::Shown)?);
        }
        let Some(of) = &read_last else { continue };
        let mut calls = of.rounds.iter().flat_map(|round| &round.calls);
        let call = CallRef { round, position };
        let found = calls.find(|found| found.call == call).cloned();
        items.extend(found.map(|call| PlacedCall {
            turn,
            conversation: of.turn.conversation.clone(),
            call,
        }));
    }
    Ok(RowPage { items, has_more })
}

fn places(
    conn: ReadSession<'_>,
    sql: &'static str,
    bound: Params<'_>,
) -> Result<Vec<(TurnId, u32, u32)>, ReadError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(bound)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let turn = word(row, "turn", TurnId::parse)?;
        found.push((turn, get(row, "round")?, get(row, "position")?));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{BY_ID, BY_UPSTREAM, FAILED, PLACE};
    use crate::read::plan::{assert_each_looks, plan};

    #[test]
    fn each_statement_looks_and_never_walks() {
        let by_id = "(organization=? AND id=?)";
        assert_each_looks(&[
            (
                FAILED,
                "tool_call_failed (organization=? AND (turn,round,position)<",
            ),
            (PLACE, by_id),
        ]);
        for (sql, by) in [
            (
                BY_UPSTREAM,
                "tool_call_upstream (tool_call_id=? AND organization=?",
            ),
            (BY_ID, "(organization=? AND id=?"),
        ] {
            let plan = plan(sql);
            assert!(
                plan.iter().any(|line| line.contains(by)),
                "{sql}\n{plan:#?}"
            );
        }
    }
}
