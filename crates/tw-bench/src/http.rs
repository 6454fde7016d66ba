//! HTTP/1.1, just enough of it to be no bottleneck: heads, and bodies by length or in chunks.

mod chunked;

use anyhow::{Context, bail};

pub use chunked::Chunked;

/// Ways in which the body behind a head ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
    /// Body that ends with the connection; answers only.
    Close,
}

/// Whether the connection may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    Keep,
    Close,
}

#[derive(Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Length of the head itself.
    pub bytes: usize,
    pub path: String,
    pub body_bytes: usize,
    pub afterwards: Afterwards,
}

#[derive(Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Length of the head itself.
    pub bytes: usize,
    pub status: u16,
    pub framing: Framing,
    pub afterwards: Afterwards,
    /// The id of the turn, if the server records turns.
    pub turn: Option<String>,
}

const HEADERS_MAX: usize = 64;
const TURN_HEADER: &str = "turnwright-turn";

/// Parses the head of a request; `None` while it is not whole.
///
/// # Errors
/// It is no head, or its body has no length.
pub fn request(bytes: &[u8]) -> anyhow::Result<Option<RequestHead>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = parsed.parse(bytes).context("a request's head")?
    else {
        return Ok(None);
    };
    let fields = Fields::of(parsed.version, parsed.headers)?;
    let body_bytes = match fields.framing {
        Framing::Length(length) => length,
        Framing::Close => 0,
        Framing::Chunked => bail!("a request without a length"),
    };
    Ok(Some(RequestHead {
        bytes: head_bytes,
        path: parsed.path.unwrap_or_default().to_owned(),
        body_bytes,
        afterwards: fields.afterwards,
    }))
}

/// Parses the head of an answer; `None` while it is not whole.
///
/// # Errors
/// It is no head.
pub fn response(bytes: &[u8]) -> anyhow::Result<Option<ResponseHead>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = parsed.parse(bytes).context("an answer's head")?
    else {
        return Ok(None);
    };
    let fields = Fields::of(parsed.version, parsed.headers)?;
    Ok(Some(ResponseHead {
        bytes: head_bytes,
        status: parsed.code.unwrap_or_default(),
        framing: fields.framing,
        afterwards: match fields.framing {
            Framing::Close => Afterwards::Close,
            Framing::Length(_) | Framing::Chunked => fields.afterwards,
        },
        turn: fields.turn,
    }))
}

/// The fields of a head that count.
struct Fields {
    framing: Framing,
    afterwards: Afterwards,
    turn: Option<String>,
}

impl Fields {
    fn of(version: Option<u8>, headers: &[httparse::Header<'_>]) -> anyhow::Result<Self> {
        let mut fields = Self {
            framing: Framing::Close,
            afterwards: if version == Some(1) {
                Afterwards::Keep
            } else {
                Afterwards::Close
            },
            turn: None,
        };
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") && fields.framing != Framing::Chunked {
                fields.framing = Framing::Length(number(header.value)?);
            } else if is("transfer-encoding") {
                fields.framing = Framing::Chunked;
            } else if is("connection") && header.value.eq_ignore_ascii_case(b"close") {
                fields.afterwards = Afterwards::Close;
            } else if is(TURN_HEADER) {
                fields.turn = Some(String::from_utf8_lossy(header.value).into_owned());
            }
        }
        Ok(fields)
    }
}

fn number(value: &[u8]) -> anyhow::Result<usize> {
    let text = std::str::from_utf8(value).context("a length")?;
    text.trim().parse().context("a length")
}

#[cfg(test)]
mod tests;
