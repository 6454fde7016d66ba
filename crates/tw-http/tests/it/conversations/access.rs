//! Who sees a conversation, and how much of it.

use serde_json::{Value, json};
use tw_core::tenant::KeyScope;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::Listener;

use super::{get, hello, ids, say, start};
use crate::app::App;
use crate::tenants::{ROUTES, Takes, client_of, error_of};

const ANN: (&str, &str) = ("turnwright-user", "ann");
const BOB: (&str, &str) = ("turnwright-user", "bob");

async fn with(
    client: &TestClient,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> ReadAnswer {
    let body = match (method, path.ends_with("/items")) {
        ("POST", true) => r#"{"items":[{"role":"user","content":"x"}]}"#,
        ("POST", false) => r#"{"metadata":{}}"#,
        _ => "",
    };
    client.send(method, path, headers, body).await.unwrap()
}

/// Names of conversations that are listed, newest first, with the number of turns.
async fn listed(client: &TestClient, headers: &[(&str, &str)]) -> Vec<(String, u64)> {
    let list = with(client, "GET", "/v1/conversations", headers).await;
    let list = list.json();
    let data = list["data"].as_array().unwrap().iter();
    data.map(|item| {
        let id = item["id"].as_str().unwrap().to_owned();
        (id, item["turn_count"].as_u64().unwrap())
    })
    .collect()
}

/// Each route of one conversation.
fn routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES
        .into_iter()
        .filter(|(.., takes)| *takes == Takes::Conversation)
        .map(|(method, path, _)| (method, path))
}

/// On every route, `c` is answered as a conversation that there is not.
async fn assert_unknown(client: &TestClient, headers: &[(&str, &str)]) {
    for (method, path) in routes() {
        let path = &path.replace("{item}", "msg_1");
        let unknown = with(client, method, &path.replace("{id}", "none"), headers).await;
        let foreign = with(client, method, &path.replace("{id}", "c"), headers).await;
        assert_eq!(foreign.status, 404, "{method} {path}: {}", foreign.text());
        assert_eq!(error_of(&foreign), error_of(&unknown));
        let names = |got: &ReadAnswer| got.headers.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&foreign), names(&unknown));
    }
    let after = with(client, "GET", "/v1/conversations?after=c", headers).await;
    let unknown = with(client, "GET", "/v1/conversations?after=none", headers).await;
    assert_eq!((after.status, error_of(&after)), (400, error_of(&unknown)));
    assert_eq!(listed(client, headers).await, []);
}

#[tokio::test]
async fn a_foreign_conversation_is_answered_like_an_unknown_one_on_every_route() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    assert_eq!(routes().count(), 9);
    say(&app.client, "c", &[ANN], "Hi").await;
    let everything = KeyScope::ALL.to_vec();
    let strangers = client_of(&app, "other", everything).await;
    let narrow = client_of(&app, "default", vec![KeyScope::Chat]).await;
    assert_unknown(&strangers, &[]).await;
    assert_unknown(&narrow, &[]).await;
    // Another end user, and one whom nobody has seen.
    say(&app.client, "bob's", &[BOB], "Hi").await;
    let deleted = with(&app.client, "DELETE", "/v1/conversations/bob's", &[BOB]).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    for headers in [[BOB], [("turnwright-user", "nobody")]] {
        assert_unknown(&app.client, &headers).await;
    }
    assert_eq!(listed(&app.client, &[]).await, [("c".to_owned(), 1)]);
    assert_eq!(listed(&app.client, &[ANN]).await, [("c".to_owned(), 1)]);
}

/// A conversation of one name that two keys and two end users share.
async fn shared() -> (App, Listener, TestClient, [String; 3]) {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let narrow = client_of(&app, "default", vec![KeyScope::Chat]).await;
    let turns = [
        say(&app.client, "c", &[ANN], "Hi").await,
        say(&app.client, "c", &[BOB], "Hi").await,
        say(&narrow, "c", &[ANN], "Hi").await,
    ];
    (app, upstream, narrow, turns)
}

