//! Prices: what a turn cost, what was used, and who has spent a month's money.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tw_core::model_names::NamePattern;
use tw_core::price::{MicroUsd, MillionTokensPrice, ModelPrice, PriceTable, PricedModels};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_egress::env::Env;
use tw_runtime::spending::SpendRules;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, ask, probe, upstream_body};
use crate::nine_pairs::request;

/// A time in January 2027 at which the clock of these tests stands.
const START: Timestamp = Timestamp(1_800_000_000_000_000);
/// Until the end of that month.
const RESET_S: &str = "1440000";

/// What each answer of [`upstream_body`] costs: 3 tokens of input and 2 of output.
const ANSWER: i64 = 3 * 10 + 2 * 100;
const CALL: i64 = 1_000;

fn prices() -> PriceTable {
    let price = ModelPrice {
        input: MillionTokensPrice(10_000_000),
        output: MillionTokensPrice(100_000_000),
        ..ModelPrice::default()
    };
    let models = vec![PricedModels {
        upstream: None,
        models: NamePattern::new("*").unwrap(),
        price,
    }];
    PriceTable::new(models, BTreeMap::from([("act".to_owned(), MicroUsd(CALL))]))
}

fn with(spend: SpendRules, tool: Option<&Listener>, env: &Env) -> AppOptions {
    let tools = tool.map(|tool| probe("act", EffectClass::Read, tool.url("/")));
    AppOptions {
        config: Box::new(move |config| {
            config.prices = Arc::new(prices());
            config.spend = spend;
        }),
        env: env.clone(),
        ..AppOptions::with_tools(tools.into_iter().collect())
    }
}

/// An upstream that calls `act` once for each turn that is offered it.
pub async fn calling() -> Listener {
    Listener::start(|asked| {
        let request = asked.json();
        let last = request["messages"].as_array().unwrap().last().cloned();
        let calls = request["tools"].is_array() && last.unwrap()["role"] != "tool";
        ListenerReply::json(if calls {
            upstream_body("", &[("c1", "act", "{}")])
        } else {
            upstream_body("done", &[])
        })
    })
    .await
    .unwrap()
}

pub async fn answering() -> Listener {
    let reply = ListenerReply::json("{}");
    Listener::in_turn(vec![reply]).await.unwrap()
}

async fn admin(app: &App, organization: &str) -> TestClient {
    let scopes = vec![KeyScope::Admin, KeyScope::Chat];
    app.with_key(Some(app.key(organization, ToolGrant::None, scopes).await))
}

async fn usage(client: &TestClient, query: &str) -> ReadAnswer {
    let path = format!("/api/default/usage?{query}");
    client.send("GET", &path, &[], "").await.unwrap()
}

#[tokio::test]
async fn a_turn_tells_what_its_tries_and_calls_cost() {
    let (upstream, tool, env) = (calling().await, answering().await, Env::system());
    let app = App::start(&upstream, with(SpendRules::default(), Some(&tool), &env)).await;
    let got = app.client.chat(&ask("go")).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["cost_microusd"], 2 * ANSWER + CALL);
    let rounds = turn["rounds"].as_array().unwrap();
    for round in rounds {
        assert_eq!(round["attempts"][0]["cost_microusd"], ANSWER);
    }
    assert_eq!(rounds[0]["calls"][0]["cost_microusd"], CALL);
    app.settled().await;
    let admin = admin(&app, "default").await;
    let shown = usage(&admin, "by=model,tool").await.json();
    let data = shown["data"].as_array().unwrap();
    let figures = |row: &Value| {
        [
            "turns",
            "calls",
            "input_tokens",
            "output_tokens",
            "cost_microusd",
        ]
        .map(|name| row[name].as_i64().unwrap())
    };
    assert_eq!(data.len(), 2, "{shown}");
    assert_eq!(
        (&data[0]["tool"], figures(&data[0])),
        (&json!("act"), [0, 1, 0, 0, CALL])
    );
    assert_eq!(data[1]["tool"], Value::Null);
    assert_eq!(figures(&data[1]), [1, 0, 6, 4, 2 * ANSWER]);
}

#[tokio::test]
async fn without_prices_there_are_no_costs_and_use_is_added_up_all_the_same() {
    let upstream = calling().await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let got = app.client.chat(&ask("go")).await.unwrap();
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["cost_microusd"], Value::Null);
    app.settled().await;
    let admin = admin(&app, "default").await;
    let shown = usage(&admin, "by=").await.json();
    assert_eq!(shown["data"][0]["turns"], 1, "{shown}");
    assert_eq!(shown["data"][0]["cost_microusd"], 0);
}

