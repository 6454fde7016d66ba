//! The HTTP request of a call, made from its tool's definition and the model's arguments.

use super::encode::{SizeLimit, header_value, merge, overlaps, pairs};
use super::{BodyFormat, BuildError, BuiltRequest, Method, RequestInputs, UrlTemplate, fill};
use crate::arguments::ValidArgs;
use crate::definition::ToolDefinition;
use crate::json::Json;
use crate::json::bounded::{BoundedText, TextFull};
use crate::json::tree::{JsonTree, MemberOrder};
use crate::limits::URL_BYTES_MAX;
use crate::parameters::{ParameterPlace, ParameterValue};
use crate::template::ValueLanding;
use crate::tool::EffectClass;
use crate::variables::{EXTERNAL_ID, REFERENCE, Variables};

const URL: SizeLimit = SizeLimit {
    what: "URL",
    bytes_max: URL_BYTES_MAX,
};
/// Longest body of a request: four times what a definition may have.
const BODY: SizeLimit = SizeLimit {
    what: "body",
    bytes_max: 1024 * 1024,
};
/// Longest value of a header, in bytes.
const HEADER_BYTES_MAX: usize = 8192;

pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

type Members = Vec<(String, JsonTree)>;

/// A request whose body is not written out yet.
struct Draft {
    url: String,
    headers: Vec<(String, String)>,
    body: Option<Members>,
}

impl ToolDefinition {
    /// The request of one call.
    ///
    /// # Errors
    /// [`BuildError`] when a variable or a secret has no value, and when a value cannot stand
    /// where it lands.
    pub fn request(
        &self,
        args: &ValidArgs,
        given: &RequestInputs<'_>,
    ) -> Result<BuiltRequest, BuildError> {
        let request = &self.request;
        let mut draft = self.draft(JsonTree::read(args.json()), given)?;
        let body = match (draft.body, request.body_format) {
            (None, _) => None,
            (Some(members), BodyFormat::Json) => Some(json_text(members)?),
            (Some(members), BodyFormat::Form) => Some(pairs(&members, BODY)?.join("&")),
        };
        if body.is_some() {
            draft.headers.push((
                CONTENT_TYPE.to_owned(),
                request.body_format.content_type().to_owned(),
            ));
        }
        let has_key = has_header(&draft.headers, IDEMPOTENCY_KEY);
        if self.policy.effect != EffectClass::Read && !has_key {
            draft.headers.push((
                IDEMPOTENCY_KEY.to_owned(),
                checked_header(IDEMPOTENCY_KEY, given.reference.to_owned())?,
            ));
        }
        Ok(BuiltRequest {
            method: request.method,
            url: draft.url,
            headers: draft.headers,
            body,
        })
    }

    /// The request that asks whether an earlier one arrived.
    ///
    /// # Errors
    /// As [`ToolDefinition::request`], and when the definition has no look-up.
    pub fn look_up_request(&self, given: &RequestInputs<'_>) -> Result<BuiltRequest, BuildError> {
        let Some(look_up) = &self.request.look_up else {
            return Err(BuildError("the tool has no look-up".to_owned()));
        };
        let mut variables = given.variables.clone();
        variables.set(REFERENCE, given.reference.to_owned());
        let given = RequestInputs {
            variables: &variables,
            secret: given.secret,
            reference: given.reference,
        };
        let url = url(&look_up.url, &[], Vec::new(), &look_up.query, &given)?;
        Ok(BuiltRequest {
            method: Method::Get,
            url,
            headers: headers(Vec::new(), &look_up.headers, &given)?,
            body: None,
        })
    }

    /// The request that asks how a job does; `external_id` is what its tool calls it.
    ///
    /// # Errors
    /// As [`ToolDefinition::request`], and when the definition has no poll.
    pub fn poll_request(
        &self,
        external_id: Option<&str>,
        given: &RequestInputs<'_>,
    ) -> Result<BuiltRequest, BuildError> {
        let Some(poll) = self.job.as_ref().and_then(|job| job.poll.as_ref()) else {
            return Err(BuildError("the tool has no poll".to_owned()));
        };
        let poll = &poll.request;
        let mut variables = given.variables.clone();
        variables.set(REFERENCE, given.reference.to_owned());
        if let Some(id) = external_id {
            variables.set(EXTERNAL_ID, id.to_owned());
        }
        let given = RequestInputs {
            variables: &variables,
            secret: given.secret,
            reference: given.reference,
        };
        let url = url(&poll.url, &[], Vec::new(), &poll.query, &given)?;
        let mut headers = headers(Vec::new(), &poll.headers, &given)?;
        let body = if poll.body.is_empty() {
            None
        } else {
            let content_type = BodyFormat::Json.content_type();
            headers.push((CONTENT_TYPE.to_owned(), content_type.to_owned()));
            Some(json_text(static_members(&poll.body, &given)?)?)
        };
        Ok(BuiltRequest {
            method: poll.method,
            url,
            headers,
            body,
        })
    }

