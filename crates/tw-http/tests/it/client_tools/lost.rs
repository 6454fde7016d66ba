//! What the model cannot be told any more: results that were erased, and those beyond what is read.

use serde_json::{Value, json};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::HELD_KEPT;
use tw_testkit::client::ReadAnswer;
use tw_wire::format::WireFormat;

use super::{Lab, MIXED, erase_at, ids, message_of, mixed, post, result, tool, upstream, user};
use crate::app::{App, AppOptions, probe};
use crate::surfaces::{Wish, on_each_surface};

on_each_surface!(
    a_once_tool_is_withheld_while_the_answer_it_ran_for_is_under_way,
    a_user_who_asks_again_may_get_it_again,
    of_two_turns_in_one_message_the_older_is_lost,
);

/// Why the first of two turns that one answer took is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Not,
    Erased,
    BeyondBudget,
}

impl Lost {
    /// Whether it can be brought about on a surface: of two turns of one key the first is not stored.
    fn is_possible(self, surface: WireFormat) -> bool {
        self != Self::Erased || Wish::Unstored.refusal(surface).is_none()
    }
}

/// One answer in two turns, each of which ran the `once` tool `act` and handed two calls over, and
/// the history after them.
async fn two_turns(surface: WireFormat, lost: Lost) -> (Lab, Vec<Value>) {
    let (upstream, tool) = (
        upstream(&[("", &MIXED), ("", &MIXED), ("Done.", &[])]).await,
        tool().await,
    );
    let act = probe("act", EffectClass::Once, tool.url("/"));
    let mut wanted = AppOptions::with_tools(vec![act]);
    if lost == Lost::BeyondBudget {
        // The newest turn is read in any case.
        wanted.config = Box::new(|config| config.recalled_bytes_max = 1);
    }
    let app = App::start(&upstream, wanted).await;
    let lab = Lab {
        app,
        upstream,
        tool,
    };
    let mut history = vec![user("Go.")];
    let mut ended = 0;
    for number in 0..2 {
        let mut body = mixed(&json!(history), false);
        if number == 0 && lost == Lost::Erased {
            body = body.replacen('{', r#"{"store":false,"#, 1);
        }
        let got = post(&lab.app, surface, body).await;
        let message = message_of(surface, &got);
        let answers: Vec<Value> = ids(&message).iter().map(|id| result(id, "red")).collect();
        history.push(message);
        history.extend(answers);
        ended = lab.app.turn_of(&got).await["ended_us"].as_i64().unwrap();
    }
    let due = erase_at(&lab.app, Timestamp(ended).after(HELD_KEPT)).await;
    assert_eq!(due, u64::from(lost == Lost::Erased));
    (lab, history)
}

/// The names of what the upstream was offered last, and how many calls it was told are lost.
fn asked_last(lab: &Lab, got: &ReadAnswer) -> (Vec<String>, usize) {
    assert_eq!(got.status, 200, "{}", got.text());
    let asked = lab.upstream.asked().last().unwrap().json();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    let names = asked["tools"].as_array().unwrap().iter().map(name);
    let messages = asked["messages"].as_array().unwrap().iter();
    let contents = messages.filter_map(|message| message["content"].as_str());
    let lost = contents.filter(|content| content.contains("already made"));
    (names.collect(), lost.count())
}

async fn a_once_tool_is_withheld_while_the_answer_it_ran_for_is_under_way(surface: WireFormat) {
    for (lost, offered, told) in [
        (Lost::Not, &["pick", "act"][..], 0),
        (Lost::Erased, &["pick"], 1),
        (Lost::BeyondBudget, &["pick"], 1),
    ] {
        if !lost.is_possible(surface) {
            continue;
        }
        let (lab, history) = two_turns(surface, lost).await;
        let got = post(&lab.app, surface, mixed(&json!(history), false)).await;
        let (names, count) = asked_last(&lab, &got);
        assert_eq!(names, offered, "{lost:?}");
        assert_eq!(count, told, "{lost:?}");
        assert_eq!(lab.tool.asked().len(), 2);
    }
}

async fn a_user_who_asks_again_may_get_it_again(surface: WireFormat) {
    for lost in [Lost::Erased, Lost::BeyondBudget] {
        if !lost.is_possible(surface) {
            continue;
        }
        let (lab, mut history) = two_turns(surface, lost).await;
        history.push(json!({ "role": "assistant", "content": "Done." }));
        history.push(user("Once more."));
        let got = post(&lab.app, surface, mixed(&json!(history), false)).await;
        let (names, told) = asked_last(&lab, &got);
        assert_eq!(names, ["pick", "act"], "{lost:?}");
        assert_eq!(told, 1, "{lost:?}: the model is told all the same");
    }
}

async fn of_two_turns_in_one_message_the_older_is_lost(surface: WireFormat) {
    let (lab, history) = two_turns(surface, Lost::Not).await;
    let calls =
        [&history[1], &history[4]].map(|message| message["tool_calls"].as_array().unwrap().clone());
    let mut merged = vec![
        history[0].clone(),
        json!({ "role": "assistant", "content": null, "tool_calls": calls.concat() }),
    ];
    merged.extend([2, 3, 5, 6].map(|at| history[at].clone()));
    let got = post(&lab.app, surface, mixed(&json!(merged), false)).await;
    let (names, _) = asked_last(&lab, &got);
    assert_eq!(names, ["pick"]);
    // The upstream gave both turns the same ids, and is sent each once.
    assert_eq!(got.header("turnwright-repaired"), "repeated_id=1");
    let asked = lab.upstream.asked().last().unwrap().json();
    let message = &asked["messages"][1];
    let mut sent: Vec<&str> = message["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert_eq!(sent.len(), 5);
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent.len(), 5);
}
