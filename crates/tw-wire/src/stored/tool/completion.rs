//! The way in which calls of a tool come to their end.

use std::time::Duration;

use serde_json::Value;
use tw_core::definition::{CallbackRules, CallbackStatus, CallbackVerification, DefinitionError};
use tw_core::hmac_rule::{
    HmacAlgorithm, HmacRule, MessageTime, SignatureEncoding, SignatureForm, SignedPart, TimePlace,
};
use tw_core::limits::CALLBACK_DEADLINE_DEFAULT;
use tw_core::tool::{CallCompletion, WebhookCompletion};

use super::response;
use super::value_at_path::{KnownObject, ValueAtPath};

const OF_A_COMPLETION: &[&str] = &[
    "completes",
    "waits",
    "deadline_s",
    "external_id",
    "callback",
];
const OF_A_CALLBACK: &[&str] = &[
    "verification",
    "addresses",
    "status",
    "completed",
    "failed",
    "result",
    "error",
];
const OF_A_VERIFICATION: &[&str] = &[
    "type",
    "secrets",
    "header",
    "prefix",
    "element",
    "algorithm",
    "encoding",
    "signed",
    "timestamp",
];
const OF_A_TIMESTAMP: &[&str] = &["header", "element", "tolerance_s"];

const INLINE: &str = "inline";
const WEBHOOK: &str = "webhook";

pub fn of_policy(place: Option<&ValueAtPath<'_>>) -> Result<CallCompletion, DefinitionError> {
    let Some(written) = webhook(place)? else {
        return Ok(CallCompletion::Inline);
    };
    let deadline = match written.optional("deadline_s") {
        Some(seconds) => Duration::from_secs(seconds.whole::<u32>()?.into()),
        None => CALLBACK_DEADLINE_DEFAULT,
    };
    // Neither is what a reader would expect of the other.
    let waits = written.required("waits")?.boolean()?;
    Ok(CallCompletion::Webhook(WebhookCompletion {
        waits,
        deadline,
    }))
}

/// The rules for callbacks; `None` for a tool whose answer is the result.
pub fn callback(place: Option<&ValueAtPath<'_>>) -> Result<Option<CallbackRules>, DefinitionError> {
    let Some(written) = webhook(place)? else {
        return Ok(None);
    };
    let external_id = written.optional("external_id").map(response::path);
    let rules = CallbackRules {
        external_id: external_id.transpose()?,
        verification: CallbackVerification::TokenAlone,
        addresses: Vec::new(),
        status: None,
        result: None,
        error: None,
    };
    let Some(place) = written.optional("callback") else {
        return Ok(Some(rules));
    };
    let written = place.object(OF_A_CALLBACK)?;
    Ok(Some(CallbackRules {
        verification: match written.optional("verification") {
            Some(place) => verification(place)?,
            None => rules.verification,
        },
        addresses: match written.optional("addresses") {
            Some(place) => texts(place)?,
            None => Vec::new(),
        },
        status: status(&written)?,
        result: written
            .optional("result")
            .map(response::read_select)
            .transpose()?,
        error: written.optional("error").map(response::path).transpose()?,
        ..rules
    }))
}

fn status(of: &KnownObject<'_>) -> Result<Option<CallbackStatus>, DefinitionError> {
    let Some(path) = of.optional("status") else {
        for name in ["completed", "failed", "error"] {
            if let Some(place) = of.optional(name) {
                return Err(place.error("may stand with \"status\" only"));
            }
        }
        return Ok(None);
    };
    Ok(Some(CallbackStatus {
        path: response::path(path)?,
        completed: scalars(of.required("completed")?)?,
        failed: match of.optional("failed") {
            Some(place) => scalars(place)?,
            None => Vec::new(),
        },
    }))
}

fn scalars(place: &ValueAtPath<'_>) -> Result<Vec<Value>, DefinitionError> {
    let elements = place.elements()?;
    let scalar = |place: &ValueAtPath<'_>| match place.json().to_value() {
        Value::Array(_) | Value::Object(_) => {
            Err(place.wrong_type("a string, a number, a boolean or null"))
        }
        value => Ok(value),
    };
    elements.iter().map(scalar).collect()
}

fn texts(place: &ValueAtPath<'_>) -> Result<Vec<String>, DefinitionError> {
    let elements = place.elements()?;
    let texts = elements.iter().map(|place| Ok(place.text()?.into_owned()));
    texts.collect()
}

fn verification(place: &ValueAtPath<'_>) -> Result<CallbackVerification, DefinitionError> {
    const KINDS: [&str; 3] = ["standard_webhooks", "hmac", "shared_secret"];
    let written = place.object(OF_A_VERIFICATION)?;
    let kind = written
        .required("type")?
        .one_of(&KINDS, |word| KINDS.iter().position(|kind| *kind == word))?;
    let secrets = texts(written.required("secrets")?)?;
    let known: &[&str] = match kind {
        0 => &["type", "secrets"],
        1 => OF_A_VERIFICATION,
        _ => &["type", "secrets", "header"],
    };
    for name in OF_A_VERIFICATION {
        if let Some(place) = written.optional(name).filter(|_| !known.contains(name)) {
            return Err(place.error("does not belong to this type"));
        }
    }
    Ok(match kind {
        0 => CallbackVerification::StandardWebhooks { secrets },
        1 => CallbackVerification::Hmac {
            secrets,
            rule: hmac_rule(&written)?,
        },
        _ => CallbackVerification::SharedSecret {
            secrets,
            header: written.required("header")?.text()?.into_owned(),
        },
    })
}