    /// The identity of a request: everything that decides its answer, as one text that is equal for
    /// requests that are: members of the body in the order of their names, secrets by name.
    ///
    /// # Errors
    /// As [`ToolDefinition::request`].
    pub fn identity(&self, args: &ValidArgs, variables: &Variables) -> Result<String, BuildError> {
        let given = RequestInputs {
            variables,
            // The list of secrets below tells this text from the same text written by a model.
            secret: &|secret| Some(secret.name.clone()),
            reference: "",
        };
        // Members of an object in a query stand there in the order in which the model wrote them.
        let args = JsonTree::read(args.json()).map(|args| args.write(MemberOrder::ByName));
        let args = args.and_then(|args| Json::parse(&args).ok());
        let draft = self.draft(args.as_ref().and_then(JsonTree::read), &given)?;
        let text = |text: &str| JsonTree::Text(text.to_owned());
        let pair = |(a, b): (&str, &str)| JsonTree::Array(vec![text(a), text(b)]);
        let mut headers: Vec<_> = draft
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
            .collect();
        headers.sort();
        let secrets = self.secrets();
        let identity = JsonTree::Array(vec![
            text(self.request.method.as_str()),
            text(&draft.url),
            JsonTree::Array(headers.iter().map(|(n, v)| pair((n, v))).collect()),
            draft
                .body
                .map_or(JsonTree::Scalar("null".to_owned()), JsonTree::Object),
            text(self.request.body_format.as_str()),
            JsonTree::Array(
                secrets
                    .iter()
                    .map(|used| pair((&used.field, &used.name)))
                    .collect(),
            ),
            // What is made of the response is part of what is kept.
            text(&self.response.written()),
            text(&self.policy.shown_bytes_max.to_string()),
        ]);
        Ok(identity.write(MemberOrder::ByName))
    }

    fn draft(
        &self,
        args: Option<JsonTree>,
        given: &RequestInputs<'_>,
    ) -> Result<Draft, BuildError> {
        let request = &self.request;
        let args = match args {
            Some(JsonTree::Object(members)) => members,
            Some(JsonTree::Scalar(_) | JsonTree::Text(_) | JsonTree::Array(_)) | None => {
                return Err(BuildError("the arguments must be an object".to_owned()));
            }
        };
        let mut in_url = Members::new();
        let mut in_query = Members::new();
        let mut in_headers = Members::new();
        let mut in_body = Members::new();
        for (name, value) in fill::parameters(&self.parameters, args, given)? {
            let place = self.place_of(&name);
            let members = match place {
                ParameterLanding::Url => &mut in_url,
                ParameterLanding::In(ParameterPlace::Query | ParameterPlace::Path) => &mut in_query,
                ParameterLanding::In(ParameterPlace::Header) => &mut in_headers,
                ParameterLanding::In(ParameterPlace::Body) => &mut in_body,
            };
            members.push((name, value));
        }
        Ok(Draft {
            url: url(&request.url, &in_url, in_query, &request.query, given)?,
            headers: headers(in_headers, &request.headers, given)?,
            body: self.body(in_body, given)?,
        })
    }

    fn body(
        &self,
        parameters: Members,
        given: &RequestInputs<'_>,
    ) -> Result<Option<Members>, BuildError> {
        if !self.has_body() {
            return Ok(None);
        }
        let request = &self.request;
        let parameters = match &request.body_under {
            Some(name) => vec![(name.clone(), JsonTree::Object(parameters))],
            None => parameters,
        };
        match request.body_format {
            BodyFormat::Json => {
                static_members(&request.body, given).map(|fixed| Some(merge(parameters, fixed)))
            }
            BodyFormat::Form => merge_flat(parameters, &request.body, given).map(Some),
        }
    }

    /// Whether requests of the tool have a body, be it an empty one.
    pub(crate) fn has_body(&self) -> bool {
        self.request.method.may_have_body()
            && (!self.request.body.is_empty()
                || self.parameters.iter().any(|(name, _)| {
                    self.place_of(name) == ParameterLanding::In(ParameterPlace::Body)
                }))
    }

    /// The place that the parameter's value goes to: its `{name}` in the URL, else the one that the
    /// definition says, else the query or the body, by the method.
    pub(crate) fn place_of(&self, name: &str) -> ParameterLanding {
        let url = &self.request.url;
        if url.path_parameters().any(|other| other == name)
            || url.query_parameters().any(|other| other == name)
        {
            return ParameterLanding::Url;
        }
        let written = self
            .parameters
            .iter()
            .find(|(other, _)| other == name)
            .and_then(|(_, parameter)| parameter.place);
        ParameterLanding::In(written.unwrap_or(match self.request.method {
            Method::Get | Method::Head | Method::Delete => ParameterPlace::Query,
            Method::Post | Method::Put | Method::Patch => ParameterPlace::Body,
        }))
    }
}

