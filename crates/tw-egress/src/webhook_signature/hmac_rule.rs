//! Signatures by HMAC in ways of a sender's own: GitHub's, Stripe's, Twilio's and their like, as data.

use base64::Engine;
use http::HeaderMap;
use ring::hmac;

use super::{LENIENT, SIGNATURES_MAX, SignatureFault, check_time};

/// The way in which a sender signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacRule {
    /// Header that holds the signature.
    pub header: String,
    pub form: SignatureForm,
    pub algorithm: HmacAlgorithm,
    pub encoding: SignatureEncoding,
    /// What is signed, one part after the other.
    pub signed: Vec<SignedPart>,
    /// Time of the message; it has to be among the parts that are signed, or nobody vouches for it.
    pub time: Option<MessageTime>,
}

/// The way in which the signature stands in its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureForm {
    /// Alone, behind a prefix that may be empty, such as `sha256=`.
    Whole { prefix: String },
    /// Among `name=value` with commas between them; each element of the name is one.
    Named { name: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HmacAlgorithm {
    /// For senders that know no better: HMAC with it is not broken.
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureEncoding {
    Hex,
    Base64,
}

/// A part of what is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedPart {
    Body,
    /// The public URL of the request, with its query.
    Url,
    /// The body as a form: each name and each of its values, sorted, the same pair once.
    SortedForm,
    /// The value of a header.
    Header(String),
    /// The value of an element of the signature's own header.
    Element(String),
    Text(String),
}

/// The place of a message's time, in seconds, and how far it may be from ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTime {
    pub place: TimePlace,
    pub tolerance_s: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimePlace {
    Header(String),
    /// An element of the signature's own header.
    Element(String),
}

/// A request as its signature sees it.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    pub headers: &'a HeaderMap,
    /// URL by which the sender knows us.
    pub url: &'a str,
    pub body: &'a [u8],
}

impl HmacRule {
    /// Checks a request: signed by any of the secrets, and not long ago if it says when.
    ///
    /// # Errors
    /// [`SignatureFault`]; a sender is told none of them apart.
    pub fn verify(
        &self,
        secrets: &[&[u8]],
        request: SignedRequest<'_>,
        now_s: i64,
    ) -> Result<(), SignatureFault> {
        let own = header(request.headers, &self.header)?;
        if let Some(time) = &self.time {
            let at = match &time.place {
                TimePlace::Header(name) => header(request.headers, name)?,
                TimePlace::Element(name) => {
                    element(own, name).next().ok_or(SignatureFault::Missing)?
                }
            };
            check_time(at, now_s, time.tolerance_s)?;
        }
        let given = self.given(own)?;
        let content = self.content(own, request)?;
        let is_signed = secrets.iter().any(|secret| {
            let key = hmac::Key::new(self.algorithm.of_ring(), secret);
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

    fn given(&self, own: &str) -> Result<Vec<Vec<u8>>, SignatureFault> {
        let decode = |text: &str| {
            let decoded = match self.encoding {
                SignatureEncoding::Hex => hex(text),
                SignatureEncoding::Base64 => LENIENT.decode(text).ok(),
            };
            decoded.filter(|tag| !tag.is_empty())
        };
        let given: Vec<Vec<u8>> = match &self.form {
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

    fn content(&self, own: &str, request: SignedRequest<'_>) -> Result<Vec<u8>, SignatureFault> {
        let mut content = Vec::with_capacity(request.body.len() + 64);
        for part in &self.signed {
            match part {
                SignedPart::Body => content.extend_from_slice(request.body),
                SignedPart::Url => content.extend_from_slice(request.url.as_bytes()),
                SignedPart::SortedForm => sorted_form(request.body, &mut content),
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
}

impl HmacAlgorithm {
    fn of_ring(self) -> hmac::Algorithm {
        match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
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