#[tokio::test]
async fn usage_is_the_organizations_own_and_its_admins() {
    let upstream = calling().await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    app.client.chat(&ask("go")).await.unwrap();
    app.settled().await;
    let stranger = admin(&app, "stranger").await;
    let path = "/api/stranger/usage";
    let own = stranger.send("GET", path, &[], "").await.unwrap();
    assert_eq!((own.status, &own.json()["data"]), (200, &json!([])));
    assert_eq!(usage(&stranger, "").await.status, 404);
    assert_eq!(usage(&app.client, "").await.status, 403);
    assert_eq!(usage(&app.with_key(None), "").await.status, 401);
    let admin = admin(&app, "default").await;
    let rows = [
        ("from=2026-13-01", "from"),
        ("to=yesterday", "to"),
        ("from=2026-02-02&to=2026-02-01", "from"),
        ("from=2025-01-01&to=2026-02-01", "from"),
        ("by=day,hour", "by"),
    ];
    for (query, param) in rows {
        let got = usage(&admin, query).await;
        assert_eq!(got.status, 400, "{query}: {}", got.text());
        assert_eq!(got.json()["error"]["param"], param, "{query}");
    }
    let got = usage(&admin, "from=2026-01-01&to=2026-01-31&by=day,key,user").await;
    assert_eq!((got.status, &got.json()["data"]), (200, &json!([])));
}

/// A rule, who reaches it with one answer, and whom it leaves alone.
struct LimitRow {
    rules: SpendRules,
    whose: &'static str,
    /// Whether another key of the organization is refused, too.
    other_key: u16,
    /// Whether another end user is.
    other_user: u16,
}

fn rows() -> [LimitRow; 4] {
    let max = Some(MicroUsd(ANSWER));
    [
        LimitRow {
            rules: SpendRules {
                organization: max,
                ..SpendRules::default()
            },
            whose: "organization",
            other_key: 429,
            other_user: 429,
        },
        LimitRow {
            rules: SpendRules {
                organizations: BTreeMap::from([("default".to_owned(), max)]),
                ..SpendRules::default()
            },
            whose: "organization",
            other_key: 429,
            other_user: 429,
        },
        LimitRow {
            rules: SpendRules {
                key: max,
                ..SpendRules::default()
            },
            whose: "key",
            other_key: 200,
            other_user: 429,
        },
        LimitRow {
            rules: SpendRules {
                end_user: max,
                ..SpendRules::default()
            },
            whose: "user",
            other_key: 429,
            other_user: 200,
        },
    ]
}

const ADA: (&str, &str) = ("turnwright-user", "ada");
const BOB: (&str, &str) = ("turnwright-user", "bob");

#[tokio::test]
async fn who_has_spent_a_months_money_begins_no_turn_until_the_next() {
    use tw_wire::format::WireFormat::{AnthropicMessages, OpenAiChat, OpenAiResponses};
    for row in rows() {
        let (upstream, env) = (calling().await, Env::seeded(7, START));
        let app = App::start(&upstream, with(row.rules, None, &env)).await;
        let post = async |client: &TestClient, user, format| {
            let (path, body) = request(format, false, None);
            let headers = [user];
            let sent = client.send("POST", path, &headers, body.to_string());
            sent.await.unwrap()
        };
        let first = post(&app.client, ADA, OpenAiChat).await;
        assert_eq!(first.status, 200, "{}: {}", row.whose, first.text());
        let asked = upstream.asked().len();
        for format in [OpenAiChat, AnthropicMessages, OpenAiResponses] {
            let got = post(&app.client, ADA, format).await;
            assert_eq!(got.status, 429, "{} {format:?}", row.whose);
            let error = &got.json()["error"];
            let message = error["message"].as_str().unwrap();
            assert!(
                message.contains("limit of $0.000230 per month"),
                "{message}"
            );
            assert!(message.contains("0 left"), "{message}");
            let told = ["of", "limit-microusd", "left-microusd", "reset-s"];
            let told = told.map(|what| got.header(&format!("turnwright-spend-{what}")));
            let limit = ANSWER.to_string();
            assert_eq!(told, [row.whose, &limit, "0", RESET_S]);
            assert_eq!(got.header("retry-after"), RESET_S);
            assert_eq!(got.header("x-should-retry"), "false");
        }
        assert_eq!(upstream.asked().len(), asked, "nobody is asked");
        let others = app
            .key("default", ToolGrant::None, vec![KeyScope::Chat])
            .await;
        let others = app.with_key(Some(others));
        assert_eq!(post(&others, ADA, OpenAiChat).await.status, row.other_key);
        assert_eq!(
            post(&app.client, BOB, OpenAiChat).await.status,
            row.other_user
        );
        let strangers = app
            .key("stranger", ToolGrant::None, vec![KeyScope::Chat])
            .await;
        let strangers = app.with_key(Some(strangers));
        assert_eq!(post(&strangers, ADA, OpenAiChat).await.status, 200);
        // What was spent holds over a restart, and not over the month.
        let rules = SpendRules {
            organization: Some(MicroUsd(1)),
            ..SpendRules::default()
        };
        let again = app.again(&upstream, with(rules, None, &env)).await;
        assert_eq!(post(&again.client, ADA, OpenAiChat).await.status, 429);
        let wait = RESET_S.parse().unwrap();
        env.move_clock(START.after(std::time::Duration::from_secs(wait)));
        assert_eq!(post(&again.client, ADA, OpenAiChat).await.status, 200);
    }
}