fn hmac_rule(of: &KnownObject<'_>) -> Result<HmacRule, DefinitionError> {
    let form = match (of.optional("element"), of.optional("prefix")) {
        (Some(element), None) => SignatureForm::Named {
            name: element.text()?.into_owned(),
        },
        (Some(_), Some(prefix)) => {
            return Err(prefix.error("may not stand with \"element\""));
        }
        (None, prefix) => SignatureForm::Whole {
            prefix: match prefix {
                Some(prefix) => prefix.text()?.into_owned(),
                None => String::new(),
            },
        },
    };
    let algorithm = of.optional("algorithm").map(|place| {
        place.one_of(&["sha1", "sha256", "sha384", "sha512"], |word| match word {
            "sha1" => Some(HmacAlgorithm::Sha1),
            "sha256" => Some(HmacAlgorithm::Sha256),
            "sha384" => Some(HmacAlgorithm::Sha384),
            "sha512" => Some(HmacAlgorithm::Sha512),
            _ => None,
        })
    });
    let encoding = of.optional("encoding").map(|place| {
        place.one_of(&["hex", "base64"], |word| match word {
            "hex" => Some(SignatureEncoding::Hex),
            "base64" => Some(SignatureEncoding::Base64),
            _ => None,
        })
    });
    Ok(HmacRule {
        header: of.required("header")?.text()?.into_owned(),
        form,
        algorithm: algorithm.transpose()?.unwrap_or(HmacAlgorithm::Sha256),
        encoding: encoding.transpose()?.unwrap_or(SignatureEncoding::Hex),
        signed: match of.optional("signed") {
            Some(place) => {
                let elements = place.elements()?;
                elements.iter().map(signed_part).collect::<Result<_, _>>()?
            }
            None => vec![SignedPart::Body],
        },
        time: of.optional("timestamp").map(message_time).transpose()?,
    })
}

fn signed_part(place: &ValueAtPath<'_>) -> Result<SignedPart, DefinitionError> {
    if place.is_string() {
        return place.one_of(&["body", "url", "sorted_form"], |word| match word {
            "body" => Some(SignedPart::Body),
            "url" => Some(SignedPart::Url),
            "sorted_form" => Some(SignedPart::SortedForm),
            _ => None,
        });
    }
    let written = place.object(&["header", "element", "text"])?;
    let of = |name: &str| written.optional(name).map(|place| place.text());
    match (of("header"), of("element"), of("text")) {
        (Some(header), None, None) => Ok(SignedPart::Header(header?.into_owned())),
        (None, Some(element), None) => Ok(SignedPart::Element(element?.into_owned())),
        (None, None, Some(text)) => Ok(SignedPart::Text(text?.into_owned())),
        _ => Err(place.error("must have one of header, element and text")),
    }
}

fn message_time(place: &ValueAtPath<'_>) -> Result<MessageTime, DefinitionError> {
    let written = place.object(OF_A_TIMESTAMP)?;
    let time_place = match (written.optional("header"), written.optional("element")) {
        (Some(header), None) => TimePlace::Header(header.text()?.into_owned()),
        (None, Some(element)) => TimePlace::Element(element.text()?.into_owned()),
        (Some(_), Some(_)) | (None, None) => {
            return Err(place.error("must have one of header and element"));
        }
    };
    Ok(MessageTime {
        place: time_place,
        tolerance_s: match written.optional("tolerance_s") {
            Some(seconds) => seconds.whole::<u32>()?.into(),
            None => TOLERANCE_S_DEFAULT,
        },
    })
}

/// What senders' own libraries take.
const TOLERANCE_S_DEFAULT: i64 = 300;

/// The members of a completion by webhook.
fn webhook<'a>(
    place: Option<&ValueAtPath<'a>>,
) -> Result<Option<KnownObject<'a>>, DefinitionError> {
    let Some(place) = place else {
        return Ok(None);
    };
    let written = place.object(OF_A_COMPLETION)?;
    let word = written.required("completes")?;
    let is_webhook = word.one_of(&[INLINE, WEBHOOK], |word| match word {
        INLINE => Some(false),
        WEBHOOK => Some(true),
        _ => None,
    })?;
    if is_webhook {
        return Ok(Some(written));
    }
    for name in &OF_A_COMPLETION[1..] {
        if let Some(place) = written.optional(name) {
            return Err(place.error("may stand with \"completes\": \"webhook\" only"));
        }
    }
    Ok(None)
}
