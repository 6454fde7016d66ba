//! What receivers get, and what becomes of it when they do not take it.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use super::{HookLab, START, is_in, receiver, taken, verified};
use crate::app::AppOptions;
use crate::tools::lab::{SAID, reaching};

const SENSITIVE: &str = r#"{"iban":{"mode":"ai","schema":{"type":"string"},"sensitive":true},"city":{"mode":"ai","schema":{"type":"string"}}}"#;

#[tokio::test]
async fn a_turn_and_its_call_are_told_signed_and_without_contents() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, secret) = hooks.make(&there, json!({})).await;
    hooks.lab.make("weather", "/w", json!({})).await;
    let ran = hooks.lab.run("weather {}").await;
    there.asked_times(2).await;
    let sent = there.asked();
    let secrets = [secret];
    let told: Vec<Value> = sent
        .iter()
        .map(|one| verified(one, &secrets, START))
        .collect();
    let of = |kind: &str| told.iter().position(|one| one["type"] == kind).unwrap();
    let (call, turn) = (of("call.completed"), of("turn.completed"));
    let (turn_id, call_id) = (&ran.turn["id"], &ran.call()["id"]);
    let plain = |id: &Value| format!("evt_{}", id.as_str().unwrap().replace('-', ""));
    assert_eq!(sent[turn].header("webhook-id"), plain(turn_id));
    assert_eq!(sent[call].header("webhook-id"), plain(call_id));
    let record = &ran.turn;
    assert_eq!(
        told[turn]["data"],
        json!({ "organization": "default", "turn": {
            "id": turn_id, "conversation": record["conversation"], "user": null, "status": "completed", "reason": null,
            "model": "m", "tool_count": 1, "created_us": record["created_us"], "ended_us": record["ended_us"],
        } })
    );
    let called = &told[call]["data"];
    assert_eq!(
        (&called["turn"]["id"], &called["call"]["id"]),
        (turn_id, call_id)
    );
    assert_eq!(
        (&called["call"]["name"], &called["call"]["status"]),
        (&json!("weather"), &json!("completed"))
    );
    assert!(
        sent.iter()
            .all(|one| !String::from_utf8_lossy(&one.body).contains("said"))
    );
    let rows = hooks.settled(&id, is_in("delivered")).await;
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .all(|row| row["attempts"] == 1 && row["http_status"] == 204)
    );
    let row = hooks.webhook(&id).await;
    assert_eq!(
        (&row["last_delivered_at"], &row["failures"]),
        (&json!(START.seconds()), &json!(0))
    );
}

