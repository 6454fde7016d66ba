//! Responses that a request may not continue, all of them answered alike.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant, TurnOwner};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{Lab, RESPONSES, create, id, response, turn_of};
use crate::app::{App, AppOptions, ask, upstream_body};
use crate::tenants::error_of;

const UNKNOWN: &str = "resp_01890000000070008000000000000000";

/// The error without what differs between two requests, of a refusal as it has to be.
fn refusal(got: &ReadAnswer, what: &str) -> Value {
    assert_eq!(got.status, 404, "{what}: {}", got.text());
    let error = error_of(got);
    assert_eq!(error["error"]["type"], "invalid_request_error", "{what}");
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    assert_eq!(error["error"]["param"], "previous_response_id");
    error
}

async fn continued(client: &TestClient, headers: &[(&str, &str)], name: &str) -> ReadAnswer {
    let body = json!({ "input": "and?", "previous_response_id": name });
    create(client, headers, body).await
}

/// What it is, who asks, with which headers, and for which response.
type Row<'a> = (&'a str, &'a TestClient, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn a_foreign_response_is_answered_like_an_unknown_one() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let app = &lab.app;
    let unknown = refusal(&continued(&app.client, &[], UNKNOWN).await, "unknown");

    let own = response(&lab.create(json!({ "input": "go" })).await);
    let unstored = response(&lab.create(json!({ "input": "go", "store": false })).await);
    assert_eq!(unstored["store"], false);
    let of_ann = create(
        &app.client,
        &[("turnwright-user", "ann")],
        json!({ "input": "go" }),
    );
    let of_ann = response(&of_ann.await);
    let chat = app.client.chat(&ask("Hi")).await.unwrap();
    let chat = chat.header("turnwright-turn").replace('-', "");
    let deleted = create(
        &app.client,
        &[("turnwright-conversation", "gone")],
        json!({ "input": "go" }),
    );
    let deleted = response(&deleted.await);
    let key = app.client.key.clone().unwrap();
    let caller = app.runtime.authenticate(&key).await.unwrap();
    let whose = TurnOwner {
        api_key: Some(caller.api_key),
        end_user: None,
    };
    let gone = app.runtime.delete_conversation(&caller, "gone", whose);
    gone.await.unwrap();

    let narrow = app
        .key("default", ToolGrant::All, vec![KeyScope::Chat])
        .await;
    let narrow = app.with_key(Some(narrow));
    let of_narrow = response(&create(&narrow, &[], json!({ "input": "go" })).await);
    let elsewhere = app.key(
        "other",
        ToolGrant::All,
        vec![KeyScope::Chat, KeyScope::Admin],
    );
    let elsewhere = app.with_key(Some(elsewhere.await));

    let ann: &[(&str, &str)] = &[("turnwright-user", "ann")];
    let bob: &[(&str, &str)] = &[("turnwright-user", "bob")];
    let chat = format!("resp_{chat}");
    let rows: [Row<'_>; 11] = [
        ("nonsense", &app.client, &[], "resp_1"),
        ("empty", &app.client, &[], ""),
        (
            "another prefix",
            &app.client,
            &[],
            &id(&own).replace("resp_", "msg_"),
        ),
        ("another key", &narrow, &[], id(&own)),
        ("another organization", &elsewhere, &[], id(&own)),
        ("not stored", &app.client, &[], id(&unstored)),
        ("deleted", &app.client, &[], id(&deleted)),
        ("of nobody", &app.client, ann, id(&own)),
        ("of somebody else", &app.client, bob, id(&of_ann)),
        ("of another surface", &app.client, &[], &chat),
        ("of another organization", &elsewhere, &[], id(&of_narrow)),
    ];
    let asked = lab.upstream.asked().len();
    for (what, client, headers, name) in rows {
        let got = continued(client, headers, name).await;
        assert_eq!(refusal(&got, what), unknown, "{what}");
    }
    assert_eq!(lab.upstream.asked().len(), asked, "no model was asked");

    // Whoever may read the turns of the organization may go on with them, and ann with hers.
    response(&continued(&app.client, &[], id(&of_narrow)).await);
    response(&continued(&app.client, ann, id(&of_ann)).await);
}

/// Who is not named goes on as the person whose response it is.
#[tokio::test]
async fn what_one_person_was_told_stays_theirs() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let of_ann = lab.create(json!({ "input": "go", "user": "ann" })).await;
    let of_ann = response(&of_ann);
    let next = response(&continued(&lab.app.client, &[], id(&of_ann)).await);
    let bob = &[("turnwright-user", "bob")];
    refusal(&continued(&lab.app.client, bob, id(&next)).await, "bob");
    let as_bob =
        json!({ "input": "x", "safety_identifier": "bob", "previous_response_id": id(&next) });
    refusal(&lab.create(as_bob).await, "bob, by the body");
    let ann = &[("turnwright-user", "ann")];
    response(&continued(&lab.app.client, ann, id(&next)).await);
}

#[tokio::test]
async fn only_a_response_with_an_answer_is_continued() {
    let replies = vec![
        ListenerReply::status(400, r#"{"error":{"message":"no"}}"#),
        ListenerReply::pieces(
            "application/json",
            vec![
                ReplyPiece::HeadGate("later"),
                ReplyPiece::Bytes(upstream_body("x", &[]).into()),
            ],
        ),
        ListenerReply::json(upstream_body("short", &[]).replace("\"stop\"", "\"length\"")),
        ListenerReply::json(upstream_body("Two.", &[])),
    ];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let named = |turn: &str| format!("resp_{}", turn.replace('-', ""));

    let failed = create(&app.client, &[], json!({ "input": "go" })).await;
    assert_eq!(failed.status, 400, "{}", failed.text());
    let failed = named(failed.header("turnwright-turn"));
    refusal(&continued(&app.client, &[], &failed).await, "failed");

    let body = json!({ "model": "m", "input": "go" }).to_string();
    let client = app.client.clone();
    let headers = [("turnwright-conversation", "waits")];
    let running = tokio::spawn(async move { client.send("POST", RESPONSES, &headers, body).await });
    upstream.asked_times(2).await;
    let turn = turn_of(&app.client, "waits").await;
    let running_turn = named(turn["id"].as_str().unwrap());
    let got = continued(&app.client, &[], &running_turn).await;
    refusal(&got, "running");
    upstream.open("later");
    assert_eq!(running.await.unwrap().unwrap().status, 200);

    // What a limit cut is an answer as far as it goes.
    let cut = response(&continued(&app.client, &[], &running_turn).await);
    assert_eq!(cut["status"], "incomplete");
    response(&continued(&app.client, &[], id(&cut)).await);
}
