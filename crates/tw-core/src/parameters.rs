//! Parameters of a tool: what the model fills in, what is fixed, and the function schema that
//! follows from them.

pub(crate) mod schema;

use crate::json::Json;
use crate::template::Template;

pub use schema::function_parameters;
pub(crate) use schema::function_parameters_with;

/// The parameters, in the order written.
pub type Parameters = Vec<(String, Parameter)>;

/// One parameter of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub source: Source,
    /// Where it goes, if the definition says so; only at the top.
    pub place: Option<Place>,
    /// Its fixed value is not shown back.
    pub sensitive: bool,
}

/// Where in a request a parameter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Header,
    Body,
}

/// Where a parameter's value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The model.
    Ai(Ai),
    /// The definition; hidden from the model.
    Fixed(Fixed),
    /// A fixed beginning, to which the model may add.
    ArrayExtendable {
        fixed: Vec<Value>,
        extension: Option<Extension>,
    },
    /// An object of parameters.
    Object {
        properties: Parameters,
        description: Option<Template>,
    },
    /// An array of a fixed length; the model sees an object with `item_N` for each element that
    /// it fills in, counted from 1.
    Array {
        items: Vec<Parameter>,
        description: Option<Template>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ai {
    /// A JSON Schema object, as written.
    pub schema: Json,
    /// Becomes the schema's description, unless it has one.
    pub prompt: Option<Template>,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    pub value: Value,
    /// The value is a URL: what is substituted into it is percent-encoded.
    pub is_uri: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    /// The schema of one more element, as written.
    pub items: Json,
    pub prompt: Option<Template>,
    pub required: bool,
}

/// A static value: JSON whose strings are templates, or a secret by name.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null, a boolean or a number, as written.
    Literal(Json),
    Text(Template),
    Secret(SecretRef),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// A secret that the operator keeps; the definition holds its name only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRef {
    pub name: String,
    /// Put before the value, such as `Bearer `.
    pub prefix: String,
}

/// Longest name of a parameter, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Whether a parameter may have this name: ASCII letters, digits, `_`, `-` and `.`, which is what
/// every provider takes as the name of an argument.
pub fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// What the model calls an element of [`Source::Array`].
pub(crate) fn item_name(index: usize) -> String {
    format!("item_{}", index + 1)
}

#[cfg(test)]
pub(crate) mod tests;
