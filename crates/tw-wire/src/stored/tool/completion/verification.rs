//! The way in which callbacks are signed.

use tw_core::definition::{CallbackVerification, DefinitionError};
use tw_core::hmac_rule::{
    HmacAlgorithm, HmacRule, MessageTime, SignatureEncoding, SignatureForm, SignedPart, TimePlace,
};

use super::super::response;
use super::super::value_at_path::{KnownObject, ValueAtPath};

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

pub fn read(place: &ValueAtPath<'_>) -> Result<CallbackVerification, DefinitionError> {
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
    let written = place.object(&["header", "element", "text", "body"])?;
    let of = |name: &str| written.optional(name);
    match (of("header"), of("element"), of("text"), of("body")) {
        (Some(header), None, None, None) => Ok(SignedPart::Header(header.text()?.into_owned())),
        (None, Some(element), None, None) => Ok(SignedPart::Element(element.text()?.into_owned())),
        (None, None, Some(text), None) => Ok(SignedPart::Text(text.text()?.into_owned())),
        (None, None, None, Some(path)) => Ok(SignedPart::BodyValue(response::path(path)?)),
        _ => Err(place.error("must have one of header, element, text and body")),
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

pub fn texts(place: &ValueAtPath<'_>) -> Result<Vec<String>, DefinitionError> {
    let elements = place.elements()?;
    let texts = elements.iter().map(|place| Ok(place.text()?.into_owned()));
    texts.collect()
}
