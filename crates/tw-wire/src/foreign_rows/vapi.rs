//! Tools of an application whose calls VAPI makes.
//!
//! Follows the table `tools` of seed document 004, and for its column `data`, which holds what VAPI has of a tool, VAPI's
//! description of its API of 2026-08-20 (`CreateApiRequestToolDTO`). All tools of that application are of VAPI's kind
//! `apiRequest`, whatever their `type`: VAPI sends their arguments to a URL, and so does a tool of ours.
//!
//! Known differences: what VAPI does beside the request (messages that are spoken, values that are extracted) has no place
//! and is named. What may be a secret never stands in a definition, which names a secret in its place.

mod schema_values;
mod secret_texts;

use serde_json::Value;
use serde_json::value::RawValue;
use tw_core::definition::ToolDefinition;
use tw_core::imported::ToolRowProblem;
use tw_core::limits::{TOOL_BACKOFF_MAX, TOOL_TIMEOUT_MAX};
use tw_core::template::TextTemplate;
use tw_core::time::Timestamp;
use tw_core::variables::ALWAYS_THERE;

use super::{text_of, text_or_json};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::stored::tool;

pub use secret_texts::NamedSecretTexts;
use secret_texts::{SecretText, looks_like_secret, may_be_secret, secret_text};

/// A tool as it can be made here.
#[derive(Clone, Debug, PartialEq)]
pub struct VapiTool {
    /// As the tools API takes it.
    pub text: String,
    pub definition: ToolDefinition,
    pub made: Option<Timestamp>,
    /// What of the row is not part of the tool.
    pub left_out: Vec<String>,
    /// What the row has in the places of secrets.
    pub secrets: NamedSecretTexts,
}

/// The reason for which a row becomes no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VapiToolRefused {
    pub problem: ToolRowProblem,
    pub detail: String,
}

/// Words of the column `type`.
const TYPES: [&str; 8] = [
    "query",
    "sms",
    "apiRequest",
    "api_request",
    "transferCall",
    "externalApp",
    "pipedream_action",
    "transfer_call",
];
/// What is read of `data`, or says nothing of the tool.
const DATA_READ: [&str; 17] = [
    "type",
    "name",
    "description",
    "method",
    "url",
    "headers",
    "body",
    "parameters",
    "function",
    "timeoutSeconds",
    "backoffPlan",
    "rejectionPlan",
    "id",
    "orgId",
    "createdAt",
    "updatedAt",
    "latestVersion",
];
/// What is read of a schema of parameters, or says nothing of them.
const SCHEMA_READ: [&str; 7] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "description",
    "title",
    "$schema",
];
/// Headers that hold no secret. All others may.
const HEADERS_SHOWN: [&str; 3] = ["accept", "accept-language", "user-agent"];
const FORM: &str = "application/x-www-form-urlencoded";

const TAGS: &str = "Liquid's tags are not filled in here";
const NUMBER: &str = "may be a secret, but is no text";

/// What VAPI does where a tool does not say.
const TIMEOUT_S_DEFAULT: f64 = 20.0;
/// Attempts that a definition may have.
const ATTEMPTS_MAX: u64 = 10;

/// Levels that values and schemas may be nested.
const DEPTH_MAX: usize = 64;

type Read<T> = Result<T, VapiToolRefused>;

fn refused<T>(problem: ToolRowProblem, detail: impl Into<String>) -> Read<T> {
    Err(VapiToolRefused {
        problem,
        detail: detail.into(),
    })
}

fn unfit<T>(detail: impl Into<String>) -> Read<T> {
    refused(ToolRowProblem::Unfit, detail)
}

