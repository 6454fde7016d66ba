//! Prices and limits of money.

use tw_core::price::{MicroUsd, MillionTokensPrice, ModelPrice};

use super::load;

const MODELS: &str = "[[price]]\nmodels = [\"gpt-*\"]\ninput_usd = 2.5\noutput_usd = 10\n";
const TOOL: &str = "[[price]]\ntool = \"search\"\ncall_usd = 0.005\n";
const UPSTREAM: &str =
    "[[upstream]]\nname = \"u\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";

#[test]
fn prices_are_read_to_the_micro_dollar() {
    let more = "cached_input_usd = 1.25\ncache_write_usd = 3.125\nreasoning_usd = 0.000001\n";
    let settings = load(&format!("{MODELS}{more}{TOOL}{UPSTREAM}")).unwrap();
    let prices = settings.runtime().unwrap().prices;
    let micros = |price| MillionTokensPrice(price);
    let expected = ModelPrice {
        input: micros(2_500_000),
        output: micros(10_000_000),
        cached_input: Some(micros(1_250_000)),
        cache_write: Some(micros(3_125_000)),
        reasoning: Some(micros(1)),
    };
    assert_eq!(prices.of_model("u", "gpt-4o"), Some(&expected));
    assert_eq!(prices.of_model("u", "o3"), None);
    assert_eq!(prices.of_tool("search"), Some(MicroUsd(5_000)));
}

#[test]
fn what_may_be_spent_is_read_and_nothing_is_limited_unless_it_says_so() {
    let spend = |text: &str| {
        let settings = load(&format!("{text}{UPSTREAM}")).unwrap();
        settings.runtime().unwrap().spend
    };
    assert_eq!(spend(""), tw_runtime::spending::SpendRules::default());
    let rules = spend(
        "[spend]\nkey_usd = 5\nend_user_usd = 0.01\norganization_usd = 100.5\n[spend.organizations]\nacme = 0\n",
    );
    assert_eq!(rules.key, Some(MicroUsd(5_000_000)));
    assert_eq!(rules.end_user, Some(MicroUsd(10_000)));
    assert_eq!(rules.organization, Some(MicroUsd(100_500_000)));
    assert_eq!(rules.organizations.get("acme"), Some(&None));
}

#[test]
fn what_is_no_price_is_refused_by_name() {
    let rows = [
        (
            "[[price]]\ninput_usd = 1\noutput_usd = 1\n",
            "of 'models' or of a 'tool'",
        ),
        (
            "[[price]]\nmodels = [\"a\"]\ntool = \"b\"\ncall_usd = 1\n",
            "of 'models' or of a 'tool'",
        ),
        (
            "[[price]]\nmodels = [\"a\"]\ninput_usd = 1\n",
            "needs 'output_usd'",
        ),
        (
            "[[price]]\nmodels = [\"\"]\ninput_usd = 1\noutput_usd = 1\n",
            "a name is empty",
        ),
        (
            "[[price]]\nmodels = [\"a\"]\ninput_usd = -1\noutput_usd = 1\n",
            "input_usd: is an amount of dollars",
        ),
        (
            "[[price]]\nmodels = [\"a\"]\ninput_usd = 0.0000001\noutput_usd = 1\n",
            "at most six digits",
        ),
        (
            "[[price]]\nmodels = [\"a\"]\ninput_usd = nan\noutput_usd = 1\n",
            "is an amount of dollars",
        ),
        (
            "[[price]]\nmodels = [\"a\"]\ninput_usd = 1\noutput_usd = 1\ncall_usd = 1\n",
            "'call_usd' is the price of a tool",
        ),
        ("[[price]]\ntool = \"a\"\n", "needs 'call_usd'"),
        (
            "[[price]]\ntool = \"a\"\ncall_usd = 1\ninput_usd = 1\n",
            "has 'call_usd' alone",
        ),
        (
            "[[price]]\ntool = \"a\"\ncall_usd = 1\n[[price]]\ntool = \"a\"\ncall_usd = 2\n",
            "price[1]: there is another price",
        ),
        (
            "[spend]\nkey_usd = -1\n",
            "spend.key_usd: is an amount of dollars",
        ),
        (
            "[spend.organizations]\n\"no slug\" = 1\n",
            "spend.organizations",
        ),
    ];
    for (text, why) in rows {
        let error = load(text).map(|_| ()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(why), "{text}\n{error}");
    }
}
