//! The reader of settings: from TOML, with errors that say where and what is wanted, and never what
//! is there: people write keys where they do not belong.

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

/// A value that cannot be used.
#[derive(Debug)]
pub struct BadValue {
    /// Path to the value, its innermost step first.
    path: Vec<Step>,
    message: String,
}

#[derive(Debug)]
enum Step {
    Key(String),
    Place(usize),
}

/// Reads a whole table.
///
/// # Errors
/// [`BadValue`] for the first that cannot be used.
pub fn settings<T: DeserializeOwned>(table: Table) -> Result<T, BadValue> {
    T::deserialize(Node(Value::Table(table)))
}

impl BadValue {
    fn under(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.path.iter().rev().enumerate() {
            match step {
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Place(place) => write!(f, "[{place}]")?,
            }
        }
        if !self.path.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadValue {}

impl serde::de::Error for BadValue {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            path: Vec::new(),
            message: message.to_string(),
        }
    }

    // The standard ones show the value.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("{} is not {expected}", kind(&found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("this {} is not {expected}", kind(&found)))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("must be one of {}", expected.join(", ")))
    }
}

fn kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "integer",
        Unexpected::Float(_) => "fraction",
        Unexpected::Str(_) | Unexpected::Char(_) => "string",
        Unexpected::Seq => "list",
        Unexpected::Map => "table",
        _ => "value",
    }
}

struct Node(Value);

impl<'de> Deserializer<'de> for Node {
    type Error = BadValue;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadValue> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Integer(integer) => visitor.visit_i64(integer),
            Value::Float(float) => visitor.visit_f64(float),
            Value::Boolean(boolean) => visitor.visit_bool(boolean),
            Value::Datetime(_) => Err(BadValue::invalid_type(Unexpected::Other("date"), &visitor)),
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter().enumerate())),
            Value::Table(members) => visitor.visit_map(Members {
                left: members.into_iter(),
                value: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadValue> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, BadValue> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Items(std::iter::Enumerate<std::vec::IntoIter<Value>>);

impl<'de> SeqAccess<'de> for Items {
    type Error = BadValue;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, BadValue> {
        let Some((place, item)) = self.0.next() else {
            return Ok(None);
        };
        let read = seed.deserialize(Node(item));
        read.map(Some)
            .map_err(|error| error.under(Step::Place(place)))
    }
}

struct Members {
    left: toml::map::IntoIter<String, Value>,
    /// Name and value of the key that was read last.
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = BadValue;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, BadValue> {
        let Some((key, value)) = self.left.next() else {
            return Ok(None);
        };
        let read = seed.deserialize(StringDeserializer::new(key.clone()))?;
        self.value = Some((key, value));
        Ok(Some(read))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, BadValue> {
        let Some((key, value)) = self.value.take() else {
            return Err(BadValue::custom("a value without its key"));
        };
        let read = seed.deserialize(Node(value));
        read.map_err(|error| error.under(Step::Key(key)))
    }
}
