//! TOML tool files, turned into JSON texts; order and digits stay as written.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use tw_core::definition::DefinitionError;

use super::{FILE, TOOLS, few_enough, name_in, of_tool};
use crate::stored::tool::value_at_path::{element, error, member};

/// The JSON text of each `[[tool]]`.
pub fn tools(text: &str) -> Result<Vec<String>, DefinitionError> {
    let file = DeTable::parse(text).map_err(|bad| not_toml(text, &bad))?;
    let file = file.get_ref();
    if let Some(other) = file.keys().find(|key| *key.get_ref() != TOOLS) {
        let problem = format_args!("is not known here; known are {TOOLS}");
        return Err(error(&member(FILE, other.get_ref()), problem));
    }
    // A file that says nothing of tools is more likely the wrong one than an empty list.
    let Some(list) = file.get(TOOLS) else {
        return Err(error(FILE, "holds no [[tool]]"));
    };
    let DeValue::Array(list) = list.get_ref() else {
        let problem = format_args!("must be an array of tables, [[tool]], is {}", kind(list));
        return Err(error(&member(FILE, TOOLS), problem));
    };
    few_enough(list.len())?;
    list.iter()
        .enumerate()
        .map(|(at, tool)| {
            let mut out = String::new();
            match write(tool.get_ref(), "", &mut out) {
                Ok(()) => Ok(out),
                Err(bad) => Err(of_tool(bad, at, name_of(tool.get_ref()))),
            }
        })
        .collect()
}

fn name_of(tool: &DeValue<'_>) -> Option<String> {
    let name = tool.get("name")?.get_ref().as_str()?;
    name_in(&serde_json::json!({ "name": name }).to_string())
}

fn kind(value: &Spanned<DeValue<'_>>) -> &'static str {
    value.get_ref().type_str()
}

fn not_toml(text: &str, bad: &toml::de::Error) -> DefinitionError {
    let place = bad.span().and_then(|span| text.get(..span.start));
    let at = place.map_or_else(String::new, |before| {
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!(" at line {line} column {column}")
    });
    error(
        FILE,
        format_args!("is not valid TOML: {}{at}", bad.message()),
    )
}

/// The parser bounds how deep tables and arrays nest, so this can call itself.
fn write(value: &DeValue<'_>, path: &str, out: &mut String) -> Result<(), DefinitionError> {
    match value {
        DeValue::String(text) => out.push_str(&quoted(text)),
        DeValue::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix())
                .map_err(|_| error(path, format_args!("{integer} is beyond 64 bits")))?;
            out.push_str(&number.to_string());
        }
        DeValue::Float(float) => {
            let number = float.as_str().trim_start_matches('+');
            if serde_json::from_str::<f64>(number).is_err() {
                let problem = format_args!("{} is no number that JSON has", float.as_str());
                return Err(error(path, problem));
            }
            out.push_str(number);
        }
        DeValue::Datetime(date) => {
            let problem =
                format_args!("is a date, which JSON does not have: write it as \"{date}\"");
            return Err(error(path, problem));
        }
        DeValue::Array(elements) => {
            out.push('[');
            for (at, value) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(value.get_ref(), &element(path, at), out)?;
            }
            out.push(']');
        }
        DeValue::Table(table) => {
            out.push('{');
            for (at, (name, value)) in table.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let name = name.get_ref();
                out.push_str(&quoted(name));
                out.push(':');
                write(value.get_ref(), &member(path, name), out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