/// Reads a row of the table of tools.
///
/// # Errors
/// [`VapiToolRefused`] for one that cannot be a tool here; it does not depend on this server's settings.
pub fn read_tool(row: &str) -> Read<VapiTool> {
    let columns = fields_of("the row", row)?;
    let data = columns.get("data").map(text_or_json);
    let data = data.unwrap_or_else(|| "{}".to_owned());
    let data = fields_of("data", &data)?;
    let schema = columns.get("function_schema").map(text_or_json);
    let schema = schema.unwrap_or_else(|| "{}".to_owned());
    let schema = fields_of("function_schema", &schema)?;
    check_kind(&columns, &data)?;
    let mut draft = ToolDraft {
        name: columns.get("name").map(text_or_json).unwrap_or_default(),
        ..ToolDraft::default()
    };
    let label = columns.get("label").map(text_or_json).unwrap_or_default();
    let described = [schema.get("description"), columns.get("description")];
    let mut described = described.into_iter().flatten().filter_map(text_of);
    let described = described.find(|text| !text.trim().is_empty());
    let description = described.unwrap_or_else(|| label.clone());
    draft.note_variables("description", &description)?;
    draft.read_parameters(&schema, &data)?;
    draft.read_headers(&data)?;
    let url = data.get("url").and_then(text_of).unwrap_or_default();
    let url = draft.url(&url)?;
    let method = data.get("method").and_then(text_of).unwrap_or_default();
    let policy = draft.policy(&method, &data);
    draft.leave_out(&columns, &data);
    let mut members = vec![
        member("name", quoted(&draft.name)),
        member("description", quoted(&description)),
        member("type", quoted("api_request")),
        member("method", quoted(&method)),
        member("url", quoted(&url)),
        member("headers", object(&draft.headers)),
        member("query", object(&draft.query)),
        member("parameters", object(&draft.parameters)),
        member("variables", object(&draft.variables)),
        member("policy", policy),
    ];
    if !label.is_empty() {
        members.insert(1, member("label", quoted(&label)));
    }
    if draft.is_form {
        members.push(member("body_format", quoted("form")));
    }
    let text = object(&members);
    let definition = tool::decode(&text).or_else(|error| unfit(error.to_string()))?;
    let made = columns.get("created_at").and_then(text_of);
    Ok(VapiTool {
        text,
        definition,
        made: made.and_then(|at| Timestamp::parse(&at)),
        left_out: draft.left_out,
        secrets: draft.secrets,
    })
}

/// Whether the tool sends plain requests during a conversation.
fn check_kind(columns: &ObjectFields<'_>, data: &ObjectFields<'_>) -> Read<()> {
    if columns.get("attach_to_agent").and_then(raw::boolean) == Some(false) {
        return refused(ToolRowProblem::OnlyAtCallStart, "");
    }
    let kind = data.get("type").and_then(text_of);
    match kind.as_deref() {
        None | Some("apiRequest") => {}
        Some("function") => {
            let detail = "data.type: \"function\", whose server is told by VAPI's own messages";
            return refused(ToolRowProblem::OtherKind, detail);
        }
        Some(other) => {
            let detail = format!("data.type: {other:?}");
            return refused(ToolRowProblem::OtherKind, detail);
        }
    }
    if data.get("url").and_then(text_of).is_none() {
        return refused(ToolRowProblem::NoRequest, "");
    }
    for name in ["credentialId", "encryptedPaths"] {
        if data.get(name).is_some_and(|raw| !is_empty(raw)) {
            let detail = format!("data.{name}");
            return refused(ToolRowProblem::CredentialElsewhere, detail);
        }
    }
    let plan = data.get("rejectionPlan").map(RawValue::get);
    let plan = plan.and_then(|plan| ObjectFields::parse(plan).ok());
    let conditions = plan.and_then(|plan| plan.get("conditions"));
    if conditions.is_some_and(|raw| !is_empty(raw)) {
        return unfit("data.rejectionPlan: calls that VAPI refuses would be made");
    }
    Ok(())
}

/// The parts of a definition, each a name and JSON.
#[derive(Default)]
struct ToolDraft {
    name: String,
    parameters: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    query: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    is_form: bool,
    left_out: Vec<String>,
    secrets: NamedSecretTexts,
}

impl ToolDraft {
    /// Declares the variables that a text names.
    fn note_variables(&mut self, place: &str, text: &str) -> Read<()> {
        if text.contains("{%") {
            return unfit(format!("{place}: {TAGS}"));
        }
        let template = TextTemplate::parse(text);
        let template = template.or_else(|bad| unfit(format!("{place}: {bad}")))?;
        for name in template.variables() {
            let is_known = self.variables.iter().any(|(known, _)| known == name);
            if !is_known && !ALWAYS_THERE.contains(&name) {
                self.variables.push(member(name, "{}".to_owned()));
            }
        }
        Ok(())
    }

