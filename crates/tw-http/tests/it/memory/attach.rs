//! Which turn a request is taken to continue.

use rusqlite::Connection;
use serde_json::{Value, json};
use tw_core::id::TurnId;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_runtime::runtime::RuntimeConfig;
use tw_wire::format::WireFormat;

use super::{Chatter, Keeps, holds, model, offering, own_key, service, start};
use crate::app::{App, AppOptions};
use crate::surfaces::{Wish, on_each_surface};

on_each_surface!(
    an_answer_is_recognized_however_it_was_read_and_sent_back,
    calls_of_the_client_are_part_of_its_history,
    a_changed_history_is_another_one,
    branches_are_continued_each_by_its_own,
    turns_that_look_the_same_are_one_unless_what_is_hidden_differs,
    of_turns_that_differ_the_one_of_the_named_conversation_is_continued,
    nothing_is_looked_for_where_nobody_is_named,
    a_turn_that_was_not_to_be_stored_is_continued_by_nobody,
    a_named_conversation_holds_what_is_continued_in_it,
    a_repetition_says_what_the_first_said,
    a_history_is_known_after_a_restart,
    the_longest_history_is_known,
    an_answer_that_a_limit_cut_is_continued,
    another_key_continues_nothing,
    each_body_is_kept_as_it_came_and_what_it_repeats_once,
);

const ANN: (&str, &str) = ("turnwright-user", "ann");

async fn an_answer_is_recognized_however_it_was_read_and_sent_back(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    for (streams_first, streams_then) in
        [(false, false), (true, true), (false, true), (true, false)]
    {
        let user = format!("{streams_first} {streams_then}");
        let mut chat = Chatter::new(&app.client, surface, &[("turnwright-user", &user)]);
        chat.streams = streams_first;
        let first = chat.say("look, please").await;
        assert_eq!(first.memory, "new");
        assert_eq!(first.message["content"], "Let me see.\n\nDone. \n");
        chat.streams = streams_then;
        // A client of another make sends parts, other line ends, and a system message of today.
        let gap = surface.round_gap().replace('\n', "\r\n");
        chat.messages[1] = json!({
            "role": "assistant",
            "content": [{ "type": "text", "text": format!("Let me see.{gap}") }, { "type": "text", "text": "Done.\r\n" }],
        });
        chat.messages
            .insert(0, json!({ "role": "system", "content": "It is Monday." }));
        let second = chat.say("thanks").await;
        assert_eq!(second.memory, "attached", "{user}");
        assert_eq!(second.conversation, first.conversation);
        let turn = app.turn(&second.turn).await;
        assert_eq!(turn["parent"], json!(first.turn));
        assert_eq!(turn["memory"], "attached");
        assert_eq!(chat.say("bye").await.memory, "attached");
    }
}

async fn calls_of_the_client_are_part_of_its_history(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mine = json!({ "tools": [{ "type": "function", "function": { "name": "mine" } }] });
    for streams in [false, true] {
        let user = format!("{streams}");
        let mut chat =
            Chatter::new(&app.client, surface, &[("turnwright-user", &user)]).with(mine.clone());
        chat.streams = streams;
        let first = chat.say("mine").await;
        let id = first.message["tool_calls"][0]["id"].clone();
        let result = json!({ "role": "tool", "tool_call_id": id, "content": "here" });
        let mut other = chat.clone();
        let second = chat.bring(result.clone()).await;
        assert_eq!(second.memory, "attached");
        assert_eq!(second.conversation, first.conversation);
        assert_eq!(chat.say("good").await.memory, "attached");
        // The same with an id that the client made up.
        other.messages[1]["tool_calls"][0]["id"] = json!("call_x");
        let mut made_up = result;
        made_up["tool_call_id"] = json!("call_x");
        assert_eq!(other.bring(made_up).await.memory, "mismatch");
    }
}

