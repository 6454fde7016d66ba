//! The rows of other applications that were imported, page by page, as they go back.

use tw_core::id::OrgId;

use super::ReadError;
use super::columns::get;
use crate::foreign::LAYOUT;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::store::Store;

/// Turns, or rows, of a page, and the bytes after which it ends.
const PAGE_MAX: i64 = 500;
const PAGE_BYTES: i64 = 16 * 1024 * 1024;

/// A page, and the key that the next one begins behind; `None` behind the last page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPage<T> {
    pub items: Vec<T>,
    pub next: Option<i64>,
}

/// A turn of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedTurnBody {
    /// The body; `None` for a turn that ran here.
    pub body: Option<Vec<u8>>,
}

/// A row that is of no turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedRowKept {
    pub table: String,
    pub json: String,
}

impl Store {
    /// Turns of an organization behind a key, in the order in which they were written.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn imported_turns(
        &self,
        organization: OrgId,
        after: i64,
    ) -> Result<ImportedPage<ImportedTurnBody>, ReadError> {
        self.read(move |conn| turns(conn, organization, after))
            .await
    }

    /// What the tables were, in the order in which they were made.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn imported_layout(
        &self,
        organization: OrgId,
        shape: &'static str,
    ) -> Result<Vec<String>, ReadError> {
        self.read(move |conn| layout(conn, organization, shape))
            .await
    }

    /// Rows of a shape that are of no turn, behind a key, in the order in which they came.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn imported_rows(
        &self,
        organization: OrgId,
        shape: &'static str,
        after: i64,
    ) -> Result<ImportedPage<ImportedRowKept>, ReadError> {
        self.read(move |conn| rows(conn, organization, shape, after))
            .await
    }
}

/// The page is chosen by the lengths of bodies, before any is read. Nearly all turns are one organization's, and so they
/// are looked at in their order, not found by it and then ordered.
const TURNS: &str = "SELECT page.key, CASE WHEN page.bytes > 0 THEN i.body END AS body
    FROM (SELECT key, bytes, sum(bytes) OVER (ORDER BY key) - bytes AS bytes_before
        FROM (SELECT t.key, CASE WHEN t.owner = 'import' THEN length(i.body) ELSE 0 END AS bytes
            FROM turn t JOIN turn_input i ON i.turn = t.key
            WHERE +t.organization = ?1 AND t.key > ?2 AND t.deleted_us IS NULL AND t.erased_us IS NULL
            ORDER BY t.key LIMIT ?3) AS measured) AS page
    JOIN turn_input i ON i.turn = page.key
    WHERE page.bytes_before < ?4 ORDER BY page.key";

fn turns(
    conn: ReadSession<'_>,
    organization: OrgId,
    after: i64,
) -> Result<ImportedPage<ImportedTurnBody>, ReadError> {
    let bound = params![organization.0, after, PAGE_MAX, PAGE_BYTES];
    let mut statement = conn.prepare_cached(TURNS)?;
    let mut rows = statement.query(bound)?;
    let mut page = ImportedPage {
        items: Vec::new(),
        next: None,
    };
    while let Some(row) = rows.next()? {
        page.next = Some(get(row, "key")?);
        page.items.push(ImportedTurnBody {
            body: get(row, "body")?,
        });
    }
    Ok(page)
}

const LAYOUT_ROWS: &str = "SELECT row FROM imported_row
    WHERE organization = ?1 AND shape = ?2 AND source_table = ?3 ORDER BY key";

fn layout(
    conn: ReadSession<'_>,
    organization: OrgId,
    shape: &'static str,
) -> Result<Vec<String>, ReadError> {
    let mut statement = conn.prepare_cached(LAYOUT_ROWS)?;
    let mut rows = statement.query(params![organization.0, shape, LAYOUT])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(text(get(row, "row")?));
    }
    Ok(found)
}

/// As with [`TURNS`], the page is chosen by lengths.
const ROWS: &str = "SELECT page.key, r.source_table, r.row
    FROM (SELECT key, sum(bytes) OVER (ORDER BY key) - bytes AS bytes_before
        FROM (SELECT key, length(row) AS bytes FROM imported_row
            WHERE +organization = ?1 AND shape = ?2 AND source_table <> ?3 AND key > ?4
            ORDER BY key LIMIT ?5) AS measured) AS page
    JOIN imported_row r ON r.key = page.key
    WHERE page.bytes_before < ?6 ORDER BY page.key";

fn rows(
    conn: ReadSession<'_>,
    organization: OrgId,
    shape: &'static str,
    after: i64,
) -> Result<ImportedPage<ImportedRowKept>, ReadError> {
    let bound = params![organization.0, shape, LAYOUT, after, PAGE_MAX, PAGE_BYTES];
    let mut statement = conn.prepare_cached(ROWS)?;
    let mut rows = statement.query(bound)?;
    let mut page = ImportedPage {
        items: Vec::new(),
        next: None,
    };
    while let Some(row) = rows.next()? {
        page.next = Some(get(row, "key")?);
        page.items.push(ImportedRowKept {
            table: get(row, "source_table")?,
            json: text(get(row, "row")?),
        });
    }
    Ok(page)
}

/// It was written as a text.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{LAYOUT_ROWS, ROWS, TURNS};
    use crate::read::plan::plan;

    #[test]
    fn pages_go_on_where_the_one_before_ended() {
        for (sql, by) in [
            (TURNS, "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)"),
            (
                ROWS,
                "SEARCH imported_row USING INTEGER PRIMARY KEY (rowid>?)",
            ),
            (
                LAYOUT_ROWS,
                "(organization=? AND shape=? AND source_table=?)",
            ),
        ] {
            let plan = plan(sql);
            assert!(
                plan.iter().any(|line| line.contains(by)),
                "{sql}\n{plan:#?}"
            );
        }
    }
}
