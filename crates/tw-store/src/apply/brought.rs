//! Results that clients bring: blocks of their messages, found by their calls.

use tw_core::change::NewMessage;
use tw_core::id::CallId;
use tw_core::request::{Block, ResultBlock};

use super::{StoreApplyError, TurnKey, run};
use crate::session::WriteSession;
use crate::session::bound::params;

const WHAT: &str = "noting a result that a client brought";

const NOTE: &str = "INSERT INTO brought_result
    (turn, round, seq, block, organization, tool_call_id, is_error, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)";

/// Notes the results in a message that was written.
pub fn note_results(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    message: &NewMessage,
) -> Result<(), StoreApplyError> {
    for (place, block) in message.blocks.iter().enumerate() {
        match block {
            Block::Result(result) => note(db, turn, message, (place, result))?,
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Part(_)
            | Block::Native(_) => {}
        }
    }
    Ok(())
}

const HANDED: &str = "SELECT tool_call_id, CASE WHEN is_error = 1 THEN 1 ELSE 0 END
    FROM tool_call WHERE organization = ?1 AND id = ?2";

fn note(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    message: &NewMessage,
    (place, result): (usize, &ResultBlock),
) -> Result<(), StoreApplyError> {
    let organization = turn.organization.0;
    // A client that was handed the call names it by our id.
    let known: Option<(String, bool)> = match CallId::parse_handed(&result.call_id) {
        None => None,
        Some(call) => db
            .first(HANDED, params![organization, call.to_string()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .map_err(|error| StoreApplyError::db(WHAT, error))?,
    };
    let (tool_call_id, was_error) = match &known {
        Some((id, was_error)) => (id.as_str(), *was_error),
        None => (result.call_id.as_str(), false),
    };
    let bound = params![
        turn.key,
        message.round,
        message.seq,
        place as i64,
        organization,
        tool_call_id,
        result.is_error || was_error,
        message.at.0,
    ];
    run(db, WHAT, NOTE, bound)
}
