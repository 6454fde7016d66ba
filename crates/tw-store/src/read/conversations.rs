//! Conversations as somebody sees them: those of which they see a turn, and those that were made for them.

use tw_core::id::{ApiKeyId, OrgId, TurnId};
use tw_core::tenant::TurnOwner;
use tw_core::time::Timestamp;

use super::ReadError;
use super::columns::{get, time, unsigned, word};
use super::turn::find_turn;
use super::view::{ResultDetail, TurnView, view};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::sql::Sql;
use crate::store::Store;

/// A conversation, as far as its turns are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRow {
    /// The conversation's public id.
    pub id: String,
    /// Number of its turns; more than [`TURNS_COUNTED_MAX`] count as so many.
    pub turns: u64,
    /// Time when it was made, or else when the first of the turns was accepted.
    pub created: Timestamp,
    /// Time when the newest of the turns ended; while it runs, when something of it was last written.
    pub active: Timestamp,
    /// `None` for a conversation that its turns made by naming it.
    pub made: Option<MadeBy>,
}

/// How a client made a conversation by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeBy {
    pub api_key: ApiKeyId,
    /// The end user whose it is, if it is somebody's.
    pub end_user: Option<String>,
    /// JSON of an object.
    pub metadata: String,
}

/// A part of a list, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct RowPage<T> {
    pub items: Vec<T>,
    /// Others follow.
    pub has_more: bool,
}

/// A part of a conversation's turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsWanted {
    pub order: ListOrder,
    /// The turn that the part follows; `None` for the first part.
    pub after: Option<TurnId>,
    pub turns_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    OldestFirst,
    NewestFirst,
}

/// The result of a look at a conversation's turns.
#[derive(Clone, Debug, PartialEq)]
pub enum ConversationTurns {
    NoConversation,
    /// The cursor, the turn to go on behind, is none of them.
    NoCursor,
    Page(RowPage<TurnView>),
}

/// Turns of one conversation that are counted.
pub const TURNS_COUNTED_MAX: u32 = 10_000;
/// A page of turns ends with the one that passes this many stored bytes of contents.
pub const PAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;

impl Store {
    /// Conversations in which `whose` turns are seen, and those that were made for them, newest first, at most `max` behind the one that `after` names;
    /// `None` when that one is not seen.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn conversations(
        &self,
        organization: OrgId,
        whose: TurnOwner,
        after: Option<String>,
        max: usize,
    ) -> Result<Option<RowPage<ConversationRow>>, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            let before = match after {
                None => Some(i64::MAX),
                Some(after) => seen.find(conn, &after)?,
            };
            let page = before.map(|before| seen.list(conn, before, max));
            page.transpose()
        })
        .await
    }

    /// A conversation, if it or a turn of it is seen.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn conversation(
        &self,
        organization: OrgId,
        conversation: String,
        whose: TurnOwner,
    ) -> Result<Option<ConversationRow>, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            match seen.find(conn, &conversation)? {
                Some(key) => seen.row(conn, key),
                None => Ok(None),
            }
        })
        .await
    }

    /// Whether turns of other keys than `api_key` are seen in a conversation, or another one made it.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn is_shared(
        &self,
        organization: OrgId,
        conversation: String,
        whose: TurnOwner,
        api_key: ApiKeyId,
    ) -> Result<bool, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            let Some(key) = seen.find(conn, &conversation)? else {
                return Ok(false);
            };
            let made = seen.made(conn, key)?;
            if made.is_some_and(|made| made.api_key != api_key) {
                return Ok(true);
            }
            let bound = params![organization.0, key, seen.api_key, seen.end_user, api_key.0];
            Ok(conn.prepare_cached(OF_OTHERS)?.exists(bound)?)
        })
        .await
    }

    /// Turns of a conversation, each as [`Store::turn_view`] reads it.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn conversation_turns(
        &self,
        organization: OrgId,
        conversation: String,
        whose: TurnOwner,
        wanted: TurnsWanted,
    ) -> Result<ConversationTurns, ReadError> {
        self.read(move |conn| {
            let seen = OwnerKeys::by(conn, organization, &whose)?;
            let Some(key) = seen.find(conn, &conversation)? else {
                return Ok(ConversationTurns::NoConversation);
            };
            let page = seen.turns(conn, key, &wanted)?;
            Ok(page.map_or(ConversationTurns::NoCursor, ConversationTurns::Page))
        })
        .await
    }
}

