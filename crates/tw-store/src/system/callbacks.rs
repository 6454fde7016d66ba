//! The call of a callback, by the token in its address.

use tw_core::id::{CallId, CallRef, OrgId, TurnId};

use crate::read::ReadError;
use crate::read::columns::{get, word};
use crate::session::bound::params;
use crate::store::Store;

/// The call whose end a token lets somebody tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackTarget {
    pub organization: OrgId,
    pub organization_slug: String,
    pub turn: TurnId,
    pub call: CallRef,
    pub id: CallId,
    pub tool_name: String,
    /// The tool's definition, in the version that the call runs.
    pub definition: String,
}

const TARGET: &str = "SELECT c.organization, o.slug, t.id AS turn, c.round, c.position, c.id, c.tool_name, v.definition
    FROM tool_call c
    JOIN turn_start t ON t.key = c.turn
    JOIN organization o ON o.key = c.organization
    JOIN tool_version v ON v.key = c.tool_version
    WHERE c.callback_token = ?1 AND c.runs = 'server'";

/// The call with this token; `None` also for one of a tool that is not stored.
///
/// # Errors
/// See [`ReadError`].
pub async fn callback_target(
    store: &Store,
    token: &str,
) -> Result<Option<CallbackTarget>, ReadError> {
    let token = token.to_owned();
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(TARGET)?;
            let mut rows = statement.query(params![token])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            Ok(Some(CallbackTarget {
                organization: OrgId(get(row, "organization")?),
                organization_slug: get(row, "slug")?,
                turn: word(row, "turn", TurnId::parse)?,
                call: CallRef {
                    round: get(row, "round")?,
                    position: get(row, "position")?,
                },
                id: word(row, "id", CallId::parse)?,
                tool_name: get(row, "tool_name")?,
                definition: get(row, "definition")?,
            }))
        })
        .await
}
