//! A key's tools that are added to the list of a client that knows nothing of them.

use serde_json::{Value, json};
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::tool::EffectClass;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_testkit::client::TestClient;
use tw_wire::format::WireFormat;

use super::{Lab, MIXED, PICK, check_picks, ids, lab, message_of, post_by, result, user};
use crate::surfaces::{assert_field, on_each_surface};

on_each_surface!(
    the_key_says_whether_its_tools_are_added_and_a_header_goes_over_it,
    a_name_that_meets_is_ours_and_told,
    a_mixed_round_of_an_added_tool_is_joined_and_a_forced_choice_holds_for_one_round,
);

async fn key(lab: &Lab, tools: ToolGrant, tools_mode: ToolsMode) -> TestClient {
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "an agent's".to_owned(),
        scopes: vec![KeyScope::Chat, KeyScope::TurnsRead],
        tools,
        tools_mode,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: tw_core::rate::RateLimits::default(),
        expires: None,
    };
    let key = create_key(&lab.app.store, &Env::system(), wanted).await;
    lab.app.with_key(Some(key.unwrap()))
}

/// A request with this list, and more members.
fn body(messages: &Value, tools: &str, more: &str) -> String {
    format!(r#"{{"model":"m","messages":{messages},"tools":{tools}{more}}}"#)
}

/// The names of the tools of the last request that the upstream got; `None` without a list.
fn offered(lab: &Lab) -> Option<Vec<String>> {
    let asked = lab.upstream.asked().last().unwrap().json();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    asked["tools"]
        .as_array()
        .map(|tools| tools.iter().map(name).collect())
}

async fn the_key_says_whether_its_tools_are_added_and_a_header_goes_over_it(surface: WireFormat) {
    const ADD: &[(&str, &str)] = &[("turnwright-tools", "add")];
    const REPLACE: &[(&str, &str)] = &[("turnwright-tools", "replace")];
    const BOTH: &[&str] = &["pick", "act"];
    const PICKS: &[&str] = &["pick"];
    let lab = lab(EffectClass::Read, &[("Hm.", &[])]).await;
    let act = || ToolGrant::Named(vec!["act".to_owned()]);
    for (mode, grant, headers, expected) in [
        (ToolsMode::Replace, act(), &[][..], PICKS),
        (ToolsMode::Replace, act(), ADD, BOTH),
        (ToolsMode::Add, act(), &[], BOTH),
        (ToolsMode::Add, ToolGrant::All, &[], BOTH),
        (ToolsMode::Add, act(), REPLACE, PICKS),
        (ToolsMode::Add, ToolGrant::None, &[], PICKS),
        (ToolsMode::Replace, ToolGrant::None, ADD, PICKS),
    ] {
        let client = key(&lab, grant.clone(), mode).await;
        let got = post_by(
            &client,
            surface,
            headers,
            body(&json!([user("Hi")]), &format!("[{PICK}]"), ""),
        )
        .await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(
            offered(&lab).unwrap(),
            expected,
            "{mode:?} {grant:?} {headers:?}"
        );
        assert_eq!(got.header("turnwright-tools-shared"), "");
        // What the client wrote goes on as it was written.
        check_picks(surface, &lab.upstream.asked().last().unwrap().body);
    }
    let client = key(&lab, act(), ToolsMode::Add).await;
    let wrong = post_by(
        &client,
        surface,
        &[("turnwright-tools", "both")],
        body(&json!([user("Hi")]), "[]", ""),
    )
    .await;
    assert_eq!(wrong.status, 400);
    assert_field(surface, &wrong, "turnwright-tools");
    // An empty list is a list, and a choice that forbids calls stays.
    let got = post_by(
        &client,
        surface,
        &[],
        body(&json!([user("Hi")]), "[]", r#","tool_choice":"none""#),
    )
    .await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(offered(&lab).unwrap(), ["act"]);
    assert_eq!(
        lab.upstream.asked().last().unwrap().json()["tool_choice"],
        "none"
    );
}

async fn a_name_that_meets_is_ours_and_told(surface: WireFormat) {
    let lab = lab(
        EffectClass::Read,
        &[("", &[("up_0", "act", "{}")]), ("Done.", &[])],
    )
    .await;
    let client = key(&lab, ToolGrant::All, ToolsMode::Add).await;
    let theirs =
        r#"{"type":"function","function":{"name":"act","description":"The client's own."}}"#;
    let got = post_by(
        &client,
        surface,
        &[],
        body(&json!([user("Hi")]), &format!("[{theirs},{PICK}]"), ""),
    )
    .await;
    assert_eq!(message_of(surface, &got)["content"], "Done.");
    assert_eq!(got.header("turnwright-tools-shared"), "act");
    assert_eq!(offered(&lab).unwrap(), ["act", "pick"]);
    assert_eq!(lab.tool.asked().len(), 1);
}

async fn a_mixed_round_of_an_added_tool_is_joined_and_a_forced_choice_holds_for_one_round(
    surface: WireFormat,
) {
    let lab = lab(
        EffectClass::Once,
        &[
            ("", &[("up_0", "act", "{}")]),
            ("Now.", &MIXED),
            ("Done.", &[]),
        ],
    )
    .await;
    let client = key(&lab, ToolGrant::All, ToolsMode::Add).await;
    let tools = format!("[{PICK}]");
    let got = post_by(
        &client,
        surface,
        &[],
        body(
            &json!([user("Go.")]),
            &tools,
            r#","tool_choice":"required""#,
        ),
    )
    .await;
    let message = message_of(surface, &got);
    let ids = ids(&message);
    let asked = lab.upstream.asked();
    assert_eq!(asked[0].json()["tool_choice"], "required");
    assert_eq!(asked[1].json()["tool_choice"], "auto");
    // The client sees its own calls only.
    let names: Vec<&Value> = message["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["function"]["name"])
        .collect();
    assert_eq!(names, ["pick", "pick"]);
    assert_eq!(lab.tool.asked().len(), 2);

    let history = json!([
        user("Go."),
        message,
        result(&ids[0], "one"),
        result(&ids[1], "two")
    ]);
    let got = post_by(&client, surface, &[], body(&history, &tools, "")).await;
    assert_eq!(message_of(surface, &got)["content"], "Done.");
    // Its answer meets what ours did, in the hidden round and beside its own calls; nothing ran again.
    let asked = lab.upstream.asked().last().unwrap().json();
    let results: Vec<&Value> = asked["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["content"])
        .collect();
    assert_eq!(
        results,
        [r#"{"did":"it"}"#, "one", r#"{"did":"it"}"#, "two"]
    );
    assert_eq!(lab.tool.asked().len(), 2);
}
