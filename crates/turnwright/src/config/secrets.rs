//! `[secrets.NAME]` and `TURNWRIGHT_SECRET_<NAME>`: the secrets that tools may name.
//!
//! Read by hand, since an entry is one of two.

use anyhow::{Context, anyhow, bail};
use toml::{Table, Value};
use tw_egress::client::host_port::ORGANIZATION_DEFAULT;
use tw_egress::secret::Secret;
use tw_egress::secrets::SecretGrant;

use super::environment::{Environment, check_whole};
use crate::organization::slug;

const VARIABLE_PREFIX: &str = "TURNWRIGHT_SECRET_";
const NAME_BYTES_MAX: usize = 64;
const FIELDS: [&str; 4] = ["value", "env", "organizations", "hosts"];

/// Reads the secrets of the config's table `secrets`, then those of the environment.
///
/// An entry of the config takes the place of the environment's of the same name.
pub fn read(written: Option<Value>, environment: &Environment) -> anyhow::Result<Vec<SecretGrant>> {
    let mut secrets = match written {
        None => Vec::new(),
        Some(Value::Table(entries)) => entries
            .iter()
            .map(|(name, entry)| {
                of_config(name, entry, environment).with_context(|| format!("secrets.{name}"))
            })
            .collect::<anyhow::Result<Vec<_>>>()?,
        Some(_) => bail!("secrets: must be tables, such as [secrets.NAME]"),
    };
    for name in environment.names_after(VARIABLE_PREFIX) {
        let variable = format!("{VARIABLE_PREFIX}{name}");
        // An empty variable is one that is not set, whatever its name.
        let Some(value) = environment.get(&variable)? else {
            continue;
        };
        check_name(name).with_context(|| format!("the variable {variable}"))?;
        check_whole(&format!("the variable {variable}"), &value)?;
        if secrets.iter().any(|secret| secret.name == name) {
            tracing::warn!("the variable {variable} is not used: the config has secrets.{name}");
            continue;
        }
        secrets.push(SecretGrant {
            name: name.to_owned(),
            value: Secret::new(value),
            organizations: vec![ORGANIZATION_DEFAULT.to_owned()],
            hosts: Vec::new(),
        });
    }
    Ok(secrets)
}

fn of_config(name: &str, entry: &Value, environment: &Environment) -> anyhow::Result<SecretGrant> {
    check_name(name)?;
    let Some(entry) = entry.as_table() else {
        bail!("must be a table with 'value' or 'env'");
    };
    if let Some(unknown) = entry.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        bail!("{unknown:?} is not known; known are {}", FIELDS.join(", "));
    }
    let value = match (text(entry, "value")?, text(entry, "env")?) {
        (Some(""), None) => bail!("'value' is empty"),
        (Some(value), None) => {
            check_whole("'value'", value)?;
            value.to_owned()
        }
        (None, Some(variable)) => {
            let value = environment.need("env", variable)?;
            check_whole(&format!("the variable {variable}"), &value)?;
            value
        }
        (Some(_), Some(_)) | (None, None) => bail!("needs either 'value' or 'env'"),
    };
    let organizations = match texts(entry, "organizations")? {
        None => vec![ORGANIZATION_DEFAULT.to_owned()],
        Some([]) => bail!("'organizations' is empty, so it is for nobody"),
        Some(slugs) => each(slugs, "organizations", slug)?,
    };
    // What a host may look like is for those who compare them to say.
    let hosts = texts(entry, "hosts")?.unwrap_or_default();
    let hosts = each(hosts, "hosts", |host| Ok(host.to_owned()))?;
    Ok(SecretGrant {
        name: name.to_owned(),
        value: Secret::new(value),
        organizations,
        hosts,
    })
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let is_known = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let fits = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(is_known);
    if !fits {
        bail!(
            "a secret's name is capital letters, digits and '_', begins with a letter and has at most {NAME_BYTES_MAX}"
        );
    }
    Ok(())
}

fn text<'a>(entry: &'a Table, field: &str) -> anyhow::Result<Option<&'a str>> {
    match entry.get(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => bail!("'{field}' must be a string"),
    }
}

fn texts<'a>(entry: &'a Table, field: &str) -> anyhow::Result<Option<&'a [Value]>> {
    match entry.get(field) {
        None => Ok(None),
        Some(Value::Array(values)) => Ok(Some(values)),
        Some(_) => bail!("'{field}' must be a list of strings"),
    }
}

fn each(
    values: &[Value],
    field: &str,
    read: fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<String>> {
    let read = |value: &Value| {
        let text = value.as_str();
        let text = text.ok_or_else(|| anyhow!("'{field}' must be a list of strings"))?;
        read(text).with_context(|| format!("'{field}'"))
    };
    values.iter().map(read).collect()
}

#[cfg(test)]
mod tests;
