//! `[[price]]` and `[spend]`: what models and calls cost, and what may be spent in a month.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;
use tw_core::model_names::NamePattern;
use tw_core::price::{MicroUsd, MillionTokensPrice, ModelPrice, PriceTable, PricedModels};
use tw_runtime::spending::SpendRules;

use crate::organization::slug;

/// A price of models, or of one tool.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    #[serde(default)]
    models: Vec<String>,
    upstream: Option<String>,
    input_usd: Option<Dollars>,
    output_usd: Option<Dollars>,
    cached_input_usd: Option<Dollars>,
    cache_write_usd: Option<Dollars>,
    reasoning_usd: Option<Dollars>,
    tool: Option<String>,
    call_usd: Option<Dollars>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct SpendSettings {
    key_usd: Dollars,
    end_user_usd: Dollars,
    organization_usd: Dollars,
    #[serde(default)]
    organizations: BTreeMap<String, Dollars>,
}

/// An amount of dollars, as a number of either kind.
#[derive(Clone, Copy, Deserialize, Debug)]
#[serde(untagged, expecting = "an amount of dollars, such as 2.50")]
enum Dollars {
    Whole(i64),
    Parts(f64),
}

/// Most dollars of one setting: what a sum can hold a thousand times over.
const DOLLARS_MAX: f64 = 1_000_000_000.0;
/// How far an amount may be from a whole number of micro-dollars: the error of a number in binary.
const ROUNDING_MAX: f64 = 1e-6;

impl Dollars {
    fn micros(self) -> anyhow::Result<i64> {
        let dollars = match self {
            Self::Whole(dollars) => dollars as f64,
            Self::Parts(dollars) => dollars,
        };
        if !(0.0..=DOLLARS_MAX).contains(&dollars) {
            bail!("is an amount of dollars from 0 to {DOLLARS_MAX}");
        }
        let micros = dollars * 1e6;
        let whole = micros.round();
        if (micros - whole).abs() > ROUNDING_MAX * micros.max(1.0) {
            bail!("has at most six digits behind the point");
        }
        Ok(whole as i64)
    }

    fn per_million(self) -> anyhow::Result<MillionTokensPrice> {
        let micros = self.micros()?;
        Ok(MillionTokensPrice(micros.unsigned_abs()))
    }

    /// A limit; 0 is none.
    fn limit(self) -> anyhow::Result<Option<MicroUsd>> {
        let micros = self.micros()?;
        Ok((micros > 0).then_some(MicroUsd(micros)))
    }
}

/// The price table of all entries.
pub fn prices(entries: &[PriceSettings]) -> anyhow::Result<PriceTable> {
    let (mut models, mut tools) = (Vec::new(), BTreeMap::new());
    for (index, entry) in entries.iter().enumerate() {
        entry
            .add_to(&mut models, &mut tools)
            .with_context(|| format!("price[{index}]"))?;
    }
    Ok(PriceTable::new(models, tools))
}

impl PriceSettings {
    fn add_to(
        &self,
        models: &mut Vec<PricedModels>,
        tools: &mut BTreeMap<String, MicroUsd>,
    ) -> anyhow::Result<()> {
        match (&self.tool, self.models.is_empty()) {
            (Some(tool), true) => {
                let of_models = [self.input_usd, self.output_usd, self.cached_input_usd];
                let more = [self.cache_write_usd, self.reasoning_usd];
                if of_models.iter().chain(&more).any(Option::is_some) || self.upstream.is_some() {
                    bail!("a price of a tool has 'call_usd' alone");
                }
                let call = self
                    .call_usd
                    .context("a price of a tool needs 'call_usd'")?;
                let call = MicroUsd(call.micros().context("call_usd")?);
                if tools.insert(tool.clone(), call).is_some() {
                    bail!("there is another price of this tool");
                }
                Ok(())
            }
            (None, false) => {
                if self.call_usd.is_some() {
                    bail!("'call_usd' is the price of a tool");
                }
                let price = self.model_price()?;
                for name in &self.models {
                    models.push(PricedModels {
                        upstream: self.upstream.clone(),
                        models: NamePattern::new(name).context("models: a name is empty")?,
                        price,
                    });
                }
                Ok(())
            }
            (Some(_), false) | (None, true) => bail!("a price is of 'models' or of a 'tool'"),
        }
    }

    fn model_price(&self) -> anyhow::Result<ModelPrice> {
        let needed = |name: &'static str, price: Option<Dollars>| {
            let price = price.with_context(|| format!("a price of models needs '{name}'"))?;
            price.per_million().context(name)
        };
        let given = |name: &'static str, price: Option<Dollars>| {
            let price = price.map(Dollars::per_million).transpose();
            price.context(name)
        };
        Ok(ModelPrice {
            input: needed("input_usd", self.input_usd)?,
            output: needed("output_usd", self.output_usd)?,
            cached_input: given("cached_input_usd", self.cached_input_usd)?,
            cache_write: given("cache_write_usd", self.cache_write_usd)?,
            reasoning: given("reasoning_usd", self.reasoning_usd)?,
        })
    }
}

impl SpendSettings {
    /// The limits of a month.
    pub fn rules(&self) -> anyhow::Result<SpendRules> {
        let own = |(name, dollars): (&String, &Dollars)| {
            let place = || format!("spend.organizations.{name:?}");
            let name = slug(name).with_context(place)?;
            Ok((name, dollars.limit().with_context(place)?))
        };
        let organizations = self.organizations.iter().map(own);
        Ok(SpendRules {
            key: self.key_usd.limit().context("spend.key_usd")?,
            end_user: self.end_user_usd.limit().context("spend.end_user_usd")?,
            organization: self
                .organization_usd
                .limit()
                .context("spend.organization_usd")?,
            organizations: organizations.collect::<anyhow::Result<_>>()?,
        })
    }
}
