//! Quotas: calls in an hour, tokens in a minute, and what who has reached one is told.

use serde_json::Value;
use tw_core::quota::{CallQuota, QuotaHolder};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_egress::env::Env;
use tw_runtime::quotas::{CallQuotaRule, QuotaRules, TokenQuotaRule};
use tw_testkit::client::TestClient;
use tw_testkit::listener::Listener;
use tw_wire::format::WireFormat::{AnthropicMessages, OpenAiChat, OpenAiResponses};

use crate::app::{App, AppOptions, ask, probe};
use crate::money::{answering, calling};
use crate::nine_pairs::request;

/// Ten minutes past an hour, and ten seconds past the minute.
const START: Timestamp = Timestamp((1_800_000_000 + 610) * 1_000_000);
/// Until the next hour, and the next minute, begin.
const HOUR_LEFT_S: i64 = 2_990;
const MINUTE_LEFT_S: i64 = 50;
/// Tokens of an answer.
const ANSWER: u64 = 5;

fn with(quotas: QuotaRules, tool: Option<&Listener>, env: &Env) -> AppOptions {
    let tools = tool.map(|tool| probe("act", EffectClass::Once, tool.url("/")));
    AppOptions {
        config: Box::new(move |config| config.quotas = quotas),
        env: env.clone(),
        ..AppOptions::with_tools(tools.into_iter().collect())
    }
}

fn calls(of: QuotaHolder, tool: &str, calls_max: u32) -> QuotaRules {
    let quota = CallQuota {
        of,
        tool: Some(tool.to_owned()),
        calls_max,
    };
    QuotaRules {
        calls: vec![CallQuotaRule {
            organization: None,
            quota,
        }],
        tokens: Vec::new(),
    }
}

/// What became of the call of a turn: its status, its reason and what the model was shown.
async fn asked(app: &App, client: &TestClient, user: &str) -> [Value; 3] {
    let headers = [("turnwright-user", user)];
    let body = ask("go").to_string();
    let sent = client.send("POST", "/v1/chat/completions", &headers, body);
    let got = sent.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let call = &turn["rounds"][0]["calls"][0];
    ["status", "reason", "shown"].map(|name| call[name].clone())
}

#[tokio::test]
async fn a_call_beyond_the_quota_is_not_run_and_the_model_is_told() {
    let (upstream, tool, env) = (calling().await, answering().await, Env::seeded(7, START));
    let rules = calls(QuotaHolder::EndUser, "act", 2);
    let app = App::start(&upstream, with(rules.clone(), Some(&tool), &env)).await;
    for _ in 0..2 {
        assert_eq!(asked(&app, &app.client, "ada").await[0], "completed");
    }
    let [status, reason, shown] = asked(&app, &app.client, "ada").await;
    assert_eq!((&status, &reason), (&"failed".into(), &"quota".into()));
    let told = format!(
        "Not run: this user has reached its limit of 2 calls of act per hour, 0 left. It begins anew in {HOUR_LEFT_S} s."
    );
    assert_eq!(shown, told.as_str());
    assert_eq!(tool.asked().len(), 2, "nothing is sent");
    let body = upstream.asked().last().unwrap().json().to_string();
    assert!(body.contains("has reached its limit"), "{body}");
    // Another user has their own, and the count holds over a restart but not over the hour.
    assert_eq!(asked(&app, &app.client, "bob").await[0], "completed");
    let again = app.again(&upstream, with(rules, Some(&tool), &env)).await;
    assert_eq!(asked(&again, &again.client, "ada").await[1], "quota");
    env.move_clock(START.after(std::time::Duration::from_secs(HOUR_LEFT_S.unsigned_abs())));
    assert_eq!(asked(&again, &again.client, "ada").await[0], "completed");
    // Tools that the quota does not name go on.
    let rules = calls(QuotaHolder::Organization, "other", 1);
    let others = again.again(&upstream, with(rules, Some(&tool), &env)).await;
    for _ in 0..3 {
        assert_eq!(asked(&others, &others.client, "ada").await[0], "completed");
    }
}

#[tokio::test]
async fn who_has_used_a_minutes_tokens_begins_no_turn_until_the_next() {
    for (of, whose, other_key, other_user) in [
        (QuotaHolder::Organization, "organization", 429, 429),
        (QuotaHolder::Key, "key", 200, 429),
        (QuotaHolder::EndUser, "end_user", 429, 200),
    ] {
        let (upstream, env) = (calling().await, Env::seeded(7, START));
        let rules = QuotaRules {
            calls: Vec::new(),
            tokens: vec![
                TokenQuotaRule {
                    organization: Some("default".to_owned()),
                    of,
                    tokens_max: ANSWER,
                },
                TokenQuotaRule {
                    organization: Some("elsewhere".to_owned()),
                    of,
                    tokens_max: 1,
                },
            ],
        };
        let app = App::start(&upstream, with(rules, None, &env)).await;
        let post = async |client: &TestClient, user, format| {
            let (path, body) = request(format, false, None);
            let headers = [("turnwright-user", user)];
            let sent = client.send("POST", path, &headers, body.to_string());
            sent.await.unwrap()
        };
        assert_eq!(post(&app.client, "ada", OpenAiChat).await.status, 200);
        let before = upstream.asked().len();
        for format in [OpenAiChat, AnthropicMessages, OpenAiResponses] {
            let got = post(&app.client, "ada", format).await;
            assert_eq!(got.status, 429, "{whose} {format:?}");
            let message = &got.json()["error"]["message"];
            let message = message.as_str().unwrap();
            let expected = "limit of 5 tokens per minute: 5 are used, 0 left. Try again in 50 s.";
            assert!(message.contains(expected), "{message}");
            let told = ["of", "limit-tokens", "left-tokens", "reset-s"];
            let told = told.map(|what| got.header(&format!("turnwright-quota-{what}")));
            let left = MINUTE_LEFT_S.to_string();
            assert_eq!(told, [whose, "5", "0", &left]);
            assert_eq!(got.header("retry-after"), left);
        }
        assert_eq!(upstream.asked().len(), before, "nobody is asked");
        let key = app.key("default", ToolGrant::None, vec![KeyScope::Chat]);
        let others = app.with_key(Some(key.await));
        assert_eq!(post(&others, "ada", OpenAiChat).await.status, other_key);
        assert_eq!(
            post(&app.client, "bob", OpenAiChat).await.status,
            other_user
        );
        env.move_clock(START.after(std::time::Duration::from_secs(MINUTE_LEFT_S.unsigned_abs())));
        assert_eq!(post(&app.client, "ada", OpenAiChat).await.status, 200);
    }
}
