//! Rows of another system that are of no turn.
//!
//! Each is known by what names it there, or by its hash. It is kept once, and no longer than it is of no turn.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use tw_core::imported::{ForeignRow, ImportTurns, ImportedTurn, KeptRow};

use super::super::{StoreApplyError, run};
use super::WHAT;
use super::places::stored;
use crate::foreign::{LAYOUT, hash_of_row};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::rows_into::{RowsInto, rows_into};
use crate::session::sql::Sql;

const FIND: Sql = Sql {
    sqlite: "SELECT r.source_table, r.id, r.row, r.key FROM json_each(?3) AS asked
        CROSS JOIN imported_row r ON r.organization = ?1 AND r.shape = ?2
            AND r.source_table = asked.value ->> 0 AND r.id = asked.value ->> 1",
    postgres: "SELECT r.source_table, r.id, r.row, r.key FROM json_array_elements(CAST(?3 AS json)) AS asked (value)
        JOIN imported_row r ON r.organization = ?1 AND r.shape = ?2
            AND r.source_table = asked.value ->> 0 AND r.id = asked.value ->> 1",
};

/// Conversations that have a turn which was imported first, and so holds the conversation's row.
const WITH_TURNS: Sql = Sql {
    sqlite: "SELECT c.id FROM json_each(?2) AS asked
        CROSS JOIN conversation c ON c.organization = ?1 AND c.id = asked.value
        WHERE EXISTS (SELECT 1 FROM turn t WHERE t.organization = ?1 AND t.conversation = c.key
            AND t.deleted_us IS NULL AND t.erased_us IS NULL AND t.parent IS NULL AND t.owner = 'import')",
    postgres: "SELECT c.id FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value)
        JOIN conversation c ON c.organization = ?1 AND c.id = asked.value
        WHERE EXISTS (SELECT 1 FROM turn t WHERE t.organization = ?1 AND t.conversation = c.key
            AND t.deleted_us IS NULL AND t.erased_us IS NULL AND t.parent IS NULL AND t.owner = 'import')",
};

const KEPT: RowsInto = rows_into!(
    "imported_row",
    "organization, shape, source_table, id, end_user, row, created_us, updated_us",
    "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"
);
const KEEP: &str =
    "INSERT INTO imported_row (organization, shape, source_table, id, end_user, row, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (organization, shape, source_table, id) DO NOTHING";

/// Columns are added to tables, and rows come with them; those of before lack them.
const RENEW_LAYOUT: &str = "UPDATE imported_row SET row = ?5, updated_us = ?6
    WHERE organization = ?1 AND shape = ?2 AND source_table = ?3 AND id = ?4";

/// Keeps the rows that are not there yet, and gives those that are there with other values: they stay as they are.
pub fn keep(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
) -> Result<Vec<KeptRow>, StoreApplyError> {
    if import.kept.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error| StoreApplyError::db(WHAT, error);
    let organization = import.organization.0;
    let asked = import.kept.iter().map(|row| (&*row.table, stored(&row.id)));
    let there = find(db, import, asked.collect())?;
    let there: HashMap<(&str, &str), &[u8]> = there
        .iter()
        .map(|row| ((&*row.table, &*row.id), &*row.json))
        .collect();
    let of = import.kept.iter().filter_map(conversation_of);
    let of: BTreeSet<Cow<'_, str>> = of.collect();
    let with_turns: HashSet<String> = match of.is_empty() {
        true => HashSet::new(),
        false => {
            let bound = params![organization, list_of(of)?];
            db.all(WITH_TURNS, bound)
                .map_err(failed)?
                .into_iter()
                .collect()
        }
    };
    let (mut changed, mut new) = (Vec::new(), Vec::new());
    for row in &import.kept {
        if conversation_of(row).is_some_and(|id| with_turns.contains(&*id)) {
            continue;
        }
        let json = row.json.as_bytes();
        match there.get(&(&*row.table, &*stored(&row.id))) {
            Some(found) if *found == json => {}
            Some(_) if row.table == LAYOUT => {
                let named = (row.table.as_str(), row.id.as_str());
                let bound = params![
                    organization,
                    import.shape,
                    named.0,
                    named.1,
                    json,
                    import.at.0
                ];
                run(db, WHAT, RENEW_LAYOUT, bound)?;
            }
            Some(_) => changed.push(row.clone()),
            None => new.push(row),
        }
    }
    insert(db, import, &new)?;
    Ok(changed)
}

fn conversation_of(row: &KeptRow) -> Option<Cow<'_, str>> {
    row.conversation.as_deref().map(stored)
}

/// A row that is kept.
struct FoundRow {
    table: String,
    id: String,
    json: Vec<u8>,
    key: i64,
}

/// Those of these rows that are kept, each by its table and the id that it has in the database.
fn find(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    asked: Vec<(&str, Cow<'_, str>)>,
) -> Result<Vec<FoundRow>, StoreApplyError> {
    let bound = params![import.organization.0, import.shape, list_of(asked)?];
    let read = |row: Row<'_>| {
        Ok(FoundRow {
            table: row.get(0)?,
            id: row.get(1)?,
            json: row.get(2)?,
            key: row.get(3)?,
        })
    };
    db.rows(FIND, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))
}

