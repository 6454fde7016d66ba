use std::collections::BTreeMap;

use super::{COST_MAX, MicroUsd, MillionTokensPrice, ModelPrice, PriceTable, PricedModels};
use crate::model::TokenUsage;
use crate::model_names::NamePattern;

fn usd(price: u64) -> MillionTokensPrice {
    MillionTokensPrice(price)
}

fn usage(input: u64, cached: Option<u64>, output: u64, reasoning: Option<u64>) -> TokenUsage {
    TokenUsage {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: input + output,
        cached_tokens: cached,
        reasoning_tokens: reasoning,
        ..TokenUsage::default()
    }
}

#[test]
fn each_kind_of_token_has_its_price() {
    let plain = ModelPrice {
        input: usd(2_500_000),
        output: usd(10_000_000),
        ..ModelPrice::default()
    };
    let apart = ModelPrice {
        cached_input: Some(usd(1_250_000)),
        cache_write: Some(usd(5_000_000)),
        reasoning: Some(usd(20_000_000)),
        ..plain
    };
    let written = TokenUsage {
        cache_write_tokens: Some(100),
        ..usage(1_000, Some(400), 0, None)
    };
    let rows = [
        ("nothing", plain, usage(0, None, 0, None), 0),
        ("both", plain, usage(1_000, None, 100, None), 2_500 + 1_000),
        (
            "one price for all",
            plain,
            usage(1_000, Some(400), 100, Some(40)),
            3_500,
        ),
        (
            "cached",
            apart,
            usage(1_000, Some(400), 0, None),
            1_500 + 500,
        ),
        ("reasoning", apart, usage(0, None, 100, Some(40)), 600 + 800),
        ("written", apart, written, 1_250 + 500 + 500),
        // What is more than the whole counts as the whole.
        (
            "more cached than sent",
            apart,
            usage(100, Some(400), 0, None),
            125,
        ),
        (
            "more thought than said",
            apart,
            usage(0, None, 10, Some(40)),
            200,
        ),
    ];
    for (what, price, usage, cost) in rows {
        assert_eq!(price.cost(&usage), MicroUsd(cost), "{what}");
    }
}

#[test]
fn a_cost_is_rounded_up_once_and_never_overflows() {
    let price = ModelPrice {
        input: usd(75_000),
        output: usd(1),
        ..ModelPrice::default()
    };
    let rows = [
        (1, 0, 1),
        (13, 0, 1),
        (14, 0, 2),
        (0, 1, 1),
        (0, 1_000_001, 2),
    ];
    for (input, output, cost) in rows {
        let cost = MicroUsd(cost);
        assert_eq!(
            price.cost(&usage(input, None, output, None)),
            cost,
            "{input} {output}"
        );
    }
    let dear = ModelPrice {
        input: usd(u64::MAX),
        output: usd(u64::MAX),
        ..ModelPrice::default()
    };
    let all = TokenUsage {
        prompt_tokens: u64::MAX,
        completion_tokens: u64::MAX,
        ..TokenUsage::default()
    };
    assert_eq!(dear.cost(&all), COST_MAX);
}

#[test]
fn the_most_exact_price_counts_and_that_of_an_upstream_before_others() {
    let priced = |upstream: Option<&str>, models: &str, input| PricedModels {
        upstream: upstream.map(str::to_owned),
        models: NamePattern::new(models).unwrap(),
        price: ModelPrice {
            input: usd(input),
            ..ModelPrice::default()
        },
    };
    let table = PriceTable::new(
        vec![
            priced(None, "*", 1),
            priced(None, "gpt-4o*", 2),
            priced(None, "gpt-4o-mini", 3),
            priced(Some("azure"), "gpt-*", 4),
        ],
        BTreeMap::from([("search".to_owned(), MicroUsd(5))]),
    );
    let rows = [
        ("openai", "gpt-4o-mini", 3),
        ("openai", "gpt-4o", 2),
        ("openai", "o3", 1),
        ("azure", "gpt-4o-mini", 4),
        ("azure", "o3", 1),
    ];
    for (upstream, model, input) in rows {
        let price = table.of_model(upstream, model).unwrap();
        assert_eq!(price.input, usd(input), "{upstream} {model}");
    }
    assert_eq!(table.of_tool("search"), Some(MicroUsd(5)));
    assert_eq!(table.of_tool("other"), None);
    assert_eq!(PriceTable::default().of_model("openai", "gpt-4o"), None);
}
