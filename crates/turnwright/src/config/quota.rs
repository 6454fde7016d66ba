//! `[[quota]]`: calls in an hour, and tokens in a minute.

use anyhow::{Context, bail};
use serde::Deserialize;
use tw_core::quota::{CallQuota, QuotaHolder};
use tw_runtime::quotas::{CallQuotaRule, QuotaRules, TokenQuotaRule};

use crate::organization::slug;

/// A quota of calls or of tokens.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct QuotaSettings {
    of: String,
    organization: Option<String>,
    tool: Option<String>,
    calls_per_hour: Option<u32>,
    tokens_per_minute: Option<u64>,
}

fn holder(name: &str) -> anyhow::Result<QuotaHolder> {
    let all = [
        QuotaHolder::Organization,
        QuotaHolder::Key,
        QuotaHolder::EndUser,
    ];
    let found = all.into_iter().find(|holder| holder.as_str() == name);
    found.context("of: is 'organization', 'key' or 'end_user'")
}

/// The quotas of all entries.
pub fn rules(entries: &[QuotaSettings]) -> anyhow::Result<QuotaRules> {
    let mut rules = QuotaRules::default();
    for (index, entry) in entries.iter().enumerate() {
        entry
            .add_to(&mut rules)
            .with_context(|| format!("quota[{index}]"))?;
    }
    Ok(rules)
}

impl QuotaSettings {
    fn add_to(&self, rules: &mut QuotaRules) -> anyhow::Result<()> {
        let organization = self.organization.as_deref();
        let organization = organization
            .map(|name| slug(name).context("organization"))
            .transpose()?;
        let of = holder(&self.of)?;
        match (self.calls_per_hour, self.tokens_per_minute) {
            (Some(calls_max), None) => rules.calls.push(CallQuotaRule {
                organization,
                quota: CallQuota {
                    of,
                    tool: self.tool.clone(),
                    calls_max,
                },
            }),
            (None, Some(tokens_max)) => {
                if self.tool.is_some() {
                    bail!("tokens are of models, not of a 'tool'");
                }
                rules.tokens.push(TokenQuotaRule {
                    organization,
                    of,
                    tokens_max,
                });
            }
            (Some(_), Some(_)) | (None, None) => {
                bail!("a quota has either 'calls_per_hour' or 'tokens_per_minute'")
            }
        }
        Ok(())
    }
}