fn insert(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    rows: &[&KeptRow],
) -> Result<(), StoreApplyError> {
    let failed = |error| StoreApplyError::db(WHAT, error);
    let (organization, at) = (import.organization.0, import.at.0);
    // Another import may keep the same rows meanwhile: then this is written again.
    if !db.looks_before() {
        for row in rows {
            let (end_user, json) = (&row.end_user, row.json.as_bytes());
            let bound = params![
                organization,
                import.shape,
                row.table,
                row.id,
                end_user,
                json,
                at,
                at
            ];
            run(db, WHAT, KEEP, bound)?;
        }
        return Ok(());
    }
    let mut writer = db.rows_into(KEPT);
    for row in rows {
        let (end_user, json) = (&row.end_user, row.json.as_bytes());
        let bound = params![
            organization,
            import.shape,
            row.table,
            row.id,
            end_user,
            json,
            at,
            at
        ];
        writer.add(bound).map_err(failed)?;
    }
    writer.end().map_err(failed)
}

/// Tables of which rows are kept.
const KEPT_OF: Sql = Sql {
    sqlite:
        "SELECT asked.value FROM json_each(?3) AS asked WHERE EXISTS (SELECT 1 FROM imported_row r
        WHERE r.organization = ?1 AND r.shape = ?2 AND r.source_table = asked.value)",
    postgres: "SELECT asked.value FROM json_array_elements_text(CAST(?3 AS json)) AS asked (value)
        WHERE EXISTS (SELECT 1 FROM imported_row r
            WHERE r.organization = ?1 AND r.shape = ?2 AND r.source_table = asked.value)",
};

const FORGET: Sql = Sql {
    sqlite: "DELETE FROM imported_row WHERE key IN (SELECT value FROM json_each(?1))",
    postgres: "DELETE FROM imported_row WHERE key IN (
        SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(?1 AS json)))",
};

/// One of the rows that have a hash, behind which stands `#` and which of them it is: the last.
const FORGET_EQUAL: &str = "DELETE FROM imported_row WHERE key = (SELECT key FROM imported_row
    WHERE organization = ?1 AND shape = ?2 AND source_table = ?3 AND id > ?4 || '#' AND id < ?4 || '$'
    ORDER BY length(id) DESC, id DESC LIMIT 1)";

/// Forgets rows that are of turns now: the turns hold them. Those that had other values are given back, since a row of
/// another source may have had the name; but conversations are the same if their names are.
pub fn forget<'t>(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    written: impl Iterator<Item = &'t ImportedTurn>,
) -> Result<Vec<KeptRow>, StoreApplyError> {
    let failed = |error| StoreApplyError::db(WHAT, error);
    let rows = written.flat_map(|turn| {
        let conversation = turn.conversation_row.iter().map(|row| (row, true));
        conversation.chain(turn.rows.iter().map(|row| (row, false)))
    });
    let rows: Vec<(&ForeignRow, bool)> = rows.collect();
    let tables: BTreeSet<&str> = rows.iter().map(|(row, _)| row.table).collect();
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let organization = import.organization.0;
    let bound = params![organization, import.shape, list_of(tables)?];
    let kept_of: Vec<String> = db.all(KEPT_OF, bound).map_err(failed)?;
    let rows = rows.iter();
    let rows = rows.filter(|(row, _)| kept_of.iter().any(|table| table == row.table));
    let (named, unnamed): (Vec<_>, Vec<_>) = rows.partition(|(row, _)| row.name.is_some());
    let replaced = forget_named(db, import, &named)?;
    for (row, _) in unnamed {
        let hash = hash_of_row(row.json.as_str());
        let bound = params![organization, import.shape, row.table, hash];
        run(db, WHAT, FORGET_EQUAL, bound)?;
    }
    Ok(replaced)
}

/// Forgets those of these rows that are kept, each of which says whether it is a conversation's own.
fn forget_named(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    rows: &[&(&ForeignRow, bool)],
) -> Result<Vec<KeptRow>, StoreApplyError> {
    let named = rows.iter().filter_map(|(row, is_conversation)| {
        let name = stored(row.name.as_deref()?);
        Some(((row.table, name), (row.json.as_str(), *is_conversation)))
    });
    let named: HashMap<(&str, Cow<'_, str>), (&str, bool)> = named.collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let (mut keys, mut replaced) = (Vec::new(), Vec::new());
    for found in find(db, import, named.keys().cloned().collect())? {
        keys.push(found.key);
        let of = named.get(&(&*found.table, Cow::Borrowed(&*found.id)));
        if of.is_some_and(|(json, is_own)| *is_own || json.as_bytes() == found.json) {
            continue;
        }
        replaced.push(KeptRow {
            table: found.table,
            id: found.id,
            conversation: None,
            end_user: None,
            json: String::from_utf8_lossy(&found.json).into_owned(),
        });
    }
    if !keys.is_empty() {
        run(db, WHAT, FORGET, params![list_of(keys)?])?;
    }
    Ok(replaced)
}

pub(super) fn list_of(list: impl Serialize) -> Result<String, StoreApplyError> {
    let text = serde_json::to_string(&list);
    text.map_err(|_| StoreApplyError::Encode { what: WHAT })
}
