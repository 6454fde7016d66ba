//! The statements of a connection that writes, prepared once.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row};

/// Statements of one connection, each found by where its text stands in the program.
///
/// The connection's own cache finds them by what they say and keeps them in the order of their last use, which costs
/// each short statement of a turn a tenth of its time. From there they come, and there they go back with this.
pub struct PreparedStatements<'conn> {
    conn: &'conn Connection,
    /// Prepared statements in order of their [`place`].
    prepared: Vec<(Place, CachedStatement<'conn>)>,
    /// Deliveries of webhooks were written since this was last asked.
    has_deliveries: bool,
}

/// The address at which a statement's text begins, and its length: one text may be the beginning of another.
type Place = (usize, usize);

fn place(sql: &'static str) -> Place {
    (sql.as_ptr().addr(), sql.len())
}

impl<'conn> PreparedStatements<'conn> {
    pub fn of(conn: &'conn Connection) -> Self {
        Self {
            conn,
            prepared: Vec::new(),
            has_deliveries: false,
        }
    }

    /// Notes that deliveries of webhooks were written, so that whoever sends them is woken.
    pub fn note_deliveries(&mut self) {
        self.has_deliveries = true;
    }

    /// Whether deliveries were noted since this was last asked. Those of a group that was rolled back may be among them.
    pub fn take_deliveries(&mut self) -> bool {
        std::mem::take(&mut self.has_deliveries)
    }

    pub fn conn(&self) -> &'conn Connection {
        self.conn
    }

    /// Runs a statement that returns no rows; how many it touched.
    pub fn execute(&mut self, sql: &'static str, bound: impl Params) -> rusqlite::Result<usize> {
        self.run(sql, |statement| statement.execute(bound))
    }

    /// The first row that a statement returns.
    pub fn first<T>(
        &mut self,
        sql: &'static str,
        bound: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.run(sql, |statement| statement.query_row(bound, read).optional())
    }

    /// The rows that a statement of one column returns.
    pub fn all<T: rusqlite::types::FromSql>(
        &mut self,
        sql: &'static str,
        bound: impl Params,
    ) -> rusqlite::Result<Vec<T>> {
        self.run(sql, |statement| {
            statement.query_map(bound, |row| row.get(0))?.collect()
        })
    }

    fn run<T>(
        &mut self,
        sql: &'static str,
        run: impl FnOnce(&mut CachedStatement<'conn>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let place = place(sql);
        let at = match self
            .prepared
            .binary_search_by_key(&place, |(place, _)| *place)
        {
            Ok(at) => at,
            Err(at) => {
                let statement = self.conn.prepare_cached(sql)?;
                self.prepared.insert(at, (place, statement));
                at
            }
        };
        let statement = &mut self.prepared[at].1;
        let answer = run(statement);
        // What was bound may be as large as a request.
        statement.clear_bindings();
        answer
    }
}
