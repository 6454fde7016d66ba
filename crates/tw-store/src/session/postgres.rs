//! PostgreSQL behind a session: a connection that is driven by the thread that uses it.
//!
//! A connection has a runtime of its own, so that no other thread is woken for a statement. Statements whose answer
//! nobody has to know yet are sent one behind the other, and what became of them is looked at with the next wait.

mod connect;
pub mod copied;
mod tls;
mod values;
pub mod writer;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::SinkExt;
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error as PgError, Row as PgRow, Statement as PgStatement};

use super::bound::{ColumnKind, Params};
use super::sql::{TextPlace, place};
use crate::db_error::{DbError, Failure};

pub use connect::PostgresServer;
use copied::CopiedRows;
use values::OwnedValue;
pub use values::column;

/// Time within which the server answers whatever it is asked; a lock is waited for less long.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The begin of a transaction that sees one state of the database throughout.
pub const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A connection and the statements that it has prepared.
pub struct PgConnection {
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    prepared: RefCell<Vec<(TextPlace, PgStatement)>>,
    sent: RefCell<VecDeque<SentStatement>>,
    lost: Cell<bool>,
}

type RowCount = Pin<Box<dyn Future<Output = Result<u64, PgError>> + Send>>;

/// A statement whose answer is to come.
struct SentStatement {
    expected: ExpectedRows,
    state: SentState,
}

enum SentState {
    Waits(RowCount),
    Answered(Result<u64, PgError>),
}

/// The rows that a statement is expected to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRows {
    /// However many.
    Any,
    /// One; if it touches none, the transaction must not be committed.
    One,
}

impl PgConnection {
    /// Whether the connection is of no more use.
    pub fn is_lost(&self) -> bool {
        self.lost.get() || self.client.is_closed()
    }

    /// Sends a statement and waits for nothing.
    ///
    /// # Errors
    /// The statement could not be prepared, or one that was sent before failed.
    pub fn send(
        &self,
        sql: &'static str,
        bound: Params<'_>,
        expected: ExpectedRows,
    ) -> Result<(), DbError> {
        let statement = self.statement(sql, bound)?;
        let values = OwnedValue::all(bound);
        let client = Arc::clone(&self.client);
        self.send_now(expected, async move {
            client.execute_raw(&statement, values).await
        });
        Ok(())
    }

    /// Sends statements of a transaction's frame, which have no values, and waits for nothing.
    pub fn send_frame(&self, sql: &'static str) {
        let client = Arc::clone(&self.client);
        self.send_now(ExpectedRows::Any, async move {
            client.batch_execute(sql).await.map(|()| 0)
        });
    }

