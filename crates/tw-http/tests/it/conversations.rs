//! Conversations: listed, read turn by turn, and deleted.

mod access;
mod appended;
mod delete;
mod deleted;
mod shaped;
mod waiting;

use serde_json::{Value, json};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, CHAT, ask, upstream_body};

async fn hello() -> Listener {
    Listener::in_turn(vec![ListenerReply::json(upstream_body("Hello", &[]))])
        .await
        .unwrap()
}

async fn start(upstream: &Listener) -> App {
    App::start(upstream, AppOptions::plain()).await
}

/// A turn in a conversation; its id.
async fn say(
    client: &TestClient,
    conversation: &str,
    headers: &[(&str, &str)],
    text: &str,
) -> String {
    let mut all = vec![("turnwright-conversation", conversation)];
    all.extend(headers);
    let got = client.send("POST", CHAT, &all, ask(text).to_string());
    let got = got.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.header("turnwright-turn").to_owned()
}

async fn get(client: &TestClient, path: &str) -> ReadAnswer {
    client.send("GET", path, &[], "").await.unwrap()
}

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap();
    data.iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn conversations_are_listed_page_by_page_newest_first() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let empty = get(&app.client, "/v1/conversations").await.json();
    let nothing = json!({
        "object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false,
    });
    assert_eq!(empty, nothing);
    for n in 0..22 {
        say(&app.client, &format!("c{n}"), &[], "Hi").await;
    }
    // A second turn does not make it newer.
    say(&app.client, "c0", &[], "Hi again").await;
    let named = |from: usize, to: usize| -> Vec<String> {
        (to..=from).rev().map(|n| format!("c{n}")).collect()
    };
    for (query, expected, has_more) in [
        ("", named(21, 2), true),
        ("?limit=22", named(21, 0), false),
        ("?limit=100", named(21, 0), false),
        ("?limit=21", named(21, 1), true),
        ("?after=c2", named(1, 0), false),
        ("?after=c2&limit=1", named(1, 1), true),
        ("?limit=1&after=c1", named(0, 0), false),
        ("?after=c0", vec![], false),
    ] {
        let path = format!("/v1/conversations{query}");
        let list = get(&app.client, &path).await.json();
        assert_eq!(ids(&list), expected, "{query}");
        assert_eq!(list["has_more"], has_more, "{query}");
        assert_eq!(list["first_id"], json!(expected.first()), "{query}");
        assert_eq!(list["last_id"], json!(expected.last()), "{query}");
    }
}

#[tokio::test]
async fn a_conversation_tells_when_it_began_and_when_it_was_last_used() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let first = say(&app.client, "c", &[], "Hi").await;
    let last = say(&app.client, "c", &[], "And?").await;
    let (first, last) = (app.turn(&first).await, app.turn(&last).await);
    let conversation = get(&app.client, "/v1/conversations/c").await.json();
    let created = first["created_us"].as_i64().unwrap();
    let expected = json!({
        "id": "c",
        "object": "conversation",
        "created_at": created / 1_000_000,
        "metadata": {},
        "turn_count": 2,
        "created_us": created,
        "active_us": last["ended_us"],
    });
    assert_eq!(conversation, expected);
    let list = get(&app.client, "/v1/conversations").await.json();
    assert_eq!(list["data"], json!([expected]));
}

