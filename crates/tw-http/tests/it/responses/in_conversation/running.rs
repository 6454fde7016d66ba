//! Turns that run in a conversation: others wait their turn, and a crash adds nothing twice.

use serde_json::json;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use super::{CONVERSATIONS, all, delete, get, made, pairs, post, told, user};
use crate::app::{App, AppOptions, upstream_body};
use crate::responses::{Lab, RESPONSES, create, id, response, turn_of};

const JSON: &str = "application/json";

fn gated(text: &str) -> ListenerReply {
    let pieces = vec![
        ReplyPiece::HeadGate("later"),
        ReplyPiece::Bytes(upstream_body(text, &[]).into()),
    ];
    ListenerReply::pieces(JSON, pieces)
}

#[tokio::test]
async fn who_comes_while_another_works_is_told_to_come_again() {
    let replies = vec![
        gated("One."),
        ListenerReply::json(upstream_body("Two.", &[])),
    ];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let name = made(&app.client, json!({})).await;
    let in_background = json!({ "input": "1", "conversation": name, "background": true });
    let one = response(&create(&app.client, &[], in_background).await);
    upstream.asked_times(1).await;
    let items = format!("{CONVERSATIONS}/{name}/items");
    let second = json!({ "input": "2", "conversation": name });
    for got in [
        create(&app.client, &[], second.clone()).await,
        post(&app.client, &items, json!({ "items": [user("x")] })).await,
    ] {
        let error = &got.json()["error"];
        assert_eq!(
            (got.status, &error["code"], &error["type"]),
            (
                400,
                &json!("conversation_locked"),
                &json!("invalid_request_error")
            )
        );
    }
    assert_eq!(
        all(&app.client, &name).await,
        Vec::<serde_json::Value>::new()
    );
    assert_eq!(upstream.asked().len(), 1, "no model was asked");
    upstream.open("later");
    let path = format!("{RESPONSES}/{}", id(&one));
    poll_until("the end of a response", async || {
        let now = response(&get(&app.client, &path).await);
        (now["status"] == "completed").then_some(())
    })
    .await;
    response(&create(&app.client, &[], second).await);
    let expected = [
        ("user", "1"),
        ("assistant", "One."),
        ("user", "2"),
        ("assistant", "Two."),
    ];
    assert_eq!(told(&all(&app.client, &name).await), pairs(&expected));
}

#[tokio::test]
async fn a_turn_that_fails_adds_nothing_and_frees_the_conversation() {
    let replies = vec![
        ListenerReply::status(400, r#"{"error":{"message":"no"}}"#),
        ListenerReply::json(upstream_body("Two.", &[])),
    ];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let name = made(&app.client, json!({})).await;
    let body = json!({ "input": "1", "conversation": name });
    let failed = create(&app.client, &[], body.clone()).await;
    assert_eq!(failed.status, 400, "{}", failed.text());
    assert_ne!(failed.json()["error"]["code"], "conversation_locked");
    response(&create(&app.client, &[], body).await);
    let expected = [("user", "1"), ("assistant", "Two.")];
    assert_eq!(told(&all(&app.client, &name).await), pairs(&expected));
}

#[tokio::test]
async fn a_turn_that_is_taken_over_adds_its_items_once() {
    let one = ListenerReply::json(upstream_body("One.", &[]));
    let silence = ListenerReply::pieces(JSON, vec![ReplyPiece::Silence]);
    let upstream = Listener::in_turn(vec![one, silence]).await.unwrap();
    let tool = Listener::in_turn(vec![ListenerReply::json("{}")]).await;
    let tool = tool.unwrap();
    let app = App::start(&upstream, crate::responses::options(&tool)).await;
    let lab = Lab {
        app,
        upstream,
        tool,
    };
    let client = lab.app.client.clone();
    let name = made(&client, json!({ "items": [user("I am Ann."), user("x")] })).await;
    let first = json!({ "input": "go", "conversation": name });
    response(&lab.create(first).await);
    let items = all(&client, &name).await;
    let gone = format!("{CONVERSATIONS}/{name}/items/{}", id(&items[1]));
    response(&delete(&client, &gone).await);
    let body = json!({ "model": "m", "input": "and?", "conversation": name }).to_string();
    let headers = [("turnwright-on-leave", "finish")];
    let leaving = client.clone();
    let waiting =
        tokio::spawn(async move { leaving.send("POST", RESPONSES, &headers, body).await });
    lab.upstream.asked_times(2).await;
    let sent = lab.sent();
    poll_until("the second turn", async || {
        let turn = turn_of(&client, &name).await;
        (turn["status"] == "running").then_some(())
    })
    .await;

    let later = lab.again(&[("Two.", &[])]).await;
    // It works on the conversation until somebody has ended it.
    let locked = later
        .create(json!({ "input": "x", "conversation": name }))
        .await;
    assert_eq!(locked.json()["error"]["code"], "conversation_locked");
    assert_eq!(later.app.runtime.recover().await.unwrap(), 1);
    later.upstream.asked_times(1).await;
    assert_eq!(later.sent(), sent);
    later.app.runtime.idle().await;
    let expected = [
        ("user", "I am Ann."),
        ("user", "go"),
        ("assistant", "One."),
        ("user", "and?"),
        ("assistant", "Two."),
    ];
    assert_eq!(told(&all(&later.app.client, &name).await), pairs(&expected));
    waiting.abort();
}

#[tokio::test]
async fn a_conversation_that_is_deleted_stops_what_runs_in_it() {
    let silence = ListenerReply::pieces(JSON, vec![ReplyPiece::Silence]);
    let upstream = Listener::in_turn(vec![silence]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let name = made(&app.client, json!({ "items": [user("a")] })).await;
    let body = json!({ "input": "1", "conversation": name, "background": true });
    let one = response(&create(&app.client, &[], body).await);
    upstream.asked_times(1).await;
    response(&delete(&app.client, &format!("{CONVERSATIONS}/{name}")).await);
    app.runtime.idle().await;
    let read = get(&app.client, &format!("{RESPONSES}/{}", id(&one))).await;
    assert_eq!(read.status, 404);
    let items = get(&app.client, &format!("{CONVERSATIONS}/{name}/items")).await;
    assert_eq!(items.status, 404);
}

/// A client that did not hear of its first try adds nothing twice.
#[tokio::test]
async fn items_that_are_sent_again_are_added_once() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({})).await;
    let items = format!("{CONVERSATIONS}/{name}/items");
    let body = json!({ "items": [user("a")] }).to_string();
    let first = [("x-stainless-retry-count", "0")];
    let first = client
        .send("POST", &items, &first, body.clone())
        .await
        .unwrap();
    let again = [("x-stainless-retry-count", "1")];
    let again = client
        .send("POST", &items, &again, body.clone())
        .await
        .unwrap();
    assert_eq!(response(&again), response(&first));
    assert_eq!(all(client, &name).await.len(), 1);
    // Who means it twice gets it twice.
    response(&client.send("POST", &items, &[], body).await.unwrap());
    assert_eq!(all(client, &name).await.len(), 2);
}