/// Responses shows calls of the server, and its clients send whole outputs back: the history is the same.
#[tokio::test]
async fn calls_of_ours_that_are_sent_back_make_no_other_history() {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    for streams in [false, true] {
        let user = format!("{streams}");
        let mut chat = Chatter::new(
            &app.client,
            WireFormat::OpenAiResponses,
            &[("turnwright-user", &user)],
        );
        chat.streams = streams;
        chat.keeps = Keeps::All;
        let first = chat.say("look twice").await;
        let mut other = chat.clone();
        let second = chat.say("thanks").await;
        assert_eq!(second.memory, "attached");
        assert_eq!(second.conversation, first.conversation);
        assert_eq!(app.turn(&second.turn).await["parent"], json!(first.turn));
        // What it brings is not put back once more.
        let sent = String::from_utf8(model.asked().last().unwrap().body.to_vec()).unwrap();
        assert_eq!(sent.matches("sunny").count(), 2, "{sent}");
        assert_eq!(chat.say("bye").await.memory, "attached");
        // Whoever leaves them out later is the same as well.
        let answer = other.messages.pop().unwrap();
        other
            .messages
            .push(crate::surfaces::without_our_calls(answer));
        other.keeps = Keeps::WhatWasSaid;
        assert_eq!(other.say("thanks").await.memory, "attached");
        let sent = String::from_utf8(model.asked().last().unwrap().body.to_vec()).unwrap();
        assert_eq!(sent.matches("sunny").count(), 2, "{sent}");
    }
}

async fn a_changed_history_is_another_one(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    for words in ["Hi", "look", "ok"] {
        chat.say(words).await;
    }
    type Change = fn(&mut Vec<Value>);
    let changes: [(&str, Change); 6] = [
        ("trimmed at its start", |messages| {
            messages.drain(..2);
        }),
        ("a word", |messages| messages[2]["content"] = json!("look!")),
        ("white space in front", |messages| {
            messages[3]["content"] = json!(" Let me see.\n\nDone.");
        }),
        ("an answer", |messages| {
            messages[5]["content"] = json!("Hello")
        }),
        ("a role", |messages| messages[1]["role"] = json!("user")),
        ("two messages as one", |messages| {
            messages[3]["content"] = json!("Let me see.\n\nDone.ok");
            messages.remove(4);
        }),
    ];
    for (what, change) in changes {
        let mut changed = chat.clone();
        change(&mut changed.messages);
        assert_eq!(changed.say("and now?").await.memory, "mismatch", "{what}");
    }
    assert_eq!(chat.say("and now?").await.memory, "attached");
}

async fn branches_are_continued_each_by_its_own(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny", "rainy"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    let root = chat.say("Hi").await;
    let mut other = chat.clone();
    let (one, two) = (chat.say("look here").await, other.say("look there").await);
    for (branch, chat) in [(&one, &mut chat), (&two, &mut other)] {
        assert_eq!(branch.memory, "attached");
        assert_eq!(branch.conversation, root.conversation);
        let next = chat.say("go on").await;
        assert_eq!(next.memory, "attached");
        assert_eq!(app.turn(&next.turn).await["parent"], json!(branch.turn));
    }
}

async fn turns_that_look_the_same_are_one_unless_what_is_hidden_differs(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny", "sunny", "rainy"]).await);
    let app = start(&model, &service).await;
    let mut same = Chatter::new(&app.client, surface, &[ANN]);
    same.say("look").await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    let newest = chat.say("look").await;
    let mut plain = chat.clone();
    let attached = plain.say("so?").await;
    assert_eq!(attached.memory, "attached");
    assert_eq!(app.turn(&attached.turn).await["parent"], json!(newest.turn));
    // The third time, the weather is another.
    Chatter::new(&app.client, surface, &[ANN]).say("look").await;
    let ambiguous = chat.say("so?").await;
    assert_eq!(ambiguous.memory, "ambiguous");
    assert_eq!(app.turn(&ambiguous.turn).await["parent"], Value::Null);
    assert_ne!(ambiguous.conversation, newest.conversation);
    // By now two turns have this history as well, one with something hidden before it.
    assert_eq!(chat.say("and?").await.memory, "ambiguous");
    assert_eq!(plain.say("and?").await.memory, "ambiguous");
}