/// The place of a request that a parameter's value goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterLanding {
    /// The `{name}` in the URL.
    Url,
    In(ParameterPlace),
}

fn json_text(members: Members) -> Result<String, BuildError> {
    let mut text = BoundedText::new(BODY.bytes_max);
    JsonTree::Object(members)
        .write_into(MemberOrder::AsItIs, &mut text)
        .map_err(|TextFull| BODY.exceeded())?;
    Ok(text.into_text())
}

fn static_members(
    members: &[(String, ParameterValue)],
    given: &RequestInputs<'_>,
) -> Result<Members, BuildError> {
    match fill::object(members, ValueLanding::Text, given)? {
        JsonTree::Object(members) => Ok(members),
        JsonTree::Scalar(_) | JsonTree::Text(_) | JsonTree::Array(_) => Ok(Members::new()),
    }
}

/// Merges for a form or a query, where an owner may write `a[b]` in place of an object: what the
/// model gave under such a name is dropped as well.
fn merge_flat(
    mut parameters: Members,
    fixed: &[(String, ParameterValue)],
    given: &RequestInputs<'_>,
) -> Result<Members, BuildError> {
    for (name, _) in fixed {
        if name.contains('[') {
            drop_overlapping(&mut parameters, "", name);
        }
    }
    static_members(fixed, given).map(|fixed| merge(parameters, fixed))
}

fn drop_overlapping(members: &mut Members, prefix: &str, taken: &str) {
    members.retain_mut(|(name, value)| {
        let full = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}[{name}]")
        };
        if !overlaps(&full, taken) {
            return true;
        }
        match value {
            // Only the part with that name goes, if it is a part.
            JsonTree::Object(inner) if taken.len() > full.len() => {
                drop_overlapping(inner, &full, taken);
                !inner.is_empty()
            }
            JsonTree::Object(_) | JsonTree::Array(_) | JsonTree::Scalar(_) | JsonTree::Text(_) => {
                false
            }
        }
    });
}

fn url(
    template: &UrlTemplate,
    in_url: &[(String, JsonTree)],
    mut parameters: Members,
    fixed: &[(String, ParameterValue)],
    given: &RequestInputs<'_>,
) -> Result<String, BuildError> {
    let parameter = |name: &str| match in_url.iter().find(|(other, _)| other == name) {
        None => Ok(None),
        Some((_, value)) if value.is_null() => Ok(None),
        Some((_, value)) => value
            .as_plain_text()
            .map(|text| Some(text.to_owned()))
            .ok_or_else(|| BuildError(format!("the argument {name:?} must be a single value"))),
    };
    let mut url = template.fill_path(given.variables, &parameter)?;
    let mut query = template.fill_query(given.variables, &parameter)?;
    // What stands in the URL is static, too.
    for taken in template.query_names() {
        drop_overlapping(&mut parameters, "", &taken);
    }
    query.extend(pairs(&merge_flat(parameters, fixed, given)?, URL)?);
    if !query.is_empty() {
        url.push('?');
        url.push_str(&query.join("&"));
    }
    if url.len() > URL.bytes_max {
        return Err(URL.exceeded());
    }
    Ok(url)
}

fn headers(
    parameters: Members,
    fixed: &[(String, ParameterValue)],
    given: &RequestInputs<'_>,
) -> Result<Vec<(String, String)>, BuildError> {
    let mut headers = Vec::new();
    for (name, value) in fixed {
        let value = fill::value(value, ValueLanding::Header, given)?;
        push_header(&mut headers, name, &value)?;
    }
    for (name, value) in parameters {
        if !has_header(&headers, &name) {
            push_header(&mut headers, &name, &value)?;
        }
    }
    Ok(headers)
}

fn push_header(
    headers: &mut Vec<(String, String)>,
    name: &str,
    value: &JsonTree,
) -> Result<(), BuildError> {
    if let Some(text) = header_value(name, value)? {
        headers.push((name.to_owned(), checked_header(name, text)?));
    }
    Ok(())
}

fn checked_header(name: &str, text: String) -> Result<String, BuildError> {
    if text.len() > HEADER_BYTES_MAX {
        return Err(BuildError(format!(
            "the header {name:?} has more than {HEADER_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}

fn has_header(headers: &[(String, String)], name: &str) -> bool {
    headers
        .iter()
        .any(|(other, _)| other.eq_ignore_ascii_case(name))
}
