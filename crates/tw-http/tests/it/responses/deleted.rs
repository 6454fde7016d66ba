//! `DELETE /v1/responses/{id}`: not found everywhere afterwards.

use serde_json::json;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{Lab, RESPONSES, create, id, items, response};
use crate::app::{App, AppOptions};
use crate::tenants::error_of;

const UNKNOWN: &str = "resp_01890000000070008000000000000000";

/// What can be done with a response.
const ROUTES: [(&str, &str); 5] = [
    ("GET", ""),
    ("GET", "?stream=true"),
    ("GET", "/input_items"),
    ("POST", "/cancel"),
    ("DELETE", ""),
];

#[tokio::test]
async fn a_deleted_response_is_not_found_everywhere() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let client = &lab.app.client;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    let follows = json!({ "input": "and?", "previous_response_id": id(&one) });
    let two = response(&lab.create(follows.clone()).await);
    let path = format!("{RESPONSES}/{}", id(&one));
    let deleted = client.send("DELETE", &path, &[], "").await.unwrap();
    let wanted = json!({ "id": id(&one), "object": "response", "deleted": true });
    assert_eq!(response(&deleted), wanted);

    lab.app.settled().await;
    for (method, rest) in ROUTES {
        let got = client.send(method, &format!("{path}{rest}"), &[], "").await;
        let got = got.unwrap();
        assert_eq!(got.status, 404, "{method} {rest}: {}", got.text());
    }
    let turn = id(&one).replace("resp_", "");
    let record = format!("/v1/turns/{turn}");
    let got = client.send("GET", &record, &[], "").await.unwrap();
    assert_eq!(got.status, 404);
    assert_eq!(lab.create(follows).await.status, 404);
    let item = &items(&one, "message")[0]["id"];
    let referring = json!({ "input": [{ "type": "item_reference", "id": item }] });
    assert_eq!(lab.create(referring).await.status, 404);

    // What followed it is still there, and without a history goes on no more.
    let path = format!("{RESPONSES}/{}", id(&two));
    assert_eq!(
        client.send("GET", &path, &[], "").await.unwrap().status,
        200
    );
    let more = json!({ "input": "more", "previous_response_id": id(&two) });
    let got = lab.create(more).await;
    assert_eq!(got.status, 404, "{}", got.text());
    assert_eq!(got.json()["error"]["code"], "previous_response_not_found");
}

#[tokio::test]
async fn a_response_that_runs_is_stopped_by_its_deletion() {
    let silence = ListenerReply::pieces("application/json", vec![ReplyPiece::Silence]);
    let upstream = Listener::in_turn(vec![silence]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = json!({ "input": "go", "background": true });
    let one = response(&create(&app.client, &[], body).await);
    upstream.asked_times(1).await;
    let path = format!("{RESPONSES}/{}", id(&one));
    let deleted = app.client.send("DELETE", &path, &[], "").await.unwrap();
    assert_eq!(response(&deleted)["deleted"], true);
    upstream.abandoned_times(1).await;
    app.runtime.idle().await;
    let got = app.client.send("GET", &path, &[], "").await.unwrap();
    assert_eq!(got.status, 404);
}

/// What somebody does not see is not found, and what is seen and somebody else's is an administrator's to change.
#[tokio::test]
async fn a_foreign_response_is_answered_like_an_unknown_one() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    let scopes = vec![KeyScope::Chat, KeyScope::TurnsReadAll, KeyScope::Admin];
    let elsewhere = lab.app.key("other", ToolGrant::All, scopes).await;
    let narrow = lab.app.key("default", ToolGrant::All, vec![KeyScope::Chat]);
    let reading = vec![KeyScope::Chat, KeyScope::TurnsReadAll];
    let reading = lab.app.key("default", ToolGrant::All, reading).await;
    let keys = [elsewhere, narrow.await];
    for (method, rest) in ROUTES {
        let at = |name: &str| format!("{RESPONSES}/{name}{rest}");
        for key in &keys {
            let client = lab.app.with_key(Some(key.clone()));
            let unknown = client.send(method, &at(UNKNOWN), &[], "").await.unwrap();
            let foreign = client.send(method, &at(id(&one)), &[], "").await.unwrap();
            assert_eq!(
                (unknown.status, foreign.status),
                (404, 404),
                "{method} {rest}"
            );
            assert_eq!(error_of(&unknown), error_of(&foreign), "{method} {rest}");
        }
        let bob = [("turnwright-user", "bob")];
        let of_bob = lab.app.client.send(method, &at(id(&one)), &bob, "").await;
        assert_eq!(of_bob.unwrap().status, 404, "{method} {rest}");
        let reader = lab.app.with_key(Some(reading.clone()));
        let seen = reader.send(method, &at(id(&one)), &[], "").await.unwrap();
        let wanted = if method == "GET" { 200 } else { 403 };
        assert_eq!(seen.status, wanted, "{method} {rest}: {}", seen.text());
    }
}
