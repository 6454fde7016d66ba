//! Reading parameters, and noting which static values are not to be shown.

use tw_core::definition::DefinitionError;
use tw_core::json::Json;
use tw_core::parameters::{
    FixedParameter, ModelParameter, Parameter, ParameterPlace as Goes, ParameterSource, Parameters,
    SchemaExtension,
};
use tw_core::template::TextTemplate;

use super::value_at_path::{KnownObject, ValueAtPath};
use super::values;

/// The text that is shown in place of a sensitive value.
pub const MASK: &str = "***";

const MODES: &[&str] = &["ai", "fixed", "array_extendable", "object", "array"];
const PLACES: &[&str] = &["path", "query", "header", "body"];
const FORMATS: &[&str] = &["uri"];
const OF_AN_EXTENSION: &[&str] = &["enabled", "prompt", "required", "items"];

/// The static values of a definition's parameters, where they stand.
#[derive(Debug, Default)]
pub struct StaticValues<'a>(pub Vec<StaticValue<'a>>);

#[derive(Debug)]
pub struct StaticValue<'a> {
    pub place: ValueAtPath<'a>,
    pub visibility: Visibility,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Shown,
    Masked,
}

impl<'a> StaticValues<'a> {
    /// Notes a value, which must not be the mask where a mask would be shown: who sends that has
    /// read it here and does not know the value.
    fn note(
        &mut self,
        place: &ValueAtPath<'a>,
        visibility: Visibility,
    ) -> Result<(), DefinitionError> {
        if visibility == Visibility::Masked && is_mask(place) {
            let problem = "is the mask of a sensitive value, and none is stored at this place";
            return Err(place.error(problem));
        }
        // A secret is a name, and names are shown.
        let visibility = if place.is_object() && values::names_secret(place)? {
            Visibility::Shown
        } else {
            visibility
        };
        self.0.push(StaticValue {
            place: place.clone(),
            visibility,
        });
        Ok(())
    }
}

pub fn is_mask(place: &ValueAtPath<'_>) -> bool {
    place.is_string() && place.text().is_ok_and(|text| text == MASK)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Ai,
    Fixed,
    ArrayExtendable,
    Object,
    Array,
}

impl Mode {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "ai" => Self::Ai,
            "fixed" => Self::Fixed,
            "array_extendable" => Self::ArrayExtendable,
            "object" => Self::Object,
            "array" => Self::Array,
            _ => return None,
        })
    }

    fn known(self, level: Level) -> &'static [&'static str] {
        match (self, level) {
            (Self::Ai, Level::Top) => &["mode", "sensitive", "schema", "prompt", "required", "in"],
            (Self::Ai, Level::Inner) => &["mode", "sensitive", "schema", "prompt", "required"],
            (Self::Fixed, Level::Top) => &["mode", "sensitive", "value", "format", "in"],
            (Self::Fixed, Level::Inner) => &["mode", "sensitive", "value", "format"],
            (Self::ArrayExtendable, Level::Top) => {
                &["mode", "sensitive", "fixedValues", "aiExtension", "in"]
            }
            (Self::ArrayExtendable, Level::Inner) => {
                &["mode", "sensitive", "fixedValues", "aiExtension"]
            }
            (Self::Object, Level::Top) => &["mode", "sensitive", "description", "properties", "in"],
            (Self::Object, Level::Inner) => &["mode", "sensitive", "description", "properties"],
            (Self::Array, Level::Top) => &["mode", "sensitive", "description", "items", "in"],
            (Self::Array, Level::Inner) => &["mode", "sensitive", "description", "items"],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    Inner,
}

/// Reads `parameters`.
pub fn read<'a>(
    place: &ValueAtPath<'a>,
    statics: &mut StaticValues<'a>,
) -> Result<Parameters, DefinitionError> {
    named(place, Level::Top, Visibility::Shown, statics)
}

fn named<'a>(
    place: &ValueAtPath<'a>,
    level: Level,
    visibility: Visibility,
    statics: &mut StaticValues<'a>,
) -> Result<Parameters, DefinitionError> {
    let members = place.members()?;
    members
        .into_iter()
        .map(|(name, place)| Ok((name, parameter(&place, level, visibility, statics)?)))
        .collect()
}

fn parameter<'a>(
    place: &ValueAtPath<'a>,
    level: Level,
    around: Visibility,
    statics: &mut StaticValues<'a>,
) -> Result<Parameter, DefinitionError> {
    let mode = mode_of(place)?;
    let object = place.object(mode.known(level))?;
    let goes = match level {
        Level::Inner => None,
        Level::Top => object
            .optional("in")
            .map(|goes| goes.one_of(PLACES, place_of))
            .transpose()?,
    };
    let sensitive = match object.optional("sensitive") {
        Some(sensitive) => sensitive.boolean()?,
        None => false,
    };
    // What stands inside something sensitive is sensitive.
    let visibility = if sensitive {
        Visibility::Masked
    } else {
        around
    };
    Ok(Parameter {
        source: source(mode, &object, visibility, statics)?,
        place: goes,
        sensitive: visibility == Visibility::Masked,
    })
}

