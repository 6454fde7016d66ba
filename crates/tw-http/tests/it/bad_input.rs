//! Bad input: every row of `testdata/bad_input.toml`, over real sockets.
//!
//! After each row the server answers `/readyz`, a turn that was made is final, and nothing of the
//! server's own key for the upstream is in the answer.

mod clients;
mod row;
mod server;
mod upstream;

use serde_json::Value;
use tw_testkit::client::{ReadAnswer, TestClient};

use crate::app::App;
use row::{BadInputRow, Manner, Raises};

/// Fewest rows, so that a table that is not read does not pass.
const ROWS_MIN: usize = 32;

/// What of a row did not hold, in words.
type Wrong = Vec<String>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_answered_as_it_says() {
    let rows = row::read();
    assert!(rows.len() >= ROWS_MIN);
    let mut wrong = Wrong::new();
    for row in &rows {
        let found = check(row).await;
        wrong.extend(
            found
                .into_iter()
                .map(|what| format!("{}: {what}", row.name)),
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_name_is_there_once() {
    let mut names: Vec<String> = row::read().into_iter().map(|row| row.name).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn every_row_names_the_class_of_its_status() {
    for row in row::read() {
        let wanted = (!succeeds(&row)).then(|| classes(&row));
        let named = row
            .raises
            .as_ref()
            .map(|Raises { python, node }| (python.as_str(), node.as_str()));
        assert_eq!(named, wanted, "{}", row.name);
    }
}

fn succeeds(row: &BadInputRow) -> bool {
    row.status == 200 && !row.in_stream
}

/// The classes of openai-python and openai-node for a status; they differ where they have none.
fn classes(row: &BadInputRow) -> (&'static str, &'static str) {
    let same = |class| (class, class);
    match row.status {
        200 => same("APIError"),
        400 => same("BadRequestError"),
        401 => same("AuthenticationError"),
        403 => same("PermissionDeniedError"),
        404 => same("NotFoundError"),
        409 => same("ConflictError"),
        422 => same("UnprocessableEntityError"),
        429 => same("RateLimitError"),
        500.. => same("InternalServerError"),
        _ => ("APIStatusError", "APIError"),
    }
}

async fn check(row: &BadInputRow) -> Wrong {
    let mut wrong = Wrong::new();
    let upstream = match row.client {
        Some(Manner::ReadsNothing) => clients::listen_and_stream_on().await,
        Some(Manner::Leaves) | None => upstream::listen(row).await,
    };
    let closed = server::Closed::bind();
    let app = server::start(row, &upstream, &closed).await;
    let client = server::client(row, &app).await;
    let turn = match row.client {
        None => {
            let got = ask(row, &client, &mut wrong).await;
            let streamed = row.stream && row.status == 200;
            if row.in_stream {
                check_event(row, &got, &mut wrong);
            } else if row.status != 200 {
                check_error(row, &got, &mut wrong);
            } else if streamed && got.events().last().map(String::as_str) != Some("[DONE]") {
                wrong.push(format!("the stream has no end: {}", got.text()));
            }
            check_head(row, &got, &mut wrong);
            got.header("turnwright-turn").to_owned()
        }
        Some(Manner::Leaves) => clients::leave(row, &client, &upstream).await,
        Some(Manner::ReadsNothing) => clients::read_nothing(row, &client, &upstream, &app).await,
    };
    check_after(row, &app, &turn, &mut wrong).await;
    same(
        &upstream.asked().len(),
        &row.asked(),
        "requests to the upstream",
        &mut wrong,
    );
    wrong
}

async fn ask(row: &BadInputRow, client: &TestClient, wrong: &mut Wrong) -> ReadAnswer {
    let headers: Vec<(&str, &str)> = row
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    if let Some(before) = row.body_before() {
        let got = client
            .send(&row.method, &row.path, &headers, before)
            .await
            .unwrap();
        same(&got.status, &200, "status of the request before it", wrong);
    }
    client
        .send(&row.method, &row.path, &headers, row.body())
        .await
        .unwrap()
}

fn check_head(row: &BadInputRow, got: &ReadAnswer, wrong: &mut Wrong) {
    same(&got.status, &row.status, "status", wrong);
    same(
        &got.header("retry-after"),
        &or_empty(&row.retry_after),
        "retry-after",
        wrong,
    );
    same(
        &got.header("turnwright-repaired"),
        &or_empty(&row.repaired),
        "repaired",
        wrong,
    );
    let id = got.header("x-request-id");
    if !id.starts_with("req_") {
        wrong.push(format!("x-request-id: {id:?}"));
    }
    let secret = upstream::UPSTREAM_KEY;
    if got.text().contains(secret) || format!("{:?}", got.headers).contains(secret) {
        wrong.push(format!(
            "the upstream's key is in the answer: {}",
            got.text()
        ));
    }
    if got.broken {
        wrong.push("the connection broke".to_owned());
    }
}

fn check_error(row: &BadInputRow, got: &ReadAnswer, wrong: &mut Wrong) {
    same(
        &got.header("content-type"),
        &"application/json",
        "content-type",
        wrong,
    );
    let error = got.json()["error"].clone();
    check_fields(row, &error, wrong);
    same(
        &text(&error["request_id"]),
        &got.header("x-request-id"),
        "error.request_id",
        wrong,
    );
}

/// The error is the stream's last event: no finish, no end mark.
fn check_event(row: &BadInputRow, got: &ReadAnswer, wrong: &mut Wrong) {
    let events = got.events();
    let last = events.last().map_or("", String::as_str);
    let last: Value = serde_json::from_str(last).unwrap_or(Value::Null);
    check_fields(row, &last["error"], wrong);
    if got.text().contains("[DONE]") || got.text().contains(r#""finish_reason":"stop""#) {
        wrong.push("a stream that failed must not look finished".to_owned());
    }
    let sent = or_empty(&row.upstream.text);
    same(
        &got.streamed_text().as_str(),
        &sent,
        "text before the error",
        wrong,
    );
}

fn check_fields(row: &BadInputRow, error: &Value, wrong: &mut Wrong) {
    same(
        &error["type"].as_str(),
        &row.kind.as_deref(),
        "error.type",
        wrong,
    );
    for (name, wanted) in [("code", &row.code), ("param", &row.param)] {
        if error.get(name).is_none() {
            wrong.push(format!("error.{name} is missing in {error}"));
        }
        same(&error[name].as_str(), &wanted.as_deref(), name, wrong);
    }
    let message = text(&error["message"]);
    if message.is_empty() || !message.contains(or_empty(&row.says)) {
        wrong.push(format!("error.message: {message:?}"));
    }
}

async fn check_after(row: &BadInputRow, app: &App, turn: &str, wrong: &mut Wrong) {
    app.runtime.idle().await;
    let ready = app.client.send("GET", "/readyz", &[], "").await.unwrap();
    same(&ready.status, &200, "/readyz", wrong);
    if turn.is_empty() {
        same(&None, &row.turn.as_deref(), "turn", wrong);
        return;
    }
    let record = app.turn(turn).await;
    same(
        &record["status"].as_str(),
        &row.turn.as_deref(),
        "turn",
        wrong,
    );
    if record["ended_us"].is_null() {
        wrong.push("the turn has no end".to_owned());
    }
    if matches!(row.client, Some(Manner::Leaves | Manner::ReadsNothing)) {
        same(
            &text(&record["reason"]),
            &"client_left",
            "the turn's reason",
            wrong,
        );
    }
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, wanted: &T, what: &str, wrong: &mut Wrong) {
    if got != wanted {
        wrong.push(format!("{what}: {got:?} instead of {wanted:?}"));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn or_empty(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}