#[tokio::test]
async fn of_a_shared_name_each_sees_their_own_turns() {
    let (app, _upstream, narrow, [anns, bobs, narrows]) = shared().await;
    let turns = async |client: &TestClient, headers: &[(&str, &str)]| {
        let got = with(client, "GET", "/v1/conversations/c/turns", headers).await;
        let list: Value = got.json();
        ids(&list)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let wide = &app.client;
    assert_eq!(
        turns(wide, &[]).await,
        [anns.as_str(), bobs.as_str(), narrows.as_str()]
    );
    assert_eq!(turns(wide, &[ANN]).await, [anns.as_str(), narrows.as_str()]);
    assert_eq!(turns(wide, &[BOB]).await, [bobs.as_str()]);
    assert_eq!(turns(&narrow, &[]).await, [narrows.as_str()]);
    assert_eq!(turns(&narrow, &[ANN]).await, [narrows.as_str()]);
    assert_unknown(&narrow, &[BOB]).await;
    // A single turn follows the same rule.
    for (client, headers, turn, status) in [
        (wide, vec![ANN], &anns, 200),
        (wide, vec![BOB], &anns, 404),
        (wide, vec![], &anns, 200),
        (wide, vec![ANN], &narrows, 200),
        (&narrow, vec![ANN], &narrows, 200),
        (&narrow, vec![BOB], &narrows, 404),
        (&narrow, vec![ANN], &anns, 404),
    ] {
        for path in ["", "/events"] {
            let path = format!("/v1/turns/{turn}{path}");
            let got = with(client, "GET", &path, &headers).await;
            assert_eq!(got.status, status, "{path} {headers:?}");
        }
    }
}

#[tokio::test]
async fn deleting_takes_what_is_seen_and_ones_own() {
    let (app, _upstream, narrow, [_, bobs, _]) = shared().await;
    let path = "/v1/conversations/c";
    // The wide key sees a turn of the narrow one and may not take it.
    for headers in [&[][..], &[ANN]] {
        let refused = with(&app.client, "DELETE", path, headers).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert_eq!(refused.json()["error"]["code"], "insufficient_scope");
    }
    assert_eq!(get(&app.client, path).await.json()["turn_count"], 3);
    let reader = client_of(&app, "default", vec![KeyScope::TurnsReadAll]).await;
    assert_eq!(with(&reader, "DELETE", path, &[]).await.status, 403);
    // The narrow key takes its own; what it does not see stays.
    assert_eq!(with(&narrow, "DELETE", path, &[]).await.status, 200);
    assert_eq!(with(&narrow, "DELETE", path, &[]).await.status, 404);
    assert_eq!(get(&app.client, path).await.json()["turn_count"], 2);
    // One end user's part.
    assert_eq!(with(&app.client, "DELETE", path, &[ANN]).await.status, 200);
    assert_unknown(&app.client, &[ANN]).await;
    let left = get(&app.client, &format!("{path}/turns")).await.json();
    assert_eq!(ids(&left), [bobs]);
    // An administrator takes everything.
    say(&narrow, "c", &[], "Hi").await;
    let admin = client_of(&app, "default", vec![KeyScope::Admin]).await;
    assert_eq!(with(&admin, "DELETE", path, &[]).await.status, 200);
    assert_unknown(&app.client, &[]).await;
}

#[tokio::test]
async fn a_name_that_cannot_be_is_refused() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    say(&app.client, "c", &[], "Hi").await;
    let long = "x".repeat(201);
    let tries = [vec![ANN, BOB], vec![("turnwright-user", long.as_str())]];
    for headers in tries {
        for path in ["/v1/conversations", "/v1/conversations/c", "/v1/turns/x"] {
            let got = with(&app.client, "GET", path, &headers).await;
            assert_eq!(got.status, 400, "{path}: {}", got.text());
            assert_eq!(got.json()["error"]["param"], "turnwright-user");
        }
    }
    let empty = with(
        &app.client,
        "GET",
        "/v1/conversations/c",
        &[("turnwright-user", "")],
    )
    .await;
    assert_eq!(empty.json()["id"], json!("c"));
}
