//! `background`: answered at once, polled, followed, cancelled, and not lost with its process.

use serde_json::{Value, json};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use super::{Lab, RESPONSES, create, events, id, items, response};
use crate::app::{App, AppOptions, upstream_body, upstream_stream};

async fn polled(client: &TestClient, name: &str) -> Value {
    let path = format!("{RESPONSES}/{name}");
    response(&client.send("GET", &path, &[], "").await.unwrap())
}

async fn cancelled(client: &TestClient, name: &str) -> ReadAnswer {
    let path = format!("{RESPONSES}/{name}/cancel");
    client.send("POST", &path, &[], "").await.unwrap()
}

/// The response once it has ended.
pub async fn ended(client: &TestClient, name: &str) -> Value {
    poll_until("the end of a response", async || {
        let now = polled(client, name).await;
        let runs = ["queued", "in_progress"].contains(&now["status"].as_str().unwrap());
        (!runs).then_some(now)
    })
    .await
}

/// A server before an upstream that answers once the gate `later` is open.
async fn waiting(reply: impl Into<bytes::Bytes>, kind: &str) -> (App, Listener) {
    let pieces = vec![
        ReplyPiece::HeadGate("later"),
        ReplyPiece::Bytes(reply.into()),
    ];
    let upstream = Listener::in_turn(vec![ListenerReply::pieces(kind, pieces)]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    (app, upstream)
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[tokio::test]
async fn a_response_in_the_background_is_fetched_later() {
    let (app, upstream) = waiting(upstream_body("Done.", &[]), JSON).await;
    let body = json!({ "input": "go", "background": true });
    let begun = response(&create(&app.client, &[], body).await);
    assert_eq!(
        (&begun["status"], &begun["background"]),
        (&json!("queued"), &json!(true))
    );
    assert_eq!(
        (&begun["output"], &begun["usage"]),
        (&json!([]), &Value::Null)
    );
    upstream.asked_times(1).await;
    let now = polled(&app.client, id(&begun)).await;
    assert!(
        ["queued", "in_progress"].contains(&now["status"].as_str().unwrap()),
        "{now}"
    );
    upstream.open("later");
    let end = ended(&app.client, id(&begun)).await;
    assert_eq!(end["status"], "completed");
    assert_eq!(items(&end, "message")[0]["content"][0]["text"], "Done.");
    assert_eq!(end["background"], true);

    // It goes on like any other.
    let next = json!({ "input": "and?", "previous_response_id": id(&begun) });
    response(&create(&app.client, &[], next).await);
    // An answer is not cancelled any more.
    let after = cancelled(&app.client, id(&begun)).await;
    assert_eq!(response(&after), end);
}

#[tokio::test]
async fn a_stream_in_the_background_goes_on_without_its_client() {
    let (app, upstream) = waiting(upstream_stream("Done.", &[]), EVENTS).await;
    let body = json!({ "model": "m", "input": "go", "background": true, "stream": true });
    let open = app.client.open("POST", RESPONSES, &[], body.to_string());
    let mut live = open.await.unwrap();
    let seen = live.until("response.in_progress").await;
    let kinds: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.queued",
            "response.in_progress"
        ]
    );
    let first = seen.lines().find_map(|line| line.strip_prefix("data: "));
    let first: Value = serde_json::from_str(first.unwrap()).unwrap();
    let name = first["response"]["id"].as_str().unwrap();
    assert_eq!(first["response"]["status"], "queued");
    upstream.asked_times(1).await;
    drop(live);
    let path = format!("{RESPONSES}/{name}?stream=true&starting_after=2");
    let again = app.client.open("GET", &path, &[], "").await.unwrap();
    upstream.open("later");
    let rest = again.read().await;
    let rest = events(&rest);
    assert_eq!(rest[0]["sequence_number"], 3);
    let last = rest.last().unwrap();
    assert_eq!(last["type"], "response.completed", "{last}");
    assert_eq!(ended(&app.client, name).await, last["response"]);
}

