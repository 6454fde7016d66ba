//! What another process makes of an organization's tools.

use std::time::Duration;

use serde_json::{Value, json};
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_testkit::listener::{Listener, ListenerReply};

use super::lab::{ToolLab, editor, made, reaching};
use crate::app::AppOptions;

/// The time at which the tools are first read.
const READ: Timestamp = Timestamp(1_800_000_000_000_000);
/// How long they are then believed.
const BELIEVED: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_tool_that_another_process_makes_is_offered_a_second_later() {
    let service = Listener::in_turn(vec![ListenerReply::json("{}")]);
    let service = service.await.unwrap();
    let env = Env::seeded(1, READ);
    let wanted = AppOptions {
        env: env.clone(),
        ..reaching(&[&service], Vec::new())
    };
    let lab = ToolLab::start(service, wanted).await;
    lab.run("").await;
    assert_eq!(lab.offered(), Value::Null);
    let other = reaching(&[&lab.service], Vec::new());
    let other = lab.app.again(&lab.model, other).await;
    let definition = lab.define("find", "/", json!({}));
    made(&editor(&other, "default").await, "default", &definition).await;
    let almost = BELIEVED - Duration::from_micros(1);
    for (later, name) in [(almost, Value::Null), (BELIEVED, json!("find"))] {
        env.move_clock(READ.after(later));
        lab.run("").await;
        assert_eq!(lab.offered()[0]["function"]["name"], name, "{later:?}");
    }
}
