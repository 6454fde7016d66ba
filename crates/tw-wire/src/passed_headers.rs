//! Headers of a client's request that belong to an upstream's format and go there as they came.

use crate::format::WireFormat;

/// Longest value of such a header, in bytes; some clients name a dozen betas in one.
pub const PASSED_HEADER_BYTES_MAX: usize = 2048;

/// The headers of a request that are passed on, each with its value. An upstream gets those of its own format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedHeaders(Vec<(&'static str, String)>);

/// What is wrong with a header that would be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassedHeaderError {
    #[error("{0} must be there once")]
    Twice(&'static str),
    #[error("{0} must be printable ASCII of at most {PASSED_HEADER_BYTES_MAX} bytes")]
    Unreadable(&'static str),
}

impl PassedHeaderError {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Twice(name) | Self::Unreadable(name) => name,
        }
    }
}

impl PassedHeaders {
    /// Reads them from a request, of which `values` gives all values of a header as bytes.
    ///
    /// # Errors
    /// The first that cannot be passed on.
    pub fn read<'a, V>(values: impl Fn(&'static str) -> V) -> Result<Self, PassedHeaderError>
    where
        V: Iterator<Item = &'a [u8]>,
    {
        let mut read = Vec::new();
        for header in WireFormat::ALL
            .into_iter()
            .flat_map(WireFormat::passed_headers)
        {
            let mut joined = String::new();
            for value in values(header.name) {
                let text = printable(value).ok_or(PassedHeaderError::Unreadable(header.name))?;
                if text.is_empty() {
                    continue;
                }
                if !joined.is_empty() {
                    if !header.is_list {
                        return Err(PassedHeaderError::Twice(header.name));
                    }
                    joined.push(',');
                }
                joined.push_str(text);
            }
            if joined.len() > PASSED_HEADER_BYTES_MAX {
                return Err(PassedHeaderError::Unreadable(header.name));
            }
            if !joined.is_empty() {
                read.push((header.name, joined));
            }
        }
        Ok(Self(read))
    }

    /// The headers as they were stored; `None` if one is not among those that are passed on.
    pub fn of_stored(stored: impl IntoIterator<Item = (String, String)>) -> Option<Self> {
        let known = |name: String| {
            let mut all = WireFormat::ALL
                .into_iter()
                .flat_map(WireFormat::passed_headers);
            Some(all.find(|header| header.name == name)?.name)
        };
        let headers = stored
            .into_iter()
            .map(|(name, value)| Some((known(name)?, value)));
        Some(Self(headers.collect::<Option<_>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The headers of a request to an upstream of this format: those that the format always has, as the client wants
    /// them, and its further ones.
    pub fn for_upstream(&self, format: WireFormat) -> Vec<(&'static str, &str)> {
        let own = format.passed_headers();
        let is_own = |name: &str| own.iter().any(|header| header.name == name);
        let mut sent: Vec<(&'static str, &str)> =
            self.iter().filter(|(name, _)| is_own(name)).collect();
        for (name, value) in format.headers() {
            if !sent.iter().any(|(have, _)| have == name) {
                sent.push((name, value));
            }
        }
        sent
    }
}

fn printable(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable.then_some(text)
}

#[cfg(test)]
mod tests;
