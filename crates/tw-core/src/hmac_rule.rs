//! Ways of signing requests by HMAC, as data: GitHub's, Stripe's, Twilio's and their like.

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
    /// A string or a number of a JSON body.
    BodyValue(serde_json_path::JsonPath),
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
