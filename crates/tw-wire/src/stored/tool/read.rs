//! A definition's members, one by one.

use std::time::Duration;

use tw_core::api_request::{ApiRequest, BodyFormat, LookUpRequest, Method, UrlTemplate};
use tw_core::definition::{DeclaredVariable, DefinitionError, ToolDefinition};
use tw_core::tool::{CacheRules, CacheScope, CallPolicy, EffectClass};

use super::parameters::{self, StaticValues};
use super::value_at_path::{KnownObject, ValueAtPath};
use super::{completion, image, response, values, whole};

const OF_A_TOOL: &[&str] = &[
    "name",
    "label",
    "description",
    "type",
    "method",
    "url",
    "headers",
    "query",
    "body",
    "body_format",
    "body_under",
    "parameters",
    "variables",
    "response",
    "policy",
    "look_up",
    "completion",
];
const OF_A_VARIABLE: &[&str] = &["description", "default"];
const OF_A_POLICY: &[&str] = &[
    "effect",
    "timeout_ms",
    "attempts_max",
    "backoff_ms",
    "concurrency_max",
    "cache",
    "requires_approval",
];
const OF_A_CACHE: &[&str] = &["lifetime_s", "scope"];
const OF_A_LOOK_UP: &[&str] = &["url", "headers", "query", "absent"];

/// A definition and what of its text is not shown.
#[derive(Debug)]
pub struct ReadDefinition<'a> {
    pub definition: ToolDefinition,
    pub statics: StaticValues<'a>,
}

pub fn read(text: &str) -> Result<ReadDefinition<'_>, DefinitionError> {
    let place = whole::check(text)?;
    let mut statics = StaticValues::default();
    let definition = match image::in_full(&place)? {
        None => definition(&place, &mut statics)?,
        // None of its values are sensitive.
        Some(text) => definition(&whole::check(&text)?, &mut StaticValues::default())?,
    };
    Ok(ReadDefinition {
        definition,
        statics,
    })
}

fn definition<'a>(
    place: &ValueAtPath<'a>,
    statics: &mut StaticValues<'a>,
) -> Result<ToolDefinition, DefinitionError> {
    let tool = place.object(OF_A_TOOL)?;
    let name = tool.required("name")?.text()?.into_owned();
    // The camel-case word is that of the source document 004.
    tool.required("type")?
        .one_of(&["api_request", "image"], |word| match word {
            "api_request" | "apiRequest" => Some(()),
            _ => None,
        })?;
    let request = request(&tool)?;
    let completion::ReadCompletion { completion, job } =
        completion::read(tool.optional("completion"))?;
    Ok(ToolDefinition {
        label: match tool.optional("label") {
            Some(label) => label.text()?.into_owned(),
            None => name.clone(),
        },
        name,
        description: tool.required("description")?.template()?,
        parameters: match tool.optional("parameters") {
            Some(place) => parameters::read(place, statics)?,
            None => Vec::new(),
        },
        variables: match tool.optional("variables") {
            Some(place) => variables(place)?,
            None => Vec::new(),
        },
        response: response::read(tool.optional("response"))?,
        policy: CallPolicy {
            shown_bytes_max: response::shown_bytes_max(tool.optional("response"))?,
            completion,
            ..policy(tool.optional("policy"), request.method)?
        },
        job,
        request,
    })
}

fn request(tool: &KnownObject<'_>) -> Result<ApiRequest, DefinitionError> {
    let words = Method::ALL.map(Method::as_str);
    let formats = BodyFormat::ALL.map(BodyFormat::as_str);
    Ok(ApiRequest {
        method: match tool.optional("method") {
            Some(method) => method.one_of(&words, Method::parse)?,
            None => Method::Get,
        },
        url: url(tool)?,
        headers: all(tool, "headers", values::headers)?,
        query: all(tool, "query", values::query)?,
        body: all(tool, "body", values::object)?,
        body_format: match tool.optional("body_format") {
            Some(format) => format.one_of(&formats, BodyFormat::parse)?,
            None => BodyFormat::Json,
        },
        body_under: match tool.optional("body_under") {
            Some(name) => Some(name.text()?.into_owned()),
            None => None,
        },
        look_up: match tool.optional("look_up") {
            Some(place) => Some(look_up(place)?),
            None => None,
        },
    })
}

