//! Calls that somebody else ends while their turn runs: the record's end counts.

use serde_json::{Value, json};
use tw_core::call::CallEnd;
use tw_core::change::{Change, CompleteCall, Outcome};
use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, ask_streamed, probe, upstream_body, upstream_stream};
use crate::surfaces::on_each_surface;

on_each_surface!(the_turn_goes_on_with_what_the_record_says,);

const GATE: &str = "the tool answers";

/// A model that makes two calls, and says something when it is given their results.
async fn model(streamed: bool) -> Listener {
    Listener::start(move |asked| {
        let is_done = String::from_utf8_lossy(&asked.body).contains("\"role\":\"tool\"");
        let (text, calls): (&str, &[(&str, &str, &str)]) = if is_done {
            ("Done.", &[])
        } else {
            ("", &[("a", "act", "{}"), ("b", "act", "{}")])
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

/// Ends all calls of a turn as the application that knows their results would.
async fn complete_all(app: &App, surface: WireFormat) {
    let key = app.client.key.as_deref().unwrap();
    let organization = app.runtime.authenticate(key).await.unwrap().organization;
    let turn = app.repeat_row(surface, "k").await.turn;
    let calls = app.store.calls_named(organization, turn).await.unwrap();
    for row in calls {
        let position = row.call.call.position;
        let complete = Change::CompleteCall(Box::new(CompleteCall {
            organization,
            call: row.call.id,
            end: CallEnd {
                reason: None,
                result: Some(format!("all of {position} by another")),
                shown: format!("{position} by another"),
                is_error: false,
                cached: false,
            },
            at: app.runtime.env().now(),
        }));
        let done = app.store.apply(vec![complete]).await.unwrap();
        assert_eq!(done, [Outcome::Done]);
    }
}

/// The first call runs, and the second waits for its place, when both are completed.
async fn check(surface: WireFormat, effect: EffectClass, streamed: bool) {
    let what = format!("{effect:?} {streamed}");
    let upstream = model(streamed).await;
    let answer = ReplyPiece::Bytes(r#"{"by":"the tool"}"#.into());
    let held = ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate(GATE), answer]);
    let tool = Listener::start(move |_| held.clone()).await.unwrap();
    let mut wanted = AppOptions::with_tools(vec![probe("act", effect, tool.url("/act"))]);
    wanted.config = Box::new(|config| config.turn.calls_parallel_max = 1);
    let app = App::start(&upstream, wanted).await;
    let request = if streamed {
        ask_streamed("Go")
    } else {
        ask("Go")
    };
    let key = [("idempotency-key", "k")];
    let (got, ()) = tokio::join!(app.ask_on(surface, &key, &request), async {
        tool.asked_times(1).await;
        complete_all(&app, surface).await;
        tool.open(GATE);
    });
    assert_eq!(got.status, 200, "{what}");
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["status"], "completed", "{what}: {turn}");
    assert_eq!(tool.asked().len(), 1, "{what}: the second was not sent");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2, "{what}");
    let request = asked[1].json();
    let messages = request["messages"].as_array().unwrap().iter();
    let results: Vec<&Value> = messages
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["content"])
        .collect();
    let expected = [json!("0 by another"), json!("1 by another")];
    assert_eq!(results, expected.iter().collect::<Vec<_>>(), "{what}");
}

async fn the_turn_goes_on_with_what_the_record_says(surface: WireFormat) {
    for effect in EffectClass::ALL {
        for streamed in [false, true] {
            check(surface, effect, streamed).await;
        }
    }
}
