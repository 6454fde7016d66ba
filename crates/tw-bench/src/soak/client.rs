//! A client of the soak: a connection, and a person's conversation.

use std::rc::Rc;

use anyhow::Context;
use serde_json::{Value, json};

use super::SoakState;
use super::job::{self, ExpectedOutcome, SoakJob};
use crate::all::request;
use crate::all::turnwright::TOOL;
use crate::http::{Afterwards, ResponseHead};
use crate::load::exchange::Connection;
use crate::load::mixed::MixedRound;
use crate::upstream::profile::Profile;

pub struct SoakClient {
    shared: Rc<SoakState>,
    /// Connection with the server's epoch in which it was opened: the next server knows nothing of it.
    connection: Option<(u64, Connection)>,
    /// The connection of the last answer that was not read, kept until the next request.
    left: Option<Connection>,
    index: usize,
    asked: usize,
    history: Vec<Value>,
    conversation: u64,
}

/// Messages after which a person begins anew.
const HISTORY_MAX: usize = 40;
const CLIENT_TOOL: &str = "soak_seat";

/// Results of a request.
enum Got {
    Answer(ResponseHead, Vec<u8>),
    Nothing,
}

impl SoakClient {
    pub fn new(index: usize, shared: Rc<SoakState>) -> Self {
        Self {
            shared,
            connection: None,
            left: None,
            index,
            // They do not all ask for the same.
            asked: index,
            history: Vec::new(),
            conversation: 0,
        }
    }

    /// Asks once; `false` if nothing came because the server was away.
    pub async fn ask(&mut self) -> bool {
        let job = SoakJob::number(self.asked);
        self.asked += 1;
        self.left = None;
        let epoch = self.shared.epoch.get();
        let asked = self.exchange(job).await;
        let asked = asked.and_then(|got| self.take(job, got));
        let Err(error) = asked else {
            return true;
        };
        self.connection = None;
        self.begin_anew();
        let was_broken = epoch % 2 == 1 || self.shared.epoch.get() != epoch;
        let mut tally = self.shared.tally.borrow_mut();
        if was_broken {
            tally.interrupted += 1;
        } else {
            tally.note_wrong(format!("{job:?}: {error:#}"));
        }
        false
    }

    async fn exchange(&mut self, job: SoakJob) -> anyhow::Result<Got> {
        let epoch = self.shared.epoch.get();
        let kept = self.connection.take();
        let mut connection = match kept.filter(|(opened, _)| *opened == epoch) {
            Some((_, connection)) => connection,
            None => Connection::open(self.shared.address.get()).await?,
        };
        let plain = self.shared.keys.any_tool.as_ref().context("a key")?.clone();
        let request = match job {
            SoakJob::Conversation => self.next_of_conversation(&plain),
            SoakJob::Mixed => {
                let mixed = MixedRound {
                    key: plain,
                    model: job.model().to_owned(),
                    ours: TOOL.to_owned(),
                    theirs: CLIENT_TOOL.to_owned(),
                };
                let (head, answer) = connection.fetch(&mixed.first()).await?;
                if head.afterwards == Afterwards::Close {
                    connection = Connection::open(self.shared.address.get()).await?;
                }
                mixed.second(head.status, &answer)?
            }
            SoakJob::Plain
            | SoakJob::Streamed
            | SoakJob::Tool
            | SoakJob::ToolStreamed
            | SoakJob::BrokenTool
            | SoakJob::Leave
            | SoakJob::Cut
            | SoakJob::CutStreamed
            | SoakJob::Refused => request::post(&job.body(), &plain),
        };
        if job.must() == ExpectedOutcome::BeLeft {
            connection.send(&request).await?;
            self.left = Some(connection);
            return Ok(Got::Nothing);
        }
        let (head, body) = connection.fetch(&request).await?;
        if head.afterwards == Afterwards::Keep {
            self.connection = Some((epoch, connection));
        }
        Ok(Got::Answer(head, body))
    }

    fn take(&mut self, job: SoakJob, got: Got) -> anyhow::Result<()> {
        let Got::Answer(head, body) = got else {
            self.shared.tally.borrow_mut().left += 1;
            return Ok(());
        };
        let text = Profile::parse(job.model())?.text();
        job::check(job.must(), &text, &head, &body)?;
        if job == SoakJob::Conversation {
            self.history
                .push(json!({"role": "assistant", "content": text}));
            if self.history.len() >= HISTORY_MAX {
                self.begin_anew();
            }
        }
        let mut tally = self.shared.tally.borrow_mut();
        tally.answered += 1;
        if job.must() == ExpectedOutcome::BeText {
            tally
                .completed
                .push(head.turn.context("an answer without a turn")?);
        }
        Ok(())
    }

    fn next_of_conversation(&mut self, key: &str) -> Vec<u8> {
        let question = format!("question {} of {}", self.history.len(), self.conversation);
        self.history
            .push(json!({"role": "user", "content": question}));
        let calls = usize::from(self.history.len() % 10 == 5);
        let body = json!({
            "model": format!("mock-t16-c{calls}"),
            "user": format!("person-{}", self.index),
            "messages": self.history,
            "tools": [{"type": "function", "function": {"name": TOOL}}],
        });
        request::post(&body, key)
    }

    fn begin_anew(&mut self) {
        self.history.clear();
        self.conversation += 1;
    }
}
