//! Requests that go to an upstream as they are, without a turn.

mod answers;
mod bodies;
mod chain;
mod refusals;

use rusqlite::Connection;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::polling::poll_until;

use crate::app::App;

const EMBEDDINGS: &str = "/v1/embeddings";
const EMBEDDED: &str = r#"{"object":"list","data":[{"embedding":"AACAPw=="}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#;

/// Every route, the model that it takes when none is named, and its place at an upstream.
const ROUTES: [(&str, Option<&str>); 10] = [
    ("/v1/embeddings", None),
    ("/v1/completions", None),
    ("/v1/moderations", Some("omni-moderation-latest")),
    ("/v1/rerank", None),
    ("/v1/images/generations", Some("dall-e-2")),
    ("/v1/images/edits", Some("dall-e-2")),
    ("/v1/images/variations", Some("dall-e-2")),
    ("/v1/audio/speech", None),
    ("/v1/audio/transcriptions", None),
    ("/v1/audio/translations", None),
];

/// A record, as far as tests look at it.
#[derive(Debug, PartialEq, Eq)]
pub struct RelayedRow {
    pub end_user: Option<String>,
    pub path: String,
    model: String,
    pub upstream: String,
    attempts: u32,
    pub outcome: String,
    http_status: Option<u16>,
    tokens: (Option<i64>, Option<i64>),
    bytes: (i64, i64),
    request_id: String,
}

/// All records, once there are so many: they are written when nobody waits any more.
pub async fn rows(app: &App, count: usize) -> Vec<RelayedRow> {
    let database = Connection::open(app.database()).unwrap();
    let mut select = database
        .prepare(
            "SELECT u.name, r.path, r.model, r.upstream, r.attempts, r.outcome, r.http_status, r.input_tokens,
                r.output_tokens, r.request_bytes, r.response_bytes, r.request_id
             FROM relayed_request r LEFT JOIN end_user u ON u.key = r.end_user ORDER BY r.key",
        )
        .unwrap();
    poll_until("the rows of the requests", async || {
        let read = select.query_map([], |row| {
            Ok(RelayedRow {
                end_user: row.get(0)?,
                path: row.get(1)?,
                model: row.get(2)?,
                upstream: row.get(3)?,
                attempts: row.get(4)?,
                outcome: row.get(5)?,
                http_status: row.get(6)?,
                tokens: (row.get(7)?, row.get(8)?),
                bytes: (row.get(9)?, row.get(10)?),
                request_id: row.get(11)?,
            })
        });
        let rows: Vec<RelayedRow> = read.unwrap().map(Result::unwrap).collect();
        (rows.len() >= count).then_some(rows)
    })
    .await
}

async fn post(app: &App, path: &str, body: &str) -> ReadAnswer {
    app.client
        .send("POST", path, &[], body.to_owned())
        .await
        .unwrap()
}

async fn embeds() -> Listener {
    Listener::start(|_| ListenerReply::json(EMBEDDED))
        .await
        .unwrap()
}