    /// What the model fills in, and then what is fixed, which wins. A constant in the schema is fixed, too.
    fn read_parameters(
        &mut self,
        function: &ObjectFields<'_>,
        data: &ObjectFields<'_>,
    ) -> Read<()> {
        let mut fixed = Vec::new();
        if let Some(listed) = data.get("parameters") {
            let Some(listed) = raw::array(listed) else {
                return unfit("data.parameters: is no list");
            };
            for item in listed {
                let item = fields_of("data.parameters", item.get())?;
                let key = item.get("key").map(text_or_json).unwrap_or_default();
                let value = match item.get("value") {
                    Some(value) => self.static_value(&[&key], value, Inside::Plain)?,
                    None => "null".to_owned(),
                };
                fixed.push((key, value));
            }
        }
        let written = function.get("parameters").or_else(|| data.get("body"));
        if let Some(written) = written {
            self.read_properties(written, &fixed)?;
        }
        for (key, value) in fixed {
            self.parameters.push((key, fixed_parameter(value)));
        }
        Ok(())
    }

    fn read_properties(&mut self, written: &RawValue, fixed: &[(String, String)]) -> Read<()> {
        let place = "function_schema.parameters";
        let schema = fields_of(place, written.get())?;
        let unread = schema
            .0
            .iter()
            .filter(|(name, _)| !SCHEMA_READ.contains(&&**name));
        let unread = unread.map(|(name, _)| format!("{place}.{name}"));
        self.left_out.extend(unread);
        let required = schema.get("required").and_then(raw::array);
        let required: Vec<String> = required.into_iter().flatten().filter_map(text_of).collect();
        let Some(properties) = schema.get("properties") else {
            return Ok(());
        };
        for (name, property) in fields_of(place, properties.get())?.0 {
            if fixed.iter().any(|(key, _)| *key == *name) {
                continue;
            }
            let is_required = required.iter().any(|of| *of == *name);
            let place = format!("{place}.{name}");
            let fields = fields_of(&place, property.get())?;
            let constant = fields.get("value").filter(|raw| !is_blank(raw));
            let parameter = match constant {
                Some(value) => {
                    fixed_parameter(self.static_value(&[&name], value, Inside::Plain)?)
                }
                None => {
                    let inside = Inside::Plain.of(&name);
                    schema_values::check(&place, property, inside, DEPTH_MAX)?;
                    object(&self.ai_parameter(&place, property, is_required)?)
                }
            };
            self.parameters.push((name.into_owned(), parameter));
        }
        Ok(())
    }

    fn ai_parameter(
        &mut self,
        place: &str,
        schema: &RawValue,
        is_required: bool,
    ) -> Read<Vec<(String, String)>> {
        let mut members = vec![
            member("mode", quoted("ai")),
            member("required", is_required.to_string()),
        ];
        let fields = fields_of(place, schema.get())?;
        let prompt = fields.get("description").and_then(text_of);
        let prompt = prompt.filter(|prompt| prompt.contains("{{") || prompt.contains("{%"));
        let Some(prompt) = prompt else {
            members.push(member("schema", schema.get().to_owned()));
            return Ok(members);
        };
        // A schema is as it is written; a prompt is filled in.
        self.note_variables(place, &prompt)?;
        let others = fields.0.iter().filter(|(name, _)| name != "description");
        let others: Vec<(String, String)> = others
            .map(|(name, raw)| (name.to_string(), raw.get().to_owned()))
            .collect();
        members.push(member("schema", object(&others)));
        members.push(member("prompt", quoted(&prompt)));
        Ok(members)
    }

    /// Headers by name, or as the schema that VAPI has for them, in which a constant is a `value`.
    fn read_headers(&mut self, data: &ObjectFields<'_>) -> Read<()> {
        let Some(written) = data.get("headers") else {
            return Ok(());
        };
        let headers = fields_of("data.headers", written.get())?;
        let properties = headers.get("properties").map(RawValue::get);
        let headers = match properties.filter(|text| text.starts_with('{')) {
            Some(properties) => fields_of("data.headers", properties)?,
            None if is_schema_of_nothing(&headers) => return Ok(()),
            None => headers,
        };
        for (name, raw) in headers.0 {
            let place = format!("data.headers.{name}");
            let constant = match text_of(raw) {
                Some(text) => text,
                None => {
                    let schema = fields_of(&place, raw.get())?;
                    match schema.get("value").and_then(text_of) {
                        Some(text) => text,
                        None => return unfit(format!("{place}: has no value")),
                    }
                }
            };
            let lower = name.to_ascii_lowercase();
            if lower == "content-type" {
                match constant.split(';').next().unwrap_or_default().trim() {
                    "application/json" => {}
                    FORM => self.is_form = true,
                    _ => return unfit(format!("{place}: is neither JSON nor a form")),
                }
                continue;
            }
            let inside = match HEADERS_SHOWN.contains(&&*lower) {
                true => Inside::Plain,
                false => Inside::Secret,
            };
            let value = self.static_text(&[&name], &constant, inside)?;
            self.headers.push((name.into_owned(), value));
        }
        Ok(())
    }