/// The key and the end user whose turns are seen, by the store's own keys.
pub(super) struct OwnerKeys {
    pub(super) organization: OrgId,
    pub(super) api_key: Option<i64>,
    pub(super) end_user: Option<i64>,
}

/// The key of an end user whom nobody has named yet: no row has it.
const NOBODY_YET: i64 = -1;

const END_USER: &str = "SELECT key FROM end_user WHERE organization = ?1 AND name = ?2";

const FIND: &str = "SELECT c.key FROM conversation c
    WHERE c.organization = ?1 AND c.id = ?2
      AND ((c.api_key IS NOT NULL AND (?3 IS NULL OR c.api_key = ?3)
            AND (?4 IS NULL OR c.end_user IS NULL OR c.end_user = ?4))
           OR EXISTS (SELECT 1 FROM turn_start t
                      WHERE t.organization = ?1 AND t.conversation = c.key AND t.deleted_us IS NULL
                        AND (?3 IS NULL OR t.api_key = ?3) AND (?4 IS NULL OR t.end_user = ?4)))";

/// How a conversation was made, as far as that is seen: one without an end user is for any.
const MADE: &str = "SELECT c.api_key, c.metadata, u.name AS end_user
    FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
    WHERE c.key = ?2 AND c.organization = ?1 AND c.api_key IS NOT NULL
      AND (?3 IS NULL OR c.api_key = ?3) AND (?4 IS NULL OR c.end_user IS NULL OR c.end_user = ?4)";

const OF_OTHERS: &str = "SELECT 1 FROM turn_start
    WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) AND api_key <> ?5
    LIMIT 1";

/// The next conversation costs one look, however many turns the one before it has.
const NEXT: Sql = Sql {
    postgres: "SELECT conversation FROM turn_start
    WHERE organization = ?1 AND conversation < ?2 AND deleted_us IS NULL
    ORDER BY conversation DESC LIMIT 1",
    sqlite: "SELECT conversation FROM turn_start INDEXED BY turn_conversation
    WHERE organization = ?1 AND conversation < ?2 AND deleted_us IS NULL
    ORDER BY conversation DESC LIMIT 1",
};
const NEXT_OF_KEY: Sql = Sql {
    postgres: "SELECT conversation FROM turn_start
    WHERE organization = ?1 AND api_key = ?3 AND conversation < ?2 AND deleted_us IS NULL
    ORDER BY conversation DESC LIMIT 1",
    sqlite: "SELECT conversation FROM turn_start INDEXED BY turn_conversation_of_key
    WHERE organization = ?1 AND api_key = ?3 AND conversation < ?2 AND deleted_us IS NULL
    ORDER BY conversation DESC LIMIT 1",
};
const NEXT_OF_USER: Sql = Sql {
    postgres: "SELECT conversation FROM turn_start
    WHERE organization = ?1 AND end_user = ?3 AND conversation < ?2 AND deleted_us IS NULL
      AND (?4 IS NULL OR api_key = ?4)
    ORDER BY conversation DESC LIMIT 1",
    sqlite: "SELECT conversation FROM turn_start INDEXED BY turn_conversation_of_user
    WHERE organization = ?1 AND end_user = ?3 AND conversation < ?2 AND deleted_us IS NULL
      AND (?4 IS NULL OR api_key = ?4)
    ORDER BY conversation DESC LIMIT 1",
};

