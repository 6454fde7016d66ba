use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Run, assert_same, lines_of, ours};
use crate::model_names::NamePattern;
use crate::price::{MicroUsd, MillionTokensPrice, ModelPrice, PriceTable, PricedModels};
use crate::turn::TurnSetup;

fn priced() -> TurnSetup {
    let price = ModelPrice {
        input: MillionTokensPrice(1_000_000),
        output: MillionTokensPrice(10_000_000),
        ..ModelPrice::default()
    };
    let models = vec![PricedModels {
        upstream: Some("up".to_owned()),
        models: NamePattern::new("*").unwrap(),
        price,
    }];
    let tools = BTreeMap::from([("send_mail".to_owned(), MicroUsd(500))]);
    TurnSetup {
        prices: Arc::new(PriceTable::new(models, tools)),
        ..ours()
    }
}

fn charges(trace: &[String]) -> Vec<&str> {
    let charges = trace.iter().map(String::as_str);
    charges
        .filter(|line| line.starts_with("write charge"))
        .collect()
}

#[test]
fn an_answer_is_charged_with_the_end_of_its_request() {
    let mut run = Run::start(priced());
    let trace = run.play("text hi ; usage 5 7 ; done");
    let at = |line: &str| trace.iter().position(|one| one.starts_with(line));
    assert_eq!(charges(&trace).len(), 1, "{trace:?}");
    assert!(charges(&trace)[0].ends_with(" 75"), "{trace:?}");
    assert!(at("write close") < at("write charge"), "{trace:?}");
    assert!(at("write charge") < at("write turn"), "{trace:?}");
}

#[test]
fn a_request_that_fails_is_charged_for_what_came_of_it() {
    let mut run = Run::start(priced());
    let trace = run.play("text hi ; usage 5 7 ; failed cut");
    assert!(charges(&trace)[0].ends_with(" 75"), "{trace:?}");
    let mut run = Run::start(priced());
    let trace = run.play("failed connect");
    assert_eq!(charges(&trace), Vec::<&str>::new());
}

#[test]
fn a_call_is_charged_when_it_starts_and_only_where_its_tool_has_a_price() {
    let mut run = Run::after(priced(), "call 0 get_time {} ; call 1 send_mail {} ; done");
    let trace = run.play("slot 1.0 ; slot 1.1");
    let charged = charges(&trace);
    assert_eq!(charged.len(), 1, "{trace:?}");
    assert!(
        charged[0].contains("1.1") && charged[0].ends_with(" 500"),
        "{trace:?}"
    );
}

#[test]
fn without_prices_nothing_is_charged() {
    let mut run = Run::start(ours());
    let trace = run.play("text hi ; usage 5 7 ; done");
    assert_eq!(charges(&trace), Vec::<&str>::new());
    let mut run = Run::after(ours(), "call 0 send_mail {} ; done");
    assert_same(
        &run.play("slot 1.0"),
        &lines_of(
            "write start 1.0
             write open 1.0#1
             do dispatch 1.0#1",
        ),
    );
}
