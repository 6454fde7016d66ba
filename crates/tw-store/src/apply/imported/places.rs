//! What turns that are imported refer to: what is there, by one look for the whole change, and what is made for it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use tw_core::id::{OrgId, TurnId};
use tw_core::imported::ImportTurns;

use super::kept_rows::list_of;
use super::{NewTurnRow, WHAT};
use crate::apply::{StoreApplyError, run};
use crate::db_error::DbError;
use crate::session::bound::{has_nul, params, without_nul};
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::session::{Engine, WriteSession};

/// What is there, and what the change has written since.
pub struct KnownPlaces {
    pub turns: HashMap<TurnId, KnownTurn>,
    conversations: HashMap<String, KnownConversation>,
    end_users: HashMap<String, i64>,
    /// New conversations whose heads are to be set, each with its last turn.
    new_heads: Vec<(i64, i64)>,
}

#[derive(Clone, Copy)]
pub struct KnownTurn {
    pub key: i64,
    pub body_hash: Option<[u8; 32]>,
}

#[derive(Clone, Copy)]
pub struct KnownConversation {
    pub key: i64,
    /// A client made it by itself: turns that add no items are not on its path.
    pub is_made: bool,
    /// Its head is to be moved to each of the turns.
    pub moves_head: bool,
}

const FIND_TURNS: Sql = Sql {
    sqlite: "SELECT t.id, t.key, t.body_hash FROM json_each(?2) AS asked
        CROSS JOIN turn t ON t.organization = ?1 AND t.id = asked.value",
    postgres: "SELECT t.id, t.key, t.body_hash FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value)
        JOIN turn t ON t.organization = ?1 AND t.id = asked.value",
};

/// In one order, so that two who lock them do not wait for each other. Nobody takes them over before the turns are there.
const FIND_CONVERSATIONS: Sql = Sql {
    sqlite: "SELECT c.id, c.key, c.api_key IS NOT NULL FROM json_each(?2) AS asked
        CROSS JOIN conversation c ON c.organization = ?1 AND c.id = asked.value",
    postgres: "SELECT c.id, c.key, c.api_key IS NOT NULL FROM conversation c
        WHERE c.organization = ?1 AND c.id IN (SELECT value FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value))
        ORDER BY c.key FOR NO KEY UPDATE",
};

/// As one end user is looked for ([`crate::apply::accept`]), in one order, too.
const FIND_END_USERS: Sql = Sql {
    sqlite: "SELECT u.name, u.key FROM json_each(?2) AS asked
        CROSS JOIN end_user u ON u.organization = ?1 AND u.name = asked.value",
    postgres: "SELECT u.name, u.key FROM end_user u
        WHERE u.organization = ?1 AND u.name IN (SELECT value FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value))
        ORDER BY u.key FOR KEY SHARE",
};

/// In one order, for the same reason: who inserts a name waits for another who does.
const CREATE_END_USERS: Sql = Sql {
    sqlite: "INSERT INTO end_user (organization, name, created_us, updated_us)
        SELECT ?1, value ->> 0, value ->> 1, value ->> 1 FROM json_each(?2) WHERE true
        ON CONFLICT (organization, name) DO NOTHING RETURNING name, key",
    postgres: "INSERT INTO end_user (organization, name, created_us, updated_us)
        SELECT ?1, value ->> 0, CAST(value ->> 1 AS bigint), CAST(value ->> 1 AS bigint)
        FROM json_array_elements(CAST(?2 AS json)) AS asked (value) ORDER BY value ->> 0
        ON CONFLICT (organization, name) DO NOTHING RETURNING name, key",
};

const CREATE_CONVERSATIONS: Sql = Sql {
    sqlite: "INSERT INTO conversation (organization, id, end_user, head_turn, created_us, updated_us)
        SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?2) WHERE true
        ON CONFLICT (organization, id) DO NOTHING RETURNING id, key",
    postgres: "INSERT INTO conversation (organization, id, end_user, head_turn, created_us, updated_us)
        SELECT ?1, value ->> 0, CAST(value ->> 1 AS bigint), CAST(value ->> 2 AS bigint),
            CAST(value ->> 3 AS bigint), CAST(value ->> 4 AS bigint)
        FROM json_array_elements(CAST(?2 AS json)) AS asked (value) ORDER BY value ->> 0
        ON CONFLICT (organization, id) DO NOTHING RETURNING id, key",
};

