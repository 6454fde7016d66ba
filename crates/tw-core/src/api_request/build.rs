//! From a definition and arguments to a request.

use super::encode::{Limit, header_value, merge, overlaps, pairs};
use super::{BodyFormat, BuildError, BuiltRequest, Given, Method, UrlTemplate, fill};
use crate::arguments::ValidArgs;
use crate::definition::Definition;
use crate::json::Json;
use crate::json::bounded::{Bounded, Full};
use crate::json::tree::{Order, Tree};
use crate::limits::URL_BYTES_MAX;
use crate::parameters::{Place, Value};
use crate::template::Landing;
use crate::tool::EffectClass;
use crate::variables::{REFERENCE, Variables};

const URL: Limit = Limit {
    what: "URL",
    bytes_max: URL_BYTES_MAX,
};
/// Four times what a definition may have.
const BODY: Limit = Limit {
    what: "body",
    bytes_max: 1024 * 1024,
};
/// Longest value of a header, in bytes.
const HEADER_BYTES_MAX: usize = 8192;

pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

type Members = Vec<(String, Tree)>;

/// A request whose body is not written out yet.
struct Draft {
    url: String,
    headers: Vec<(String, String)>,
    body: Option<Members>,
}

impl Definition {
    /// The request of one call.
    ///
    /// # Errors
    /// [`BuildError`] when a variable or a secret has no value, and when a value cannot stand
    /// where it lands.
    pub fn request(&self, args: &ValidArgs, given: &Given<'_>) -> Result<BuiltRequest, BuildError> {
        let request = &self.request;
        let mut draft = self.draft(Tree::read(args.json()), given)?;
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
    /// As [`Definition::request`], and when the definition has no look-up.
    pub fn look_up_request(&self, given: &Given<'_>) -> Result<BuiltRequest, BuildError> {
        let Some(look_up) = &self.request.look_up else {
            return Err(BuildError("the tool has no look-up".to_owned()));
        };
        let mut variables = given.variables.clone();
        variables.set(REFERENCE, given.reference.to_owned());
        let given = Given {
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

    /// Everything that decides the answer, as one text that is equal for requests that are:
    /// members of the body in the order of their names, secrets by name.
    ///
    /// # Errors
    /// As [`Definition::request`].
    pub fn identity(&self, args: &ValidArgs, variables: &Variables) -> Result<String, BuildError> {
        let given = Given {
            variables,
            // The list of secrets below tells this text from the same text written by a model.
            secret: &|secret| Some(secret.name.clone()),
            reference: "",
        };
        // Members of an object in a query stand there in the order in which the model wrote them.
        let args = Tree::read(args.json()).map(|args| args.write(Order::ByName));
        let args = args.and_then(|args| Json::parse(&args).ok());
        let draft = self.draft(args.as_ref().and_then(Tree::read), &given)?;
        let text = |text: &str| Tree::Text(text.to_owned());
        let pair = |(a, b): (&str, &str)| Tree::Array(vec![text(a), text(b)]);
        let mut headers: Vec<_> = draft
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
            .collect();
        headers.sort();
        let secrets = self.secrets();
        let identity = Tree::Array(vec![
            text(self.request.method.as_str()),
            text(&draft.url),
            Tree::Array(headers.iter().map(|(n, v)| pair((n, v))).collect()),
            draft
                .body
                .map_or(Tree::Scalar("null".to_owned()), Tree::Object),
            text(self.request.body_format.as_str()),
            Tree::Array(
                secrets
                    .iter()
                    .map(|used| pair((&used.field, &used.name)))
                    .collect(),
            ),
            // What is made of the response is part of what is kept.
            text(&self.response.written()),
            text(&self.policy.shown_bytes_max.to_string()),
        ]);
        Ok(identity.write(Order::ByName))
    }

    fn draft(&self, args: Option<Tree>, given: &Given<'_>) -> Result<Draft, BuildError> {
        let request = &self.request;
        let args = match args {
            Some(Tree::Object(members)) => members,
            Some(Tree::Scalar(_) | Tree::Text(_) | Tree::Array(_)) | None => {
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
                Landed::Url => &mut in_url,
                Landed::In(Place::Query | Place::Path) => &mut in_query,
                Landed::In(Place::Header) => &mut in_headers,
                Landed::In(Place::Body) => &mut in_body,
            };
            members.push((name, value));
        }
        Ok(Draft {
            url: url(&request.url, &in_url, in_query, &request.query, given)?,
            headers: headers(in_headers, &request.headers, given)?,
            body: self.body(in_body, given)?,
        })
    }

    fn body(&self, parameters: Members, given: &Given<'_>) -> Result<Option<Members>, BuildError> {
        if !self.has_body() {
            return Ok(None);
        }
        let request = &self.request;
        match request.body_format {
            BodyFormat::Json => {
                static_members(&request.body, given).map(|fixed| Some(merge(parameters, fixed)))
            }
            BodyFormat::Form => merge_flat(parameters, &request.body, given).map(Some),
        }
    }

    /// Whether its requests have a body, be it an empty one.
    pub(crate) fn has_body(&self) -> bool {
        self.request.method.may_have_body()
            && (!self.request.body.is_empty()
                || self
                    .parameters
                    .iter()
                    .any(|(name, _)| self.place_of(name) == Landed::In(Place::Body)))
    }

    /// Where the parameter goes.
    pub(crate) fn place_of(&self, name: &str) -> Landed {
        let url = &self.request.url;
        if url.path_parameters().any(|other| other == name)
            || url.query_parameters().any(|other| other == name)
        {
            return Landed::Url;
        }
        let written = self
            .parameters
            .iter()
            .find(|(other, _)| other == name)
            .and_then(|(_, parameter)| parameter.place);
        Landed::In(written.unwrap_or(match self.request.method {
            Method::Get | Method::Head | Method::Delete => Place::Query,
            Method::Post | Method::Put | Method::Patch => Place::Body,
        }))
    }
}

/// Where a parameter ends up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landed {
    /// At its `{name}` in the URL.
    Url,
    In(Place),
}

fn json_text(members: Members) -> Result<String, BuildError> {
    let mut text = Bounded::new(BODY.bytes_max);
    Tree::Object(members)
        .write_into(Order::AsItIs, &mut text)
        .map_err(|Full| BODY.exceeded())?;
    Ok(text.into_text())
}

fn static_members(members: &[(String, Value)], given: &Given<'_>) -> Result<Members, BuildError> {
    match fill::object(members, Landing::Text, given)? {
        Tree::Object(members) => Ok(members),
        Tree::Scalar(_) | Tree::Text(_) | Tree::Array(_) => Ok(Members::new()),
    }
}

/// Merges for a form or a query, where an owner may write `a[b]` in place of an object: what the
/// model gave under such a name is dropped as well.
fn merge_flat(
    mut parameters: Members,
    fixed: &[(String, Value)],
    given: &Given<'_>,
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
            Tree::Object(inner) if taken.len() > full.len() => {
                drop_overlapping(inner, &full, taken);
                !inner.is_empty()
            }
            Tree::Object(_) | Tree::Array(_) | Tree::Scalar(_) | Tree::Text(_) => false,
        }
    });
}

fn url(
    template: &UrlTemplate,
    in_url: &[(String, Tree)],
    mut parameters: Members,
    fixed: &[(String, Value)],
    given: &Given<'_>,
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
    fixed: &[(String, Value)],
    given: &Given<'_>,
) -> Result<Vec<(String, String)>, BuildError> {
    let mut headers = Vec::new();
    for (name, value) in fixed {
        let value = fill::value(value, Landing::Header, given)?;
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
    value: &Tree,
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