/// The next of those that were made for somebody, whether or not they have turns.
const NEXT_MADE: Sql = Sql {
    sqlite: "SELECT key FROM conversation INDEXED BY conversation_made_of_all
    WHERE organization = ?1 AND key < ?2 AND api_key IS NOT NULL
    ORDER BY key DESC LIMIT 1",
    postgres: "SELECT key FROM conversation
    WHERE organization = ?1 AND key < ?2 AND api_key IS NOT NULL
    ORDER BY key DESC LIMIT 1",
};
const NEXT_MADE_BY_KEY: Sql = Sql {
    sqlite: "SELECT key FROM conversation INDEXED BY conversation_made
    WHERE organization = ?1 AND api_key = ?3 AND key < ?2
    ORDER BY key DESC LIMIT 1",
    postgres: "SELECT key FROM conversation
    WHERE organization = ?1 AND api_key = ?3 AND key < ?2
    ORDER BY key DESC LIMIT 1",
};
const NEXT_MADE_FOR_USER: Sql = Sql {
    sqlite: "SELECT key FROM conversation INDEXED BY conversation_made_for_user
    WHERE organization = ?1 AND end_user = ?3 AND key < ?2 AND api_key IS NOT NULL
      AND (?4 IS NULL OR api_key = ?4)
    ORDER BY key DESC LIMIT 1",
    postgres: "SELECT key FROM conversation
    WHERE organization = ?1 AND end_user = ?3 AND key < ?2 AND api_key IS NOT NULL
      AND (?4 IS NULL OR api_key = ?4)
    ORDER BY key DESC LIMIT 1",
};

/// The row of a conversation. A turn that runs has written into the rows of its attempts, calls, messages and events;
/// its own row changes when it is claimed or told to stop.
const ROW: Sql = Sql {
    postgres: "SELECT c.id, coalesce(f.created_us, c.created_us) AS created_us, c.created_us AS made_us,
        CASE WHEN l.turn IS NULL THEN c.updated_us ELSE coalesce(l.ended_us, greatest(l.updated_us,
            coalesce((SELECT max(updated_us) FROM attempt WHERE turn = l.turn), 0),
            coalesce((SELECT max(updated_us) FROM tool_call WHERE turn = l.turn), 0),
            coalesce((SELECT max(updated_us) FROM message WHERE turn = l.turn), 0),
            coalesce((SELECT max(updated_us) FROM turn_event WHERE turn = l.turn), 0))) END AS active_us,
        (SELECT count(*) FROM
            (SELECT 1 FROM turn_start
             WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
               AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) LIMIT ?5) AS counted) AS turns
    FROM conversation c
    LEFT JOIN turn_start f ON f.key =
        (SELECT key FROM turn_start
         WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
           AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) ORDER BY key LIMIT 1)
    LEFT JOIN turn_state l ON l.turn =
        (SELECT key FROM turn_start
         WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
           AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) ORDER BY key DESC LIMIT 1)
    WHERE c.organization = ?1 AND c.key = ?2",
    sqlite: "SELECT c.id, coalesce(f.created_us, c.created_us) AS created_us, c.created_us AS made_us,
        coalesce(l.ended_us, max(l.updated_us,
            coalesce((SELECT max(updated_us) FROM attempt WHERE turn = l.turn), 0),
            coalesce((SELECT max(updated_us) FROM tool_call WHERE turn = l.turn), 0),
            coalesce((SELECT max(updated_us) FROM message WHERE turn = l.turn), 0),
            coalesce((SELECT max(updated_us) FROM turn_event WHERE turn = l.turn), 0)), c.updated_us) AS active_us,
        (SELECT count(*) FROM
            (SELECT 1 FROM turn_start
             WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
               AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) LIMIT ?5)) AS turns
    FROM conversation c
    LEFT JOIN turn_start f ON f.key =
        (SELECT key FROM turn_start
         WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
           AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) ORDER BY key LIMIT 1)
    LEFT JOIN turn_state l ON l.turn =
        (SELECT key FROM turn_start
         WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
           AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4) ORDER BY key DESC LIMIT 1)
    WHERE c.organization = ?1 AND c.key = ?2",
};

