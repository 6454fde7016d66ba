//! `server.end_user_headers`: the headers that name the end user.

use anyhow::bail;
use http::HeaderName;
use http::header::{AUTHORIZATION, COOKIE, HOST};

/// Headers that cannot name an end user: each of them says something else in every request.
const TAKEN: [HeaderName; 3] = [AUTHORIZATION, COOKIE, HOST];

/// Reads names of headers, each of them once.
///
/// # Errors
/// Names the place; a value may stand there by mistake.
pub fn end_user(written: &[String]) -> anyhow::Result<Vec<HeaderName>> {
    let mut names: Vec<HeaderName> = Vec::with_capacity(written.len());
    for (place, text) in written.iter().enumerate() {
        let setting = format!("server.end_user_headers[{place}]");
        match HeaderName::from_bytes(text.as_bytes()) {
            Err(_) => bail!("{setting} is no name of a header, such as X-OpenWebUI-User-Id"),
            Ok(name) if TAKEN.contains(&name) => bail!("{setting}: {name} names no end user"),
            Ok(name) if names.contains(&name) => bail!("{setting} stands there twice"),
            Ok(name) => names.push(name),
        }
    }
    Ok(names)
}
