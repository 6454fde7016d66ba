//! Callbacks that come in: whether they are from whom they should be.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;
use tw_core::definition::{CallbackRules, CallbackVerification};

use crate::secret::Secret;
use crate::secrets::Secrets;
use crate::webhook_signature::hmac_rule::{self, SignedRequest};
use crate::webhook_signature::{
    self, ID_HEADER, SIGNATURE_HEADER, SignatureFault, SignedHeaders, SigningSecret,
    TIMESTAMP_HEADER, is_shared_secret,
};

/// Networks of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

/// A text that is neither an address nor a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network such as 203.0.113.0/24, and no address")]
pub struct NotANetwork(pub String);

impl Networks {
    /// Reads networks, and addresses as networks of one.
    ///
    /// # Errors
    /// [`NotANetwork`] names the first that is neither.
    pub fn parse(texts: &[String]) -> Result<Self, NotANetwork> {
        let network = |text: &String| {
            let address = || text.parse::<IpAddr>().map(IpNet::from);
            let read = text.parse::<IpNet>().or_else(|_| address());
            read.map_err(|_| NotANetwork(text.clone()))
        };
        texts
            .iter()
            .map(network)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The address that a request came from, behind proxies that are trusted to tell it by `X-Forwarded-For`.
pub fn source(peer: IpAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let mut source = peer.to_canonical();
    let told: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    // The last is what the nearest proxy saw.
    for told in told.iter().rev() {
        if !trusted.contain(source) {
            break;
        }
        match told.trim().parse::<IpAddr>() {
            Ok(address) => source = address.to_canonical(),
            Err(_) => break,
        }
    }
    source
}

/// A callback as it came.
#[derive(Clone, Copy, Debug)]
pub struct IncomingCallback<'a> {
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// The URL by which the sender knows us.
    pub url: &'a str,
    pub source: IpAddr,
}

/// Checks that a callback is genuine; the token of its address was right.
///
/// # Errors
/// A word for what is wrong, which its sender is not told.
pub fn verify(
    rules: &CallbackRules,
    secrets: &Secrets,
    organization: &str,
    callback: IncomingCallback<'_>,
    now_s: i64,
) -> Result<(), &'static str> {
    let networks = Networks::parse(&rules.addresses).map_err(|_| "address")?;
    if !networks.is_empty() && !networks.contain(callback.source) {
        return Err("address");
    }
    let named = rules.verification.secrets().iter();
    let found: Vec<&Secret> = named
        .filter_map(|name| secrets.to_verify(name, organization))
        .collect();
    let bytes: Vec<&[u8]> = found
        .iter()
        .map(|secret| secret.reveal().as_bytes())
        .collect();
    let checked = match &rules.verification {
        CallbackVerification::TokenAlone => return Ok(()),
        CallbackVerification::StandardWebhooks { .. } => {
            let read = |secret: &&Secret| SigningSecret::parse(secret.reveal());
            let keys: Vec<SigningSecret> = found.iter().filter_map(read).collect();
            let header = |name| {
                callback
                    .headers
                    .get(name)
                    .and_then(|value| value.to_str().ok())
            };
            let headers = SignedHeaders {
                id: header(ID_HEADER),
                timestamp: header(TIMESTAMP_HEADER),
                signature: header(SIGNATURE_HEADER),
            };
            webhook_signature::verify(&keys, headers, now_s, callback.body)
        }
        CallbackVerification::Hmac { rule, .. } => {
            let request = SignedRequest {
                headers: callback.headers,
                url: callback.url,
                body: callback.body,
            };
            hmac_rule::verify(rule, &bytes, request, now_s)
        }
        CallbackVerification::SharedSecret { header, .. } => {
            match callback.headers.get(header.as_str()) {
                None => Err(SignatureFault::Missing),
                Some(given) if is_shared_secret(&bytes, given.as_bytes()) => Ok(()),
                Some(_) => Err(SignatureFault::Wrong),
            }
        }
    };
    checked.map_err(|fault| match fault {
        SignatureFault::Missing => "signature_missing",
        SignatureFault::Malformed => "signature_malformed",
        SignatureFault::TooOld => "too_old",
        SignatureFault::TooNew => "too_new",
        SignatureFault::Wrong => "signature_wrong",
    })
}

/// What makes two callbacks the same, where the sender says it under its signature.
pub fn sender_id(rules: &CallbackRules, headers: &HeaderMap) -> Option<String> {
    match &rules.verification {
        CallbackVerification::StandardWebhooks { .. } => {
            let id = headers.get(ID_HEADER)?;
            id.to_str().ok().map(str::to_owned)
        }
        CallbackVerification::TokenAlone
        | CallbackVerification::Hmac { .. }
        | CallbackVerification::SharedSecret { .. } => None,
    }
}

#[cfg(test)]
mod tests;
