//! Checks of a definition's text that are made before any of it is read.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tw_core::definition::DefinitionError;
use tw_core::json::{depth, values};
use tw_core::limits::{DEFINITION_BYTES_MAX, DEFINITION_VALUES_MAX, JSON_DEPTH_DEFAULT};

use super::value_at_path::{TWICE, ValueAtPath, element, error, member};

/// Longest name of a member, in bytes: it stands in the path of everything below it.
const NAME_BYTES_MAX: usize = 256;

/// The text as a value: short enough, not too deep, with not too much in it, JSON that every later reader takes, and with
/// no name twice in one object, since readers disagree about which one counts.
pub fn check(text: &str) -> Result<ValueAtPath<'_>, DefinitionError> {
    if text.len() > DEFINITION_BYTES_MAX {
        let problem = format_args!("is longer than {DEFINITION_BYTES_MAX} bytes");
        return Err(error("", problem));
    }
    if depth(text.as_bytes()) > JSON_DEPTH_DEFAULT {
        let problem = format_args!("is nested deeper than {JSON_DEPTH_DEFAULT} levels");
        return Err(error("", problem));
    }
    if values(text.as_bytes()) > DEFINITION_VALUES_MAX {
        let problem = format_args!("holds more than {DEFINITION_VALUES_MAX} values");
        return Err(error("", problem));
    }
    let mut path = String::new();
    let mut json = serde_json::Deserializer::from_str(text);
    Walk {
        path: &mut path,
        problem: &mut None,
    }
    .run(&mut json)
    .map_err(|problem| error(&path, problem))?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|bad| error("", not_json(&bad)))?;
    Ok(ValueAtPath {
        path: String::new(),
        raw,
    })
}

fn not_json(bad: &serde_json::Error) -> String {
    format!("is not valid JSON: {bad}")
}

/// Reads a value for its errors only; `path` is where the reading is, and stays there when it
/// fails.
struct Walk<'w> {
    path: &'w mut String,
    /// A problem of ours, which serde would tell with a position in the text.
    problem: &'w mut Option<String>,
}

impl Walk<'_> {
    fn run<'de, R: serde_json::de::Read<'de>>(
        mut self,
        json: &mut serde_json::Deserializer<R>,
    ) -> Result<(), String> {
        let walked = self.again().deserialize(&mut *json);
        let Err(bad) = walked.and_then(|()| json.end()) else {
            return Ok(());
        };
        Err(self.problem.take().unwrap_or_else(|| not_json(&bad)))
    }

    fn again(&mut self) -> Walk<'_> {
        Walk {
            path: self.path,
            problem: self.problem,
        }
    }

    fn fail<E: Error>(&mut self, problem: String) -> E {
        *self.problem = Some(problem);
        E::custom("refused")
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let here = self.path.len();
        let mut at = 0;
        loop {
            *self.path = element(&self.path[..here], at);
            if seq.next_element_seed(self.again())?.is_none() {
                break;
            }
            at += 1;
        }
        self.path.truncate(here);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let here = self.path.len();
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if name.len() > NAME_BYTES_MAX {
                let problem =
                    format!("has a member whose name is longer than {NAME_BYTES_MAX} bytes");
                return Err(self.fail(problem));
            }
            *self.path = member(&self.path[..here], &name);
            if !seen.insert(name) {
                return Err(self.fail(TWICE.to_owned()));
            }
            map.next_value_seed(self.again())?;
            self.path.truncate(here);
        }
        Ok(())
    }
}
