//! Refusals for want of money.

use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::price::MicroUsd;
use tw_runtime::spending::{Spender, SpentLimit};
use tw_wire::client_error::ErrorKind;

use super::ApiError;

impl ApiError {
    /// The error of a caller whose money for the month is spent. Trying again before the next month is of no use, so
    /// the official clients are told not to.
    pub(crate) fn spent(limit: &SpentLimit) -> Self {
        let mut error = Self::new(
            ErrorKind::Limited,
            Some("insufficient_quota"),
            message(limit),
        );
        error.retry_after_s = Some(limit.resets_in_s);
        error.should_retry = Some(false);
        error.spent = Some(*limit);
        error
    }
}

fn message(limit: &SpentLimit) -> String {
    let whose = match limit.whose {
        Spender::Organization => "organization",
        Spender::Key => "API key",
        Spender::EndUser => "user",
    };
    format!(
        "This {whose} has reached its limit of {} per month: {} are spent, 0 left. It begins anew in {} s.",
        dollars(limit.max),
        dollars(limit.spent),
        limit.resets_in_s
    )
}

fn dollars(amount: MicroUsd) -> String {
    let (whole, rest) = (amount.0 / 1_000_000, amount.0 % 1_000_000);
    format!("${whole}.{rest:06}")
}

/// Adds the headers that tell how a limit of money stands, in micro-dollars.
pub(crate) fn put_spent(headers: &mut HeaderMap, limit: &SpentLimit) {
    let whose = match limit.whose {
        Spender::Organization => "organization",
        Spender::Key => "key",
        Spender::EndUser => "user",
    };
    headers.insert(WHOSE, HeaderValue::from_static(whose));
    let left = (limit.max.0 - limit.spent.0).max(0);
    headers.insert(LIMIT, HeaderValue::from(limit.max.0));
    headers.insert(LEFT, HeaderValue::from(left));
    headers.insert(RESET, HeaderValue::from(limit.resets_in_s));
}

const WHOSE: HeaderName = HeaderName::from_static("turnwright-spend-of");
const LIMIT: HeaderName = HeaderName::from_static("turnwright-spend-limit-microusd");
const LEFT: HeaderName = HeaderName::from_static("turnwright-spend-left-microusd");
const RESET: HeaderName = HeaderName::from_static("turnwright-spend-reset-s");

#[cfg(test)]
mod tests {
    use tw_core::price::MicroUsd;

    use super::dollars;

    #[test]
    fn an_amount_is_written_in_dollars_to_the_last_millionth() {
        for (amount, text) in [
            (0, "$0.000000"),
            (1, "$0.000001"),
            (12_500_000, "$12.500000"),
        ] {
            assert_eq!(dollars(MicroUsd(amount)), text);
        }
    }
}