#[tokio::test]
async fn a_response_in_the_background_is_cancelled() {
    for streamed in [false, true] {
        let (app, upstream) = waiting("", if streamed { EVENTS } else { JSON }).await;
        let body = json!({ "model": "m", "input": "go", "background": true, "stream": streamed });
        let open = app.client.open("POST", RESPONSES, &[], body.to_string());
        let mut begun = open.await.unwrap();
        let seen = if streamed {
            begun.until("response.in_progress").await
        } else {
            begun.until("}").await
        };
        upstream.asked_times(1).await;
        let from = seen.find("resp_").unwrap();
        let name = &seen[from..from + 37];
        let first = response(&cancelled(&app.client, name).await);
        assert_eq!(first["status"], "cancelled", "{first}");
        assert_eq!(first["id"], name);
        let again = response(&cancelled(&app.client, name).await);
        assert_eq!(again, first, "a second time changes nothing");
        assert_eq!(polled(&app.client, name).await, first);
        let next = json!({ "input": "and?", "previous_response_id": name });
        assert_eq!(create(&app.client, &[], next).await.status, 404);
    }
}

#[tokio::test]
async fn only_what_is_in_the_background_is_cancelled() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    let got = cancelled(&lab.app.client, id(&one)).await;
    assert_eq!(got.status, 400, "{}", got.text());
    assert_eq!(got.json()["error"]["code"], "not_in_background");
    let unstored = json!({ "input": "go", "background": true, "store": false });
    let got = lab.create(unstored).await;
    assert_eq!(got.status, 400, "{}", got.text());
    assert_eq!(got.json()["error"]["param"], "background");
}

#[tokio::test]
async fn a_failure_in_the_background_is_told_by_the_response() {
    let refusal = r#"{"error":{"message":"no such thing","code":"no_thing"}}"#;
    let upstream = Listener::in_turn(vec![ListenerReply::status(400, refusal)]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = json!({ "input": "go", "background": true });
    let begun = response(&create(&app.client, &[], body).await);
    let end = ended(&app.client, id(&begun)).await;
    assert_eq!(end["status"], "failed");
    assert_eq!(end["error"]["code"], "no_thing", "{end}");
    assert!(
        end["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no such thing")
    );
}

/// Of a process that is gone, what nobody was shown is asked again, and what was shown in part has failed.
#[tokio::test]
async fn a_response_in_the_background_outlives_its_process() {
    for streamed in [false, true] {
        let (app, upstream) = waiting("", if streamed { EVENTS } else { JSON }).await;
        let body = json!({ "model": "m", "input": "go", "background": true, "stream": streamed });
        let open = app.client.open("POST", RESPONSES, &[], body.to_string());
        let mut begun = open.await.unwrap();
        let seen = begun.until("\"status\":").await;
        upstream.asked_times(1).await;
        let from = seen.find("resp_").unwrap();
        let name = &seen[from..from + 37];
        let next = Listener::in_turn(vec![ListenerReply::json(upstream_body("Late.", &[]))]);
        let next = next.await.unwrap();
        let later = app.again(&next, AppOptions::plain()).await;
        assert_eq!(later.runtime.recover().await.unwrap(), 1);
        let end = ended(&later.client, name).await;
        if streamed {
            assert_eq!(
                (&end["status"], &end["error"]["code"]),
                (&json!("failed"), &json!("interrupted"))
            );
        } else {
            assert_eq!(end["status"], "completed", "{end}");
            assert_eq!(items(&end, "message")[0]["content"][0]["text"], "Late.");
        }
    }
}

/// Calls of this server's tools count, whichever round they are of.
#[tokio::test]
async fn a_response_runs_as_many_calls_as_it_may() {
    let two: super::Said = (
        "",
        &[("up_1", "act", "{\"n\":1}"), ("up_2", "act", "{\"n\":2}")],
    );
    for (max, ran) in [(Value::Null, 2), (json!(1), 1), (json!(2), 2)] {
        let lab = Lab::start(&[two, ("Done.", &[])]).await;
        let one = lab
            .create(json!({ "input": "go", "max_tool_calls": max }))
            .await;
        let one = response(&one);
        assert_eq!(one["max_tool_calls"], max);
        assert_eq!(lab.tool.asked().len(), ran, "{max}");
        assert_eq!(one["status"], "completed", "the model is told, and answers");
        let choice = &lab.upstream.asked()[1].json()["tool_choice"];
        let is_last = max.as_u64().is_some_and(|max| max <= 2);
        assert_eq!(choice == "none", is_last, "{max}: {choice}");
    }
}