const REFER_AHEAD: &str = "SET CONSTRAINTS ALL DEFERRED";
const SET_HEAD: &str = "UPDATE conversation SET head_turn = ?2 WHERE key = ?1";

impl KnownPlaces {
    pub fn look_up(
        db: &mut WriteSession<'_>,
        import: &ImportTurns,
    ) -> Result<Self, StoreApplyError> {
        let organization = import.organization;
        let turns = import.turns.iter();
        let asked = turns
            .flat_map(|turn| [Some(turn.id), turn.parent])
            .flatten();
        let asked: BTreeSet<String> = asked.map(|id| id.to_string()).collect();
        let read = |row: Row<'_>| {
            let hash: Option<Vec<u8>> = row.get(2)?;
            let body_hash = hash.and_then(|hash| hash.try_into().ok());
            let key = row.get(1)?;
            Ok((row.get::<String>(0)?, KnownTurn { key, body_hash }))
        };
        let found = find(db, FIND_TURNS, organization, &asked, read)?;
        let turns = found.into_iter();
        let turns = turns.filter_map(|(id, known)| Some((TurnId::parse(&id)?, known)));
        Ok(Self {
            turns: turns.collect(),
            conversations: HashMap::new(),
            end_users: HashMap::new(),
            new_heads: Vec::new(),
        })
    }

    /// Looks for the end users of these turns, and makes those that are not there.
    pub fn add_end_users(
        &mut self,
        db: &mut WriteSession<'_>,
        organization: OrgId,
        turns: &[NewTurnRow<'_>],
    ) -> Result<(), StoreApplyError> {
        let named = turns.iter().filter_map(|row| row.turn.end_user.as_deref());
        let named: BTreeSet<Cow<'_, str>> = named.map(stored).collect();
        let found = find(db, FIND_END_USERS, organization, &named, named_key)?;
        self.end_users.extend(found);
        let mut new: HashMap<Cow<'_, str>, i64> = HashMap::new();
        for row in turns {
            let Some(name) = row.turn.end_user.as_deref().map(stored) else {
                continue;
            };
            if !self.end_users.contains_key(&*name) {
                new.entry(name).or_insert(row.turn.at.0);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let bound = params![organization.0, list_of(new.iter().collect::<Vec<_>>())?];
        let made = db.rows(CREATE_END_USERS, bound, named_key);
        self.end_users
            .extend(made.map_err(|error| StoreApplyError::db(WHAT, error))?);
        // Somebody else has named the others meanwhile.
        let names = new.into_keys();
        let others = names.filter(|name| !self.end_users.contains_key(&**name));
        let found = find(
            db,
            FIND_END_USERS,
            organization,
            &others.collect(),
            named_key,
        )?;
        self.end_users.extend(found);
        Ok(())
    }

    /// Looks for the conversations of these turns, and makes those that are not there, each with its last turn as the
    /// head. The turns must come with the same transaction.
    pub fn add_conversations(
        &mut self,
        db: &mut WriteSession<'_>,
        organization: OrgId,
        turns: &[NewTurnRow<'_>],
    ) -> Result<(), StoreApplyError> {
        let asked = turns.iter().map(|row| stored(&row.turn.conversation));
        let found = find_conversations(db, organization, &asked.collect())?;
        self.conversations.extend(found);
        let new = self.new_conversations(turns)?;
        if new.is_empty() {
            return Ok(());
        }
        let failed = |error| StoreApplyError::db(WHAT, error);
        // A conversation refers to its head, which refers to it. To set the head afterwards runs the trigger that keeps
        // the marks of its path right, which costs PostgreSQL a quarter of all; SQLite would look through all conversations
        // for each turn while a reference waits.
        let refers_ahead = match db.engine() {
            Engine::Sqlite => false,
            Engine::Postgres => {
                run(db, WHAT, REFER_AHEAD, params![])?;
                true
            }
        };
        let rows = new.iter().map(|new| {
            let head = (new.is_path && refers_ahead).then_some(new.last);
            (&new.id, new.end_user, head, new.created, new.updated)
        });
        let bound = params![organization.0, list_of(rows.collect::<Vec<_>>())?];
        let made = db.rows(CREATE_CONVERSATIONS, bound, named_key);
        let mut made: HashMap<String, i64> = made.map_err(failed)?.into_iter().collect();
        let mut others = BTreeSet::new();
        for new in new {
            match made.remove(&*new.id) {
                Some(key) => {
                    if new.is_path && !refers_ahead {
                        self.new_heads.push((key, new.last));
                    }
                    let known = KnownConversation {
                        key,
                        is_made: false,
                        moves_head: !new.is_path,
                    };
                    self.conversations.insert(new.id.into_owned(), known);
                }
                // Somebody else has made it meanwhile.
                None => {
                    others.insert(new.id);
                }
            }
        }
        self.conversations
            .extend(find_conversations(db, organization, &others)?);
        Ok(())
    }

    /// Sets the heads that are not set yet, once the turns are there.
    pub fn set_heads(&self, db: &mut WriteSession<'_>) -> Result<(), StoreApplyError> {
        for (conversation, head) in &self.new_heads {
            run(db, WHAT, SET_HEAD, params![conversation, head])?;
        }
        Ok(())
    }

    fn new_conversations<'t>(
        &self,
        turns: &[NewTurnRow<'t>],
    ) -> Result<Vec<NewConversationRow<'t>>, StoreApplyError> {
        let mut new: Vec<NewConversationRow<'t>> = Vec::new();
        let mut places: HashMap<Cow<'t, str>, usize> = HashMap::new();
        for row in turns {
            let id = stored(&row.turn.conversation);
            if self.conversations.contains_key(&*id) {
                continue;
            }
            match places.get(&id) {
                Some(place) => {
                    let conversation = &mut new[*place];
                    conversation.is_path &= row.parent == Some(conversation.last);
                    conversation.last = row.key;
                    conversation.updated = row.turn.ended.0;
                }
                None => {
                    places.insert(id.clone(), new.len());
                    new.push(NewConversationRow {
                        id,
                        end_user: self.end_user(row)?,
                        created: row.turn.at.0,
                        updated: row.turn.ended.0,
                        last: row.key,
                        is_path: true,
                    });
                }
            }
        }
        Ok(new)
    }

    pub fn conversation(&self, row: &NewTurnRow<'_>) -> Result<KnownConversation, StoreApplyError> {
        let found = self.conversations.get(&*stored(&row.turn.conversation));
        found.copied().ok_or(StoreApplyError::Guard { what: WHAT })
    }

    pub fn end_user(&self, row: &NewTurnRow<'_>) -> Result<Option<i64>, StoreApplyError> {
        let Some(name) = &row.turn.end_user else {
            return Ok(None);
        };
        let found = self.end_users.get(&*stored(name)).copied();
        found.map(Some).ok_or(StoreApplyError::Guard { what: WHAT })
    }
}

struct NewConversationRow<'t> {
    id: Cow<'t, str>,
    end_user: Option<i64>,
    created: i64,
    updated: i64,
    /// The last of its turns.
    last: i64,
    /// Each of its turns continues the one before it.
    is_path: bool,
}

/// A name as the database has it.
pub(super) fn stored(name: &str) -> Cow<'_, str> {
    match has_nul(name) {
        true => Cow::Owned(without_nul(name)),
        false => Cow::Borrowed(name),
    }
}

fn named_key(row: Row<'_>) -> Result<(String, i64), DbError> {
    Ok((row.get(0)?, row.get(1)?))
}

fn find_conversations(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    asked: &BTreeSet<Cow<'_, str>>,
) -> Result<Vec<(String, KnownConversation)>, StoreApplyError> {
    let read = |row: Row<'_>| {
        let known = KnownConversation {
            key: row.get(1)?,
            is_made: row.get(2)?,
            moves_head: true,
        };
        Ok((row.get(0)?, known))
    };
    find(db, FIND_CONVERSATIONS, organization, asked, read)
}

/// What is found of a list of ids or names.
fn find<T>(
    db: &mut WriteSession<'_>,
    sql: Sql,
    organization: OrgId,
    asked: &BTreeSet<impl serde::Serialize>,
    read: impl Fn(Row<'_>) -> Result<T, DbError>,
) -> Result<Vec<T>, StoreApplyError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    db.rows(sql, params![organization.0, list_of(asked)?], read)
        .map_err(|error| StoreApplyError::db(WHAT, error))
}
