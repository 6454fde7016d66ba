//! The path of a conversation: the turns whose items it has, from its head to its beginning.

use tw_core::id::{OrgId, TurnId};
use tw_core::tenant::TurnOwner;

use super::ReadError;
use super::columns::{get, optional_word, word};
use super::conversations::{MadeBy, OwnerKeys};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::store::Store;

/// Most turns of a path; what lies before is not read.
pub const PATH_TURNS_MAX: usize = 100_000;

/// The turn from which a path is walked to its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStart {
    /// The conversation's head; where that is a branch that is not seen, the newest turn that is.
    Head,
    /// A turn of the conversation, whatever became of it.
    Turn(TurnId),
}

/// A conversation with the turns whose items it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationPath {
    /// How it was made, if a client made it by itself; then all of its turns are seen by whoever sees it.
    pub made: Option<MadeBy>,
    /// The conversation's head, whoever's it is.
    pub head: Option<TurnId>,
    /// A turn runs that is to add items.
    pub is_busy: bool,
    /// Newest first: those that are seen and of which something is kept.
    pub turns: Vec<PathTurn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTurn {
    pub id: TurnId,
    pub end_user: Option<String>,
    /// Ids of its items that were taken out of the conversation.
    pub deleted_items: Vec<String>,
}

impl Store {
    /// The path of a conversation that `whose` turns are seen of, or that is seen itself; `None` for any other.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn conversation_path(
        &self,
        organization: OrgId,
        conversation: String,
        whose: TurnOwner,
        start: PathStart,
    ) -> Result<Option<ConversationPath>, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            let Some(key) = seen.find(conn, &conversation)? else {
                return Ok(None);
            };
            Ok(Some(path(conn, &seen, key, start)?))
        })
        .await
    }
}

const HEAD: &str = "SELECT h.id, h.key,
        EXISTS (SELECT 1 FROM turn b WHERE b.key = c.busy_turn AND b.status = 'running' AND b.deleted_us IS NULL)
            AS is_busy
    FROM conversation c LEFT JOIN turn_start h ON h.key = c.head_turn
    WHERE c.key = ?1";

pub(super) const NEWEST: &str = "SELECT key FROM turn
    WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
      AND status IN ('completed', 'incomplete')
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)
    ORDER BY key DESC LIMIT 1";

const FIND: &str =
    "SELECT key FROM turn_start WHERE organization = ?1 AND conversation = ?2 AND id = ?3";

fn path(
    conn: ReadSession<'_>,
    seen: &OwnerKeys,
    conversation: i64,
    start: PathStart,
) -> Result<ConversationPath, ReadError> {
    let made = seen.made(conn, conversation)?;
    let everybodys = seen.of_everybody();
    let of = if made.is_some() { &everybodys } else { seen };
    let mut statement = conn.prepare_cached(HEAD)?;
    let mut rows = statement.query(params![conversation])?;
    let (head, head_key, is_busy): (_, Option<i64>, _) = match rows.next()? {
        Some(row) => (
            optional_word(row, "id", TurnId::parse)?,
            get(row, "key")?,
            get(row, "is_busy")?,
        ),
        None => (None, None, false),
    };
    let mut found = ConversationPath {
        made,
        head,
        is_busy,
        turns: Vec::new(),
    };
    let organization = of.organization.0;
    let from = match start {
        PathStart::Head => head_key,
        PathStart::Turn(turn) => conn.prepare_cached(FIND)?.first(
            params![organization, conversation, turn.to_string()],
            |row| row.get(0),
        )?,
    };
    found.turns = walk(conn, of, conversation, from)?;
    if found.turns.is_empty() && start == PathStart::Head && found.made.is_none() {
        let bound = params![organization, conversation, of.api_key, of.end_user];
        let mut statement = conn.prepare_cached(NEWEST)?;
        let newest = statement.first(bound, |row| row.get(0))?;
        found.turns = walk(conn, of, conversation, newest)?;
    }
    Ok(found)
}

const STEP: &str = "SELECT t.id, t.parent, u.name AS end_user,
        t.deleted_us IS NULL AND t.erased_us IS NULL AND t.status IN ('completed', 'incomplete')
        AND (?3 IS NULL OR t.api_key = ?3) AND (?4 IS NULL OR t.end_user = ?4) AS is_seen
    FROM turn t LEFT JOIN end_user u ON u.key = t.end_user
    WHERE t.key = ?1 AND t.conversation = ?2";

pub(super) fn deleted_items(conn: ReadSession<'_>, turn: i64) -> Result<Vec<String>, ReadError> {
    let mut statement = conn.prepare_cached(DELETED_ITEMS)?;
    Ok(statement.all(params![turn])?)
}

const DELETED_ITEMS: &str = "SELECT id FROM deleted_item WHERE turn = ?1";

pub(super) fn walk(
    conn: ReadSession<'_>,
    seen: &OwnerKeys,
    conversation: i64,
    mut next: Option<i64>,
) -> Result<Vec<PathTurn>, ReadError> {
    let mut turns = Vec::new();
    let mut step = conn.prepare_cached(STEP)?;
    let mut deleted = conn.prepare_cached(DELETED_ITEMS)?;
    let mut steps = 0;
    while let Some(key) = next.filter(|_| steps < PATH_TURNS_MAX) {
        steps += 1;
        let mut rows = step.query(params![key, conversation, seen.api_key, seen.end_user])?;
        let Some(row) = rows.next()? else {
            break;
        };
        if get(row, "is_seen")? {
            turns.push(PathTurn {
                id: word(row, "id", TurnId::parse)?,
                end_user: get(row, "end_user")?,
                deleted_items: deleted.all(params![key])?,
            });
        }
        next = get(row, "parent")?;
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::{DELETED_ITEMS, FIND, HEAD, NEWEST, STEP};
    use crate::read::plan::assert_each_looks;

    #[test]
    fn each_statement_looks_and_never_walks() {
        assert_each_looks(&[
            (HEAD, "INTEGER PRIMARY KEY (rowid=?)"),
            (
                NEWEST,
                "turn_conversation (organization=? AND conversation=?",
            ),
            (
                FIND,
                "sqlite_autoindex_turn_start_1 (organization=? AND id=?)",
            ),
            (STEP, "INTEGER PRIMARY KEY (rowid=?)"),
            (DELETED_ITEMS, "PRIMARY KEY (turn=?)"),
        ]);
    }
}