/// Ann asks the same in two conversations, and is answered the same from different results.
async fn of_turns_that_differ_the_one_of_the_named_conversation_is_continued(surface: WireFormat) {
    // The third conversation's name is the one that the server gave it.
    for (then, memory, told) in [
        (Some(0), "attached", Some("sunny")),
        (Some(1), "attached", Some("rainy")),
        (Some(2), "attached", Some("foggy")),
        (None, "ambiguous", None),
    ] {
        let weathers = ["sunny", "rainy", "foggy"];
        let (model, service) = (model().await, service(&weathers).await);
        let app = start(&model, &service).await;
        let mut conversations = Vec::new();
        let mut history = Vec::new();
        for name in [Some("trip"), Some("home"), None] {
            let named = name.map(|name| ("turnwright-conversation", name));
            let headers: Vec<_> = [ANN].into_iter().chain(named).collect();
            let mut chat = Chatter::new(&app.client, surface, &headers);
            conversations.push(chat.say("look").await);
            history = chat.messages;
        }
        let continued = then.map(|at: usize| &conversations[at]);
        let named = continued.map_or("elsewhere", |said| said.conversation.as_str());
        let mut chat = Chatter::new(
            &app.client,
            surface,
            &[ANN, ("turnwright-conversation", named)],
        );
        chat.messages = history;
        let said = chat.say("so?").await;
        assert_eq!(
            (said.memory.as_str(), said.conversation.as_str()),
            (memory, named)
        );
        let parent = continued.map(|said| said.turn.as_str());
        assert_eq!(
            app.turn(&said.turn).await["parent"],
            json!(parent),
            "{then:?}"
        );
        for weather in weathers {
            let asked = model.asked();
            let is_told = holds(asked.last().unwrap(), weather);
            assert_eq!(is_told, told == Some(weather), "{then:?} {weather}");
        }
        // What follows goes on from there.
        let next = chat.say("and?").await;
        assert_eq!(next.memory, "attached", "{then:?}");
    }
}

async fn nothing_is_looked_for_where_nobody_is_named(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let own = own_key(&app, ToolGrant::All).await;
    let named = json!({ "user": "ann" });
    let unstored = json!({ "user": "ann", "store": false });
    for (what, client, fields, expected) in [
        ("a plain key", &app.client, json!({}), ["off", "off"]),
        ("a key of one person", &own, json!({}), ["new", "attached"]),
        ("a user", &app.client, named.clone(), ["new", "attached"]),
        ("store: false", &app.client, unstored, ["off", "off"]),
    ] {
        if fields["store"] == false && Wish::Unstored.refusal(surface).is_some() {
            continue;
        }
        let mut chat = Chatter::new(client, surface, &[]).with(fields);
        assert_eq!(chat.say("look").await.memory, expected[0], "{what}");
        assert_eq!(chat.say("so?").await.memory, expected[1], "{what}");
    }
    let disabled = AppOptions {
        config: Box::new(|config: &mut RuntimeConfig| config.tools_enabled = false),
        ..offering(&service)
    };
    let app = app.again(&model, disabled).await;
    let mut chat = Chatter::new(&app.client, surface, &[]).with(named);
    assert_eq!(chat.say("Hi").await.memory, "off");
}

async fn a_turn_that_was_not_to_be_stored_is_continued_by_nobody(surface: WireFormat) {
    if Wish::Unstored.refusal(surface).is_some() {
        return;
    }
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]).with(json!({ "store": false }));
    chat.say("look").await;
    chat.fields = json!({});
    assert_eq!(chat.say("so?").await.memory, "mismatch");
}

async fn a_named_conversation_holds_what_is_continued_in_it(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(
        &app.client,
        surface,
        &[("turnwright-conversation", "trip"), ANN],
    );
    let first = chat.say("look").await;
    assert_eq!(first.conversation, "trip");
    // The same person goes on elsewhere.
    chat.headers[0].1 = "another".to_owned();
    let second = chat.say("so?").await;
    assert_eq!(
        (second.memory.as_str(), second.conversation.as_str()),
        ("attached", "another")
    );
    // Without a person, each conversation is for itself.
    let mut chat = Chatter::new(&app.client, surface, &[("turnwright-conversation", "one")]);
    assert_eq!(chat.say("look").await.memory, "new");
    assert_eq!(chat.clone().say("so?").await.memory, "attached");
    chat.headers[0].1 = "two".to_owned();
    assert_eq!(chat.say("so?").await.memory, "mismatch");
}

