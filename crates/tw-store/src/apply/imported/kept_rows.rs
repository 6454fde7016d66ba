//! Rows of another system that are of no turn.
//!
//! Each is known by what names it there, or by its hash. It is kept once, and no longer than it is of no turn.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use tw_core::imported::{ForeignRow, ImportTurns, ImportedTurn, KeptRow};

use super::super::{StoreApplyError, run};
use super::WHAT;
use crate::foreign::{LAYOUT, hash_of_row};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::rows_into::{RowsInto, rows_into};
use crate::session::sql::Sql;

const FIND: Sql = Sql {
    sqlite: "SELECT r.source_table, r.id, r.row FROM json_each(?3) AS asked
        CROSS JOIN imported_row r ON r.organization = ?1 AND r.shape = ?2
            AND r.source_table = asked.value ->> 0 AND r.id = asked.value ->> 1",
    postgres: "SELECT r.source_table, r.id, r.row FROM json_array_elements(CAST(?3 AS json)) AS asked (value)
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
    let asked = import.kept.iter().map(|row| (&*row.table, &*row.id));
    let bound = params![
        organization,
        import.shape,
        list_of(asked.collect::<Vec<_>>())?
    ];
    let read = |row: Row<'_>| Ok(((row.get(0)?, row.get(1)?), row.get(2)?));
    let there = db.rows(FIND, bound, read).map_err(failed)?;
    let there: HashMap<(String, String), Vec<u8>> = there.into_iter().collect();
    let of = import
        .kept
        .iter()
        .filter_map(|row| row.conversation.as_deref());
    let of: BTreeSet<&str> = of.collect();
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
        let is_with_turns = |id: &String| with_turns.contains(id);
        if row.conversation.as_ref().is_some_and(is_with_turns) {
            continue;
        }
        let json = row.json.as_bytes();
        match there.get(&(row.table.clone(), row.id.clone())) {
            Some(found) if found == json => {}
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
    sqlite: "DELETE FROM imported_row WHERE key IN (SELECT r.key FROM json_each(?3) AS asked
        CROSS JOIN imported_row r ON r.organization = ?1 AND r.shape = ?2
            AND r.source_table = asked.value ->> 0 AND r.id = asked.value ->> 1)",
    postgres: "DELETE FROM imported_row WHERE key IN (
        SELECT r.key FROM json_array_elements(CAST(?3 AS json)) AS asked (value)
        JOIN imported_row r ON r.organization = ?1 AND r.shape = ?2
            AND r.source_table = asked.value ->> 0 AND r.id = asked.value ->> 1)",
};

/// One of the rows that have a hash, behind which stands `#` and which of them it is: the last.
const FORGET_EQUAL: &str = "DELETE FROM imported_row WHERE key = (SELECT key FROM imported_row
    WHERE organization = ?1 AND shape = ?2 AND source_table = ?3 AND id > ?4 || '#' AND id < ?4 || '$'
    ORDER BY length(id) DESC, id DESC LIMIT 1)";

/// Forgets rows that are of turns now: the turns hold them.
pub fn forget<'t>(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    written: impl Iterator<Item = &'t ImportedTurn>,
) -> Result<(), StoreApplyError> {
    let failed = |error| StoreApplyError::db(WHAT, error);
    let rows = written.flat_map(|turn| turn.conversation_row.iter().chain(&turn.rows));
    let rows: Vec<&ForeignRow> = rows.collect();
    let tables: BTreeSet<&str> = rows.iter().map(|row| row.table).collect();
    if tables.is_empty() {
        return Ok(());
    }
    let organization = import.organization.0;
    let bound = params![organization, import.shape, list_of(tables)?];
    let kept_of: Vec<String> = db.all(KEPT_OF, bound).map_err(failed)?;
    let may_be_kept = |row: &&&ForeignRow| kept_of.iter().any(|table| table == row.table);
    let rows: Vec<&&ForeignRow> = rows.iter().filter(may_be_kept).collect();
    let named = rows
        .iter()
        .filter_map(|row| Some((row.table, row.name.as_deref()?)));
    let named: Vec<(&str, &str)> = named.collect();
    if !named.is_empty() {
        let bound = params![organization, import.shape, list_of(named)?];
        run(db, WHAT, FORGET, bound)?;
    }
    for row in rows.iter().filter(|row| row.name.is_none()) {
        let hash = hash_of_row(row.json.as_str());
        let bound = params![organization, import.shape, row.table, hash];
        run(db, WHAT, FORGET_EQUAL, bound)?;
    }
    Ok(())
}

pub(super) fn list_of(list: impl Serialize) -> Result<String, StoreApplyError> {
    let text = serde_json::to_string(&list);
    text.map_err(|_| StoreApplyError::Encode { what: WHAT })
}
