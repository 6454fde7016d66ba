//! Parameters of a tool: what the model fills in, what is fixed, and the function schema that
//! follows from them.

pub(crate) mod schema;

use crate::json::Json;
use crate::template::TextTemplate;

pub use schema::function_parameters;
pub(crate) use schema::function_parameters_with;

/// The parameters, in the order written.
pub type Parameters = Vec<(String, Parameter)>;

/// A parameter of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub source: ParameterSource,
    /// The part of the request that the parameter goes to, if the definition says so; only at the
    /// top.
    pub place: Option<ParameterPlace>,
    /// The fixed value is not shown back.
    pub sensitive: bool,
}

/// The part of a request that a parameter goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterPlace {
    Path,
    Query,
    Header,
    Body,
}

/// The source of a parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterSource {
    /// The model.
    Ai(ModelParameter),
    /// The definition; hidden from the model.
    Fixed(FixedParameter),
    /// A fixed beginning, to which the model may add.
    ArrayExtendable {
        fixed: Vec<ParameterValue>,
        extension: Option<SchemaExtension>,
    },
    /// An object of parameters.
    Object {
        properties: Parameters,
        description: Option<TextTemplate>,
    },
    /// An array of a fixed length; the model sees an object with `item_N` for each element that
    /// it fills in, counted from 1.
    Array {
        items: Vec<Parameter>,
        description: Option<TextTemplate>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelParameter {
    /// A JSON Schema object, as written.
    pub schema: Json,
    /// Text that becomes the schema's description, unless it has one.
    pub prompt: Option<TextTemplate>,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FixedParameter {
    pub value: ParameterValue,
    /// The value is a URL: what is substituted into it is percent-encoded.
    pub is_uri: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SchemaExtension {
    /// The schema of one more element, as written.
    pub items: Json,
    pub prompt: Option<TextTemplate>,
    pub required: bool,
}

/// A static value: JSON whose strings are templates, or a secret by name.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    /// Null, a boolean or a number, as written.
    Literal(Json),
    Text(TextTemplate),
    Secret(SecretRef),
    Array(Vec<ParameterValue>),
    Object(Vec<(String, ParameterValue)>),
}

impl ParameterValue {
    /// Whether a variable stands anywhere in it.
    pub fn names(&self, variable: &str) -> bool {
        match self {
            Self::Literal(_) | Self::Secret(_) => false,
            Self::Text(template) => template.variables().any(|name| name == variable),
            Self::Array(items) => items.iter().any(|item| item.names(variable)),
            Self::Object(members) => members.iter().any(|(_, value)| value.names(variable)),
        }
    }
}

/// A secret that the operator keeps; the definition holds its name only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRef {
    pub name: String,
    /// Text put before the value, such as `Bearer `.
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

/// The name that an element of [`ParameterSource::Array`] has for the model.
pub(crate) fn item_name(index: usize) -> String {
    format!("item_{}", index + 1)
}

#[cfg(test)]
pub(crate) mod tests;