const CURSOR: &str = "SELECT key FROM turn_start
    WHERE organization = ?1 AND id = ?5 AND conversation = ?2 AND deleted_us IS NULL
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)";

const OLDEST_FIRST: &str = "SELECT key, id FROM turn_start
    WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL AND key > ?5
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)
    ORDER BY key LIMIT ?6";
const NEWEST_FIRST: &str = "SELECT key, id FROM turn_start
    WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL AND key < ?5
      AND (?3 IS NULL OR api_key = ?3) AND (?4 IS NULL OR end_user = ?4)
    ORDER BY key DESC LIMIT ?6";

/// Bytes of a turn's contents, as far as a page shows them.
const CONTENT_BYTES: &str = "SELECT CAST(
    coalesce((SELECT sum(octet_length(blocks) + blob_bytes) FROM message WHERE turn = ?1), 0)
    + coalesce((SELECT sum(octet_length(arguments) + coalesce(octet_length(shown), 0))
                FROM tool_call WHERE turn = ?1), 0) AS bigint) AS bytes";

impl OwnerKeys {
    /// The store's own keys for `whose`.
    pub(super) fn by(
        conn: ReadSession<'_>,
        organization: OrgId,
        whose: &TurnOwner,
    ) -> Result<Self, ReadError> {
        let end_user = match &whose.end_user {
            None => None,
            Some(name) => {
                let found = conn
                    .prepare_cached(END_USER)?
                    .first(params![organization.0, name], |row| row.get(0))?;
                Some(found.unwrap_or(NOBODY_YET))
            }
        };
        Ok(Self {
            organization,
            api_key: whose.api_key.map(|key| key.0),
            end_user,
        })
    }

    /// Everybody's of the organization.
    pub(super) fn of_everybody(&self) -> Self {
        Self {
            organization: self.organization,
            api_key: None,
            end_user: None,
        }
    }

    /// How the conversation was made, if a client made it by itself and that is seen.
    pub(super) fn made(
        &self,
        conn: ReadSession<'_>,
        conversation: i64,
    ) -> Result<Option<MadeBy>, ReadError> {
        let bound = params![
            self.organization.0,
            conversation,
            self.api_key,
            self.end_user
        ];
        let mut statement = conn.prepare_cached(MADE)?;
        let mut rows = statement.query(bound)?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        Ok(Some(MadeBy {
            api_key: ApiKeyId(get(row, "api_key")?),
            end_user: get(row, "end_user")?,
            metadata: get(row, "metadata")?,
        }))
    }

    pub(super) fn find(
        &self,
        conn: ReadSession<'_>,
        conversation: &str,
    ) -> Result<Option<i64>, ReadError> {
        let bound = params![
            self.organization.0,
            conversation,
            self.api_key,
            self.end_user
        ];
        let mut statement = conn.prepare_cached(FIND)?;
        Ok(statement.first(bound, |row| row.get(0))?)
    }

    fn list(
        &self,
        conn: ReadSession<'_>,
        mut before: i64,
        max: usize,
    ) -> Result<RowPage<ConversationRow>, ReadError> {
        let mut items = Vec::new();
        let mut next = self.next(conn, before)?;
        while items.len() < max
            && let Some(key) = next
        {
            items.extend(self.row(conn, key)?);
            before = key;
            next = self.next(conn, before)?;
        }
        Ok(RowPage {
            items,
            has_more: next.is_some(),
        })
    }

    fn next(&self, conn: ReadSession<'_>, before: i64) -> Result<Option<i64>, ReadError> {
        let (with_turns, made) = (self.next_seen(conn, before)?, self.next_made(conn, before)?);
        Ok(with_turns.max(made))
    }

