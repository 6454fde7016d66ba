//! Turns that continue others by name and are taken over from a process that is gone.

use serde_json::json;
use tw_core::tenant::TurnOwner;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{Lab, RESPONSES, id, response, turn_of};
use crate::app::{App, upstream_body};

/// An upstream that answers once, and then not.
async fn silent_after_one() -> Listener {
    let one = ListenerReply::json(upstream_body("One.", &[]));
    let silence = ListenerReply::pieces("application/json", vec![ReplyPiece::Silence]);
    Listener::in_turn(vec![one, silence]).await.unwrap()
}

#[tokio::test]
async fn a_turn_that_is_taken_over_has_the_same_history() {
    let upstream = silent_after_one().await;
    let tool = Listener::in_turn(vec![ListenerReply::json("{}")]).await;
    let tool = tool.unwrap();
    let app = App::start(&upstream, super::options(&tool)).await;
    let lab = Lab {
        app,
        upstream,
        tool,
    };
    let one = response(&lab.create(json!({ "input": "go" })).await);
    let body = json!({ "model": "m", "input": "and?", "previous_response_id": id(&one) });
    let client = lab.app.client.clone();
    let headers = [
        ("turnwright-on-leave", "finish"),
        ("turnwright-conversation", "two"),
    ];
    let waiting = tokio::spawn(async move {
        client
            .send("POST", RESPONSES, &headers, body.to_string())
            .await
    });
    lab.upstream.asked_times(2).await;
    turn_of(&lab.app.client, "two").await;
    let sent = lab.sent();

    let later = lab.again(&[("Two.", &[])]).await;
    assert_eq!(later.app.runtime.recover().await.unwrap(), 1);
    later.upstream.asked_times(1).await;
    assert_eq!(later.sent(), sent);
    later.app.runtime.idle().await;
    waiting.abort();
}

#[tokio::test]
async fn a_turn_ends_when_what_it_continues_was_deleted() {
    let upstream = silent_after_one().await;
    let tool = Listener::in_turn(vec![ListenerReply::json("{}")]).await;
    let tool = tool.unwrap();
    let app = App::start(&upstream, super::options(&tool)).await;
    let lab = Lab {
        app,
        upstream,
        tool,
    };
    let headers = [("turnwright-conversation", "one")];
    let one = super::create(&lab.app.client, &headers, json!({ "input": "go" })).await;
    let one = response(&one);
    let body = json!({ "model": "m", "input": "and?", "previous_response_id": id(&one) });
    let client = lab.app.client.clone();
    let headers = [
        ("turnwright-on-leave", "finish"),
        ("turnwright-conversation", "two"),
    ];
    let waiting = tokio::spawn(async move {
        client
            .send("POST", RESPONSES, &headers, body.to_string())
            .await
    });
    lab.upstream.asked_times(2).await;
    turn_of(&lab.app.client, "two").await;
    let later = lab.again(&[("Two.", &[])]).await;
    let key = lab.app.client.key.clone().unwrap();
    let caller = later.app.runtime.authenticate(&key).await.unwrap();
    let whose = TurnOwner {
        api_key: Some(caller.api_key),
        end_user: None,
    };
    let deleted = later.app.runtime.delete_conversation(&caller, "one", whose);
    deleted.await.unwrap();
    assert_eq!(later.app.runtime.recover().await.unwrap(), 1);
    let turn = turn_of(&later.app.client, "two").await;
    assert_eq!(
        (&turn["status"], &turn["reason"]),
        (&json!("failed"), &json!("internal"))
    );
    assert_eq!(later.upstream.asked().len(), 0);
    waiting.abort();
}
