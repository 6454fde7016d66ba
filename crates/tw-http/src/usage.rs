//! `/api/{slug}/usage`: what an organization used, by those whose key has the scope `admin`.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tw_core::tenant::KeyScope;
use tw_core::time::CalendarDay;
use tw_store::read::usage::{UsageAsked, UsagePart, UsageRow};

use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{Slug, member, parameter, respond, slug_in};

/// Most days of one answer.
const DAYS_MAX: i64 = 366;
/// Days of an answer whose request names no first day.
const DAYS_DEFAULT: i64 = 30;
/// Most rows of one answer.
const ROWS_MAX: usize = 10_000;

const PARTS: [(&str, UsagePart); 5] = [
    ("day", UsagePart::Day),
    ("model", UsagePart::Model),
    ("tool", UsagePart::Tool),
    ("key", UsagePart::Key),
    ("user", UsagePart::EndUser),
];

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let caller = member(&surfaces, &headers, slug_in(slug)?, KeyScope::Admin, &id).await?;
        let today = CalendarDay::of(surfaces.runtime().env().now());
        let asked = asked(query.as_deref(), today)?;
        let store = surfaces.runtime().store();
        let read = store.usage(caller.organization, asked.clone()).await;
        let rows = read.map_err(|error| ApiError::of_read(&error, &id))?;
        if rows.len() > ROWS_MAX {
            let message = format!("More than {ROWS_MAX} rows: ask for fewer days or parts.");
            return Err(ApiError::invalid(Some("by"), None, message));
        }
        Ok(render(&asked, &rows))
    };
    respond(shown.await, StatusCode::OK, &id)
}

fn asked(query: Option<&str>, today: CalendarDay) -> Result<UsageAsked, ApiError> {
    let day = |name: &str| match parameter(query, name) {
        None => Ok(None),
        Some(text) => CalendarDay::parse(&text).map(Some).ok_or_else(|| {
            let message = format!("{name} is a day in UTC, such as {}.", today.text());
            ApiError::invalid(Some(name), None, message)
        }),
    };
    let to = day("to")?.unwrap_or(today);
    let from = day("from")?.unwrap_or(CalendarDay(to.0 - DAYS_DEFAULT + 1));
    if from > to || to.0 - from.0 >= DAYS_MAX {
        let message = format!("from is not behind to, and at most {DAYS_MAX} days are shown.");
        return Err(ApiError::invalid(Some("from"), None, message));
    }
    let words = parameter(query, "by").unwrap_or_else(|| "day".to_owned());
    let part = |word: &str| {
        let found = PARTS.iter().find(|(name, _)| *name == word);
        found.map(|(_, part)| *part).ok_or_else(|| {
            let message = "by is a list of day, model, tool, key and user, with commas between.";
            ApiError::invalid(Some("by"), None, message)
        })
    };
    let words = words.split(',').filter(|word| !word.is_empty());
    Ok(UsageAsked {
        from,
        to,
        by: words.map(part).collect::<Result<BTreeSet<_>, _>>()?,
        rows_max: ROWS_MAX,
    })
}

fn render(asked: &UsageAsked, rows: &[UsageRow]) -> String {
    let row = |row: &UsageRow| {
        let mut shown = Map::new();
        for (name, part) in PARTS {
            if !asked.by.contains(&part) {
                continue;
            }
            let value = match part {
                UsagePart::Day => json!(row.day.map(CalendarDay::text)),
                UsagePart::Model => json!(row.model),
                UsagePart::Tool => json!(row.tool),
                UsagePart::Key => json!(row.key),
                UsagePart::EndUser => json!(row.end_user),
            };
            shown.insert(name.to_owned(), value);
        }
        let sums = &row.sums;
        let figures = [
            ("turns", sums.turns),
            ("turns_failed", sums.turns_failed),
            ("calls", sums.calls),
            ("calls_failed", sums.calls_failed),
            ("calls_cached", sums.calls_cached),
            ("input_tokens", sums.input_tokens),
            ("cached_tokens", sums.cached_tokens),
            ("output_tokens", sums.output_tokens),
            ("reasoning_tokens", sums.reasoning_tokens),
        ];
        for (name, figure) in figures {
            shown.insert(name.to_owned(), json!(figure));
        }
        shown.insert("cost_microusd".to_owned(), json!(sums.cost.0));
        Value::Object(shown)
    };
    json!({
        "object": "list",
        "from": asked.from.text(),
        "to": asked.to.text(),
        "data": rows.iter().map(row).collect::<Vec<_>>(),
    })
    .to_string()
}
