//! A call that runs keeps the version of its tool, whatever becomes of the tool meanwhile.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::lab::{SAID, ToolLab};
use crate::app::{ask, ask_streamed};

/// What happens while the first call is under way.
#[derive(Clone, Copy, Debug)]
enum Change {
    Patched,
    Deleted,
    PatchedAndDeleted,
}

impl Change {
    const ALL: [Self; 3] = [Self::Patched, Self::Deleted, Self::PatchedAndDeleted];

    async fn make(self, lab: &ToolLab, id: &str) {
        match self {
            Self::Patched => patch(lab, id).await,
            Self::Deleted => lab.delete(id).await,
            Self::PatchedAndDeleted => {
                patch(lab, id).await;
                lab.delete(id).await;
            }
        }
    }
}

async fn patch(lab: &ToolLab, id: &str) {
    let patch = json!({
        "description": "The new one.",
        "url": lab.service.url("/new"),
        "parameters": { "more": { "mode": "ai" } },
        "response": { "select": "$.other" },
    });
    assert_eq!(lab.patch(id, patch).await["version"], 2);
}

fn held(then: ReplyPiece) -> ListenerReply {
    ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate("go"), then])
}

fn answer() -> ReplyPiece {
    ReplyPiece::Bytes(r#"{"n":1,"other":2}"#.into())
}

async fn tool(lab: &ToolLab) -> String {
    let members = json!({ "description": "The old one.", "response": { "select": "$.n" } });
    lab.make("find", "/old", members).await
}

/// Tool and version of each call of a turn, with what was shown.
fn calls(turn: &Value) -> Vec<(Value, Value, Value)> {
    let rounds = turn["rounds"].as_array().unwrap().iter();
    let calls = rounds.flat_map(|round| round["calls"].as_array().unwrap());
    calls
        .map(|call| {
            let part = |name: &str| call[name].clone();
            (part("tool_id"), part("tool_version"), part("shown"))
        })
        .collect()
}

#[tokio::test]
async fn a_turn_goes_on_with_what_it_began_with() {
    for change in Change::ALL {
        for body in [ask, ask_streamed] {
            let replies = vec![held(answer()), ListenerReply::json(r#"{"n":1,"other":2}"#)];
            let lab = ToolLab::of(Listener::in_turn(replies).await.unwrap()).await;
            let id = tool(&lab).await;
            let client = lab.app.client.clone();
            let asking = tokio::spawn(async move { client.chat(&body("find\n\nfind")).await });
            lab.service.asked_times(1).await;
            change.make(&lab, &id).await;
            lab.service.open("go");
            let got = asking.await.unwrap().unwrap();
            let ran = lab.ran(&lab.app.client, got).await;
            let one = (json!(id), json!(1), json!("1"));
            assert_eq!(calls(&ran.turn), [one.clone(), one], "{change:?}");
            let targets: Vec<String> = lab.service.asked().into_iter().map(|a| a.target).collect();
            assert_eq!(targets, ["/old", "/old"], "{change:?}");
            let asked = lab.model.asked();
            assert_eq!(asked.len(), 3);
            for asked in &asked {
                let function = &asked.json()["tools"][0]["function"];
                assert_eq!(function["description"], "The old one.", "{change:?}");
                assert_eq!(function["parameters"]["properties"], json!({}));
            }
            check_next_turn(&lab, &id, change).await;
        }
    }
}

/// The next turn has the new version, or nothing.
async fn check_next_turn(lab: &ToolLab, id: &str, change: Change) {
    match change {
        Change::Patched => {
            let ran = lab.run(r#"find {"more":"x"}"#).await;
            assert_eq!(calls(&ran.turn), [(json!(id), json!(2), json!("2"))]);
            assert_eq!(lab.service.asked().pop().unwrap().target, "/new?more=x");
            let function = &lab.offered()[0]["function"];
            assert_eq!(function["description"], "The new one.");
        }
        Change::Deleted | Change::PatchedAndDeleted => {
            let ran = lab.run("").await;
            assert_eq!(lab.offered(), Value::Null);
            assert_eq!(ran.got.json()["choices"][0]["message"]["content"], SAID);
            assert_eq!(lab.service.asked().len(), 2);
        }
    }
}

#[tokio::test]
async fn a_further_attempt_sends_what_the_first_one_sent() {
    for change in Change::ALL {
        let replies = vec![
            held(ReplyPiece::Cut),
            ListenerReply::json(r#"{"n":1,"other":2}"#),
        ];
        let lab = ToolLab::of(Listener::in_turn(replies).await.unwrap()).await;
        let id = tool(&lab).await;
        let client = lab.app.client.clone();
        let asking = tokio::spawn(async move { client.chat(&ask("find")).await });
        lab.service.asked_times(1).await;
        change.make(&lab, &id).await;
        lab.service.open("go");
        let got = asking.await.unwrap().unwrap();
        let ran = lab.ran(&lab.app.client, got).await;
        assert_eq!(calls(&ran.turn), [(json!(id), json!(1), json!("1"))]);
        let outcomes: Vec<&Value> = ran.call()["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| &attempt["outcome"])
            .collect();
        assert_eq!(outcomes, ["reset", "ok"], "{change:?}");
        let targets: Vec<String> = lab.service.asked().into_iter().map(|a| a.target).collect();
        assert_eq!(targets, ["/old", "/old"], "{change:?}");
    }
}
