//! What is put back into what the model is sent.

use serde_json::{Value, json};
use tw_core::tenant::ToolGrant;
use tw_runtime::runtime::RuntimeConfig;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use super::{Chatter, answer, holds, model, offering, own_key, service, start};
use crate::app::{App, AppOptions};
use crate::surfaces::on_each_surface;

on_each_surface!(
    what_tools_said_goes_to_the_model_again,
    what_is_put_back_is_the_same_after_a_restart,
    only_tools_that_are_offered_come_back,
    the_newest_whole_rounds_come_back_as_far_as_there_is_room,
    a_model_that_finds_it_too_long_is_asked_once_more_without,
    another_refusal_is_the_clients,
    a_history_that_had_to_be_repaired_is_put_back_in_its_places,
);

const ANN: (&str, &str) = ("turnwright-user", "ann");

/// The messages of the newest request to the model, each in a word or two.
fn sent(model: &Listener) -> Vec<String> {
    let request = model.asked().last().unwrap().json();
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(in_words).collect()
}

fn in_words(message: &Value) -> String {
    let role = message["role"].as_str().unwrap();
    let content = message["content"].as_str().unwrap_or_default().trim();
    let calls: Vec<&str> = message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|call| call["function"]["name"].as_str().unwrap())
        .collect();
    let mut words = vec![role];
    words.extend((!content.is_empty()).then_some(content));
    words.extend(calls);
    words.join(" ")
}

async fn what_tools_said_goes_to_the_model_again(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny", "mild", "windy"]).await);
    let app = start(&model, &service).await;
    for streams in [false, true] {
        let user = format!("{streams}");
        let mut chat = Chatter::new(&app.client, surface, &[("turnwright-user", &user)]);
        chat.streams = streams;
        chat.say("Hi").await;
        chat.say("look twice").await;
        chat.say("thanks").await;
        let said: Vec<&str> = if streams {
            vec!["windy", "windy"]
        } else {
            vec!["sunny", "mild"]
        };
        let result = |at: usize| format!("tool \"{}\"", said[at]);
        let restored = [
            "user Hi".to_owned(),
            "assistant Hello.".to_owned(),
            "user look twice".to_owned(),
            "assistant Let me see. look".to_owned(),
            result(0),
            "assistant look".to_owned(),
            result(1),
            "assistant Done.".to_owned(),
            "user thanks".to_owned(),
        ];
        assert_eq!(sent(&model), restored);
        // The calls have the ids that the upstream gave them, and each its answer.
        let request = model.asked().last().unwrap().json();
        assert_eq!(request["messages"][3]["tool_calls"][0]["id"], "up_1");
        assert_eq!(request["messages"][4]["tool_call_id"], "up_1");
        // What the client wrote is as it wrote it, and the client never sees more.
        assert_eq!(request["messages"][2], chat.messages[2]);
        assert!(!json!(chat.messages).to_string().contains("sunny"));
        // The next turn has it too, over a turn that hid nothing.
        chat.say("bye").await;
        assert_eq!(sent(&model)[..9], restored);
    }
}

async fn what_is_put_back_is_the_same_after_a_restart(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    chat.say("look").await;
    let mut other = chat.clone();
    chat.say("so?").await;
    let before = sent(&model);
    let app = app.again(&model, offering(&service)).await;
    other.client = app.client.clone();
    other.say("so?").await;
    assert_eq!(sent(&model), before);
}

async fn only_tools_that_are_offered_come_back(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny", "a cat"]).await);
    let app = start(&model, &service).await;
    let client = own_key(&app, ToolGrant::All).await;
    let mut chat = Chatter::new(&client, surface, &[]);
    chat.say("look").await;
    chat.say("peek").await;
    let list = |names: &[&str]| {
        let tools = names
            .iter()
            .map(|name| json!({ "type": "function", "function": { "name": name } }));
        json!({ "tools": tools.collect::<Vec<_>>() })
    };
    for (offered, sunny, cat) in [
        (json!({}), true, true),
        (list(&["look", "peek"]), true, true),
        (list(&["look"]), true, false),
        (list(&["peek"]), false, true),
        (list(&["theirs"]), false, false),
        (list(&[]), false, false),
    ] {
        let mut chat = chat.clone().with(offered.clone());
        assert_eq!(chat.say("so?").await.memory, "attached");
        let asked = model.asked();
        let newest = asked.last().unwrap();
        assert_eq!(holds(newest, "sunny"), sunny, "{offered}");
        assert_eq!(holds(newest, "a cat"), cat, "{offered}");
    }
}