#[tokio::test]
async fn contents_are_sent_where_they_are_wanted_and_sensitive_ones_never() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    hooks.make(&there, json!({ "contents": "full" })).await;
    let parameters: Value = serde_json::from_str(SENSITIVE).unwrap();
    hooks
        .lab
        .make("pay", "/w", json!({ "parameters": parameters }))
        .await;
    hooks
        .lab
        .run(r#"pay {"iban":"DE00 1","city":"Rome"}"#)
        .await;
    there.asked_times(2).await;
    let sent: Vec<Value> = there.asked().iter().map(|one| one.json()).collect();
    let of = |kind: &str| sent.iter().find(|one| one["type"] == kind).unwrap();
    assert_eq!(of("turn.completed")["data"]["turn"]["answer"], SAID);
    let call = &of("call.completed")["data"]["call"];
    assert_eq!(call["arguments"], r#"{"iban":"***","city":"Rome"}"#);
    assert_eq!(call["shown"], r#"{"said":"*** is known"}"#);
}

#[tokio::test]
async fn what_is_not_taken_is_sent_again_later_with_the_same_id_and_a_new_time() {
    let redirect = || {
        let reply = ListenerReply::status(302, "");
        reply.with_header("location", "/elsewhere")
    };
    let rows = [
        (ListenerReply::status(500, "no"), "status", json!(500)),
        (
            ListenerReply::status(429, "").with_header("retry-after", "60"),
            "status",
            json!(429),
        ),
        (redirect(), "redirect", json!(302)),
        (ListenerReply::hang_up(), "reset", Value::Null),
        (
            ListenerReply::pieces("text/plain", vec![ReplyPiece::Cut]),
            "reset",
            Value::Null,
        ),
    ];
    for (reply, fault, status) in rows {
        let tries = if fault == "reset" { 2 } else { 1 };
        let mut replies = vec![reply; tries];
        replies.push(taken());
        let there = receiver(replies).await;
        let hooks = HookLab::reaching(&[&there]).await;
        let (id, secret) = hooks
            .make(&there, json!({ "events": ["turn.completed"] }))
            .await;
        hooks.lab.run("").await;
        let found = hooks.settled(&id, |one| one["fault"] == fault).await;
        assert_eq!(
            (&found[0]["state"], &found[0]["http_status"]),
            (&json!("pending"), &status)
        );
        let next = found[0]["next_attempt_us"].as_i64().unwrap() - START.0;
        let waits = if status == 429 { 60..61 } else { 4..7 };
        assert!(waits.contains(&(next / 1_000_000)), "{fault}: {next}");
        assert_eq!(there.asked().len(), tries, "{fault}");
        hooks.later(61);
        let found = hooks.settled(&id, is_in("delivered")).await;
        assert_eq!(
            (&found[0]["attempts"], &found[0]["fault"]),
            (&json!(2), &Value::Null)
        );
        let sent = there.asked();
        let (first, last) = (&sent[0], &sent[tries]);
        assert_eq!(first.header("webhook-id"), last.header("webhook-id"));
        assert_ne!(
            first.header("webhook-timestamp"),
            last.header("webhook-timestamp")
        );
        assert_eq!(first.body, last.body);
        verified(last, std::slice::from_ref(&secret), hooks.env.now());
        assert!(sent.iter().all(|one| one.target == "/hook"));
        let path = format!("/{id}/deliveries/{}", found[0]["id"].as_str().unwrap());
        let log = hooks.send("GET", &path, Value::Null).await.json()["log"].clone();
        let ends: Vec<_> = log
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["fault"])
            .collect();
        assert_eq!(ends, [&Value::Null, &json!(fault)]);
    }
}

#[tokio::test]
async fn what_is_never_taken_dies_after_a_day_and_can_be_replayed() {
    let there = Listener::start(|asked| match asked.header("x-well") {
        "" => ListenerReply::status(503, ""),
        _ => taken(),
    });
    let there = there.await.unwrap();
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, _) = hooks
        .make(&there, json!({ "events": ["turn.completed"] }))
        .await;
    hooks.lab.run("").await;
    for tries in 1..=9 {
        there.asked_times(tries).await;
        hooks
            .settled(&id, |one| {
                one["attempts"] == tries && one["fault"] == "status"
            })
            .await;
        hooks.later(12 * 3600);
    }
    let dead = hooks.settled(&id, is_in("dead")).await;
    assert_eq!(dead[0]["next_attempt_us"], Value::Null);
    // Longer than a day it did not take, and it has five.
    assert_eq!(hooks.webhook(&id).await["enabled"], true);
    let event = dead[0]["id"].as_str().unwrap();
    let only = hooks
        .send("GET", &format!("/{id}/deliveries?state=dead"), Value::Null)
        .await;
    assert_eq!(only.json()["data"][0]["id"], event);
    let got = hooks
        .send(
            "POST",
            &format!("/{id}/deliveries/{event}/replay"),
            Value::Null,
        )
        .await;
    assert_eq!(
        (got.status, &got.json()["state"]),
        (202, &json!("pending")),
        "{}",
        got.text()
    );
    there.asked_times(10).await;
    hooks
        .settled(&id, |one| one["attempts"] == 10 && one["fault"] == "status")
        .await;
    let again = hooks
        .send(
            "POST",
            &format!("/{id}/deliveries/{event}/replay"),
            Value::Null,
        )
        .await;
    assert_eq!(
        (again.status, &again.json()["error"]["code"]),
        (409, &json!("delivery_pending"))
    );
}