#[tokio::test]
async fn turns_are_listed_in_order_each_as_it_is_shown_alone() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let mut turns = Vec::new();
    for n in 0..3 {
        turns.push(say(&app.client, "c", &[], &format!("Hi {n}")).await);
        say(&app.client, "d", &[], "Elsewhere").await;
    }
    app.settled().await;
    let backwards: Vec<String> = turns.iter().rev().cloned().collect();
    let after = |at: usize| format!("after={}", turns[at]);
    for (query, expected, has_more) in [
        (String::new(), &turns[..], false),
        ("order=asc".to_owned(), &turns[..], false),
        ("order=desc".to_owned(), &backwards[..], false),
        ("limit=2".to_owned(), &turns[..2], true),
        ("limit=2&order=desc".to_owned(), &backwards[..2], true),
        (after(0), &turns[1..], false),
        (format!("{}&limit=1", after(0)), &turns[1..2], true),
        (format!("order=desc&{}", after(2)), &backwards[1..], false),
        (
            format!("after=chatcmpl-{}", turns[1].replace('-', "")),
            &turns[2..],
            false,
        ),
        (after(2), &[], false),
    ] {
        let path = format!("/v1/conversations/c/turns?{query}");
        let list = get(&app.client, &path).await.json();
        assert_eq!(ids(&list), expected, "{query}");
        assert_eq!(list["has_more"], has_more, "{query}");
        assert_eq!(list["last_id"], json!(expected.last()), "{query}");
    }
    let list = get(&app.client, "/v1/conversations/c/turns").await.json();
    for turn in list["data"].as_array().unwrap() {
        let path = format!("/v1/turns/{}", turn["id"].as_str().unwrap());
        let alone = get(&app.client, &path).await.json();
        assert_eq!(without_note(&alone), without_note(turn));
    }
}

/// Without what is noted some time after the answer.
fn without_note(turn: &Value) -> Value {
    let mut turn = turn.clone();
    turn["answered_us"] = Value::Null;
    turn
}

#[tokio::test]
async fn a_list_that_cannot_be_is_refused_by_the_parameter() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let turn = say(&app.client, "c", &[], "Hi").await;
    let elsewhere = say(&app.client, "d", &[], "Hi").await;
    let lists = ["/v1/conversations", "/v1/conversations/c/turns"];
    let both = [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=1.5",
        "limit=",
        "limit=ten",
        "limit=99999999999999999999",
        "after=",
        "after=nothing",
        "after=%00",
        "before=c",
        "full=1",
        "=",
        "limit",
    ];
    let mut tries: Vec<(String, String)> = Vec::new();
    for list in lists {
        tries.extend(both.map(|query| (list.to_owned(), query.to_owned())));
    }
    let of_turns = [
        "order=up".to_owned(),
        "order=".to_owned(),
        format!("after={elsewhere}"),
        format!("after={}", crate::tenants::UNKNOWN),
    ];
    tries.extend(of_turns.map(|query| (lists[1].to_owned(), query)));
    let of_conversations = ["order=asc".to_owned(), format!("after={turn}")];
    tries.extend(of_conversations.map(|query| (lists[0].to_owned(), query)));
    for (list, query) in tries {
        let got = get(&app.client, &format!("{list}?{query}")).await;
        assert_eq!(got.status, 400, "{list}?{query}: {}", got.text());
        let error = &got.json()["error"];
        let param = query.split('=').next().unwrap();
        assert_eq!(error["param"], param, "{list}?{query}");
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["request_id"], got.header("x-request-id"));
    }
}

#[tokio::test]
async fn any_name_that_a_client_gave_is_a_path() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    for (name, in_path) in [
        ("a/b", "a%2Fb"),
        ("a b", "a%20b"),
        ("100%", "100%25"),
        ("turns", "turns"),
        ("a?b=c&d#e", "a%3Fb%3Dc%26d%23e"),
        ("..", "%2E%2E"),
    ] {
        let turn = say(&app.client, name, &[], "Hi").await;
        let path = format!("/v1/conversations/{in_path}");
        let shown = get(&app.client, &path).await;
        assert_eq!(shown.json()["id"], name, "{}", shown.text());
        let turns = get(&app.client, &format!("{path}/turns")).await.json();
        assert_eq!(ids(&turns), [turn]);
        let list = get(&app.client, &format!("/v1/conversations?after={in_path}")).await;
        assert_eq!(list.status, 200, "{}", list.text());
        let deleted = app.client.send("DELETE", &path, &[], "").await.unwrap();
        let expected = json!({ "id": name, "object": "conversation.deleted", "deleted": true });
        assert_eq!(deleted.json(), expected);
        assert_eq!(get(&app.client, &path).await.status, 404);
    }
    // No text at all.
    let got = get(&app.client, "/v1/conversations/%ff").await;
    assert_eq!(got.status, 404, "{}", got.text());
}
