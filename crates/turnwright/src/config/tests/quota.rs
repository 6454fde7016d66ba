//! Quotas of calls and tokens.

use tw_core::quota::{CallQuota, QuotaHolder};
use tw_runtime::quotas::{CallQuotaRule, QuotaRules, TokenQuotaRule};

use super::load;

const UPSTREAM: &str =
    "[[upstream]]\nname = \"u\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";

#[test]
fn quotas_are_read_and_there_are_none_unless_they_are_written() {
    let rules = |text: &str| {
        let settings = load(&format!("{text}{UPSTREAM}")).unwrap();
        settings.runtime().unwrap().quotas
    };
    assert_eq!(rules(""), QuotaRules::default());
    let found = rules(
        "[[quota]]\nof = \"end_user\"\ntool = \"draw\"\ncalls_per_hour = 20\n\
         [[quota]]\nof = \"organization\"\norganization = \"acme\"\ntokens_per_minute = 100000\n",
    );
    let expected = QuotaRules {
        calls: vec![CallQuotaRule {
            organization: None,
            quota: CallQuota {
                of: QuotaHolder::EndUser,
                tool: Some("draw".to_owned()),
                calls_max: 20,
            },
        }],
        tokens: vec![TokenQuotaRule {
            organization: Some("acme".to_owned()),
            of: QuotaHolder::Organization,
            tokens_max: 100_000,
        }],
    };
    assert_eq!(found, expected);
}

#[test]
fn what_is_no_quota_is_refused_by_name() {
    let rows = [
        ("of = \"key\"\n", "quota[0]: a quota has either"),
        (
            "of = \"key\"\ncalls_per_hour = 1\ntokens_per_minute = 1\n",
            "a quota has either",
        ),
        (
            "of = \"key\"\ntool = \"draw\"\ntokens_per_minute = 1\n",
            "tokens are of models",
        ),
        ("of = \"key\"\ncalls_per_hour = 0\n", "quota[0]"),
        ("of = \"key\"\ncalls_per_hour = -1\n", "quota[0]"),
        ("of = \"tool\"\ncalls_per_hour = 1\n", "quota[0]: of: is"),
        ("calls_per_hour = 1\n", "of"),
        (
            "of = \"key\"\norganization = \"no slug\"\ncalls_per_hour = 1\n",
            "quota[0]: organization: ",
        ),
    ];
    for (text, why) in rows {
        let error = load(&format!("[[quota]]\n{text}")).map(|_| ()).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(why), "{text}\n{error}");
    }
}
