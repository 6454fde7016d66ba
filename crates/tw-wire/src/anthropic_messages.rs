//! Anthropic's Messages, as upstreams answer it and as clients are answered.
//!
//! Follows the types of anthropic-sdk-python 0.121.0 (`types/`, read August 2026) and recorded answers of the API and of
//! gateways that speak it; where they do otherwise, each module says so.

use std::time::Duration;

use tw_core::json::Json;
use tw_core::native::{FormatName, NativeLabel};
use tw_core::rate::BucketStanding;
use tw_core::request::PartBlock;

pub mod request;
pub mod settings;

pub mod body;
pub mod stream;

pub mod error;
pub mod events;
pub mod whole;

/// The name of this format.
pub const FORMAT: FormatName = FormatName::new("anthropic_messages");

/// The place of reasoning: a block of its own.
pub const THINKING: NativeLabel = NativeLabel::new("thinking_block");

/// The field that holds the input of a tool which takes any text, since every input is an object here.
pub const TEXT_INPUT_FIELD: &str = "input";

/// The path of a request, behind the base URL with its version.
pub const PATH: &str = "/messages";
/// The header that holds the key.
pub const KEY_HEADER: &str = "x-api-key";
/// The header that names the version of the API, and the only version that there is.
pub const VERSION_HEADER: &str = "anthropic-version";
pub const VERSION: &str = "2023-06-01";
/// The header by which a client asks for what is not settled yet; it is passed on as it came.
pub const BETA_HEADER: &str = "anthropic-beta";

/// The header of an answer with the id of its request, which the official clients read.
pub const REQUEST_ID_HEADER: &str = "request-id";

/// Headers that tell how a limit of requests stands, named as Anthropic's page "Rate limits" names them. The reset is
/// when all of it is there again, rounded up.
pub fn limit_headers(standing: &BucketStanding) -> [(&'static str, String); 3] {
    const SECOND: Duration = Duration::from_secs(1);
    let full_at = standing.at.after(standing.full_in);
    let rounded_up = full_at.after(SECOND).before(Duration::from_micros(1));
    [
        (
            "anthropic-ratelimit-requests-limit",
            standing.limit.get().to_string(),
        ),
        (
            "anthropic-ratelimit-requests-remaining",
            standing.remaining.to_string(),
        ),
        ("anthropic-ratelimit-requests-reset", rounded_up.rfc3339()),
    ]
}

/// The name under which a client sees this server run tools.
pub(crate) const SERVER_NAME: &str = "turnwright";

/// A part of a content.
pub(crate) fn part(json: Json) -> PartBlock {
    content::part_block(json)
}

mod answer;
mod block;
pub(crate) mod content;
mod fold;
pub(crate) mod listing;
mod models;
mod stop;
mod usage;
