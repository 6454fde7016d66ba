//! Writes on a connection to PostgreSQL.

use std::collections::{HashMap, VecDeque};

use tw_core::change::{Change, ChangeGroup, Fence, TurnChange};
use uuid::Uuid;

use super::{ExpectedRows, PgConnection};
use crate::blob::WritableGroup;
use crate::db_error::{DbError, Failure};
use crate::session::bound::{BindValue, Params, params};
use crate::session::{KeyedTable, NotedWrites};

/// How a writer goes about what nearly always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePace {
    /// Statements are sent one behind the other, as if each touched the row that it is expected to.
    Ahead,
    /// Each statement is waited for.
    Step,
}

/// A transaction that is being written.
pub struct PostgresWriter<'c> {
    conn: &'c PgConnection,
    pace: WritePace,
    turns: VecDeque<i64>,
    conversations: VecDeque<i64>,
    fenced: HashMap<FenceAsked, Option<i64>>,
    /// What was noted since this was last asked.
    pub(in crate::session) noted: NotedWrites,
}

type FenceAsked = (i64, Uuid, i64);

fn asked(fence: Fence) -> FenceAsked {
    (fence.organization.0, fence.turn.0, fence.fence)
}

const TURN_KEYS: &str = "SELECT nextval('turn_start_key_seq') FROM generate_series(1, ?1)";
const CONVERSATION_KEYS: &str =
    "SELECT nextval('conversation_key_seq') FROM generate_series(1, ?1)";
const BLOB_KEYS: &str = "SELECT nextval('blob_key_seq') FROM generate_series(1, ?1)";
const END_USER_KEYS: &str = "SELECT nextval('end_user_key_seq') FROM generate_series(1, ?1)";

impl<'c> PostgresWriter<'c> {
    pub fn of(conn: &'c PgConnection, pace: WritePace) -> Self {
        Self {
            conn,
            pace,
            turns: VecDeque::new(),
            conversations: VecDeque::new(),
            fenced: HashMap::new(),
            noted: NotedWrites::default(),
        }
    }

    /// Locks the sums of the organizations of which turns are charged or ended, until the transaction ends.
    ///
    /// Turns of one organization add to the same rows, in an order that is theirs: two transactions would wait for each
    /// other. This comes before all other locks, in one order.
    pub fn lock_sums(&mut self, groups: &[WritableGroup]) -> Result<(), DbError> {
        let mut organizations: Vec<i64> = groups.iter().filter_map(adding_up).collect();
        organizations.sort_unstable();
        organizations.dedup();
        for organization in organizations {
            self.run(LOCK_SUMS, params![organization])?;
        }
        Ok(())
    }

    /// Takes keys for the turns that the groups accept, and looks up and locks those that they write to, by `sql`.
    ///
    /// Keys are taken for each batch anew, not in stock: a turn that is accepted after another one was written has the
    /// greater key, whichever connection wrote it, and lists are in that order.
    pub fn prepare(&mut self, groups: &[WritableGroup], sql: &'static str) -> Result<(), DbError> {
        let (mut accepted, mut imported) = (0, 0);
        let mut fences: Vec<Fence> = Vec::new();
        for group in groups {
            match &group.group {
                ChangeGroup::Accept(..) => accepted += 1,
                ChangeGroup::OfTurn(fence, _) => fences.push(*fence),
                ChangeGroup::Free(changes) => imported += changes.iter().map(turns_of).sum::<i64>(),
            }
        }
        // Whoever locks several rows locks them in one order.
        fences.sort_unstable_by_key(|fence| asked(*fence));
        fences.dedup_by_key(|fence| asked(*fence));
        if accepted + imported > 0 {
            self.turns = keys(self.conn, TURN_KEYS, accepted + imported)?;
        }
        if accepted > 0 {
            self.conversations = keys(self.conn, CONVERSATION_KEYS, accepted)?;
        }
        let ids: Vec<String> = fences.iter().map(|fence| fence.turn.to_string()).collect();
        let bound = fences.iter().zip(&ids);
        let bound: Vec<[&dyn BindValue; 3]> = bound
            .map(|(fence, id)| -> [&dyn BindValue; 3] { [&fence.organization.0, id, &fence.fence] })
            .collect();
        let lists: Vec<Params<'_>> = bound.iter().map(|list| &list[..]).collect();
        for (fence, rows) in fences.iter().zip(self.conn.query_each(sql, &lists)?) {
            let key = rows.first().map(|row| row.try_get(0)).transpose()?;
            self.fenced.insert(asked(*fence), key);
        }
        Ok(())
    }

