//! A driver that panics leaves its turn to another one at once.

use serde_json::json;
use tw_core::tool::EffectClass;
use tw_runtime::driver_panics::DRIVER_PANICS_MAX;
use tw_runtime::fail_point::{FailPoint, PanicPoint};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::polling::poll_until;

use crate::app::{App, AppOptions, ask, ask_streamed, probe, upstream_body, upstream_stream};

/// Places that may be reached before the turn is accepted.
const BEFORE_THE_ACCEPTANCE: [FailPoint; 4] = [
    FailPoint::BeforeAccept,
    FailPoint::Asked,
    FailPoint::AnswerBegan,
    FailPoint::BeforeCalls,
];

const CALL: (&str, &str, &str) = ("a", "act", "{}");

/// A model that calls the tool until it is given a result.
async fn model(streamed: bool) -> Listener {
    Listener::start(move |asked| {
        let is_done = String::from_utf8_lossy(&asked.body).contains("\"role\":\"tool\"");
        let (text, calls): (&str, &[(&str, &str, &str)]) = if is_done {
            ("Done.", &[])
        } else {
            ("", &[CALL])
        };
        if streamed {
            ListenerReply::sse(upstream_stream(text, calls))
        } else {
            ListenerReply::json(upstream_body(text, calls))
        }
    })
    .await
    .unwrap()
}

struct Ended {
    record: serde_json::Value,
    tool_asked: usize,
    panics: String,
}

/// What is left of a request that was not accepted.
#[derive(Debug, PartialEq, Eq)]
struct Unaccepted {
    status: u16,
    tool_asked: usize,
}

async fn run(panics: PanicPoint, effect: EffectClass, streamed: bool) -> Result<Ended, Unaccepted> {
    let upstream = model(streamed).await;
    let tool = Listener::start(|_| ListenerReply::json(r#"{"ok":true}"#))
        .await
        .unwrap();
    let mut wanted = AppOptions::with_tools(vec![probe("act", effect, tool.url("/act"))]);
    wanted.config = Box::new(|config| config.panic_point = Some(panics));
    let app = App::start(&upstream, wanted).await;
    let request = if streamed {
        ask_streamed("Go")
    } else {
        ask("Go")
    };
    let key = [("idempotency-key", "one")];
    // What the client gets depends on the moment; the record does not.
    let got = app
        .client
        .send("POST", crate::app::CHAT, &key, request.to_string())
        .await
        .unwrap();
    // What was being accepted is accepted, or never will be.
    app.settled().await;
    let list = app
        .client
        .send("GET", "/v1/conversations", &[], "")
        .await
        .unwrap()
        .json();
    let Some(conversation) = list["data"][0]["id"].as_str() else {
        return Err(Unaccepted {
            status: got.status,
            tool_asked: tool.asked().len(),
        });
    };
    let path = format!("/v1/conversations/{conversation}/turns");
    let record = poll_until("a turn that has ended", async || {
        app.settled().await;
        let turns = app.client.send("GET", &path, &[], "").await.unwrap().json();
        let turn = turns["data"][0].clone();
        (turn["status"] != "running").then_some(turn)
    })
    .await;
    let format = tw_runtime::metrics::Format::Prometheus;
    let metrics = app.runtime.metrics_text(format);
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("turnwright_turn_drivers_panicked_total"));
    Ok(Ended {
        record,
        tool_asked: tool.asked().len(),
        panics: counted.unwrap().to_owned(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_panic_anywhere_costs_no_turn_and_doubles_no_effect() {
    for point in FailPoint::ALL {
        for streamed in [false, true] {
            for effect in [EffectClass::Read, EffectClass::Once] {
                let what = format!("{} {streamed} {effect:?}", point.name());
                let ended = match run(PanicPoint::once(point), effect, streamed).await {
                    Ok(ended) => ended,
                    Err(left) => {
                        // Nobody was promised anything, and nothing was done.
                        let refused = Unaccepted {
                            status: 503,
                            tool_asked: 0,
                        };
                        assert_eq!(left, refused, "{what}");
                        assert!(BEFORE_THE_ACCEPTANCE.contains(&point), "{what}");
                        continue;
                    }
                };
                let status = ended.record["status"].as_str().unwrap();
                let reason = &ended.record["reason"];
                let is_right = status == "completed" || streamed && *reason == json!("interrupted");
                assert!(is_right, "{what}: {}", ended.record);
                if effect == EffectClass::Once {
                    assert!(ended.tool_asked <= 1, "{what}: {}", ended.tool_asked);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_brings_down_every_driver_ends() {
    for point in [FailPoint::NextRoundAsked, FailPoint::BeforeTurnEnd] {
        let ended = run(PanicPoint::always(point), EffectClass::Once, false).await;
        let ended = ended.unwrap();
        assert_eq!(ended.record["status"], "failed", "{}", ended.record);
        assert_eq!(ended.record["reason"], "internal", "{}", ended.record);
        let counted = format!("turnwright_turn_drivers_panicked_total {DRIVER_PANICS_MAX}");
        assert_eq!(ended.panics, counted);
        assert!(ended.tool_asked <= 1);
    }
}