    fn next_made(&self, conn: ReadSession<'_>, before: i64) -> Result<Option<i64>, ReadError> {
        let organization = self.organization.0;
        let found = match (self.end_user, self.api_key) {
            (Some(user), api_key) => conn
                .prepare_cached(NEXT_MADE_FOR_USER)?
                .first(params![organization, before, user, api_key], |row| {
                    row.get(0)
                }),
            (None, Some(api_key)) => conn
                .prepare_cached(NEXT_MADE_BY_KEY)?
                .first(params![organization, before, api_key], |row| row.get(0)),
            (None, None) => conn
                .prepare_cached(NEXT_MADE)?
                .first(params![organization, before], |row| row.get(0)),
        };
        Ok(found?)
    }

    fn next_seen(&self, conn: ReadSession<'_>, before: i64) -> Result<Option<i64>, ReadError> {
        let organization = self.organization.0;
        let found = match (self.end_user, self.api_key) {
            (Some(user), api_key) => conn
                .prepare_cached(NEXT_OF_USER)?
                .first(params![organization, before, user, api_key], |row| {
                    row.get(0)
                }),
            (None, Some(api_key)) => conn
                .prepare_cached(NEXT_OF_KEY)?
                .first(params![organization, before, api_key], |row| row.get(0)),
            (None, None) => conn
                .prepare_cached(NEXT)?
                .first(params![organization, before], |row| row.get(0)),
        };
        Ok(found?)
    }

    fn row(&self, conn: ReadSession<'_>, key: i64) -> Result<Option<ConversationRow>, ReadError> {
        let bound = params![
            self.organization.0,
            key,
            self.api_key,
            self.end_user,
            TURNS_COUNTED_MAX
        ];
        let mut statement = conn.prepare_cached(ROW)?;
        let mut rows = statement.query(bound)?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let made = self.made(conn, key)?;
        let created = if made.is_some() {
            "made_us"
        } else {
            "created_us"
        };
        Ok(Some(ConversationRow {
            id: get(row, "id")?,
            turns: unsigned(row, "turns")?,
            created: time(row, created)?,
            active: time(row, "active_us")?,
            made,
        }))
    }

    /// A page of the conversation's turns; `None` when the cursor is no turn of it.
    fn turns(
        &self,
        conn: ReadSession<'_>,
        conversation: i64,
        wanted: &TurnsWanted,
    ) -> Result<Option<RowPage<TurnView>>, ReadError> {
        let (sql, start) = match wanted.order {
            ListOrder::OldestFirst => (OLDEST_FIRST, 0),
            ListOrder::NewestFirst => (NEWEST_FIRST, i64::MAX),
        };
        let (organization, api_key, end_user) = (self.organization.0, self.api_key, self.end_user);
        let from = match wanted.after {
            None => start,
            Some(after) => {
                let after = after.to_string();
                let bound = params![organization, conversation, api_key, end_user, after];
                let mut statement = conn.prepare_cached(CURSOR)?;
                match statement.first(bound, |row| row.get(0))? {
                    Some(key) => key,
                    None => return Ok(None),
                }
            }
        };
        let one_more = i64::try_from(wanted.turns_max.saturating_add(1)).unwrap_or(i64::MAX);
        let bound = params![
            organization,
            conversation,
            api_key,
            end_user,
            from,
            one_more
        ];
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(bound)?;
        let (mut items, mut bytes) = (Vec::new(), 0);
        let mut has_more = false;
        while let Some(row) = rows.next()? {
            if items.len() >= wanted.turns_max || bytes >= PAGE_BYTES_MAX {
                has_more = true;
                break;
            }
            let id = word(row, "id", TurnId::parse)?;
            bytes += content_bytes(conn, get(row, "key")?)?;
            if let Some((key, turn)) = find_turn(conn, self.organization, id)? {
                items.push(view(conn, key, turn, ResultDetail::Shown)?);
            }
        }
        Ok(Some(RowPage { items, has_more }))
    }
}

pub(super) fn content_bytes(conn: ReadSession<'_>, turn: i64) -> Result<u64, ReadError> {
    let mut statement = conn.prepare_cached(CONTENT_BYTES)?;
    let mut rows = statement.query(params![turn])?;
    rows.next()?.map_or(Ok(0), |row| unsigned(row, "bytes"))
}

#[cfg(test)]
mod tests;
