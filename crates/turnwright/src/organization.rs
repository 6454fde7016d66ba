//! Slugs of organizations, as people write them.

use anyhow::bail;

/// Words that are routes of the API and cannot name an organization.
const RESERVED: [&str; 8] = [
    "collections",
    "conversations",
    "realtime",
    "batch",
    "health",
    "tools",
    "phone-number",
    "admin",
];
const SLUG_BYTES_MAX: usize = 64;

/// Checks a slug.
///
/// # Errors
/// Says what a slug may be.
pub fn slug(text: &str) -> anyhow::Result<String> {
    let fits = !text.is_empty()
        && text.len() <= SLUG_BYTES_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !fits || RESERVED.contains(&text) {
        bail!(
            "an organization's slug is small letters, digits and '-', at most {SLUG_BYTES_MAX}, and no word of the API's paths"
        );
    }
    Ok(text.to_owned())
}
