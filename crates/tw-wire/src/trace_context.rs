//! The headers `traceparent` and `tracestate`, by which a request says to which trace it belongs.
//!
//! They follow W3C Trace Context (Recommendation, 23 November 2021). As it says there, a `traceparent` that cannot be
//! read is as none, and a `tracestate` that cannot be kept is left out; neither is an error.

use std::fmt;
use std::sync::Arc;

pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is kept, in bytes: as much as everybody has to pass on.
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// Most members of a `tracestate`.
const TRACESTATE_MEMBERS_MAX: usize = 32;

/// The id of a trace; not all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span; not all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A span of somebody's, as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: TraceId,
    pub span: SpanId,
    /// Whoever made the span may have recorded it.
    pub is_sampled: bool,
}

/// The trace that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub parent: TraceParent,
    /// What the tracing systems on the way noted, as it came.
    pub state: Option<Arc<str>>,
}

impl TraceContext {
    /// Reads it from a request, of which `values` gives all values of a header as bytes; `None` where there is none.
    pub fn read<'a, V>(values: impl Fn(&'static str) -> V) -> Option<Self>
    where
        V: Iterator<Item = &'a [u8]>,
    {
        let mut parents = values(TRACEPARENT);
        let parent = parents.next()?;
        if parents.next().is_some() {
            return None;
        }
        Some(Self {
            parent: TraceParent::parse(std::str::from_utf8(parent).ok()?.trim())?,
            state: state(values(TRACESTATE)).map(Arc::from),
        })
    }
}

/// The members of all these headers in one.
fn state<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut joined = String::new();
    for value in values {
        let text = std::str::from_utf8(value).ok()?.trim();
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            return None;
        }
        if !joined.is_empty() && !text.is_empty() {
            joined.push(',');
        }
        joined.push_str(text);
    }
    let members = joined.split(',').filter(|member| !member.trim().is_empty());
    let is_fine = |member: &str| {
        member
            .split_once('=')
            .is_some_and(|(key, _)| !key.trim().is_empty())
    };
    let mut count = 0;
    for member in members {
        count += 1;
        if !is_fine(member) {
            return None;
        }
    }
    let fits =
        joined.len() <= TRACESTATE_BYTES_MAX && (1..=TRACESTATE_MEMBERS_MAX).contains(&count);
    fits.then_some(joined)
}

/// Length of `00-{trace}-{span}-{flags}`.
const VERSION_0_BYTES: usize = 55;
const SAMPLED: u8 = 1;

impl TraceParent {
    /// Reads a `traceparent` of any version that is to come, as far as it says what version 0 says.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let known = bytes.get(..VERSION_0_BYTES)?;
        let [version] = hex(&known[..2])?;
        match (version, bytes.get(VERSION_0_BYTES)) {
            (0xff, _) | (0, Some(_)) => return None,
            (_, None | Some(b'-')) => {}
            (_, Some(_)) => return None,
        }
        if known[2] != b'-' || known[35] != b'-' || known[52] != b'-' {
            return None;
        }
        let trace = hex::<16>(&known[3..35])?;
        let span = hex::<8>(&known[36..52])?;
        let [flags] = hex(&known[53..55])?;
        if trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            is_sampled: flags & SAMPLED != 0,
        })
    }
}

/// The header's value, in version 0.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        write!(f, "00-{:?}-{:?}-{flags:02x}", self.trace, self.span)
    }
}

/// Bytes of lower-case hexadecimal digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
