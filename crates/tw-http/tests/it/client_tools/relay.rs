//! A client's own tools alone: calls pass on as they come, under ids of ours.

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_wire::format::WireFormat;

use super::{ids, lab, message_of, post, user};
use crate::surfaces::on_each_surface;

on_each_surface!(two_calls_with_one_id_of_the_upstream_get_two_of_ours,);

const CALLS: [(&str, &str, &str); 2] = [
    ("functions.pick:0", "pick", r#"{"n":1}"#),
    ("functions.pick:0", "pick", "[broken"),
];

fn own(messages: &Value, streamed: bool, n: u32) -> String {
    json!({
        "model": "m", "messages": messages, "stream": streamed, "n": n,
        "tools": [{ "type": "function", "function": { "name": "pick" } }],
    })
    .to_string()
}

#[tokio::test]
async fn the_upstreams_own_ids_go_back_to_it_and_nothing_else_changes() {
    for streamed in [true, false] {
        let lab = lab(EffectClass::Read, &[("Hm.", &CALLS[..1]), ("Done.", &[])]).await;
        let got = post(
            &lab.app,
            WireFormat::OpenAiChat,
            own(&json!([user("Go.")]), streamed, 1),
        )
        .await;
        let id = ids(&message_of(WireFormat::OpenAiChat, &got)).remove(0);
        let turn = lab.app.turn_of(&got).await;
        // Written by hand, to see that its bytes survive.
        let said = format!(
            r#"[{{"role":"user","content":"Go."}},{{"content":"Hm. \u0041{id}","x":1.0e2,"tool_calls":[{{"type":"function","id":"{id}","function":{{"name":"pick","arguments":"{{\"n\":1}}"}}}}],"role":"assistant"}},{{"role":"tool","tool_call_id":"{id}","content":"red","y":"{id}"}}]"#
        );
        let body = format!(
            r#"{{"model":"m","messages":{said},"tools":[{{"type":"function","function":{{"name":"pick"}}}}]}}"#
        );
        let answered = post(&lab.app, WireFormat::OpenAiChat, body).await;
        let sent = String::from_utf8(lab.upstream.asked()[1].body.to_vec()).unwrap();
        let own_id = r#""functions.pick:0""#;
        let expected = said
            .replace(&format!(r#""id":"{id}""#), &format!(r#""id":{own_id}"#))
            .replace(
                &format!(r#""tool_call_id":"{id}""#),
                &format!(r#""tool_call_id":{own_id}"#),
            );
        assert!(sent.contains(&expected), "{sent}");
        let answered = lab.app.turn_of(&answered).await;
        assert_eq!(answered["parent"], turn["id"]);
    }
}

async fn two_calls_with_one_id_of_the_upstream_get_two_of_ours(surface: WireFormat) {
    for streamed in [true, false] {
        let lab = lab(EffectClass::Read, &[("", &CALLS)]).await;
        let got = post(&lab.app, surface, own(&json!([user("Go.")]), streamed, 1)).await;
        let message = message_of(surface, &got);
        let ids = ids(&message);
        let turn = lab.app.turn_of(&got).await;
        let calls = turn["rounds"][0]["calls"].as_array().unwrap();
        let recorded: Vec<_> = calls
            .iter()
            .map(|call| json!([call["handed_id"], call["status"], call["arguments"]]))
            .collect();
        assert_eq!(
            json!(recorded),
            json!([
                [ids[0], "completed", r#"{"n":1}"#],
                [ids[1], "completed", "[broken"]
            ])
        );
    }
}
