//! `previous_response_id`: what the model is sent of the responses before.

use serde_json::{Value, json};
use tw_core::id::CallId;
use tw_egress::upstream::Upstream;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use super::{Lab, create, events, id, items, response};
use crate::upstreams::{in_front_of, upstream};

pub fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub fn said(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

pub fn called(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

pub fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

/// The messages as far as tests compare them: fields without a value are left out.
pub fn plain(messages: &Value) -> Vec<Value> {
    let messages = messages.as_array().unwrap().iter();
    let plain = messages.map(|message| {
        let fields = message.as_object().unwrap().iter();
        let fields = fields.filter(|(_, value)| !value.is_null() && **value != json!(""));
        Value::Object(
            fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    });
    plain.collect()
}

/// The messages of the first response as the model knows them.
fn first() -> Vec<Value> {
    vec![
        user("go"),
        json!({ "role": "assistant", "content": "Let me see.", "tool_calls": [called("up_1", "act", "{\"n\":1}")] }),
        result("up_1", super::DID),
        said("Done."),
    ]
}

const ACTS: super::Said = ("Let me see.", &[("up_1", "act", "{\"n\":1}")]);

#[tokio::test]
async fn the_whole_history_comes_before_the_new_input() {
    let answers = [ACTS, ("Done.", &[]), ("Two.", &[]), ("Three.", &[])];
    for streamed in [false, true] {
        let lab = Lab::start(&answers).await;
        let got = lab
            .create(json!({ "input": "go", "instructions": "be brief", "stream": streamed }))
            .await;
        let one = last(&got, streamed);
        assert_eq!(one["previous_response_id"], Value::Null);
        assert_eq!(
            lab.sent()[0],
            json!({ "role": "system", "content": "be brief" })
        );

        let got = lab
            .create(
                json!({ "input": "and?", "previous_response_id": id(&one), "stream": streamed }),
            )
            .await;
        assert_eq!(got.header("turnwright-repaired"), "");
        assert_eq!(got.header("turnwright-memory"), "attached");
        let two = last(&got, streamed);
        assert_eq!(two["previous_response_id"], one["id"]);
        let mut wanted = first();
        wanted.push(user("and?"));
        assert_eq!(plain(&lab.sent()), wanted, "instructions are not inherited");

        // The chain goes on, and another branch begins at its first response.
        let got = lab
            .create(json!({ "input": [user("more")], "previous_response_id": id(&two), "instructions": "be long" }))
            .await;
        response(&got);
        let mut whole = vec![json!({ "role": "system", "content": "be long" })];
        whole.extend(wanted.clone());
        whole.extend([said("Two."), user("more")]);
        assert_eq!(plain(&lab.sent()), whole);
        let got = lab
            .create(json!({ "input": "else", "previous_response_id": id(&one) }))
            .await;
        let branch = response(&got);
        let mut wanted = first();
        wanted.push(user("else"));
        assert_eq!(plain(&lab.sent()), wanted);

        // The record says what was continued.
        let record = lab.app.turn_of(&got).await;
        assert_eq!(branch["previous_response_id"], one["id"]);
        assert_eq!(lab.app.turn(id(&branch)).await, record);
        let parent = record["parent"].as_str().unwrap().replace('-', "");
        assert_eq!(format!("resp_{parent}"), id(&one));
        assert_eq!(lab.tool.asked().len(), 1, "nothing ran again");
    }
}

/// The response at the end of an answer.
fn last(got: &tw_testkit::client::ReadAnswer, streamed: bool) -> Value {
    if streamed {
        assert_eq!(got.status, 200, "{}", got.text());
        let last = events(got).pop().unwrap();
        assert_eq!(last["type"], "response.completed", "{last}");
        return last["response"].clone();
    }
    response(got)
}

#[tokio::test]
async fn a_response_may_be_continued_without_input() {
    let lab = Lab::start(&[("One.", &[]), ("Two.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    for input in [json!([]), Value::Null] {
        let mut body = json!({ "previous_response_id": id(&one) });
        if !input.is_null() {
            body["input"] = input;
        }
        response(&lab.create(body).await);
        assert_eq!(plain(&lab.sent()), [user("go"), said("One.")]);
    }
}

/// Calls of the client's own tools, alone and beside one of this server's.
#[tokio::test]
async fn outputs_of_calls_answer_the_response_that_made_them() {
    const PICK: (&str, &str, &str) = ("up_1", "pick", "{\"n\":1}");
    const ACT: (&str, &str, &str) = ("up_2", "act", "{}");
    const AGAIN: (&str, &str, &str) = ("up_3", "pick", "{\"n\":2}");
    const ROWS: [&[(&str, &str, &str)]; 3] = [&[PICK], &[PICK, ACT, AGAIN], &[ACT, PICK]];
    let pick = json!({ "type": "function", "name": "pick", "parameters": { "type": "object" }, "strict": false });
    let act = json!({ "type": "function", "name": "act", "parameters": { "type": "object" }, "strict": false });
    for calls in ROWS {
        for streamed in [false, true] {
            let lab = Lab::start(&[("", calls), ("Done.", &[]), ("Later.", &[])]).await;
            let tools = json!([pick, act]);
            let got = lab
                .create(json!({ "input": "go", "tools": tools, "stream": streamed }))
                .await;
            let one = last(&got, streamed);
            let handed = items(&one, "function_call");
            let outputs: Vec<Value> = handed
                .iter()
                .map(|call| {
                    let call_id = call["call_id"].as_str().unwrap();
                    assert!(CallId::parse_handed(call_id).is_some(), "{call}");
                    let output = format!("picked {}", call["arguments"]);
                    json!({ "type": "function_call_output", "call_id": call_id, "output": output })
                })
                // The client gives them in an order of its own.
                .rev()
                .collect();
            let got = lab
                .create(
                    json!({ "input": outputs, "tools": tools, "previous_response_id": id(&one) }),
                )
                .await;
            let two = response(&got);
            let made: Vec<Value> = calls
                .iter()
                .map(|(id, name, arguments)| called(id, name, arguments))
                .collect();
            let results = calls.iter().map(|(id, name, arguments)| match *name {
                "act" => result(id, super::DID),
                _ => result(id, &format!("picked {}", json!(arguments))),
            });
            let mut wanted = vec![
                user("go"),
                json!({ "role": "assistant", "tool_calls": made }),
            ];
            wanted.extend(results);
            assert_eq!(plain(&lab.sent()), wanted, "{calls:?}");
            assert_eq!(got.header("turnwright-repaired"), "", "{calls:?}");

            // What was answered stays answered.
            let got = lab
                .create(
                    json!({ "input": "and?", "tools": tools, "previous_response_id": id(&two) }),
                )
                .await;
            response(&got);
            wanted.extend([said("Done."), user("and?")]);
            assert_eq!(plain(&lab.sent()), wanted, "{calls:?}");
            let ran = calls.iter().filter(|(_, name, _)| *name == "act").count();
            assert_eq!(lab.tool.asked().len(), ran);
        }
    }
}

#[tokio::test]
async fn a_call_that_nobody_answers_does_not_break_the_chain() {
    let lab = Lab::start(&[("", &[("up_1", "pick", "{}")]), ("Done.", &[])]).await;
    let tools = json!([{ "type": "function", "name": "pick", "strict": false }]);
    let one = response(&lab.create(json!({ "input": "go", "tools": tools })).await);
    let got = lab
        .create(json!({ "input": "never mind", "tools": tools, "previous_response_id": id(&one) }))
        .await;
    response(&got);
    assert_eq!(got.header("turnwright-repaired"), "missing_result=1");
    let sent = plain(&lab.sent());
    assert_eq!(sent[2]["tool_call_id"], "up_1");
    assert_eq!(sent[3], user("never mind"));
}

/// What only the format of an upstream understands goes back to it as it came.
#[tokio::test]
async fn the_models_own_blocks_come_back() {
    let thought =
        json!({ "type": "reasoning", "id": "rs_up", "summary": [], "encrypted_content": "sealed" });
    let search = json!({ "type": "web_search_call", "id": "ws_up", "status": "completed", "action": { "type": "search", "query": "x" } });
    let message = json!({ "type": "message", "id": "msg_up", "role": "assistant", "status": "completed", "phase": "final_answer",
        "content": [{ "type": "output_text", "text": "Hm.", "annotations": [] }] });
    let answer = json!({ "id": "resp_up", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "output": [thought, search, message], "usage": { "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 } });
    let listener = Listener::in_turn(vec![ListenerReply::json(answer.to_string())]).await;
    let listener = listener.unwrap();
    let app = in_front_of(vec![Upstream {
        format: WireFormat::OpenAiResponses,
        ..upstream("test", listener.url("/v1"))
    }])
    .await;
    let one = response(&create(&app.client, &[], json!({ "input": "go" })).await);
    assert!(id(&one) != "resp_up");
    assert_eq!(one["output"][0].get("encrypted_content"), None);
    let path = format!(
        "/v1/responses/{}?include[]=reasoning.encrypted_content",
        id(&one)
    );
    let again = response(&app.client.send("GET", &path, &[], "").await.unwrap());
    assert_eq!(again["output"][0]["encrypted_content"], "sealed");
    let more = json!({ "input": "and?", "previous_response_id": id(&one) });
    response(&create(&app.client, &[], more).await);
    let sent = listener.asked()[1].json();
    assert_eq!(sent.get("previous_response_id"), None, "{sent}");
    let input = sent["input"].as_array().unwrap();
    assert_eq!(input.len(), 5, "{sent}");
    assert_eq!((&input[1], &input[2]), (&thought, &search));
    assert_eq!(input[3]["phase"], "final_answer");
    assert_eq!(input[3]["content"][0]["text"], "Hm.");
}

/// A client that kept the history itself until now, and never saw the calls that ran.
#[tokio::test]
async fn what_memory_put_back_stays_in_the_chain() {
    let answers: [super::Said; 4] = [
        ("", &[("up_1", "act", "{}")]),
        ("Done.", &[]),
        ("Two.", &[]),
        ("Three.", &[]),
    ];
    let lab = Lab::start(&answers).await;
    let ann = [("turnwright-user", "ann")];
    let ask = async |body: Value| create(&lab.app.client, &ann, body).await;
    response(&ask(json!({ "input": "go" })).await);
    lab.app.settled().await;
    let kept = json!([user("go"), said("Done."), user("and?")]);
    let got = ask(json!({ "input": kept })).await;
    assert_eq!(got.header("turnwright-memory"), "attached");
    let two = response(&got);
    let mut wanted = vec![
        user("go"),
        json!({ "role": "assistant", "tool_calls": [called("up_1", "act", "{}")] }),
        result("up_1", super::DID),
        said("Done."),
        user("and?"),
    ];
    assert_eq!(plain(&lab.sent()), wanted);
    let three = ask(json!({ "input": "more", "previous_response_id": id(&two) })).await;
    response(&three);
    wanted.extend([said("Two."), user("more")]);
    assert_eq!(plain(&lab.sent()), wanted);
}

#[tokio::test]
async fn a_chain_survives_a_restart() {
    let lab = Lab::start(&[ACTS, ("Done.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    lab.app.settled().await;
    let later = lab.again(&[("Two.", &[])]).await;
    let got = later
        .create(json!({ "input": "and?", "previous_response_id": id(&one) }))
        .await;
    response(&got);
    let mut wanted = first();
    wanted.push(user("and?"));
    assert_eq!(plain(&later.sent()), wanted);
}

#[tokio::test]
async fn a_chain_has_limits() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    lab.app.settled().await;
    type Change = fn(&mut tw_runtime::runtime::RuntimeConfig);
    let rows: [(&str, Change); 2] = [
        ("messages", |config| config.request.messages_max = 2),
        ("bytes", |config| config.request.body_bytes_max = 20),
    ];
    for (name, change) in rows {
        let mut options = super::options(&lab.tool);
        options.config = Box::new(change);
        let app = lab.app.again(&lab.upstream, options).await;
        let body = json!({ "input": "x", "previous_response_id": id(&one) });
        if name == "bytes" {
            // The request alone would be too long already, so the chain is asked for without one.
            let caller = app.runtime.authenticate(app.client.key.as_deref().unwrap());
            let caller = caller.await.unwrap();
            let wanted = tw_runtime::chain::ChainWanted {
                caller: &caller,
                end_user: None,
                surface: tw_core::turn_policy::Surface::Responses,
                turn: WireFormat::OpenAiResponses
                    .turn_of_answer(id(&one))
                    .unwrap(),
                kept: tw_runtime::chain::ChainKept::Stored,
            };
            let refused = app.runtime.chain(wanted).await.unwrap_err();
            let is_too_long = matches!(refused, tw_runtime::chain::ChainError::TooLong);
            assert!(is_too_long, "{refused}");
            continue;
        }
        let got = create(&app.client, &[], body).await;
        assert_eq!(got.status, 400, "{name}: {}", got.text());
        let error = &got.json()["error"];
        assert_eq!(error["code"], "context_length_exceeded", "{name}: {error}");
        assert_eq!(error["param"], "previous_response_id");
    }
}
