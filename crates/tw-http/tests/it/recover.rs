//! Turns that an earlier process left, taken over over the real store.

use serde_json::json;
use sha2::{Digest, Sha256};
use tw_core::call::{CallRunner, CallStatus};
use tw_core::change::{Change, ClaimTurn, Fence, NewCall, NewTurn, OpenAttempt, TurnChange};
use tw_core::event::LogEvent;
use tw_core::id::{CallId, CallRef, OrgId, TurnId};
use tw_core::memory::MemoryVerdict;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_core::turn_status::TurnStatus;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, ask, upstream_body};

/// A turn that was accepted by a process that is gone, with this body and context.
pub async fn orphan(app: &App, body: &str, context: &str) -> TurnId {
    orphan_with_key(app, body, context, None).await
}

async fn organization_of(app: &App) -> OrgId {
    let key = app.client.key.clone().unwrap();
    app.runtime.authenticate(&key).await.unwrap().organization
}

async fn orphan_with_key(
    app: &App,
    body: &str,
    context: &str,
    idempotency_key: Option<&str>,
) -> TurnId {
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
        adds_items: None,
        parent: None,
        memory: MemoryVerdict::Off,
        memory_turn: None,
        surface: Surface::ChatCompletions,
        streamed: false,
        on_leave: OnLeave::Stop,
        record: RecordPolicy::Full,
        model: "m".to_owned(),
        request_id: "req_test".to_owned(),
        deadline: now.after(std::time::Duration::from_secs(60)),
        owner: "gone".to_owned(),
        body: body.into(),
        body_hash: Sha256::digest(body).into(),
        cuts: None,
        context: context.to_owned(),
        idempotency_key: idempotency_key.map(str::to_owned),
        answers: Vec::new(),
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
    let first = vec![TurnChange::OpenAttempt(asked)];
    let accepted = app.store.accept_turn(Box::new(accept), first).await;
    accepted.unwrap();
    turn
}

#[tokio::test]
async fn an_orphan_is_driven_to_its_end() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Here.", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
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
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Here.", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
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

const CONTEXT: &str = r#"{"tools":null,"upstream":"test"}"#;

/// Somebody claims the turn and is gone.
async fn claimed(app: &App, turn: TurnId, times: usize) {
    let organization = organization_of(app).await;
    for n in 0..times {
        let claim = Change::ClaimTurn(ClaimTurn {
            organization,
            turn,
            owner: format!("gone {n}"),
            at: app.runtime.env().now(),
        });
        app.store.apply(vec![claim]).await.unwrap();
    }
}

#[tokio::test]
async fn a_turn_that_was_claimed_in_vain_too_often_is_ended_unread() {
    // Claims that came to nothing, and what becomes of the turn then.
    for (claims, status, asked) in [
        (0, "completed", 1),
        (1, "completed", 1),
        (2, "completed", 1),
        (3, "failed", 0),
        (9, "failed", 0),
    ] {
        let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Here.", &[]))])
            .await
            .unwrap();
        let app = App::start(&upstream, AppOptions::plain()).await;
        let turn = orphan(&app, &ask("Hi").to_string(), CONTEXT).await;
        claimed(&app, turn, claims).await;
        assert_eq!(app.runtime.recover().await.unwrap(), 1, "{claims}");
        let record = app.turn(&turn.to_string()).await;
        assert_eq!(record["status"], status, "{claims}");
        assert_eq!(upstream.asked().len(), asked, "{claims}");
    }
}

#[tokio::test]
async fn claims_that_came_to_something_do_not_add_up() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Here.", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let turn = orphan(&app, &ask("Hi").to_string(), CONTEXT).await;
    let organization = organization_of(&app).await;
    for n in 2..12 {
        claimed_and_resumed(
            &app,
            Fence {
                organization,
                turn,
                fence: n,
            },
        )
        .await;
    }
    assert_eq!(app.runtime.recover().await.unwrap(), 1);
    assert_eq!(app.turn(&turn.to_string()).await["status"], "completed");
}

async fn claimed_and_resumed(app: &App, fence: Fence) {
    let at = app.runtime.env().now();
    let claim = Change::ClaimTurn(ClaimTurn {
        organization: fence.organization,
        turn: fence.turn,
        owner: format!("gone {}", fence.fence),
        at,
    });
    app.store.apply(vec![claim]).await.unwrap();
    let resumed = vec![TurnChange::NoteResumed { at }];
    app.store.apply_to_turn(fence, resumed).await.unwrap();
}