fn look_up(place: &ValueAtPath<'_>) -> Result<LookUpRequest, DefinitionError> {
    let look_up = place.object(OF_A_LOOK_UP)?;
    Ok(LookUpRequest {
        url: url(&look_up)?,
        headers: all(&look_up, "headers", values::headers)?,
        query: all(&look_up, "query", values::query)?,
        absent: all(&look_up, "absent", |place| {
            place.elements()?.iter().map(response::status).collect()
        })?,
    })
}

fn url(of: &KnownObject<'_>) -> Result<UrlTemplate, DefinitionError> {
    let url = of.required("url")?;
    UrlTemplate::parse(&url.text()?).map_err(|bad| url.error(bad))
}

/// A list, empty when it is not written.
fn all<'a, T>(
    of: &KnownObject<'a>,
    name: &str,
    read: fn(&ValueAtPath<'a>) -> Result<Vec<T>, DefinitionError>,
) -> Result<Vec<T>, DefinitionError> {
    of.optional(name).map_or(Ok(Vec::new()), read)
}

fn variables(place: &ValueAtPath<'_>) -> Result<Vec<DeclaredVariable>, DefinitionError> {
    let declared = |(name, place): (String, ValueAtPath<'_>)| {
        let variable = place.object(OF_A_VARIABLE)?;
        Ok(DeclaredVariable {
            name,
            description: match variable.optional("description") {
                Some(description) => description.text()?.into_owned(),
                None => String::new(),
            },
            default: match variable.optional("default") {
                Some(default) => Some(default.text()?.into_owned()),
                None => None,
            },
        })
    };
    place.members()?.into_iter().map(declared).collect()
}

/// The effect of repeating a request, unless the definition says so (section 7 of the design).
fn effect_of(method: Method) -> EffectClass {
    match method {
        Method::Get | Method::Head => EffectClass::Read,
        Method::Put | Method::Delete => EffectClass::Idempotent,
        Method::Post | Method::Patch => EffectClass::Once,
    }
}

fn policy(place: Option<&ValueAtPath<'_>>, method: Method) -> Result<CallPolicy, DefinitionError> {
    let mut policy = CallPolicy::new(effect_of(method));
    let Some(place) = place else {
        return Ok(policy);
    };
    let written = place.object(OF_A_POLICY)?;
    if let Some(effect) = written.optional("effect") {
        let words = EffectClass::ALL.map(EffectClass::as_str);
        policy.effect = effect.one_of(&words, EffectClass::parse)?;
    }
    if let Some(timeout) = written.optional("timeout_ms") {
        policy.timeout = Duration::from_millis(timeout.whole()?);
    }
    if let Some(attempts) = written.optional("attempts_max") {
        policy.attempts_max = attempts.whole()?;
    }
    if let Some(backoff) = written.optional("backoff_ms") {
        policy.backoff = Duration::from_millis(backoff.whole()?);
    }
    if let Some(concurrency) = written.optional("concurrency_max") {
        policy.concurrency_max = concurrency.whole()?;
    }
    if let Some(place) = written.optional("cache") {
        policy.cache = Some(cache(place)?);
    }
    if let Some(required) = written.optional("requires_approval") {
        policy.requires_approval = required.boolean()?;
    }
    Ok(policy)
}

/// Reads the rules of a cache, whose scope has no default: the definition must say who shares a
/// result.
fn cache(place: &ValueAtPath<'_>) -> Result<CacheRules, DefinitionError> {
    let cache = place.object(OF_A_CACHE)?;
    let words = CacheScope::ALL.map(CacheScope::as_str);
    Ok(CacheRules {
        lifetime: Duration::from_secs(cache.required("lifetime_s")?.whole()?),
        scope: cache.required("scope")?.one_of(&words, CacheScope::parse)?,
    })
}
