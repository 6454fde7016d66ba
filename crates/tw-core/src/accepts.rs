//! What an upstream accepts, as data.

/// How the requests to an upstream must be written, where upstreams differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// `stream_options`, by which a stream is asked for its usage.
    pub usage_in_streams: bool,
}

impl Accepts {
    /// All that the format knows: requests go out as they are.
    pub fn everything() -> Self {
        Self {
            usage_in_streams: true,
        }
    }
}
