//! The two ways to key the tables that every turn writes to.

use std::path::Path;

use anyhow::Context;
use rusqlite::Connection;
use tw_store::migrate::MIGRATIONS;

/// Statements that differ between the two; the others are the same text.
pub struct Variant {
    pub keys: KeyEncoding,
    pub insert_conversation: &'static str,
    pub insert_turn: &'static str,
    pub check_fence: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEncoding {
    /// The store's own schema: integers inside, and the public id as text beside them.
    Integer,
    /// The same tables keyed by the id itself, as 16 bytes.
    Blob,
}

pub const INTEGER_KEYS: Variant = Variant {
    keys: KeyEncoding::Integer,
    insert_conversation: "INSERT INTO conversation (organization, id, created_us, updated_us)
        VALUES (?1, ?2, ?3, ?3) RETURNING key",
    insert_turn: "INSERT INTO turn
        (organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
         request_id, body_hash, projector_version, owner, fence, status, deadline_us, created_us, updated_us)
        VALUES (?1, ?2, ?3, ?4, 0, 'chat_completions', 1, 'stop', 'full', ?5, ?6, ?7, 1, ?8, 1, 'running', ?9,
                ?9, ?9)
        RETURNING key",
    check_fence: "UPDATE turn SET updated_us = ?1 WHERE organization = ?2 AND id = ?3 AND fence = 1 RETURNING key",
};

pub const BLOB_KEYS: Variant = Variant {
    keys: KeyEncoding::Blob,
    insert_conversation: "INSERT INTO conversation (organization, key, created_us, updated_us)
        VALUES (?1, ?2, ?3, ?3) RETURNING key",
    insert_turn: "INSERT INTO turn
        (organization, key, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
         request_id, body_hash, projector_version, owner, fence, status, deadline_us, created_us, updated_us)
        VALUES (?1, ?2, ?3, ?4, 0, 'chat_completions', 1, 'stop', 'full', ?5, ?6, ?7, 1, ?8, 1, 'running', ?9,
                ?9, ?9)
        RETURNING key",
    check_fence: "UPDATE turn SET updated_us = ?1 WHERE organization = ?2 AND key = ?3 AND fence = 1 RETURNING key",
};

const BLOB_SCHEMA: &str = include_str!("blob.sql");

const STATEMENTS_CACHED: usize = 64;

/// A database with one organization (1) and one API key (1), set as the store sets its writer.
pub fn create(path: &Path, variant: &Variant) -> anyhow::Result<Connection> {
    let conn = Connection::open(path).context("opening a database")?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "cache_size", -4 * 1024)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    match variant.keys {
        KeyEncoding::Integer => {
            for migration in MIGRATIONS {
                conn.execute_batch(migration.sql)?;
            }
        }
        KeyEncoding::Blob => conn.execute_batch(BLOB_SCHEMA)?,
    }
    conn.execute_batch(
        "INSERT INTO organization (key, slug, name, created_us, updated_us) VALUES (1, 'default', 'Default', 0, 0);
         INSERT INTO api_key (key, organization, name, hash, shown, scopes, tool_grant, record, memory,
                              created_us, updated_us)
         VALUES (1, 1, 'key', zeroblob(32), 'tw-', 'chat', 'all', 'full', 'off', 0, 0)",
    )?;
    Ok(conn)
}

/// Size of the database without what is free in it.
pub fn bytes(conn: &Connection) -> anyhow::Result<u64> {
    let read = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = read("page_count")? - read("freelist_count")?;
    Ok(u64::try_from(pages * read("page_size")?)?)
}