/// The mode decides which other members there are, so it is read before they are looked at.
fn mode_of(place: &ValueAtPath<'_>) -> Result<Mode, DefinitionError> {
    let members = place.members()?;
    let Some((_, mode)) = members.iter().find(|(name, _)| name == "mode") else {
        let missing = format_args!("has no \"mode\"; modes are {}", MODES.join(", "));
        return Err(place.error(missing));
    };
    mode.one_of(MODES, Mode::parse)
}

fn place_of(word: &str) -> Option<Goes> {
    Some(match word {
        "path" => Goes::Path,
        "query" => Goes::Query,
        "header" => Goes::Header,
        "body" => Goes::Body,
        _ => return None,
    })
}

fn source<'a>(
    mode: Mode,
    object: &KnownObject<'a>,
    visibility: Visibility,
    statics: &mut StaticValues<'a>,
) -> Result<ParameterSource, DefinitionError> {
    Ok(match mode {
        Mode::Ai => ParameterSource::Ai(ModelParameter {
            schema: schema(object.optional("schema"))?,
            prompt: template(object.optional("prompt"))?,
            required: match object.optional("required") {
                Some(required) => required.boolean()?,
                None => true,
            },
        }),
        Mode::Fixed => ParameterSource::Fixed(fixed(object, visibility, statics)?),
        Mode::ArrayExtendable => ParameterSource::ArrayExtendable {
            fixed: fixed_values(object, visibility, statics)?,
            extension: match object.optional("aiExtension") {
                Some(place) => extension(place)?,
                None => None,
            },
        },
        Mode::Object => ParameterSource::Object {
            description: template(object.optional("description"))?,
            properties: named(
                object.required("properties")?,
                Level::Inner,
                visibility,
                statics,
            )?,
        },
        Mode::Array => ParameterSource::Array {
            description: template(object.optional("description"))?,
            items: object
                .required("items")?
                .elements()?
                .iter()
                .map(|place| parameter(place, Level::Inner, visibility, statics))
                .collect::<Result<_, _>>()?,
        },
    })
}

fn template(place: Option<&ValueAtPath<'_>>) -> Result<Option<TextTemplate>, DefinitionError> {
    place.map(ValueAtPath::template).transpose()
}

/// The schema of what the model writes; a string where there is none, as in the source document
/// 004, whose examples leave it out.
fn schema(place: Option<&ValueAtPath<'_>>) -> Result<Json, DefinitionError> {
    match place {
        Some(place) if place.is_object() => Ok(place.json()),
        Some(place) => Err(place.wrong_type("an object, a JSON Schema")),
        None => Ok(Json::from_value(&serde_json::json!({ "type": "string" }))),
    }
}

fn fixed<'a>(
    object: &KnownObject<'a>,
    visibility: Visibility,
    statics: &mut StaticValues<'a>,
) -> Result<FixedParameter, DefinitionError> {
    let value = object.required("value")?;
    statics.note(value, visibility)?;
    let format = object.optional("format");
    let is_uri = format
        .map(|format| format.one_of(FORMATS, |word| (word == "uri").then_some(())))
        .transpose()?
        .is_some();
    if is_uri && !value.is_string() {
        return Err(value.wrong_type("a string, since its format is uri"));
    }
    Ok(FixedParameter {
        value: values::read(value)?,
        is_uri,
    })
}

fn fixed_values<'a>(
    object: &KnownObject<'a>,
    visibility: Visibility,
    statics: &mut StaticValues<'a>,
) -> Result<Vec<tw_core::parameters::ParameterValue>, DefinitionError> {
    let Some(place) = object.optional("fixedValues") else {
        return Ok(Vec::new());
    };
    place
        .elements()?
        .iter()
        .map(|value| {
            statics.note(value, visibility)?;
            values::read(value)
        })
        .collect()
}

/// The extension of an array; `None` when it is switched off; what stands there is read all the
/// same.
fn extension(place: &ValueAtPath<'_>) -> Result<Option<SchemaExtension>, DefinitionError> {
    let object = place.object(OF_AN_EXTENSION)?;
    let flag = |name: &str, default| match object.optional(name) {
        Some(place) => place.boolean(),
        None => Ok(default),
    };
    let extension = SchemaExtension {
        items: schema(object.optional("items"))?,
        prompt: template(object.optional("prompt"))?,
        required: flag("required", false)?,
    };
    Ok(flag("enabled", true)?.then_some(extension))
}
