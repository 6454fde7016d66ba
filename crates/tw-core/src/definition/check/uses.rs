//! A limit for the uses of variables in a definition: each use puts in a text in whose length the
//! definition's owner does not choose.

use super::{CheckedDefinition, refuse};
use crate::api_request::UrlTemplate;
use crate::definition::{ToolDefinition, offered, walk};
use crate::parameters::ParameterValue;

/// Uses of variables in a definition.
const USES_MAX: usize = 64;

pub(super) fn check(definition: &ToolDefinition) -> CheckedDefinition {
    let mut uses = Uses {
        left: USES_MAX,
        exceeded: None,
    };
    for (field, prompt) in offered::prompts(definition) {
        uses.note(&field, prompt.variables());
    }
    let request = &definition.request;
    uses.url("url", &request.url);
    walk::request(definition, &mut |field, value| uses.value(field, value));
    if let Some(look_up) = &request.look_up {
        uses.url("look_up.url", &look_up.url);
        walk::look_up(look_up, &mut |field, value| uses.value(field, value));
    }
    if let Some(poll) = definition.job.as_ref().and_then(|job| job.poll.as_ref()) {
        uses.url("completion.poll.url", &poll.request.url);
        walk::poll(&poll.request, &mut |field, value| uses.value(field, value));
    }
    match uses.exceeded {
        None => Ok(()),
        Some(field) => refuse(
            &field,
            format!("a definition may use variables at most {USES_MAX} times"),
        ),
    }
}

struct Uses {
    left: usize,
    /// The field with the first use too many.
    exceeded: Option<String>,
}

impl Uses {
    fn note<'a>(&mut self, field: &str, names: impl Iterator<Item = &'a str>) {
        match self.left.checked_sub(names.count()) {
            Some(left) => self.left = left,
            None if self.exceeded.is_none() => self.exceeded = Some(field.to_owned()),
            None => {}
        }
    }

    fn url(&mut self, field: &str, url: &UrlTemplate) {
        self.note(field, url.variables());
    }

    fn value(&mut self, field: &str, value: &ParameterValue) {
        match value {
            ParameterValue::Text(template) => self.note(field, template.variables()),
            ParameterValue::Literal(_)
            | ParameterValue::Secret(_)
            | ParameterValue::Array(_)
            | ParameterValue::Object(_) => {}
        }
    }
}
