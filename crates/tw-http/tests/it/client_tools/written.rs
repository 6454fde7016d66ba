//! Clients that write calls and results into texts.
//!
//! The messages are what smolagents 1.26.0 sends (`ToolCallingAgent` with `OpenAIModel`, recorded at a listener on
//! 2026-11-28): a step is one text of the assistant, which ends with its calls as Python writes them, and one of the
//! user. A list of tools and `tool_choice: required` come with each request.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_wire::format::WireFormat;

use super::{
    ANN, BOB, DID, HIDDEN, Headers, Lab, MIXED, ONE, OTHER, as_sent, call, ids, lab, message_of,
    mixed, post_by, result, user,
};
use crate::memory::own_key;
use crate::surfaces::on_each_surface;

on_each_surface!(
    a_call_that_comes_back_as_text_is_joined_like_one_in_its_place,
    what_an_id_in_a_text_brings_about_depends_on_who_asks_and_where_it_stands,
    a_once_tool_that_ran_in_an_earlier_step_is_not_forgotten,
);

fn text(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": [{ "type": "text", "text": text }] })
}

fn task() -> Value {
    text("user", "New task:\nGo.")
}

/// A step as it stands in the history: what the model said, and what the client's tools did.
fn step(message: &Value, observed: &str) -> [Value; 2] {
    let calls = message["tool_calls"].as_array().unwrap().iter();
    let calls = calls.map(|call| {
        let (id, function) = (call["id"].as_str().unwrap(), &call["function"]);
        let name = function["name"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        let arguments = arguments.to_string().replace('"', "'").replace(':', ": ");
        format!("{{'id': '{id}', 'type': 'function', 'function': {{'name': '{name}', 'arguments': {arguments}}}}}")
    });
    let calls = format!("Calling tools:\n[{}]", calls.collect::<Vec<_>>().join(", "));
    let written = match message["content"].as_str() {
        Some(said) if !said.is_empty() => format!("{said}\n{calls}"),
        _ => calls,
    };
    [
        text("assistant", &written),
        text("user", &format!("Observation:\n{observed}")),
    ]
}

async fn ask(
    client: &TestClient,
    surface: WireFormat,
    headers: Headers,
    history: &[Value],
) -> ReadAnswer {
    let body = mixed(&json!(history), false).replacen('{', r#"{"tool_choice":"required","#, 1);
    let got = post_by(client, surface, headers, body).await;
    assert_eq!(got.status, 200, "{}", got.text());
    got
}

/// What becomes of a turn that ran `act` for an id of it in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The model is told what `act` did, and offered it.
    Joined,
    /// The model is neither.
    Withheld,
    /// `act` is offered as if it had not run.
    Nothing,
}

fn asked_last(lab: &Lab) -> Effect {
    let asked = lab.upstream.asked().last().unwrap().json();
    let mut messages = asked["messages"].as_array().unwrap().iter();
    let is_told = messages.any(|message| message["content"] == DID);
    let mut offered = asked["tools"].as_array().unwrap().iter();
    let is_offered = offered.any(|tool| tool["function"]["name"] == "act");
    match (is_told, is_offered) {
        (true, true) => Effect::Joined,
        (false, false) => Effect::Withheld,
        (false, true) => Effect::Nothing,
        (true, false) => panic!("told and not offered"),
    }
}

async fn a_call_that_comes_back_as_text_is_joined_like_one_in_its_place(surface: WireFormat) {
    let lab = lab(
        EffectClass::Once,
        &[("Hm.", &HIDDEN), ("Now.", &MIXED), ("Done.", &[])],
    )
    .await;
    let got = ask(&lab.app.client, surface, &[ANN], &[task()]).await;
    let first = lab.app.turn_of(&got).await;
    let [said, observed] = step(&message_of(surface, &got), "red\nblue");
    let written = said["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(
        written.starts_with("Hm.\n\nNow.\nCalling tools:\n[{'id': 'call_"),
        "{written}"
    );
    let got = ask(
        &lab.app.client,
        surface,
        &[ANN],
        &[task(), said, observed.clone()],
    )
    .await;
    let asked = lab.upstream.asked().last().unwrap().json();
    let hidden = json!({ "role": "assistant", "content": null, "tool_calls": [call("up_0", "act", r#"{"x":0}"#)] });
    let joined = json!({ "role": "assistant", "content": written, "tool_calls": [call("up_2", "act", "{}")] });
    let expected = json!([
        task(),
        hidden,
        result("up_0", DID),
        joined,
        result("up_2", DID),
        observed
    ]);
    let sent = |messages: &Value| as_sent(surface, messages.as_array().unwrap());
    assert_eq!(sent(&asked["messages"]), sent(&expected));
    assert_eq!(asked_last(&lab), Effect::Joined);
    assert_eq!(lab.tool.asked().len(), 2, "ours do not run again");
    let turn = lab.app.turn_of(&got).await;
    assert_eq!(
        (&turn["parent"], &turn["conversation"]),
        (&first["id"], &first["conversation"])
    );
}

/// Where an id of a turn that ran `act` stands in the next request.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// In the text of the answer, as a call.
    Written,
    /// The same, and an answer without calls and another task behind it.
    Answered,
    /// In the text of an answer, without what was called.
    Quoted,
    /// In what the user says.
    Pasted,
}

#[derive(Clone, Copy, Debug)]
enum Key {
    /// That of the first request, for many people.
    Same,
    /// The same, made for one person.
    OnePersons,
    /// Another one for the second request.
    Other,
}

async fn what_an_id_in_a_text_brings_about_depends_on_who_asks_and_where_it_stands(
    surface: WireFormat,
) {
    use Comes::{Answered, Pasted, Quoted, Written};
    use Effect::{Joined, Nothing, Withheld};
    use Key::{OnePersons, Other, Same};
    let nobody: Headers = &[];
    // Who begins, who goes on, by which key, and where the id stands.
    let cases: [(Headers, Headers, Key, Comes, Effect); 21] = [
        (&[ANN], &[ANN], Same, Written, Joined),
        (&[ANN], &[ANN, ONE], Same, Written, Joined),
        (&[ONE], &[ONE], Same, Written, Joined),
        (nobody, nobody, OnePersons, Written, Joined),
        // Nobody knows who it is, and a text may be anybody's.
        (nobody, nobody, Same, Written, Withheld),
        // An agent that names somebody else as it goes on.
        (&[ANN], &[BOB], Same, Written, Withheld),
        (&[ANN], nobody, Same, Written, Withheld),
        (&[ONE], &[OTHER], Same, Written, Withheld),
        (nobody, &[ANN], Same, Written, Withheld),
        (&[ANN], &[ANN], Other, Written, Nothing),
        // The next task may need it again.
        (&[ANN], &[ANN], Same, Answered, Joined),
        (nobody, nobody, Same, Answered, Nothing),
        (&[ANN], &[BOB], Same, Answered, Nothing),
        // Whoever got hold of an id and has it repeated to somebody else gets nothing and keeps nothing from them.
        (&[ANN], &[ANN], Same, Quoted, Joined),
        (nobody, nobody, Same, Quoted, Withheld),
        (&[ANN], &[BOB], Same, Quoted, Nothing),
        (&[ANN], &[ANN], Same, Pasted, Withheld),
        (nobody, nobody, Same, Pasted, Withheld),
        (&[ANN], &[BOB], Same, Pasted, Nothing),
        (&[ONE], &[OTHER], Same, Pasted, Nothing),
        (&[ANN], &[ANN], Other, Pasted, Nothing),
    ];
    for (began, goes_on, key, comes, expected) in cases {
        let says = format!("{began:?}, then {goes_on:?} by {key:?}: {comes:?}");
        let lab = lab(EffectClass::Once, &[("", &MIXED), ("Done.", &[])]).await;
        let client = match key {
            OnePersons => own_key(&lab.app, ToolGrant::All).await,
            Same | Other => lab.app.client.clone(),
        };
        let got = ask(&client, surface, began, &[task()]).await;
        let message = message_of(surface, &got);
        let id = &ids(&message)[1];
        let [said, observed] = step(&message, "red\nblue");
        let history = match comes {
            Written => vec![task(), said, observed],
            Answered => vec![task(), said, observed, text("assistant", "Done."), task()],
            Quoted => vec![
                task(),
                text("assistant", &format!("I have {id}.")),
                user("Go on."),
            ],
            Pasted => vec![
                user("Hi"),
                text("assistant", "Hello."),
                user(&format!("What is {id}?")),
            ],
        };
        let client = match key {
            Other => {
                let other = lab
                    .app
                    .key("default", ToolGrant::All, vec![KeyScope::Chat])
                    .await;
                lab.app.with_key(Some(other))
            }
            Same | OnePersons => client,
        };
        ask(&client, surface, goes_on, &history).await;
        assert_eq!(asked_last(&lab), expected, "{says}");
    }
}

/// The steps of one task are one answer: what is the user's word in it are results.
async fn a_once_tool_that_ran_in_an_earlier_step_is_not_forgotten(surface: WireFormat) {
    for (headers, expected) in [(&[ANN][..], Effect::Joined), (&[], Effect::Withheld)] {
        let second = [("up_4", "pick", r#"{"n":3}"#)];
        let second: &'static [_] = second.to_vec().leak();
        let lab = lab(
            EffectClass::Once,
            &[("", &MIXED), ("", second), ("Done.", &[])],
        )
        .await;
        let mut history = vec![task()];
        for observed in ["red\nblue", "green"] {
            let got = ask(&lab.app.client, surface, headers, &history).await;
            history.extend(step(&message_of(surface, &got), observed));
        }
        ask(&lab.app.client, surface, headers, &history).await;
        assert_eq!(asked_last(&lab), expected, "{headers:?}");
        assert_eq!(lab.tool.asked().len(), 1);
        // With another task, said behind the answer to this one, it is offered in any case.
        history.extend([text("assistant", "Done."), task()]);
        ask(&lab.app.client, surface, headers, &history).await;
        assert_ne!(asked_last(&lab), Effect::Withheld, "{headers:?}");
    }
}
