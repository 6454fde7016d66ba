//! Signatures by HMAC in ways of a sender's own.

use base64::Engine;
use http::HeaderMap;
use ring::hmac;
use serde_json::Value;
use tw_core::hmac_rule::{
    HmacAlgorithm, HmacRule, SignatureEncoding, SignatureForm, SignedPart, TimePlace,
};
use tw_core::json::{depth, values};
use tw_core::limits::JSON_DEPTH_DEFAULT;

use super::{LENIENT, SIGNATURES_MAX, SignatureFault, check_time};

/// Values of a body that is looked into for a signature.
const SIGNED_VALUES_MAX: usize = 20_000;

/// A request as its signature sees it.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    pub headers: &'a HeaderMap,
    /// URL by which the sender knows us.
    pub url: &'a str,
    pub body: &'a [u8],
}

/// Checks a request: signed by any of the secrets, and not long ago if it says when.
///
/// # Errors
/// [`SignatureFault`]; a sender is told none of them apart.
pub fn verify(
    rule: &HmacRule,
    secrets: &[&[u8]],
    request: SignedRequest<'_>,
    now_s: i64,
) -> Result<(), SignatureFault> {
    let own = header(request.headers, &rule.header)?;
    if let Some(time) = &rule.time {
        let at = match &time.place {
            TimePlace::Header(name) => header(request.headers, name)?,
            TimePlace::Element(name) => element(own, name).next().ok_or(SignatureFault::Missing)?,
        };
        check_time(at, now_s, time.tolerance_s)?;
    }
    let given = given(rule, own)?;
    let content = content(rule, own, request)?;
    let is_signed = secrets.iter().any(|secret| {
        let key = hmac::Key::new(of_ring(rule.algorithm), secret);
        given
            .iter()
            .any(|tag| hmac::verify(&key, &content, tag).is_ok())
    });
    if is_signed {
        Ok(())
    } else {
        Err(SignatureFault::Wrong)
    }
}

fn given(rule: &HmacRule, own: &str) -> Result<Vec<Vec<u8>>, SignatureFault> {
    let decode = |text: &str| {
        let decoded = match rule.encoding {
            SignatureEncoding::Hex => hex(text),
            SignatureEncoding::Base64 => LENIENT.decode(text).ok(),
        };
        decoded.filter(|tag| !tag.is_empty())
    };
    let given: Vec<Vec<u8>> = match &rule.form {
        SignatureForm::Whole { prefix } => {
            let text = own.trim().strip_prefix(prefix.as_str());
            text.and_then(decode).into_iter().collect()
        }
        SignatureForm::Named { name } => element(own, name)
            .take(SIGNATURES_MAX)
            .filter_map(decode)
            .collect(),
    };
    if given.is_empty() {
        return Err(SignatureFault::Malformed);
    }
    Ok(given)
}

fn content(
    rule: &HmacRule,
    own: &str,
    request: SignedRequest<'_>,
) -> Result<Vec<u8>, SignatureFault> {
    let mut content = Vec::with_capacity(request.body.len() + 64);
    let mut json: Option<Option<Value>> = None;
    for part in &rule.signed {
        match part {
            SignedPart::Body => content.extend_from_slice(request.body),
            SignedPart::Url => content.extend_from_slice(request.url.as_bytes()),
            SignedPart::SortedForm => sorted_form(request.body, &mut content),
            SignedPart::BodyValue(path) => {
                let body = json.get_or_insert_with(|| body_json(request.body));
                let value = body.as_ref().and_then(|body| path.query(body).first());
                match value {
                    Some(Value::String(text)) => content.extend_from_slice(text.as_bytes()),
                    Some(Value::Number(number)) => {
                        content.extend_from_slice(number.to_string().as_bytes());
                    }
                    Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_))
                    | None => return Err(SignatureFault::Missing),
                }
            }
            SignedPart::Header(name) => {
                content.extend_from_slice(header(request.headers, name)?.as_bytes());
            }
            SignedPart::Element(name) => {
                let value = element(own, name).next().ok_or(SignatureFault::Missing)?;
                content.extend_from_slice(value.as_bytes());
            }
            SignedPart::Text(text) => content.extend_from_slice(text.as_bytes()),
        }
    }
    Ok(content)
}

fn of_ring(algorithm: HmacAlgorithm) -> hmac::Algorithm {
    match algorithm {
        HmacAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        HmacAlgorithm::Sha256 => hmac::HMAC_SHA256,
        HmacAlgorithm::Sha384 => hmac::HMAC_SHA384,
        HmacAlgorithm::Sha512 => hmac::HMAC_SHA512,
    }
}

/// The value of a header that is there once: of two, nobody knows which the sender meant.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, SignatureFault> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(SignatureFault::Missing)?;
    if values.next().is_some() {
        return Err(SignatureFault::Malformed);
    }
    value.to_str().map_err(|_| SignatureFault::Malformed)
}

fn element<'a>(list: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let elements = list.split(',').filter_map(|one| one.trim().split_once('='));
    elements.filter_map(move |(key, value)| (key == name).then_some(value))
}

/// A stranger's body, of which no more is taken apart than of anybody's.
fn body_json(body: &[u8]) -> Option<Value> {
    if depth(body) > JSON_DEPTH_DEFAULT || values(body) > SIGNED_VALUES_MAX {
        return None;
    }
    serde_json::from_slice(body).ok()
}

fn sorted_form(body: &[u8], content: &mut Vec<u8>) {
    let mut pairs: Vec<_> = url::form_urlencoded::parse(body).collect();
    pairs.sort();
    pairs.dedup();
    for (name, value) in pairs {
        content.extend_from_slice(name.as_bytes());
        content.extend_from_slice(value.as_bytes());
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}
