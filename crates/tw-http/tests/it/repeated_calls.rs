//! Calls that the model makes again within one turn.

use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, ask, probe, upstream_body};

/// Of an `idempotent` tool, what it answers first, and whether the call that the model then makes again has the key of
/// the first.
#[tokio::test]
async fn a_call_that_may_have_acted_is_made_again_under_its_key() {
    for (case, first, same) in [
        ("broken", ListenerReply::status(500, "broken"), true),
        ("moved", ListenerReply::status(303, "elsewhere"), true),
        ("refused", ListenerReply::status(400, "no"), false),
        ("done", ListenerReply::json("{}"), false),
    ] {
        let tool = Listener::in_turn(vec![first, ListenerReply::json("{}")]).await;
        let tool = tool.unwrap();
        let call = |arguments| ListenerReply::json(upstream_body("", &[("c", "put", arguments)]));
        let upstream = Listener::in_turn(vec![
            call(r#"{"a":1,"b":[true]}"#),
            call(r#"{ "b": [true], "a": 1.0 }"#),
            ListenerReply::json(upstream_body("Done", &[])),
        ]);
        let upstream = upstream.await.unwrap();
        let put = probe("put", EffectClass::Idempotent, tool.url("/"));
        let app = App::start(&upstream, AppOptions::with_tools(vec![put])).await;
        let got = app.post(&[], &ask("Put it")).await;
        assert_eq!(got.status, 200, "{case}: {}", got.text());
        let asked = tool.asked();
        let keys: Vec<_> = asked
            .iter()
            .map(|asked| asked.header("idempotency-key"))
            .collect();
        assert_eq!(keys.len(), 2, "{case}");
        assert_eq!(keys[0] == keys[1], same, "{case}: {keys:?}");
    }
}
