//! Deleting a conversation while something of it runs.

use serde_json::Value;
use tw_core::change::{Change, DeleteConversation, Outcome};
use tw_core::id::TurnId;
use tw_core::tenant::TurnOwner;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::OnLeave;
use tw_core::turn_status::TurnStatus;
use tw_store::read::turn::RecoveredTurn;
use tw_testkit::client::ReadAnswer;
use tw_testkit::polling::poll_until;
use tw_wire::format::WireFormat;

use super::{get, hello, start};
use crate::app::{App, ask};
use crate::leave::{
    GATE, LeavePhase, PHASES, Scene, TEXT, Watcher, check_told_of_cancel, scene, stop_noted,
};
use crate::recover::orphan;
use crate::surfaces::on_each_surface;

on_each_surface!(
    a_running_turn_is_stopped_in_every_phase_and_its_clients_are_told,
    a_client_that_leaves_while_it_deletes_has_deleted,
);

/// A turn as the store still has it.
async fn stored(app: &App, turn: &str) -> RecoveredTurn {
    let caller = app.runtime.authenticate(app.client.key.as_deref().unwrap());
    let organization = caller.await.unwrap().organization;
    let turn = TurnId::parse(turn).unwrap();
    let found = app.store.turn_for_recovery(organization, turn).await;
    found.unwrap().unwrap()
}

async fn conversation_of(app: &App, turn: &str) -> String {
    let shown = get(&app.client, &format!("/v1/turns/{turn}")).await.json();
    shown["conversation"].as_str().unwrap().to_owned()
}

fn assert_erased(found: &RecoveredTurn, of: &str) {
    assert!(found.turn.erased.is_some(), "{of}");
    assert!(found.body.is_empty() && found.events.is_empty(), "{of}");
    let mut blocks = found.messages.iter().map(|message| &message.blocks);
    assert!(blocks.all(Vec::is_empty), "{of}");
    for row in &found.calls {
        assert_eq!(row.call.arguments, "", "{of}");
        let end = row.call.end.as_ref().unwrap();
        assert_eq!((end.shown.as_str(), &end.result), ("", &None), "{of}");
    }
}

/// Every way to the turn is as if there were none.
async fn assert_gone(app: &App, turn: &str, conversation: &str) {
    for path in [
        format!("/v1/turns/{turn}"),
        format!("/v1/turns/{turn}/events"),
        format!("/v1/turns/{turn}/events?format=chat"),
        format!("/v1/conversations/{conversation}"),
        format!("/v1/conversations/{conversation}/turns"),
    ] {
        let got = get(&app.client, &path).await;
        assert_eq!(got.status, 404, "{path}: {}", got.text());
    }
    let cancel = format!("/v1/turns/{turn}/cancel");
    let cancelled = app.client.send("POST", &cancel, &[], "").await.unwrap();
    assert_eq!(cancelled.status, 404);
    let list = get(&app.client, "/v1/conversations").await.json();
    assert_eq!(list["data"], Value::Array(vec![]));
}

async fn a_running_turn_is_stopped_in_every_phase_and_its_clients_are_told(surface: WireFormat) {
    for phase in PHASES {
        let Scene {
            app,
            upstream,
            tool,
            turn,
            watcher,
        } = scene(surface, phase, "finish").await;
        let name = conversation_of(&app, &turn).await;
        let attached = Watcher::start(&app.client, surface, "finish");
        let path = format!("/v1/turns/{turn}/events");
        let mut observer = app.client.open("GET", &path, &[], "").await.unwrap();
        if phase != LeavePhase::BeforeHead && phase != LeavePhase::BetweenTries {
            attached.sees(TEXT).await;
        }
        let (client, path) = (app.client.clone(), format!("/v1/conversations/{name}"));
        let deleting = tokio::spawn(async move { client.send("DELETE", &path, &[], "").await });
        if phase == LeavePhase::Tool(EffectClass::Once) {
            // What must not be cut short goes on, and nobody sees it any more.
            stop_noted(&app, surface).await;
            assert_gone(&app, &turn, &name).await;
            assert!(!deleting.is_finished());
            tool.open(GATE);
        }
        let deleted = deleting.await.unwrap().unwrap();
        assert_eq!(deleted.status, 200, "{phase:?}: {}", deleted.text());
        assert_gone(&app, &turn, &name).await;
        for told in [watcher.rest().await, attached.rest().await] {
            check_told_of_cancel(surface, &told, phase);
        }
        let rest = observer.until("event: end").await;
        assert!(rest.contains("\"cancelled\""), "{phase:?}: {rest}");
        assert_eq!(observer.next().await, None);
        let found = stored(&app, &turn).await;
        assert_eq!(found.turn.status, TurnStatus::Cancelled, "{phase:?}");
        assert_eq!(found.turn.on_leave, OnLeave::Finish);
        assert_erased(&found, &format!("{phase:?}"));
        assert_eq!(app.runtime.turns_running(), 0);
        assert!(upstream.asked().len() <= 2);
        let path = format!("/v1/conversations/{name}");
        let again = app.client.send("DELETE", &path, &[], "");
        assert_eq!(again.await.unwrap().status, 404);
    }
}