async fn the_newest_whole_rounds_come_back_as_far_as_there_is_room(surface: WireFormat) {
    let long = "x".repeat(1000);
    let says: Vec<String> = (0..4).map(|n| format!("said {n} {long}")).collect();
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    let (model, service) = (model().await, service(&says).await);
    let room = |bytes_max| AppOptions {
        config: Box::new(move |config: &mut RuntimeConfig| config.memory_bytes_max = bytes_max),
        ..offering(&service)
    };
    let app = App::start(&model, room(1 << 20)).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    for words in ["look", "look twice", "look"] {
        chat.say(words).await;
    }
    for (bytes_max, first) in [
        (0, 4),
        (1000, 4),
        (1500, 3),
        (2800, 2),
        (4100, 1),
        (6000, 0),
    ] {
        let app = app.again(&model, room(bytes_max)).await;
        let mut chat = chat.clone();
        chat.client = app.client.clone();
        chat.say("so?").await;
        let asked = model.asked();
        let came: Vec<bool> = (0..4)
            .map(|n| holds(asked.last().unwrap(), &format!("said {n}")))
            .collect();
        let expected: Vec<bool> = (0..4).map(|n| n >= first).collect();
        assert_eq!(came, expected, "{bytes_max}");
        // All that the client has is there, whatever came back.
        let texts = sent(&model).join("\n");
        assert_eq!(texts.matches("Let me see.").count(), 3, "{texts}");
        assert_eq!(texts.matches("Done.").count(), 3, "{texts}");
    }
}

/// Refuses what holds a tool's answer as too long.
async fn forgetful(refusal: ListenerReply) -> Listener {
    Listener::start(move |asked| {
        let request = asked.json();
        let messages = request["messages"].as_array().unwrap();
        let of_this_turn = messages.last().unwrap()["role"] == "tool";
        if holds(asked, "sunny") && !of_this_turn {
            return refusal.clone();
        }
        answer(&request)
    })
    .await
    .unwrap()
}

async fn a_model_that_finds_it_too_long_is_asked_once_more_without(surface: WireFormat) {
    let coded = r#"{"error":{"message":"no","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let said = r#"{"error":{"message":"This model's maximum context length is 8 tokens.","type":"BadRequestError","code":400}}"#;
    for refusal in [
        ListenerReply::status(400, coded),
        ListenerReply::status(400, said),
        ListenerReply::status(413, "{}"),
    ] {
        for streams in [false, true] {
            let (model, service) = (forgetful(refusal.clone()).await, service(&["sunny"]).await);
            let app = start(&model, &service).await;
            let mut chat = Chatter::new(&app.client, surface, &[ANN]);
            chat.streams = streams;
            chat.say("look").await;
            let asked = model.asked().len();
            let said = chat.say("so?").await;
            assert_eq!(said.memory, "attached");
            assert_eq!(said.message["content"], "Hello.");
            assert_eq!(model.asked().len(), asked + 2);
            let turn = app.turn(&said.turn).await;
            let attempts = &turn["rounds"][0]["attempts"];
            assert_eq!(attempts[0]["outcome"], "context_length", "{turn}");
            assert_eq!(attempts[1]["outcome"], "ok", "{turn}");
        }
    }
}

async fn another_refusal_is_the_clients(surface: WireFormat) {
    let refusal = r#"{"error":{"message":"no such model","type":"invalid_request_error"}}"#;
    let (model, service) = (
        forgetful(ListenerReply::status(400, refusal)).await,
        service(&["sunny"]).await,
    );
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    chat.say("look").await;
    let asked = model.asked().len();
    let body = json!({
        "model": "m",
        "messages": [chat.messages[0], chat.messages[1], { "role": "user", "content": "so?" }],
    });
    let got = app.ask_on(surface, &[ANN], &body).await;
    assert_eq!(got.status, 400, "{}", got.text());
    assert_eq!(model.asked().len(), asked + 1);
}

async fn a_history_that_had_to_be_repaired_is_put_back_in_its_places(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    // A result that nobody asked for stands in front of all answers.
    chat.messages
        .push(json!({ "role": "user", "content": "Hi" }));
    chat.messages
        .push(json!({ "role": "tool", "tool_call_id": "lost", "content": "?" }));
    chat.say("look").await;
    let said = chat.say("so?").await;
    assert_eq!(said.memory, "attached");
    assert_eq!(
        sent(&model),
        [
            "user Hi",
            "user look",
            "assistant Let me see. look",
            "tool \"sunny\"",
            "assistant Done.",
            "user so?",
        ]
    );
}
