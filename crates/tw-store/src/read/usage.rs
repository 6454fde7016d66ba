//! What an organization used by day, and what it spent in a month: sums that stand there, nothing is counted anew.

use std::collections::BTreeSet;

use tw_core::id::{ApiKeyId, OrgId};
use tw_core::price::MicroUsd;
use tw_core::time::{CalendarDay, CalendarMonth};

use super::ReadError;
use super::columns::{get, unsigned};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// The days and the parts by which usage is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageAsked {
    pub from: CalendarDay,
    /// The last day.
    pub to: CalendarDay,
    pub by: BTreeSet<UsagePart>,
    pub rows_max: usize,
}

/// A part by which usage is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsagePart {
    Day,
    Model,
    Tool,
    Key,
    EndUser,
}

/// The usage of one of each part that was asked for; a part that was not is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    pub day: Option<CalendarDay>,
    /// `None` also for calls.
    pub model: Option<String>,
    /// `None` also for turns.
    pub tool: Option<String>,
    /// The key's id.
    pub key: Option<String>,
    /// `None` also for nobody.
    pub end_user: Option<String>,
    pub sums: UsageSums,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSums {
    pub turns: u64,
    pub turns_failed: u64,
    pub calls: u64,
    pub calls_failed: u64,
    pub calls_cached: u64,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost: MicroUsd,
}

/// What was spent in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonthSpent {
    pub organization: MicroUsd,
    pub key: MicroUsd,
    /// Zero where nobody is named.
    pub end_user: MicroUsd,
}

impl Store {
    /// The usage of an organization, in the order of its parts; at most `rows_max` rows and one more, which says that
    /// there are others.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn usage(
        &self,
        organization: OrgId,
        asked: UsageAsked,
    ) -> Result<Vec<UsageRow>, ReadError> {
        self.read(move |conn| usage(conn, organization, &asked))
            .await
    }

    /// What an organization, a key and an end user have spent in a month.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn month_spent(
        &self,
        organization: OrgId,
        key: ApiKeyId,
        end_user: Option<String>,
        month: CalendarMonth,
    ) -> Result<MonthSpent, ReadError> {
        self.read(move |conn| {
            let bound = params![organization.0, month.0, key.0, end_user];
            let mut statement = conn.prepare_cached(SPENT)?;
            let spent = statement.one(bound, |row| {
                let spent = |column| row.get(column).map(MicroUsd);
                Ok(MonthSpent {
                    organization: spent("organization")?,
                    key: spent("key")?,
                    end_user: spent("end_user")?,
                })
            });
            Ok(spent?)
        })
        .await
    }
}

const SPENT: &str = "SELECT
    coalesce((SELECT cost_microusd FROM spend_month
              WHERE organization = ?1 AND month = ?2 AND spender = 'organization' AND spender_key = 0), 0)
        AS organization,
    coalesce((SELECT cost_microusd FROM spend_month
              WHERE organization = ?1 AND month = ?2 AND spender = 'key' AND spender_key = ?3), 0) AS key,
    coalesce((SELECT cost_microusd FROM spend_month
              WHERE organization = ?1 AND month = ?2 AND spender = 'end_user'
                AND spender_key = (SELECT key FROM end_user WHERE organization = ?1 AND name = ?4)), 0) AS end_user";

/// A part that was not asked for is one for all rows.
const USAGE: &str = "SELECT CASE WHEN ?4 = 1 THEN u.day END AS day,
        CASE WHEN ?5 = 1 AND u.kind = 'model' THEN u.name END AS model,
        CASE WHEN ?6 = 1 AND u.kind = 'tool' THEN u.name END AS tool,
        CASE WHEN ?7 = 1 THEN k.id END AS key, CASE WHEN ?8 = 1 THEN e.name END AS end_user,
        CAST(sum(CASE WHEN u.kind = 'model' THEN u.uses ELSE 0 END) AS bigint) AS turns,
        CAST(sum(CASE WHEN u.kind = 'model' THEN u.failed ELSE 0 END) AS bigint) AS turns_failed,
        CAST(sum(CASE WHEN u.kind = 'tool' THEN u.uses ELSE 0 END) AS bigint) AS calls,
        CAST(sum(CASE WHEN u.kind = 'tool' THEN u.failed ELSE 0 END) AS bigint) AS calls_failed,
        CAST(sum(u.cached) AS bigint) AS calls_cached,
        CAST(sum(u.input_tokens) AS bigint) AS input_tokens,
        CAST(sum(u.cached_tokens) AS bigint) AS cached_tokens,
        CAST(sum(u.output_tokens) AS bigint) AS output_tokens,
        CAST(sum(u.reasoning_tokens) AS bigint) AS reasoning_tokens,
        CAST(sum(u.cost_microusd) AS bigint) AS cost_microusd
    FROM usage_day u
    JOIN api_key k ON k.key = u.api_key
    LEFT JOIN end_user e ON e.key = u.end_user
    WHERE u.organization = ?1 AND u.day BETWEEN ?2 AND ?3
    GROUP BY 1, 2, 3, 4, 5
    ORDER BY 1 NULLS FIRST, 2 NULLS FIRST, 3 NULLS FIRST, 4 NULLS FIRST, 5 NULLS FIRST LIMIT ?9";

fn usage(
    conn: ReadSession<'_>,
    organization: OrgId,
    asked: &UsageAsked,
) -> Result<Vec<UsageRow>, ReadError> {
    let by = |part| asked.by.contains(&part);
    let one_more = i64::try_from(asked.rows_max.saturating_add(1)).unwrap_or(i64::MAX);
    let bound = params![
        organization.0,
        asked.from.0,
        asked.to.0,
        by(UsagePart::Day),
        by(UsagePart::Model),
        by(UsagePart::Tool),
        by(UsagePart::Key),
        by(UsagePart::EndUser),
        one_more,
    ];
    let mut statement = conn.prepare_cached(USAGE)?;
    let mut rows = statement.query(bound)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(UsageRow {
            day: get::<Option<i64>>(row, "day")?.map(CalendarDay),
            model: get(row, "model")?,
            tool: get(row, "tool")?,
            key: get(row, "key")?,
            end_user: get(row, "end_user")?,
            sums: sums(row)?,
        });
    }
    Ok(found)
}

fn sums(row: Row<'_>) -> Result<UsageSums, ReadError> {
    Ok(UsageSums {
        turns: unsigned(row, "turns")?,
        turns_failed: unsigned(row, "turns_failed")?,
        calls: unsigned(row, "calls")?,
        calls_failed: unsigned(row, "calls_failed")?,
        calls_cached: unsigned(row, "calls_cached")?,
        input_tokens: unsigned(row, "input_tokens")?,
        cached_tokens: unsigned(row, "cached_tokens")?,
        output_tokens: unsigned(row, "output_tokens")?,
        reasoning_tokens: unsigned(row, "reasoning_tokens")?,
        cost: MicroUsd(get(row, "cost_microusd")?),
    })
}

#[cfg(test)]
mod tests {
    use super::SPENT;
    use crate::read::plan::{assert_each_looks, plan};

    #[test]
    fn what_was_spent_is_found_by_who_spent_it() {
        let by = "organization=? AND month=? AND spender=? AND spender_key=?";
        assert_each_looks(&[(SPENT, by)]);
    }

    #[test]
    fn usage_is_read_of_its_days_alone() {
        let plan = plan(super::USAGE);
        let looks =
            |line: &String| line.contains("SEARCH u USING PRIMARY KEY (organization=? AND day>?");
        assert!(plan.iter().any(looks), "{plan:#?}");
    }
}