#[tokio::test]
async fn a_receiver_that_answers_410_is_told_nothing_any_more_until_it_is_enabled() {
    let there = receiver(vec![ListenerReply::status(410, ""), taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, _) = hooks
        .make(&there, json!({ "events": ["turn.completed"] }))
        .await;
    hooks.lab.run("").await;
    hooks.settled(&id, is_in("dead")).await;
    let row = hooks.webhook(&id).await;
    assert_eq!(
        (&row["enabled"], &row["disabled_reason"]),
        (&json!(false), &json!("gone"))
    );
    hooks.lab.run("").await;
    assert_eq!(hooks.deliveries(&id).await.len(), 1);
    for path in ["test", "replay"] {
        let refused = hooks
            .send("POST", &format!("/{id}/{path}"), Value::Null)
            .await;
        let code = &refused.json()["error"]["code"];
        assert_eq!((refused.status, code), (409, &json!("webhook_disabled")));
    }
    let enabled = hooks
        .send("PATCH", &format!("/{id}"), json!({ "enabled": true }))
        .await;
    assert_eq!(enabled.json()["enabled"], true);
    let replayed = hooks
        .send("POST", &format!("/{id}/replay"), Value::Null)
        .await;
    assert_eq!(replayed.json()["deliveries"], 1);
    hooks.settled(&id, is_in("delivered")).await;
    assert_eq!(there.asked().len(), 2);
}

#[tokio::test]
async fn one_that_hangs_does_not_delay_another() {
    let hangs = ListenerReply::pieces("text/plain", vec![ReplyPiece::HeadGate("never")]);
    let slow = receiver(vec![hangs]).await;
    let quick = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&slow, &quick]).await;
    let (hanging, _) = hooks.make(&slow, json!({})).await;
    let (well, _) = hooks.make(&quick, json!({})).await;
    const TURNS: usize = 20;
    for _ in 0..TURNS {
        hooks.lab.run("").await;
    }
    quick.asked_times(TURNS).await;
    assert_eq!(hooks.settled(&well, is_in("delivered")).await.len(), TURNS);
    let waits = hooks.deliveries(&hanging).await;
    assert!(waits.len() == TURNS && waits.iter().all(|one| one["state"] == "pending"));
    assert_eq!(slow.asked().len(), 8, "as many as one may have at once");
}

/// The process dies between the sending and the note of it: what the first had is sent again by the next.
#[tokio::test]
async fn what_a_process_left_is_sent_by_the_next_under_the_same_id() {
    let hangs = ListenerReply::pieces("text/plain", vec![ReplyPiece::HeadGate("never")]);
    let there = receiver(vec![hangs, taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, _) = hooks
        .make(&there, json!({ "events": ["turn.completed"] }))
        .await;
    hooks.lab.run("").await;
    there.asked_times(1).await;
    let wanted = AppOptions {
        env: hooks.env.clone(),
        ..reaching(&[&there], Vec::new())
    };
    let _next = hooks.lab.app.again(&hooks.lab.model, wanted).await;
    there.asked_times(2).await;
    let found = hooks.settled(&id, is_in("delivered")).await;
    assert_eq!(found[0]["attempts"], 2);
    let ids: Vec<String> = there
        .asked()
        .iter()
        .map(|one| one.header("webhook-id").to_owned())
        .collect();
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]));
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_old_one_for_as_long_as_was_said() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, old) = hooks.make(&there, json!({})).await;
    let rotate = json!({ "overlap_s": 100, "secret": format!("whsec_{}", "MfKQ".repeat(8)) });
    let got = hooks
        .send("POST", &format!("/{id}/rotate"), rotate)
        .await
        .json();
    assert_eq!(got["old_secret_until"], START.seconds() + 100);
    let new = tw_egress::webhook_signature::SigningSecret::parse(got["secret"].as_str().unwrap());
    let new = new.unwrap();
    let test = async |n: usize| {
        let got = hooks
            .send("POST", &format!("/{id}/test"), Value::Null)
            .await;
        assert_eq!(
            (got.status, &got.json()["event"]),
            (202, &json!("webhook.test"))
        );
        there.asked_times(n).await;
        there.asked().pop().unwrap()
    };
    let sent = test(1).await;
    for secret in [&old, &new] {
        verified(&sent, std::slice::from_ref(secret), START);
    }
    hooks.later(100);
    let sent = test(2).await;
    verified(&sent, std::slice::from_ref(&new), hooks.env.now());
    assert_eq!(sent.header("webhook-signature").split(' ').count(), 1);
    assert_eq!(hooks.webhook(&id).await["old_secret_until"], Value::Null);
}

#[tokio::test]
async fn metrics_count_what_became_of_attempts() {
    let there = receiver(vec![ListenerReply::status(500, ""), taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, _) = hooks.make(&there, json!({})).await;
    hooks
        .send("POST", &format!("/{id}/test"), Value::Null)
        .await;
    hooks.settled(&id, |one| one["fault"] == "status").await;
    hooks.later(60);
    hooks.settled(&id, is_in("delivered")).await;
    let counted = poll_until("both attempts", async || {
        let text = hooks
            .lab
            .app
            .runtime
            .metrics_text(tw_runtime::metrics::Format::Prometheus);
        let has = |outcome: &str| {
            text.contains(&format!(
                "turnwright_webhook_attempts_total{{outcome=\"{outcome}\"}} 1"
            ))
        };
        (has("failed") && has("delivered")).then_some(())
    });
    counted.await;
}
