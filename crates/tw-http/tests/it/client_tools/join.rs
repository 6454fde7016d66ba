//! Mixed rounds: ours run, the client's are handed over, and its answer meets their results.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::HELD_KEPT;
use tw_wire::format::WireFormat;

use super::{
    ANN, BOB, DID, HIDDEN, Headers, Lab, MIXED, ONE, OTHER, PICK, as_sent, call, check_picks,
    erase_at, ids, lab, message_of, mixed, post, post_by, result, upstream, user,
};
use crate::app::{AppOptions, probe};
use crate::surfaces::{self, Wish, assert_field, on_each_surface};

on_each_surface!(
    ours_are_held_and_meet_the_clients_answer,
    the_record_shows_who_runs_what,
    an_answer_may_come_twice_differently_and_after_a_restart,
    an_answer_in_part_is_repaired_and_reported,
    with_fewer_tools_nothing_of_ours_goes_back,
    ids_of_another_key_are_nobodys,
    results_that_are_not_to_be_stored_wait_for_an_hour,
    a_conversation_that_is_deleted_between_the_halves_runs_nothing_twice,
    a_replay_hands_over_the_same_ids,
    a_forced_choice_of_the_clients_tool_passes,
    hidden_results_stay_with_the_person_they_were_for,
    a_conversation_goes_on_under_the_name_that_it_was_given,
    a_name_is_given_once_and_an_empty_one_names_nobody,
);