    /// A URL in which VAPI fills in arguments and variables alike.
    fn url(&mut self, text: &str) -> Read<String> {
        self.note_url_variables(text)?;
        let (place, query) = match text.split_once('?') {
            Some((place, query)) => (place, query),
            None => return Ok(self.with_arguments(text)),
        };
        let mut shown = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_secret = (may_be_secret(name) || looks_like_secret(value))
                && matches!(
                    secret_text(value),
                    SecretText::Secret { .. } | SecretText::Mixed
                );
            if !is_secret {
                shown.push(pair);
                continue;
            }
            let value = self.static_text(&[name], value, Inside::Secret)?;
            self.query.push((name.to_owned(), value));
        }
        let url = match shown.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", shown.join("&")),
        };
        Ok(self.with_arguments(&url))
    }

    fn note_url_variables(&mut self, text: &str) -> Read<()> {
        let before = self.variables.len();
        self.note_variables("data.url", text)?;
        let parameters = &self.parameters;
        let is_argument = |name: &str| parameters.iter().any(|(known, _)| known == name);
        let mut at = 0;
        self.variables.retain(|(name, _)| {
            at += 1;
            at <= before || !is_argument(name)
        });
        Ok(())
    }

    /// The text with `{name}` where VAPI fills in an argument.
    fn with_arguments(&self, text: &str) -> String {
        let mut url = text.to_owned();
        for (name, _) in &self.parameters {
            for written in [format!("{{{{{name}}}}}"), format!("{{{{ {name} }}}}")] {
                url = url.replace(&written, &format!("{{{name}}}"));
            }
        }
        url
    }

    /// A value that is sent as it is, with the names of secrets in the places of what may be one.
    fn static_value(&mut self, path: &[&str], raw: &RawValue, around: Inside) -> Read<String> {
        schema_values::deeper(&path.join("."), DEPTH_MAX.saturating_sub(path.len()))?;
        let inside = around.of(path.last().copied().unwrap_or_default());
        if let Some(text) = text_of(raw) {
            return self.static_text(path, &text, inside);
        }
        if let Some(items) = raw::array(raw) {
            let mut written = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                let index = index.to_string();
                written.push(self.static_value(&[path, &[&index]].concat(), item, inside)?);
            }
            return Ok(format!("[{}]", written.join(",")));
        }
        let place = path.join(".");
        if !raw::is_object(raw) {
            return match inside == Inside::Secret && is_number(raw) {
                true => unfit(format!("{place}: {NUMBER}")),
                false => Ok(raw.get().to_owned()),
            };
        }
        let mut members = Vec::new();
        for (name, raw) in fields_of(&place, raw.get())?.0 {
            if name == "secret" {
                return unfit(format!("{place}.secret: a definition names a secret so"));
            }
            let value = self.static_value(&[path, &[&name]].concat(), raw, inside)?;
            members.push((name.into_owned(), value));
        }
        Ok(object(&members))
    }

    fn static_text(&mut self, path: &[&str], text: &str, inside: Inside) -> Read<String> {
        let place = path.join(".");
        if text.contains("{%") {
            return unfit(format!("{place}: {TAGS}"));
        }
        let found = match inside {
            Inside::Plain if !looks_like_secret(text) => SecretText::None,
            Inside::Plain => secret_text(text),
            Inside::Secret => secret_text(text),
        };
        match found {
            SecretText::None => {
                self.note_variables(&place, text)?;
                Ok(quoted(text))
            }
            SecretText::Mixed => unfit(format!("{place}: may be a secret, with variables in it")),
            SecretText::Secret { prefix } => {
                let (_, secret) = text.split_at(prefix.len());
                let Some(name) = self.secrets.name(&self.name, path, secret) else {
                    return unfit(format!("{place}: is one secret too many"));
                };
                let mut members = vec![member("secret", quoted(&name))];
                if !prefix.is_empty() {
                    members.push(member("prefix", quoted(prefix)));
                }
                Ok(object(&members))
            }
        }
    }

    fn policy(&mut self, method: &str, data: &ObjectFields<'_>) -> String {
        let number = |raw: &RawValue| raw.get().parse::<f64>().ok();
        let timeout_s = data.get("timeoutSeconds").and_then(number);
        let timeout_s = timeout_s.unwrap_or(TIMEOUT_S_DEFAULT);
        let longest_s = TOOL_TIMEOUT_MAX.as_secs_f64();
        if timeout_s > longest_s {
            let cut = format!("data.timeoutSeconds: {longest_s} s is the longest");
            self.left_out.push(cut);
        }
        let timeout_ms = (timeout_s.clamp(0.001, longest_s) * 1000.0) as u64;
        let plan = data.get("backoffPlan").map(RawValue::get);
        let plan = plan.and_then(|plan| ObjectFields::parse(plan).ok());
        let of_plan = |name| plan.as_ref().and_then(|plan| plan.get(name));
        let retries = of_plan("maxRetries").and_then(raw::count).unwrap_or(0);
        let backoff_s = of_plan("baseDelaySeconds").and_then(number).unwrap_or(0.0);
        let longest_s = TOOL_BACKOFF_MAX.as_secs_f64();
        let backoff_ms = (backoff_s.clamp(0.0, longest_s) * 1000.0) as u64;
        if retries > 0 && matches!(method, "POST" | "PATCH") {
            let once = "data.backoffPlan: a request that may have done something is not repeated";
            self.left_out.push(once.to_owned());
        }
        object(&[
            member("timeout_ms", timeout_ms.to_string()),
            member(
                "attempts_max",
                retries.saturating_add(1).min(ATTEMPTS_MAX).to_string(),
            ),
            member("backoff_ms", backoff_ms.to_string()),
        ])
    }

    /// Names what of the row has no place in a definition.
    fn leave_out(&mut self, columns: &ObjectFields<'_>, data: &ObjectFields<'_>) {
        let kind = columns.get("type").and_then(text_of);
        if kind.as_deref().is_none_or(|kind| !TYPES.contains(&kind)) {
            self.left_out.push("type: is none that is known".to_owned());
        }
        for name in ["async", "execute_on_call_start"] {
            if columns.get(name).and_then(raw::boolean) == Some(true) {
                self.left_out.push(name.to_owned());
            }
        }
        let unread = data.0.iter().filter(|(name, raw)| {
            !DATA_READ.contains(&&**name) && !raw::is_null(raw) && !is_empty(raw)
        });
        // `false` is what VAPI does anyway.
        let unread = unread.filter(|(_, raw)| raw.get() != "false");
        self.left_out
            .extend(unread.map(|(name, _)| format!("data.{name}")));
    }
}

