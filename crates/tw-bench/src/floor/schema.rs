//! The store's own schema, filled with what a turn needs.

use std::path::Path;

use anyhow::Context;
use rusqlite::Connection;
use tw_store::migrate::MIGRATIONS;

const STATEMENTS_CACHED: usize = 64;

/// A database with one organization (1) and one API key (1), set as the store sets its writer.
pub fn create(path: &Path) -> anyhow::Result<Connection> {
    let conn = Connection::open(path).context("opening a database")?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "cache_size", -4 * 1024)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    for migration in MIGRATIONS {
        conn.execute_batch(migration.sql)?;
    }
    conn.execute_batch(
        "INSERT INTO organization (key, slug, name, created_us, updated_us) VALUES (1, 'default', 'Default', 0, 0);
         INSERT INTO api_key (key, organization, id, name, hash, shown, scopes, tool_grant, tools_mode, record, memory,
                              created_us, updated_us)
         VALUES (1, 1, 'key', 'key', zeroblob(32), 'tw-', 'chat', 'all', 'replace', 'full', 'off', 0, 0)",
    )?;
    Ok(conn)
}

/// Size of the database without what is free in it.
pub fn bytes(conn: &Connection) -> anyhow::Result<u64> {
    let read = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = read("page_count")? - read("freelist_count")?;
    Ok(u64::try_from(pages * read("page_size")?)?)
}