/// A turn with a hidden round and a mixed one, and what its client saw.
async fn handed_over(
    surface: WireFormat,
    effect: EffectClass,
    streamed: bool,
    store: bool,
) -> (Lab, Value, Value) {
    let mut lab = lab(
        effect,
        &[("Hm.", &HIDDEN), ("Now.", &MIXED), ("Done.", &[])],
    )
    .await;
    let mut body = mixed(&json!([user("Go.")]), streamed);
    match Wish::Unstored.refusal(surface) {
        None if !store => body = body.replacen('{', r#"{"store":false,"#, 1),
        Some(_why) if !store => lab.app.client.key = Some(lab.app.minimal_key().await),
        None | Some(_) => {}
    }
    let got = post(&lab.app, surface, body).await;
    let message = message_of(surface, &got);
    let turn = lab.app.turn_of(&got).await;
    (lab, message, turn)
}

/// The arguments of the calls of a message.
fn call_pieces(message: &Value) -> Vec<Value> {
    let calls = message["tool_calls"].as_array().unwrap().iter();
    let arguments = calls.map(|call| call["function"]["arguments"].as_str().unwrap());
    arguments.map(|text| text.parse().unwrap()).collect()
}

/// What the upstream was asked last, from the second message on.
fn asked_last(lab: &Lab, surface: WireFormat) -> Vec<Value> {
    let asked = lab.upstream.asked().last().unwrap().json();
    as_sent(surface, &asked["messages"].as_array().unwrap()[1..])
}

/// What the upstream gets of the whole turn, with these results of the client's.
fn whole(surface: WireFormat, first: &str, second: &str, turn: &Value) -> Vec<Value> {
    // The upstream gave one id twice, so that the second call has one of the turn's.
    let minted = turn["rounds"][1]["calls"][2]["tool_call_id"]
        .as_str()
        .unwrap();
    let whole = [
        json!({ "role": "assistant", "content": "Hm.", "tool_calls": [call("up_0", "act", r#"{"x":0}"#)] }),
        result("up_0", DID),
        json!({ "role": "assistant", "content": "Now.", "tool_calls": [
            call("up_1", "pick", r#"{ "n": 1 }"#), call("up_2", "act", "{}"), call(minted, "pick", r#"{"n":2}"#),
        ]}),
        result("up_1", first),
        result("up_2", DID),
        result(minted, second),
    ];
    as_sent(surface, &whole)
}

async fn ours_are_held_and_meet_the_clients_answer(surface: WireFormat) {
    for streamed in [true, false] {
        let (lab, message, turn) = handed_over(surface, EffectClass::Once, streamed, true).await;
        assert_eq!(message["content"], "Hm.\n\nNow.");
        let ids = ids(&message);
        assert_eq!(ids.len(), 2);
        let made = call_pieces(&message);
        let wanted = [r#"{ "n": 1 }"#, r#"{"n":2}"#].map(|text| text.parse::<Value>().unwrap());
        assert_eq!(made, wanted);
        assert_eq!(lab.tool.asked().len(), 2);
        check_picks(surface, &lab.upstream.asked()[0].body);

        let history = json!([
            user("Go."),
            message,
            result(&ids[1], "blue"),
            result(&ids[0], "red")
        ]);
        let got = post(&lab.app, surface, mixed(&history, streamed)).await;
        assert_eq!(message_of(surface, &got)["content"], "Done.");
        assert_eq!(
            asked_last(&lab, surface),
            whole(surface, "red", "blue", &turn)
        );
        assert_eq!(lab.tool.asked().len(), 2, "ours do not run again");
        let answered = lab.app.turn_of(&got).await;
        assert_eq!(answered["parent"], turn["id"]);
        assert_eq!(answered["conversation"], turn["conversation"]);
        assert_eq!(got.header("turnwright-repaired"), "");
    }
}

async fn the_record_shows_who_runs_what(surface: WireFormat) {
    let (_lab, message, turn) = handed_over(surface, EffectClass::Read, true, true).await;
    assert_eq!(turn["status"], "completed");
    let ids = ids(&message);
    let calls = turn["rounds"][1]["calls"].as_array().unwrap();
    let shown: Vec<_> = calls
        .iter()
        .map(|call| {
            json!([
                call["runs"],
                call["status"],
                call["handed_id"],
                call["arguments"]
            ])
        })
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            ["client", "completed", ids[0], r#"{ "n": 1 }"#],
            ["server", "completed", null, "{}"],
            ["client", "completed", ids[1], r#"{"n":2}"#],
        ])
    );
}

async fn an_answer_may_come_twice_differently_and_after_a_restart(surface: WireFormat) {
    let (lab, message, turn) = handed_over(surface, EffectClass::Once, true, true).await;
    let ids = ids(&message);
    for (first, second) in [("red", "blue"), ("red", "blue"), ("green", "none")] {
        let history = json!([
            user("Go."),
            message,
            result(&ids[0], first),
            result(&ids[1], second)
        ]);
        post(&lab.app, surface, mixed(&history, true)).await;
        assert_eq!(
            asked_last(&lab, surface),
            whole(surface, first, second, &turn)
        );
    }
    let act = probe("act", EffectClass::Once, lab.tool.url("/"));
    let again = lab
        .app
        .again(&lab.upstream, AppOptions::with_tools(vec![act]))
        .await;
    let history = json!([
        user("Other."),
        message,
        result(&ids[0], "a"),
        result(&ids[1], "b"),
        user("And?")
    ]);
    post(&again, surface, mixed(&history, false)).await;
    let mut expected = whole(surface, "a", "b", &turn);
    expected.extend(as_sent(surface, &[user("And?")]));
    assert_eq!(asked_last(&lab, surface), expected);
    assert_eq!(lab.tool.asked().len(), 2);
}

async fn an_answer_in_part_is_repaired_and_reported(surface: WireFormat) {
    let (lab, message, turn) = handed_over(surface, EffectClass::Read, false, true).await;
    let ids = ids(&message);
    let history = json!([
        user("Go."),
        message,
        result(&ids[1], "blue"),
        result("call_0", "?")
    ]);
    let got = post(&lab.app, surface, mixed(&history, false)).await;
    assert_eq!(
        got.header("turnwright-repaired"),
        "orphan_result=1, missing_result=1"
    );
    let missing = r#"{"error":"the result of this call is not known"}"#;
    assert_eq!(
        asked_last(&lab, surface),
        whole(surface, missing, "blue", &turn)
    );
}

async fn with_fewer_tools_nothing_of_ours_goes_back(surface: WireFormat) {
    let (lab, message, _) = handed_over(surface, EffectClass::Read, false, true).await;
    let ids = ids(&message);
    let history = json!([
        user("Go."),
        message,
        result(&ids[0], "red"),
        result(&ids[1], "blue")
    ]);
    let without = format!(r#"{{"model":"m","messages":{history},"tools":[{PICK}]}}"#);
    post(&lab.app, surface, without).await;
    let sent = json!(asked_last(&lab, surface)).to_string();
    assert!(!sent.contains("did") && !sent.contains("act"), "{sent}");
    assert!(sent.contains("up_1") && !sent.contains(&ids[0]), "{sent}");
}

async fn ids_of_another_key_are_nobodys(surface: WireFormat) {
    let (mut lab, message, _) = handed_over(surface, EffectClass::Read, false, true).await;
    let ids = ids(&message);
    let history = json!([
        user("Go."),
        message,
        result(&ids[0], "red"),
        result(&ids[1], "blue")
    ]);
    let guessed = tw_core::id::CallId(uuid::Uuid::from_u128(0x1234)).handed();
    for (organization, history) in [
        (Some("default"), history.clone()),
        (Some("other"), history.clone()),
        (
            None,
            json!(
                history
                    .to_string()
                    .replace(&ids[0], &guessed)
                    .replace(&ids[1], &format!("{}x", ids[1]))
                    .parse::<Value>()
                    .unwrap()
            ),
        ),
    ] {
        if let Some(organization) = organization {
            let key = lab
                .app
                .key(organization, ToolGrant::All, vec![KeyScope::Chat])
                .await;
            lab.app.client.key = Some(key);
        }
        let got = post(&lab.app, surface, mixed(&history, false)).await;
        assert_eq!(got.status, 200);
        assert_eq!(
            asked_last(&lab, surface),
            as_sent(surface, &history.as_array().unwrap()[1..])
        );
    }
}

async fn results_that_are_not_to_be_stored_wait_for_an_hour(surface: WireFormat) {
    let (lab, message, turn) = handed_over(surface, EffectClass::Once, false, false).await;
    let ids = ids(&message);
    let ended = Timestamp(turn["ended_us"].as_i64().unwrap());
    let history = json!([
        user("Go."),
        message,
        result(&ids[0], "red"),
        result(&ids[1], "blue")
    ]);
    let just_before = ended
        .after(HELD_KEPT)
        .before(std::time::Duration::from_micros(1));
    assert_eq!(erase_at(&lab.app, just_before).await, 0);
    post(&lab.app, surface, mixed(&history, false)).await;
    assert_eq!(
        asked_last(&lab, surface),
        whole(surface, "red", "blue", &turn)
    );

    // Where the key says it, what went on is not stored either.
    let due = match Wish::Unstored.refusal(surface) {
        None => 1,
        Some(_why) => 2,
    };
    assert_eq!(erase_at(&lab.app, ended.after(HELD_KEPT)).await, due);
    let got = post(&lab.app, surface, mixed(&history, false)).await;
    let sent = asked_last(&lab, surface);
    let text = json!(sent).to_string();
    assert!(!text.contains("did"), "{text}");
    let lost: Vec<_> = sent
        .iter()
        .filter(|message| {
            message["content"]
                .as_str()
                .unwrap_or_default()
                .contains("already made")
        })
        .collect();
    assert_eq!(lost.len(), 2, "{text}");
    assert!(text.contains("red") && text.contains("blue"), "{text}");
    assert_eq!(
        offered_last(&lab),
        ["pick"],
        "a once tool that ran is not offered at once"
    );
    assert_eq!(got.status, 200);
    assert_eq!(lab.tool.asked().len(), 2);
}

/// The names of the tools that the upstream was offered last.
fn offered_last(lab: &Lab) -> Vec<Value> {
    let asked = lab.upstream.asked().last().unwrap().json();
    let tools = asked["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].clone()).collect()
}

async fn a_conversation_that_is_deleted_between_the_halves_runs_nothing_twice(surface: WireFormat) {
    let (lab, message, turn) = handed_over(surface, EffectClass::Once, false, false).await;
    let ids = ids(&message);
    let ran = lab.tool.asked().len();
    let path = format!(
        "/v1/conversations/{}",
        turn["conversation"].as_str().unwrap()
    );
    let deleted = lab.app.client.send("DELETE", &path, &[], "").await.unwrap();
    assert!(deleted.status < 300, "{}", deleted.text());
    let history = json!([
        user("Go."),
        message,
        result(&ids[0], "red"),
        result(&ids[1], "blue")
    ]);
    let got = post(&lab.app, surface, mixed(&history, false)).await;
    assert_eq!(got.status, 200);
    let text = json!(asked_last(&lab, surface)).to_string();
    assert!(!text.contains(DID), "what was deleted is told: {text}");
    assert!(text.contains("red") && text.contains("blue"), "{text}");
    assert_eq!(offered_last(&lab), ["pick"]);
    assert_eq!(lab.tool.asked().len(), ran);
    assert_eq!(lab.app.turn_of(&got).await["parent"], Value::Null);
    // Once the answer was given, the tool may be asked for again.
    let mut history = history.as_array().unwrap().clone();
    history.extend([
        json!({ "role": "assistant", "content": "Done." }),
        user("Again."),
    ]);
    post(&lab.app, surface, mixed(&json!(history), false)).await;
    assert_eq!(offered_last(&lab).len(), 2);
}

async fn a_replay_hands_over_the_same_ids(surface: WireFormat) {
    let lab = lab(EffectClass::Once, &[("", &MIXED)]).await;
    let headers = [("idempotency-key", "k")];
    for streamed in [true, false] {
        let headers = if streamed {
            headers
        } else {
            [("idempotency-key", "l")]
        };
        let body = mixed(&json!([user("Go.")]), streamed);
        let client = &lab.app.client;
        let first = post_by(client, surface, &headers, body.clone()).await;
        let second = post_by(client, surface, &headers, body).await;
        assert_eq!(first.body, second.body);
        assert_eq!(ids(&message_of(surface, &first)).len(), 2);
    }
    assert_eq!(lab.tool.asked().len(), 2);
}

async fn a_forced_choice_of_the_clients_tool_passes(surface: WireFormat) {
    let lab = lab(EffectClass::Read, &[("", &MIXED)]).await;
    let choice = json!({ "type": "function", "function": { "name": "pick" } });
    let body = mixed(&json!([user("Go.")]), false).replacen(
        '{',
        &format!(r#"{{"tool_choice":{choice},"#),
        1,
    );
    let got = post(&lab.app, surface, body).await;
    let finish = surfaces::read(surface, &got).finish;
    assert_eq!(finish.as_deref(), Some("tool_calls"));
    assert_eq!(lab.upstream.asked()[0].json()["tool_choice"], choice);
}

#[tokio::test]
async fn the_old_form_is_refused_clearly() {
    let upstream = upstream(&[("Hi", &[])]).await;
    let act = probe("act", EffectClass::Read, "http://127.0.0.1:9/".to_owned());
    let app = crate::app::App::start(&upstream, AppOptions::with_tools(vec![act])).await;
    let body = json!({ "model": "m", "messages": [user("Go.")], "functions": [{ "name": "act" }, { "name": "mine" }] });
    let got = post(&app, WireFormat::OpenAiChat, body.to_string()).await;
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["param"], "functions");
    assert!(upstream.asked().is_empty());
}

/// Who begins, and then who answers with the ids that were handed over, and whether that is the same person.
const ANSWERED_BY: [(Headers, Headers, bool); 12] = [
    (&[ANN], &[ANN], true),
    (&[ANN], &[ANN, ONE], true),
    (&[ANN], &[BOB], false),
    (&[ANN], &[], false),
    (&[], &[ANN], false),
    (&[], &[], true),
    (&[ONE], &[ONE], true),
    (&[ONE], &[OTHER], false),
    (&[ONE], &[], false),
    (&[], &[ONE], false),
    (&[ONE], &[ANN, ONE], false),
    (&[ANN, ONE], &[ONE], false),
];

/// Ids stand in histories that people share.
async fn hidden_results_stay_with_the_person_they_were_for(surface: WireFormat) {
    for (began, answers, is_theirs) in ANSWERED_BY {
        let says = format!("{began:?}, then {answers:?}");
        let lab = lab(
            EffectClass::Once,
            &[("Hm.", &HIDDEN), ("Now.", &MIXED), ("Done.", &[])],
        )
        .await;
        let client = &lab.app.client;
        let send = |headers, body| post_by(client, surface, headers, body);
        let go = mixed(&json!([user("Go.")]), false);
        let message = message_of(surface, &send(began, go).await);
        let results: Vec<Value> = ids(&message).iter().map(|id| result(id, "1")).collect();
        let mut history = vec![user("Go."), message];
        history.extend(results);
        let ran = lab.tool.asked().len();
        let got = send(answers, mixed(&json!(history), false)).await;
        assert_eq!(got.status, 200);
        let asked = asked_last(&lab, surface);
        let holds = asked.iter().any(|message| message["content"] == DID);
        assert_eq!(holds, is_theirs, "{says}: {asked:?}");
        let turn = lab.app.turn_of(&got).await;
        assert_eq!(turn["parent"].is_string(), is_theirs, "{says}");
        // The client's own calls are known to the model under its own ids, whoever asks.
        let own: Vec<&Value> = asked
            .iter()
            .map(|message| &message["tool_call_id"])
            .collect();
        assert!(own.contains(&&json!("up_1")), "{own:?}");
        // What ran once for this answer does not run again for somebody who is told nothing of it.
        let body = lab.upstream.asked().last().unwrap().json();
        let mut offered = body["tools"].as_array().unwrap().iter();
        let is_offered = offered.any(|tool| tool["function"]["name"] == "act");
        assert_eq!(is_offered, is_theirs, "{says}");
        assert_eq!(lab.tool.asked().len(), ran, "{says}");
    }
}

/// A client may learn the name of its conversation from the first answer.
async fn a_conversation_goes_on_under_the_name_that_it_was_given(surface: WireFormat) {
    let lab = lab(EffectClass::Read, &[("Now.", &MIXED), ("Done.", &[])]).await;
    let got = post(&lab.app, surface, mixed(&json!([user("Go.")]), false)).await;
    let message = message_of(surface, &got);
    let results: Vec<Value> = ids(&message).iter().map(|id| result(id, "1")).collect();
    let mut history = vec![user("Go."), message];
    history.extend(results);
    let named = [(
        "turnwright-conversation",
        got.header("turnwright-conversation"),
    )];
    let body = mixed(&json!(history), false);
    let sent = post_by(&lab.app.client, surface, &named, body).await;
    assert_eq!(sent.status, 200);
    assert!(
        asked_last(&lab, surface)
            .iter()
            .any(|message| message["content"] == DID)
    );
}

async fn a_name_is_given_once_and_an_empty_one_names_nobody(surface: WireFormat) {
    let lab = lab(EffectClass::Read, &[("Hi.", &[])]).await;
    let twice = [("turnwright-user", "ann"), ("turnwright-user", "bob")];
    let body = mixed(&json!([user("Hi")]), false);
    let got = post_by(&lab.app.client, surface, &twice, body).await;
    assert_eq!(got.status, 400);
    assert_field(surface, &got, "turnwright-user");
    for (field, wish) in [
        ("user", None),
        ("safety_identifier", Some(Wish::SafetyField)),
    ] {
        if wish.is_some_and(|wish| wish.refusal(surface).is_some()) {
            continue;
        }
        let body = mixed(&json!([user("Hi")]), false);
        let body = body.replacen('{', &format!(r#"{{"{field}":" ","#), 1);
        let got = post(&lab.app, surface, body).await;
        assert_eq!(got.header("turnwright-memory"), "off", "{field}");
    }
}
