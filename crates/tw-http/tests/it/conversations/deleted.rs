//! What is left of a deleted conversation for those who go on with it: nothing.

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use super::{get, hello, say, start};
use crate::app::{App, AppOptions, CHAT, ask, probe, upstream_body};
use crate::memory::{Chatter, Said, holds, model, service};

const ANN: (&str, &str) = ("turnwright-user", "ann");

async fn delete(client: &TestClient, conversation: &str) {
    let path = format!("/v1/conversations/{conversation}");
    let deleted = client.send("DELETE", &path, &[], "").await.unwrap();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
}

/// A chat whose second turn looked something up.
async fn looked(app: &App) -> (Chatter, Said) {
    let mut chat = Chatter::new(&app.client, WireFormat::OpenAiChat, &[ANN]);
    chat.say("Hi").await;
    let said = chat.say("look").await;
    (chat, said)
}

#[tokio::test]
async fn memory_does_not_find_it() {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = crate::memory::start(&model, &service).await;
    let (mut kept, _) = looked(&app).await;
    assert_eq!(kept.say("thanks").await.memory, "attached");
    assert!(holds(model.asked().last().unwrap(), "sunny"));

    let (mut chat, said) = looked(&app).await;
    let other = looked(&app).await.1;
    delete(&app.client, &said.conversation).await;
    let after = chat.say("thanks a lot").await;
    // The same words were said in two more conversations.
    assert_eq!(after.memory, "attached");
    assert_ne!(after.conversation, said.conversation);
    delete(&app.client, &other.conversation).await;
    let list = get(&app.client, "/v1/conversations").await.json();
    for id in super::ids(&list) {
        delete(&app.client, id).await;
    }
    let (mut chat, said) = looked(&app).await;
    delete(&app.client, &said.conversation).await;
    let after = chat.say("thanks").await;
    assert_eq!(after.memory, "mismatch");
    assert_ne!(after.conversation, said.conversation);
    assert!(!holds(model.asked().last().unwrap(), "sunny"));
    // What goes on from there is a conversation like any other.
    assert_eq!(chat.say("bye").await.memory, "attached");
    assert!(!holds(model.asked().last().unwrap(), "sunny"));
}

#[tokio::test]
async fn a_turn_of_another_conversation_that_continued_it_puts_nothing_of_it_back() {
    let (model, service) = (model().await, service(&["sunny", "windy"]).await);
    let app = crate::memory::start(&model, &service).await;
    let (mut chat, said) = looked(&app).await;
    let elsewhere = ("turnwright-conversation".to_owned(), "elsewhere".to_owned());
    chat.headers.push(elsewhere);
    let next = chat.say("look again").await;
    assert_eq!(
        (next.memory.as_str(), next.conversation.as_str()),
        ("attached", "elsewhere")
    );
    chat.say("and?").await;
    let asked = model.asked();
    assert!(holds(asked.last().unwrap(), "sunny") && holds(asked.last().unwrap(), "windy"));
    delete(&app.client, &said.conversation).await;
    assert_eq!(chat.say("so?").await.memory, "attached");
    let asked = model.asked();
    assert!(!holds(asked.last().unwrap(), "sunny"));
    assert!(holds(asked.last().unwrap(), "windy"), "its own stays");
}

#[tokio::test]
async fn ids_that_were_handed_over_find_nothing() {
    let upstream = Listener::in_turn(vec![
        ListenerReply::json(upstream_body(
            "",
            &[("up_1", "pick", "{}"), ("up_2", "act", "{}")],
        )),
        ListenerReply::json(upstream_body("Done.", &[])),
    ]);
    let upstream = upstream.await.unwrap();
    let tool = Listener::in_turn(vec![ListenerReply::json(r#"{"did":"it"}"#)])
        .await
        .unwrap();
    let act = probe("act", EffectClass::Once, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![act])).await;
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let request = |messages: Value| json!({ "model": "m", "messages": messages, "tools": [function("pick"), function("act")] });
    let question = json!({ "role": "user", "content": "Go." });
    let named = [("turnwright-conversation", "c")];
    let got = app.post(&named, &request(json!([question]))).await;
    let message = got.json()["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].as_str().unwrap().to_owned();
    delete(&app.client, "c").await;
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "picked" });
    let history = json!([question, message, result]);
    let got = app.post(&[], &request(history)).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let asked = upstream.asked().last().unwrap().json();
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    // As the client wrote it, and without ours.
    assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(messages[1]["tool_calls"][0]["id"], id);
    assert_eq!(messages[2]["tool_call_id"], id);
    assert!(!asked["messages"].to_string().contains("did"));
    assert_eq!(app.turn_of(&got).await["parent"], Value::Null);
}

/// How a request is sent again.
const AGAIN: [&[(&str, &str)]; 2] = [
    &[("idempotency-key", "k")],
    &[("x-stainless-retry-count", "1")],
];

#[tokio::test]
async fn a_repetition_is_a_new_turn() {
    for again in AGAIN {
        let upstream = hello().await;
        let app = start(&upstream).await;
        let headers = [again, &[ANN]].concat();
        let turn = say(&app.client, "c", &headers, "Hi").await;
        assert_eq!(say(&app.client, "c", &headers, "Hi").await, turn);
        delete(&app.client, "c").await;
        let anew = say(&app.client, "c", &headers, "Hi").await;
        assert_ne!(anew, turn, "{again:?}");
        assert_eq!(upstream.asked().len(), 2);
        // Which answers the next one.
        assert_eq!(say(&app.client, "c", &headers, "Hi").await, anew);
        let shown = get(&app.client, "/v1/conversations/c").await.json();
        assert_eq!(shown["turn_count"], 1);
    }
}

#[tokio::test]
async fn a_repetition_does_not_repeat_effects() {
    for again in AGAIN {
        let upstream = Listener::in_turn(vec![
            ListenerReply::json(upstream_body("", &[("c1", "act", "{}")])),
            ListenerReply::json(upstream_body("Done.", &[])),
        ]);
        let upstream = upstream.await.unwrap();
        let tool = Listener::in_turn(vec![ListenerReply::json("{}")])
            .await
            .unwrap();
        let act = probe("act", EffectClass::Once, tool.url("/"));
        let app = App::start(&upstream, AppOptions::with_tools(vec![act])).await;
        let headers = [again, &[ANN]].concat();
        let turn = say(&app.client, "c", &headers, "Hi").await;
        delete(&app.client, "c").await;
        let mut all = vec![("turnwright-conversation", "c")];
        all.extend(&headers);
        let sent = app.client.send("POST", CHAT, &all, ask("Hi").to_string());
        let got: ReadAnswer = sent.await.unwrap();
        assert_eq!(got.status, 424, "{again:?}: {}", got.text());
        assert_eq!(got.json()["error"]["code"], "effects_ran");
        assert_eq!(got.header("x-should-retry"), "false");
        // Nor does it lead back to what was deleted.
        let whole = format!("{:?}{}", got.headers, got.text());
        assert!(!whole.contains(&turn), "{whole}");
        assert_eq!(tool.asked().len(), 1);
    }
}