/// Where a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Plain,
    /// All texts here may be secrets.
    Secret,
}

impl Inside {
    /// Where a text of this name stands.
    fn of(self, name: &str) -> Self {
        match may_be_secret(name) {
            true => Self::Secret,
            false => self,
        }
    }
}

fn fields_of<'a>(place: &str, text: &'a str) -> Read<ObjectFields<'a>> {
    ObjectFields::parse(text).or_else(|_| unfit(format!("{place}: is no object of JSON")))
}

/// Whether this is a schema without properties, and not headers of which one has the name `type`.
fn is_schema_of_nothing(fields: &ObjectFields<'_>) -> bool {
    let kind = fields.get("type").and_then(text_of);
    let mut names = fields.0.iter().map(|(name, _)| &**name);
    kind.as_deref() == Some("object") && names.all(|name| SCHEMA_READ.contains(&name))
}

fn is_number(raw: &RawValue) -> bool {
    let is_of_number = |char: char| char == '-' || char.is_ascii_digit();
    raw.get().starts_with(is_of_number)
}

fn is_empty(raw: &RawValue) -> bool {
    matches!(raw.get(), "{}" | "[]" | "\"\"")
}

/// A constant that says nothing.
fn is_blank(raw: &RawValue) -> bool {
    matches!(raw.get(), "null" | "\"\"")
}

fn fixed_parameter(value: String) -> String {
    object(&[member("mode", quoted("fixed")), member("value", value)])
}

fn member(name: &str, json: String) -> (String, String) {
    (name.to_owned(), json)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, json)| format!("{}:{json}", quoted(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests;
