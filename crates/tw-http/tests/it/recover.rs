//! Turns that an earlier process left, taken over over the real store.

use serde_json::json;
use tw_core::change::Fence;
use tw_core::change::{Change, NewTurn, OnLeave, OpenAttempt, Record, Surface};
use tw_core::id::TurnId;
use tw_core::memory::Verdict;
use tw_testkit::listener::{Listener, Reply};

use crate::app::{App, Wanted, ask, upstream_body};

/// A turn that was accepted by a process that is gone, with this body and context.
pub async fn orphan(app: &App, body: &str, context: &str) -> TurnId {
    let key = app.client.key.clone().unwrap();
    let caller = app.runtime.authenticate(&key).await.unwrap();
    let now = app.runtime.env().now();
    let turn = TurnId(app.runtime.env().ordered_id());
    let accept = NewTurn {
        id: turn,
        organization: caller.organization,
        api_key: caller.api_key,
        end_user: None,
        conversation: turn.to_string(),
        conversation_named: false,
        parent: None,
        memory: Verdict::Off,
        memory_turn: None,
        surface: Surface::ChatCompletions,
        streamed: false,
        on_leave: OnLeave::Stop,
        record: Record::Full,
        model: "m".to_owned(),
        request_id: "req_test".to_owned(),
        deadline: now.after(std::time::Duration::from_secs(60)),
        owner: "gone".to_owned(),
        body: body.as_bytes().to_vec(),
        body_hash: [7; 32],
        cuts: None,
        context: context.to_owned(),
        idempotency_key: None,
        messages: Vec::new(),
        keys_since: now,
        at: now,
    };
    let asked = OpenAttempt {
        round: 1,
        position: None,
        n: 1,
        upstream: None,
        at: now,
    };
    let changes = vec![
        Change::AcceptTurn(Box::new(accept)),
        Change::OpenAttempt(asked),
    ];
    let fence = Fence {
        organization: caller.organization,
        turn,
        fence: 1,
    };
    app.store.apply(changes, Some(fence)).await.unwrap();
    turn
}

#[tokio::test]
async fn an_orphan_is_driven_to_its_end() {
    let upstream = Listener::in_turn(vec![Reply::json(upstream_body("Here.", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, Wanted::plain()).await;
    let turn = orphan(
        &app,
        &ask("Hi").to_string(),
        r#"{"tools":null,"upstream":"test"}"#,
    )
    .await;
    assert_eq!(app.runtime.recover().await.unwrap(), 1);
    let record = app.turn(&turn.to_string()).await;
    assert_eq!(record["status"], "completed");
    assert_eq!(record["rounds"][0]["attempts"][0]["outcome"], "interrupted");
    assert_eq!(record["rounds"][0]["attempts"][1]["outcome"], "ok");
}

#[tokio::test]
async fn an_orphan_that_cannot_be_read_ends_as_failed() {
    let upstream = Listener::in_turn(vec![Reply::json(upstream_body("Here.", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, Wanted::plain()).await;
    for (body, context) in [
        ("no json", r#"{"tools":null,"upstream":"test"}"#),
        (
            r#"{"model":"m","messages":[]}"#,
            r#"{"tools":null,"upstream":"test"}"#,
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#,
            "{}",
        ),
    ] {
        let turn = orphan(&app, body, context).await;
        app.runtime.recover().await.unwrap();
        let record = app.turn(&turn.to_string()).await;
        assert_eq!(
            (&record["status"], &record["reason"]),
            (&json!("failed"), &json!("internal"))
        );
        let log = app
            .client
            .send("GET", &format!("/v1/turns/{turn}/events"), &[], "")
            .await
            .unwrap();
        assert!(log.text().contains("event: end"), "{}", log.text());
    }
    assert_eq!(upstream.asked().len(), 0);
}