#[tokio::test]
async fn calls_end_with_a_turn_that_is_ended_unread() {
    // A call as it was left, and how it ends: status, reason, and whether the client is told that it may have acted.
    for (effect, status, reason, told) in [
        (
            EffectClass::Once,
            CallStatus::Processing,
            "outcome_unknown",
            1,
        ),
        (EffectClass::Once, CallStatus::Pending, "interrupted", 0),
        (EffectClass::Read, CallStatus::Processing, "interrupted", 0),
    ] {
        let upstream = Listener::in_turn(Vec::new()).await.unwrap();
        let app = App::start(&upstream, AppOptions::plain()).await;
        let turn = orphan(&app, &ask("Hi").to_string(), CONTEXT).await;
        let organization = organization_of(&app).await;
        let call = NewCall {
            call: CallRef {
                round: 1,
                position: 0,
            },
            id: CallId(app.runtime.env().ordered_id()),
            runs: CallRunner::Server,
            effect: Some(effect),
            tool_version: None,
            tool_name: "pay".to_owned(),
            tool_call_id: "up".to_owned(),
            arguments: "{}".to_owned(),
            sensitive: None,
            status,
            end: None,
            idempotency_key: "k".to_owned(),
            callback_token: None,
            approval: None,
            approves: None,
            at: app.runtime.env().now(),
        };
        let fence = Fence {
            organization,
            turn,
            fence: 1,
        };
        let added = vec![TurnChange::AddCall(Box::new(call))];
        app.store.apply_to_turn(fence, added).await.unwrap();
        claimed(&app, turn, 3).await;
        assert_eq!(app.runtime.recover().await.unwrap(), 1);
        let record = app.turn(&turn.to_string()).await;
        assert_eq!(record["status"], "failed");
        let call = &record["rounds"][0]["calls"][0];
        assert_eq!(
            (&call["status"], &call["reason"]),
            (&json!("failed"), &json!(reason))
        );
        let log = app.runtime.follow(organization, turn, None).await.unwrap();
        let effects = effects_of(log).await;
        assert_eq!(effects, told, "{effect:?} {status:?}");
    }
}

async fn effects_of(mut log: tw_runtime::follow::Follower) -> usize {
    let mut effects = 0;
    while let Some(events) = log.next().await.unwrap() {
        if let Some(LogEvent::End(end)) = events.last() {
            effects = end.effects.len();
        }
    }
    effects
}

/// Until the turn's row says that it is to stop.
async fn asked_to_stop(app: &App, turn: TurnId) {
    let organization = organization_of(app).await;
    let is_asked = async || {
        let state = app.store.repeat_state(organization, turn).await.unwrap();
        state.unwrap().stop.is_some()
    };
    while !is_asked().await {}
}

#[tokio::test]
async fn a_stop_of_a_turn_that_nobody_drives_yet_is_obeyed_when_somebody_does() {
    let upstream = Listener::in_turn(Vec::new()).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let turn = orphan(&app, &ask("Hi").to_string(), CONTEXT).await;
    let path = format!("/v1/turns/{turn}/cancel");
    let cancel = app.client.send("POST", &path, &[], "");
    let recovery = async {
        asked_to_stop(&app, turn).await;
        app.runtime.recover().await.unwrap()
    };
    let (cancelled, recovered) = tokio::join!(cancel, recovery);
    let cancelled = cancelled.unwrap();
    assert_eq!((cancelled.status, recovered), (200, 1));
    let record = cancelled.json();
    assert_eq!(
        (&record["status"], &record["reason"]),
        (&json!("cancelled"), &json!("requested"))
    );
    assert_eq!(upstream.asked().len(), 0);
}

#[tokio::test]
async fn whoever_comes_before_a_turn_is_taken_over_gets_its_answer() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Here.", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = ask("Hi").to_string();
    let turn = orphan_with_key(&app, &body, CONTEXT, Some("again")).await;
    let key = [("idempotency-key", "again")];
    let events = format!("/v1/turns/{turn}/events");
    let repetition = app.client.send("POST", "/v1/chat/completions", &key, body);
    let reader = app.client.send("GET", &events, &[], "");
    let recovery = async {
        // Both read of a turn that nobody drives.
        let before = app
            .store
            .repeat_state(organization_of(&app).await, turn)
            .await;
        assert_eq!(before.unwrap().unwrap().status, TurnStatus::Running);
        app.runtime.recover().await.unwrap()
    };
    let (repetition, reader, recovered) = tokio::join!(repetition, reader, recovery);
    let repetition = repetition.unwrap();
    assert_eq!((repetition.status, recovered), (200, 1));
    assert_eq!(repetition.header("turnwright-turn"), turn.to_string());
    assert_eq!(
        repetition.json()["choices"][0]["message"]["content"],
        "Here."
    );
    assert!(reader.unwrap().text().contains("event: end"));
    assert_eq!(upstream.asked().len(), 1);
}
