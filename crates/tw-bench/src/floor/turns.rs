//! Writing turns step by step.

use anyhow::Context;
use rusqlite::{Connection, OptionalExtension, Params, params};
use uuid::Uuid;

/// Sizes of a short exchange.
const BODY_BYTES: usize = 300;
const ANSWER_BYTES: usize = 120;
const RESULT_BYTES: usize = 300;
const EVENTS_BYTES: usize = 400;
const ARGUMENTS: &str = r#"{"city":"Reykjavik","unit":"celsius","days":3}"#;
const USAGE: &str =
    r#"[412,38,450,{"prompt_tokens":412,"completion_tokens":38,"total_tokens":450}]"#;
const OWNER: &str = "0194f2a0-0000-7000-8000-000000000000";

const INSERT_CONVERSATION: &str =
    "INSERT INTO conversation (organization, id, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?3) RETURNING key";
const INSERT_START: &str = "INSERT INTO turn_start
    (organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
     request_id, projector_version, deadline_us, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, 0, 'chat_completions', 1, 'stop', 'full', ?5, ?6, 1, ?7, ?7, ?7)
    RETURNING key";
const INSERT_STATE: &str = "INSERT INTO turn_state
    (turn, organization, api_key, names_somebody, body_hash, owner, fence, status, created_us, updated_us)
    VALUES (?1, ?2, ?3, 0, ?4, ?5, 1, 'running', ?6, ?6)";
const CHECK_FENCE: &str = "SELECT turn FROM turn_state
    WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2) AND fence = 1";
const INSERT_INPUT: &str = "INSERT INTO turn_input (turn, body, context, created_us, updated_us)
    VALUES (?1, ?2, '{}', ?3, ?3)";
const INSERT_MESSAGE: &str =
    "INSERT INTO message (turn, round, seq, role, blocks, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
const INSERT_EVENTS: &str = "INSERT INTO turn_event
    (turn, first, count, fence, payload, created_us, updated_us)
    VALUES (?1, 1, 6, 1, ?2, ?3, ?3)";
const OPEN_ATTEMPT: &str =
    "INSERT INTO attempt (turn, round, position, n, upstream, created_us, updated_us)
    VALUES (?1, ?2, -1, 1, 'main', ?3, ?3)";
const CLOSE_ATTEMPT: &str = "UPDATE attempt
    SET outcome = 'ok', http_status = 200, usage = ?3, ended_us = ?4, updated_us = ?4
    WHERE turn = ?1 AND round = ?2 AND position = -1 AND n = 1 AND outcome IS NULL";
const ADD_CALL: &str = "INSERT INTO tool_call
    (turn, round, position, organization, id, runs, effect, tool_name, tool_call_id, callback_token,
     idempotency_key, arguments, status, created_us, updated_us)
    VALUES (?1, 1, 0, 1, ?2, 'server', 'once', 'weather', ?3, ?4, ?5, ?6, 'pending', ?7, ?7)";
const START_CALL: &str =
    "UPDATE tool_call SET status = 'processing', started_us = ?2, updated_us = ?2
    WHERE turn = ?1 AND round = 1 AND position = 0 AND status = 'pending'";
const END_CALL: &str = "UPDATE tool_call
    SET status = 'completed', result = ?2, shown = ?2, is_error = 0, ended_us = ?3, updated_us = ?3
    WHERE turn = ?1 AND round = 1 AND position = 0 AND status IN ('pending', 'processing')";
const END_TURN: &str = "UPDATE turn_state
    SET status = 'completed', usage = ?2, has_tool_calls = ?4, tool_count = ?4, ended_us = ?3, updated_us = ?3
    WHERE turn = ?1 AND status = 'running'";
const MOVE_HEAD: &str = "UPDATE conversation SET head_turn = ?1, updated_us = ?2
    WHERE key = (SELECT conversation FROM turn_start WHERE key = ?1)";

/// Shapes of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnShape {
    /// The model calls one tool and then answers.
    OneTool,
    /// The model answers: two messages come in and one goes out, with the log of what was shown.
    Relay,
}

impl TurnShape {
    fn steps(self) -> &'static [Step] {
        match self {
            Self::OneTool => &[
                Step::Accept,
                Step::Answer,
                Step::Start,
                Step::Complete,
                Step::End,
            ],
            Self::Relay => &[Step::Accept, Step::End],
        }
    }

    fn calls(self) -> u32 {
        match self {
            Self::OneTool => 1,
            Self::Relay => 0,
        }
    }

    /// Number of the last round, from 1.
    fn last_round(self) -> u32 {
        self.calls() + 1
    }
}

/// Makes turns, each with ids that no other has.
pub struct TurnFactory {
    pub shape: TurnShape,
    random: u64,
    /// Microseconds, moved on by hand, so that every run gets the same ids.
    now_us: i64,
    texts: Texts,
}

struct Texts {
    body: Vec<u8>,
    blocks: String,
    result: String,
    events: String,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Accept,
    Answer,
    Start,
    Complete,
    End,
}

/// A turn's public id, and its key once it is accepted.
struct Turn {
    id: String,
    key: i64,
}