    fn send_now(
        &self,
        expected: ExpectedRows,
        answer: impl Future<Output = Result<u64, PgError>> + Send + 'static,
    ) {
        let mut answer: RowCount = Box::pin(answer);
        // The first poll hands the message over; who waits next has it written.
        let state = match answer
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(answer) => SentState::Answered(answer),
            Poll::Pending => SentState::Waits(answer),
        };
        let sent = SentStatement { expected, state };
        self.sent.borrow_mut().push_back(sent);
    }

    /// Waits for the answers of all that was sent.
    ///
    /// # Errors
    /// The first failure; `Mispredicted` for a statement that touched no row where one was expected.
    pub fn settle(&self) -> Result<(), DbError> {
        self.wait(std::future::ready(Ok(())))
    }

    /// Runs statements of a transaction's frame.
    pub fn frame(&self, sql: &'static str) -> Result<(), DbError> {
        let client = Arc::clone(&self.client);
        self.wait(async move { client.batch_execute(sql).await })
    }

    /// Runs several statements that return no rows.
    pub fn run_script(&self, sql: &str) -> Result<(), DbError> {
        let client = Arc::clone(&self.client);
        self.wait(async move { client.batch_execute(sql).await })
    }

    /// Runs a statement that returns no rows; how many it touched.
    pub fn execute(&self, sql: &'static str, bound: Params<'_>) -> Result<usize, DbError> {
        let statement = self.statement(sql, bound)?;
        let values = OwnedValue::all(bound);
        let count = self.wait(self.client.execute_raw(&statement, values))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Copies rows into a table.
    pub fn copy_in(&self, sql: &'static str, rows: CopiedRows) -> Result<(), DbError> {
        if rows.is_empty() {
            return Ok(());
        }
        let statement = self.statement(sql, &[])?;
        self.wait(async {
            let mut sink = Box::pin(self.client.copy_in(&statement).await?);
            for piece in rows.into_pieces() {
                sink.send(piece).await?;
            }
            sink.as_mut().finish().await.map(drop)
        })
    }

    /// The rows that a statement returns.
    pub fn query(&self, sql: &'static str, bound: Params<'_>) -> Result<Vec<PgRow>, DbError> {
        let statement = self.statement(sql, bound)?;
        self.wait(values::query(&self.client, &statement, bound))
    }

    /// The rows that a statement returns for each of several lists of values, which are sent together.
    pub fn query_each(
        &self,
        sql: &'static str,
        lists: &[Params<'_>],
    ) -> Result<Vec<Vec<PgRow>>, DbError> {
        let Some(first) = lists.first() else {
            return Ok(Vec::new());
        };
        let statement = self.statement(sql, first)?;
        self.wait(async {
            let mut asked = Vec::with_capacity(lists.len());
            for bound in lists {
                let mut query = Box::pin(values::query(&self.client, &statement, bound));
                let early = poll_once(query.as_mut());
                asked.push((query, early));
            }
            let mut found = Vec::with_capacity(asked.len());
            for (query, early) in asked {
                found.push(match early {
                    Some(answer) => answer?,
                    None => query.await?,
                });
            }
            Ok(found)
        })
    }

    /// Drives the connection for work of the caller's own, which takes as long as it takes. Nothing may be left to settle.
    pub fn bulk<T>(&self, work: impl AsyncFnOnce(&Client) -> T) -> Result<T, DbError> {
        let Some(runtime) = &self.runtime else {
            return Err(Failure::Lost.into());
        };
        Ok(runtime.block_on(work(&self.client)))
    }

    /// Waits for an answer, and for those of all that was sent before.
    fn wait<T>(&self, answer: impl Future<Output = Result<T, PgError>>) -> Result<T, DbError> {
        let Some(runtime) = &self.runtime else {
            return Err(Failure::Lost.into());
        };
        let sent = self.sent.take();
        let work = async {
            let mut answer = std::pin::pin!(answer);
            // So that it is sent now, behind what was sent before and not after its answers.
            let early = poll_once(answer.as_mut());
            let before = answers_of(sent).await;
            let answer = match early {
                Some(answer) => answer,
                None => answer.await,
            };
            before?;
            answer.map_err(DbError::from)
        };
        let done = runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, work).await });
        let done = done.unwrap_or_else(|_| Err(Failure::TimedOut.into()));
        if let Err(error) = &done
            && error.ends_connection()
        {
            self.lost.set(true);
        }
        done
    }

    /// The prepared statement of a text, prepared with its first values.
    fn statement(&self, sql: &'static str, bound: Params<'_>) -> Result<PgStatement, DbError> {
        let place = place(sql);
        let at = self
            .prepared
            .borrow()
            .binary_search_by_key(&place, |(place, _)| *place);
        match at {
            Ok(at) => Ok(self.prepared.borrow()[at].1.clone()),
            Err(at) => {
                let types: Vec<Type> = bound
                    .iter()
                    .map(|value| value_type(value.bound().kind()))
                    .collect();
                let text = numbered(sql);
                let statement = self.wait(self.client.prepare_typed(&text, &types))?;
                let mut prepared = self.prepared.borrow_mut();
                prepared.insert(at, (place, statement.clone()));
                Ok(statement)
            }
        }
    }
}

impl Drop for PgConnection {
    fn drop(&mut self) {
        // It may be dropped where nothing may block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// The first failure among the answers of what was sent, once all of them are there.
async fn answers_of(sent: VecDeque<SentStatement>) -> Result<(), DbError> {
    let mut first = Ok(());
    for statement in sent {
        let answer = match statement.state {
            SentState::Answered(answer) => answer,
            SentState::Waits(answer) => answer.await,
        };
        let found = match (answer, statement.expected) {
            (Err(error), _) => Err(DbError::from(error)),
            (Ok(0), ExpectedRows::One) => Err(Failure::Mispredicted.into()),
            (Ok(_), ExpectedRows::One | ExpectedRows::Any) => Ok(()),
        };
        if first.is_ok() {
            first = found;
        }
    }
    first
}

fn value_type(kind: ColumnKind) -> Type {
    match kind {
        ColumnKind::Int | ColumnKind::Bool => Type::INT8,
        ColumnKind::Text => Type::TEXT,
        ColumnKind::Bytes => Type::BYTEA,
    }
}

/// The text with its places as PostgreSQL writes them: `$1` for `?1`.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, behind)) = rest.split_once('?') {
        let sign = if behind.starts_with(|next: char| next.is_ascii_digit()) {
            '$'
        } else {
            '?'
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{before}{sign}");
        rest = behind;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests;
