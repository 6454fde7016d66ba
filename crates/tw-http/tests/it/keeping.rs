//! What is shown of sensitive parameters, and the end of what an end user left.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, upstream_body};
use crate::surfaces::on_each_surface;
use crate::tenants::client_of;
use crate::tools::lab::ToolLab;

const CANARY: &str = "canary-4711";

#[tokio::test]
async fn a_turn_is_shown_without_what_its_tools_call_sensitive() {
    let answer = format!(r#"{{"said":"{CANARY}","other":"open"}}"#);
    let lab = ToolLab::answering(ListenerReply::json(answer)).await;
    let parameters = json!({ "parameters": {
        "number": { "mode": "ai", "sensitive": true }, "city": { "mode": "ai" },
    } });
    lab.make("look", "/x", parameters).await;
    let ran = lab
        .run(&format!(r#"look {{"number":"{CANARY}","city":"Rome"}}"#))
        .await;
    // The call itself has it.
    assert!(lab.service.asked()[0].target.contains(CANARY));
    let call = ran.call();
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "number": "***", "city": "Rome" }));
    let masked = r#"{"said":"***","other":"open"}"#;
    assert_eq!(
        (&call["shown"], &call["result"]),
        (&json!(masked), &json!(masked))
    );
    let round = ran.turn["rounds"][0].to_string();
    assert!(!round.contains(CANARY), "{round}");
    // Nor does any list of calls or of what was said.
    let conversation = ran.turn["conversation"].as_str().unwrap();
    let named = call["tool_call_id"].as_str().unwrap();
    let of_conversation = |rest: &str| format!("/v1/conversations/{conversation}/{rest}");
    for path in [
        format!("/v1/calls?tool_call_id={named}"),
        of_conversation("turns"),
        of_conversation("messages?shape=openai"),
        of_conversation("messages?shape=langchain"),
        of_conversation("messages?shape=blocks"),
        of_conversation("messages?shape=pocketbase"),
    ] {
        let got = lab.app.client.send("GET", &path, &[], "").await.unwrap();
        let text = got.text();
        assert_eq!(got.status, 200, "{path}: {text}");
        // The person asked for it, in words of their own.
        let told = text.matches(CANARY).count();
        let asked = text.matches("look {").count();
        assert!(told <= asked && text.contains("***"), "{path}: {text}");
    }
}

async fn admin(app: &App) -> TestClient {
    let scopes = vec![KeyScope::Admin, KeyScope::Chat];
    app.with_key(Some(app.key("default", ToolGrant::None, scopes).await))
}

on_each_surface!(an_end_user_is_forgotten);

async fn an_end_user_is_forgotten(surface: WireFormat) {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hi.", &[]))]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let of = |name: &'static str, text: &str| {
        let mut body = ask(text);
        body["user"] = json!(name);
        body
    };
    let mut turns = Vec::new();
    for body in [of("ann", CANARY), of("ann", "more"), of("bob", "other")] {
        let got = app.ask_on(surface, &[], &body).await;
        assert_eq!(got.status, 200, "{}", got.text());
        turns.push(got.header("turnwright-turn").to_owned());
    }
    app.settled().await;
    let admin = admin(&app).await;
    let erase = async |client: &TestClient, name: &str| {
        let path = format!("/api/default/users/{name}");
        client.send("DELETE", &path, &[], "").await.unwrap()
    };
    assert_eq!(erase(&app.client, "ann").await.status, 403);
    assert_eq!(erase(&admin, "carl").await.status, 404);
    let stranger = client_of(&app, "other", vec![KeyScope::Admin]).await;
    assert_eq!(erase(&stranger, "ann").await.status, 404);
    let erased = erase(&admin, "ann").await;
    assert_eq!(erased.status, 200, "{}", erased.text());
    let kept_as = erased.json()["kept_as"].as_str().unwrap().to_owned();
    assert_eq!(erase(&admin, "ann").await.status, 404);
    for (turn, status) in turns.iter().zip([404, 404, 200]) {
        let path = format!("/v1/turns/{turn}");
        let shown = app.client.send("GET", &path, &[], "").await.unwrap();
        assert_eq!(shown.status, status, "{}", shown.text());
    }
    let usage = admin
        .send("GET", "/api/default/usage?by=user", &[], "")
        .await;
    let usage = usage.unwrap().text();
    assert!(
        usage.contains(&kept_as) && !usage.contains("ann"),
        "{usage}"
    );
    assert!(usage.contains("bob"), "{usage}");
    let again = app.ask_on(surface, &[], &of("ann", "again")).await;
    assert_eq!(again.status, 200, "{}", again.text());
}