async fn a_repetition_says_what_the_first_said(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    chat.say("look").await;
    chat.headers
        .push(("idempotency-key".to_owned(), "k".to_owned()));
    let mut again = chat.clone();
    let (first, second) = (chat.say("so?").await, again.say("so?").await);
    assert_eq!(first.turn, second.turn);
    assert_eq!(
        (first.memory.as_str(), second.memory.as_str()),
        ("attached", "attached")
    );
    assert_eq!(first.conversation, second.conversation);
}

async fn a_history_is_known_after_a_restart(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    chat.say("look").await;
    let app = app.again(&model, offering(&service)).await;
    chat.client = app.client.clone();
    assert_eq!(chat.say("so?").await.memory, "attached");
}

async fn the_longest_history_is_known(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    chat.messages = (0..2046)
        .flat_map(|n| {
            [
                json!({ "role": "user", "content": format!("question {n}") }),
                json!({ "role": "assistant", "content": format!("answer {n}") }),
            ]
        })
        .collect();
    assert_eq!(chat.say("look").await.memory, "mismatch");
    assert_eq!(chat.messages.len(), 4094);
    assert_eq!(chat.say("so?").await.memory, "attached");
    assert_eq!(chat.messages.len(), 4096);
}

async fn an_answer_that_a_limit_cut_is_continued(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = App::start(&model, offering(&service)).await;
    let limited = AppOptions {
        config: Box::new(|config: &mut RuntimeConfig| config.turn.rounds_max = 1),
        ..offering(&service)
    };
    let limited = app.again(&model, limited).await;
    // The client is told `length`, and has an answer.
    let mut chat = Chatter::new(&limited.client, surface, &[ANN]);
    assert_eq!(chat.say("look").await.message["content"], "Let me see.");
    assert_eq!(chat.say("so?").await.memory, "attached");
}

async fn another_key_continues_nothing(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let mut chat = Chatter::new(&app.client, surface, &[ANN]);
    chat.say("look").await;
    let scopes = || vec![KeyScope::Chat, KeyScope::TurnsReadAll];
    for organization in ["default", "other"] {
        let key = app.key(organization, ToolGrant::All, scopes()).await;
        let mut other = chat.clone();
        other.client = app.with_key(Some(key));
        assert_eq!(other.say("so?").await.memory, "mismatch", "{organization}");
    }
}

async fn each_body_is_kept_as_it_came_and_what_it_repeats_once(surface: WireFormat) {
    let (model, service) = (model().await, service(&["sunny"]).await);
    let app = start(&model, &service).await;
    let tools = json!({ "tools": [{ "type": "function", "function": { "name": "mine" } }] });
    let mut chat = Chatter::new(&app.client, surface, &[ANN]).with(tools);
    let mut turns = Vec::new();
    for text in ["Hello there.", "look, please", "mine"] {
        let said = chat.say(text).await;
        turns.push((said, chat.sent.clone()));
    }
    let id = turns[2].0.message["tool_calls"][0]["id"].clone();
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "here" });
    let said = chat.bring(result).await;
    turns.push((said, chat.sent.clone()));
    let caller = app.runtime.authenticate(app.client.key.as_deref().unwrap());
    let organization = caller.await.unwrap().organization;
    for (said, sent) in &turns {
        let turn = TurnId::parse(&said.turn).unwrap();
        let body = app.store.turn_body(organization, turn).await.unwrap();
        assert_eq!(body.as_deref(), Some(sent.as_bytes()));
    }
    let conn = Connection::open(app.database()).unwrap();
    let sql = "SELECT count(*) FROM turn_input WHERE body LIKE '%Hello there.%'";
    let holding: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(holding, 1);
}