    pub fn conn(&self) -> &'c PgConnection {
        self.conn
    }

    pub fn execute(&mut self, sql: &'static str, bound: Params<'_>) -> Result<usize, DbError> {
        self.conn.execute(sql, bound)
    }

    pub fn execute_one(&mut self, sql: &'static str, bound: Params<'_>) -> Result<usize, DbError> {
        match self.pace {
            WritePace::Ahead => self.conn.send(sql, bound, ExpectedRows::One).map(|()| 1),
            WritePace::Step => self.conn.execute(sql, bound),
        }
    }

    pub fn run(&mut self, sql: &'static str, bound: Params<'_>) -> Result<(), DbError> {
        match self.pace {
            WritePace::Ahead => self.conn.send(sql, bound, ExpectedRows::Any),
            WritePace::Step => self.conn.execute(sql, bound).map(|_| ()),
        }
    }

    pub fn new_key(&mut self, table: KeyedTable) -> Result<i64, DbError> {
        let key = self.new_keys(table, 1)?.pop();
        key.ok_or_else(|| Failure::NoRow.into())
    }

    /// So many keys, rising.
    pub fn new_keys(&mut self, table: KeyedTable, count: usize) -> Result<Vec<i64>, DbError> {
        let (stock, sql) = match table {
            KeyedTable::Turn => (Some(&mut self.turns), TURN_KEYS),
            KeyedTable::Conversation => (Some(&mut self.conversations), CONVERSATION_KEYS),
            KeyedTable::Blob => (None, BLOB_KEYS),
            KeyedTable::EndUser => (None, END_USER_KEYS),
        };
        let mut found: Vec<i64> = match stock {
            Some(stock) => stock.drain(..count.min(stock.len())).collect(),
            None => Vec::new(),
        };
        if found.len() < count {
            let more = i64::try_from(count - found.len()).unwrap_or(i64::MAX);
            found.extend(keys(self.conn, sql, more)?);
        }
        Ok(found)
    }

    pub fn fenced_turn(&self, fence: Fence) -> Option<Option<i64>> {
        self.fenced.get(&asked(fence)).copied()
    }

    pub fn looks_before(&self) -> bool {
        match self.pace {
            WritePace::Ahead => true,
            WritePace::Step => false,
        }
    }
}

const LOCK_SUMS: &str = "SELECT pg_advisory_xact_lock(hashtextextended('turnwright sums ' || current_schema(), ?1)) IS NULL";

/// The organization to whose sums a group adds, if it does.
fn adding_up(group: &WritableGroup) -> Option<i64> {
    let (organization, changes) = match &group.group {
        ChangeGroup::Accept(new, first) => (new.organization, first),
        ChangeGroup::OfTurn(fence, changes) => (fence.organization, changes),
        ChangeGroup::Free(changes) => return changes.iter().find_map(taking_quotas),
    };
    changes.iter().any(adds_up).then_some(organization.0)
}

fn taking_quotas(change: &Change) -> Option<i64> {
    if let Change::TakeCallQuotas(take) = change {
        Some(take.organization.0)
    } else {
        None
    }
}

fn adds_up(change: &TurnChange) -> bool {
    match change {
        TurnChange::Charge(_) | TurnChange::CountTokens { .. } | TurnChange::EndTurn(_) => true,
        TurnChange::OpenAttempt(_)
        | TurnChange::CloseAttempt(_)
        | TurnChange::AddMessage(_)
        | TurnChange::AddCall(_)
        | TurnChange::StartCall { .. }
        | TurnChange::HandOverCall(_)
        | TurnChange::AskApproval { .. }
        | TurnChange::AwaitCallback(_)
        | TurnChange::DetachCall { .. }
        | TurnChange::EndCall { .. }
        | TurnChange::EndOutsideCall { .. }
        | TurnChange::TakeQueuedRow(_)
        | TurnChange::AppendEvents(_)
        | TurnChange::NoteStop { .. }
        | TurnChange::NoteResumed { .. } => false,
    }
}

fn keys(conn: &PgConnection, sql: &'static str, count: i64) -> Result<VecDeque<i64>, DbError> {
    let rows = conn.query(sql, params![count])?;
    let keys = rows.iter().map(|row| Ok(row.try_get(0)?));
    keys.collect()
}

/// The number of turns that a change may import.
fn turns_of(change: &Change) -> i64 {
    if let Change::ImportTurns(import) = change {
        i64::try_from(import.turns.len()).unwrap_or(i64::MAX)
    } else {
        0
    }
}