impl TurnFactory {
    pub fn new(shape: TurnShape) -> Self {
        Self {
            shape,
            random: 1,
            now_us: 1_764_000_000_000_000,
            texts: Texts {
                body: vec![b'b'; BODY_BYTES],
                blocks: format!(r#"[{{"text":"{}"}}]"#, "a".repeat(ANSWER_BYTES)),
                result: "r".repeat(RESULT_BYTES),
                events: "e".repeat(EVENTS_BYTES),
            },
        }
    }

    /// Takes `batch` turns from start to end; each step of all is one transaction.
    pub fn run_batch(&mut self, conn: &Connection, batch: usize) -> anyhow::Result<()> {
        let mut turns: Vec<Turn> = (0..batch)
            .map(|_| Turn {
                id: self.time_ordered_id(),
                key: 0,
            })
            .collect();
        for &step in self.shape.steps() {
            run(conn, "BEGIN IMMEDIATE", [])?;
            for turn in &mut turns {
                self.now_us += 1;
                self.write(conn, step, turn)
                    .with_context(|| format!("{step:?} of a turn"))?;
            }
            run(conn, "COMMIT", [])?;
        }
        Ok(())
    }

    fn write(&mut self, conn: &Connection, step: Step, turn: &mut Turn) -> anyhow::Result<()> {
        let now = self.now_us;
        if let Step::Accept = step {
            turn.key = self.accept(conn, turn)?;
            run(conn, OPEN_ATTEMPT, params![turn.key, 1, now])?;
            return Ok(());
        }
        let key = returned(conn, CHECK_FENCE, params![1, turn.id])?;
        match step {
            Step::Accept => {}
            Step::Answer => {
                run(conn, CLOSE_ATTEMPT, params![key, 1, USAGE, now])?;
                run(
                    conn,
                    INSERT_MESSAGE,
                    params![key, 1, 0, "assistant", self.texts.blocks, now],
                )?;
                self.add_call(conn, key)?;
            }
            Step::Start => run(conn, START_CALL, params![key, now])?,
            Step::Complete => {
                run(conn, END_CALL, params![key, self.texts.result, now])?;
                run(conn, OPEN_ATTEMPT, params![key, 2, now])?;
            }
            Step::End => {
                let round = self.shape.last_round();
                run(conn, CLOSE_ATTEMPT, params![key, round, USAGE, now])?;
                run(
                    conn,
                    INSERT_MESSAGE,
                    params![key, round, 0, "assistant", self.texts.blocks, now],
                )?;
                if self.shape == TurnShape::Relay {
                    run(conn, INSERT_EVENTS, params![key, self.texts.events, now])?;
                }
                run(conn, END_TURN, params![key, USAGE, now, self.shape.calls()])?;
                run(conn, MOVE_HEAD, params![key, now])?;
            }
        }
        Ok(())
    }

    fn accept(&mut self, conn: &Connection, turn: &Turn) -> anyhow::Result<i64> {
        let now = self.now_us;
        let conversation = self.time_ordered_id();
        let conversation = returned(conn, INSERT_CONVERSATION, params![1, conversation, now])?;
        let body_hash: Vec<u8> = (0..4)
            .flat_map(|_| self.next_random().to_le_bytes())
            .collect();
        let request_id = Uuid::from_u128(self.random_128()).to_string();
        let bound = params![1, turn.id, 1, conversation, "gpt-5-mini", request_id, now];
        let key = returned(conn, INSERT_START, bound)?;
        run(
            conn,
            INSERT_STATE,
            params![key, 1, 1, body_hash, OWNER, now],
        )?;
        run(conn, INSERT_INPUT, params![key, self.texts.body, now])?;
        let brought: &[&str] = match self.shape {
            TurnShape::OneTool => &["user"],
            TurnShape::Relay => &["system", "user"],
        };
        for (seq, role) in (0u32..).zip(brought) {
            run(
                conn,
                INSERT_MESSAGE,
                params![key, 0, seq, role, self.texts.blocks, now],
            )?;
        }
        Ok(key)
    }

    fn add_call(&mut self, conn: &Connection, key: i64) -> anyhow::Result<()> {
        let id = Uuid::from_u128(self.random_128()).to_string();
        let upstream_id = format!("call_{:016x}", self.next_random());
        let token = format!("{:032x}", self.random_128());
        let bound = params![key, id, upstream_id, token, id, ARGUMENTS, self.now_us];
        run(conn, ADD_CALL, bound)
    }

    /// An id like a UUID of version 7: the time in front, the rest random.
    fn time_ordered_id(&mut self) -> String {
        self.now_us += 1;
        let millis = u128::try_from(self.now_us / 1000).unwrap_or_default();
        let random = self.random_128() & ((1 << 80) - 1);
        Uuid::from_u128((millis << 80) | (random & !(0xf << 76)) | (7 << 76)).to_string()
    }

    fn random_128(&mut self) -> u128 {
        (u128::from(self.next_random()) << 64) | u128::from(self.next_random())
    }

    /// SplitMix64: seeded, so that a run can be repeated.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn run(conn: &Connection, sql: &str, bound: impl Params) -> anyhow::Result<()> {
    conn.prepare_cached(sql)?.execute(bound)?;
    Ok(())
}

fn returned(conn: &Connection, sql: &str, bound: impl Params) -> anyhow::Result<i64> {
    let key = conn
        .prepare_cached(sql)?
        .query_row(bound, |row| row.get(0))
        .optional()?;
    key.context("a statement that returns a key returned none")
}