async fn a_client_that_leaves_while_it_deletes_has_deleted(surface: WireFormat) {
    let scene = scene(surface, LeavePhase::Tool(EffectClass::Once), "finish").await;
    let app = scene.app;
    let name = conversation_of(&app, &scene.turn).await;
    let (client, path) = (app.client.clone(), format!("/v1/conversations/{name}"));
    let deleting = tokio::spawn(async move { client.send("DELETE", &path, &[], "").await });
    stop_noted(&app, surface).await;
    deleting.abort();
    // Nothing is left to panic about.
    let _ = deleting.await;
    scene.tool.open(GATE);
    app.runtime.idle().await;
    assert_eq!(scene.upstream.asked().len(), 1, "no round follows");
    assert_gone(&app, &scene.turn, &name).await;
    // The task that deletes goes on by itself.
    let found = poll_until("a turn that is erased", async || {
        let found = stored(&app, &scene.turn).await;
        found.turn.erased.is_some().then_some(found)
    })
    .await;
    assert_erased(&found, "left");
}

#[tokio::test]
async fn a_process_that_dies_between_the_decision_and_the_rest_leaves_the_rest_to_the_next() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let context = r#"{"tools":null,"upstream":"test"}"#;
    let turn = orphan(&app, &ask("Hi").to_string(), context).await;
    let turn = turn.to_string();
    let caller = app.runtime.authenticate(app.client.key.as_deref().unwrap());
    let delete = DeleteConversation {
        organization: caller.await.unwrap().organization,
        // An orphan's conversation has the turn's id.
        conversation: turn.clone(),
        whose: TurnOwner {
            api_key: None,
            end_user: None,
        },
        at: app.runtime.env().now(),
    };
    let decided = vec![Change::DeleteConversation(delete)];
    let outcomes = app.store.apply(decided).await.unwrap();
    assert!(matches!(
        &outcomes[..],
        [Outcome::Deleted { running }] if running.len() == 1
    ));
    assert_gone(&app, &turn, &turn).await;
    let next = app.again(&upstream, crate::app::AppOptions::plain()).await;
    assert_eq!(next.runtime.recover().await.unwrap(), 1);
    next.runtime.idle().await;
    let found = stored(&next, &turn).await;
    assert_eq!(found.turn.status, TurnStatus::Cancelled);
    assert!(upstream.asked().is_empty(), "the model is not asked again");
    assert!(!found.body.is_empty());
    assert_gone(&next, &turn, &turn).await;
    let erase = Change::EraseDue {
        now: next.runtime.env().now(),
        turns_max: 10,
    };
    let erased = next.store.apply(vec![erase]).await.unwrap();
    assert_eq!(erased, [Outcome::Count(1)]);
    assert_erased(&stored(&next, &turn).await, "after a restart");
}

#[tokio::test]
async fn a_key_needs_the_scope_to_chat_and_a_key_is_needed() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    super::say(&app.client, "c", &[], "Hi").await;
    let delete = async |key: Option<String>| -> ReadAnswer {
        let client = app.with_key(key);
        let got = client.send("DELETE", "/v1/conversations/c", &[], "").await;
        got.unwrap()
    };
    let reader = vec![tw_core::tenant::KeyScope::TurnsReadAll];
    let reader = app.key("default", tw_core::tenant::ToolGrant::None, reader);
    let reader = reader.await;
    for (key, status, code) in [
        (None, 401, "missing_api_key"),
        (Some("tw-wrong".to_owned()), 401, "invalid_api_key"),
        (Some(reader), 403, "insufficient_scope"),
    ] {
        let got = delete(key).await;
        assert_eq!(got.status, status, "{}", got.text());
        assert_eq!(got.json()["error"]["code"], code);
    }
    assert_eq!(get(&app.client, "/v1/conversations/c").await.status, 200);
}
