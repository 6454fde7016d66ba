//! Common parts of the tools that send HTTP requests: the connections they use, and what an answer,
//! or none, says to the model.

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tw_core::effect_words;
use tw_core::tool::{EffectClass, ToolOutcome, ToolOutput};

use crate::client::failure::{FailureKind, SendFailure};
use crate::client::{ConnectionReuse, ReceivedAnswer};

mod charset;

/// Longest part of an error's text that is given to the model, in bytes.
const ERROR_TEXT_BYTES_MAX: usize = 2048;
/// Longest media type that is repeated, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// The connections that a call of this effect class may use. One that its other side closes while
/// we write gives an outcome that nobody knows; for a call that may be repeated that costs an
/// attempt, for another one the call.
pub(crate) fn reuse_for(effect: EffectClass) -> ConnectionReuse {
    match effect {
        EffectClass::Read | EffectClass::Idempotent => ConnectionReuse::Pooled,
        EffectClass::Queryable | EffectClass::Once => ConnectionReuse::Brief,
    }
}

/// The outcome of an attempt without a whole answer.
pub(crate) fn failed(failure: &SendFailure) -> ToolOutcome {
    let message = failure.kind.message();
    match failure.kind {
        // A name that does not exist ends like one that may not be reached, so that nobody learns by tools which
        // names there are inside; asking again would not help with either.
        FailureKind::TargetNotAllowed | FailureKind::Unresolved | FailureKind::NotHttps => {
            ToolOutcome::NotAllowed { message }
        }
        // The same arguments make the same request.
        FailureKind::BadUrl | FailureKind::BadRequest if !failure.sent => {
            ToolOutcome::Unsendable { message }
        }
        _ if !failure.sent => ToolOutcome::NotSent { message },
        FailureKind::TimedOut(_) => ToolOutcome::TimedOut,
        FailureKind::BadUrl
        | FailureKind::BadRequest
        | FailureKind::LookUpFailed
        | FailureKind::Connect
        | FailureKind::Proxy
        | FailureKind::Tls(_)
        | FailureKind::Reset
        | FailureKind::NotHttp
        | FailureKind::HeadersTooLarge => ToolOutcome::Reset { message },
    }
}

/// The output of an answer: text as text, read by its charset; anything else, also what is encoded or no text in its
/// charset, as a description.
///
/// `is_text` is asked for the media type, in lower case and empty if there is none.
pub(crate) fn output(received: ReceivedAnswer, is_text: impl FnOnce(&str) -> bool) -> ToolOutput {
    let content_type = header(&received.headers, CONTENT_TYPE);
    // Nothing is nothing, whatever it is called.
    let is_text = received.bytes == 0 || is_text(&content_type.to_ascii_lowercase());
    // A header's value that can be read is ASCII.
    let content_type = &content_type[..content_type.len().min(CONTENT_TYPE_BYTES_MAX)];
    let encoded = is_encoded(&received.headers);
    let described = ToolOutput::Opaque {
        content_type: content_type.to_owned(),
        bytes: received.bytes,
        sha256: received.sha256(),
    };
    if !is_text || encoded {
        return described;
    }
    charset::text(&received.headers, &received.body, received.cut).map_or(described, |text| {
        ToolOutput::Text {
            text,
            cut: received.cut,
            selected: None,
        }
    })
}

/// Replaces the body of a text in another charset by the same text in UTF-8, so that what is done to it by bytes is
/// done to its characters. Anything else stays as it is.
pub(crate) fn to_utf8(received: &mut ReceivedAnswer, is_text: impl FnOnce(&str) -> bool) {
    let content_type = header(&received.headers, CONTENT_TYPE).to_ascii_lowercase();
    let is_other = charset::is_other(&received.headers);
    if !is_other || is_encoded(&received.headers) || !is_text(&content_type) {
        return;
    }
    if let Some(text) = charset::text(&received.headers, &received.body, received.cut) {
        received.body = text.into_bytes();
        let in_utf8 = HeaderValue::from_static("text/plain; charset=utf-8");
        received.headers.insert(CONTENT_TYPE, in_utf8);
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    !encodings.all(|encoding| matches!(encoding.as_bytes(), b"" | b"identity"))
}

/// The outcome of an answer whose status says no; `output` is its body.
pub(crate) fn refused(
    status: u16,
    headers: &HeaderMap,
    effect: EffectClass,
    output: &ToolOutput,
) -> ToolOutcome {
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .map_or_else(String::new, |reason| format!(" {reason}"));
    let answered = format!("the tool answered with status {status}{reason}");
    let may = effect_words::may_have_acted(effect);
    let meaning = meaning_of(status);
    let said = match meaning {
        // Where it points to, and a body that may say so, is nothing for the model.
        Meaning::Redirect => String::new(),
        Meaning::Refused | Meaning::NotNow | Meaning::Broken | Meaning::Gateway => said(output),
    };
    let told = |advice: &str, words: Option<&str>| {
        effect_words::with(format!("{answered}. {advice}").trim_end().to_owned(), words) + &said
    };
    // Whoever must not repeat it is not told that it may work later.
    let later = match effect {
        EffectClass::Read | EffectClass::Idempotent => LATER,
        EffectClass::Queryable | EffectClass::Once => "",
    };
    let none = may.map(|_| effect_words::NO_EFFECT);
    match meaning {
        Meaning::Redirect => {
            let advice = if may.is_none() { AGAIN } else { "" };
            let message = format!("redirect_not_followed: {}", told(advice, may));
            ToolOutcome::Unclear { message }
        }
        Meaning::Refused => ToolOutcome::Refused {
            message: told(AGAIN, none),
        },
        Meaning::NotNow => ToolOutcome::Unavailable {
            message: told(LATER, none),
            retry_after: retry_after(headers),
        },
        Meaning::Broken => ToolOutcome::Unclear {
            message: told(later, may),
        },
        Meaning::Gateway => ToolOutcome::Gateway {
            message: told(later, gateway_words(effect)),
            retry_after: retry_after(headers),
        },
    }
}

const LATER: &str = "It may work later.";
const AGAIN: &str = "It will fail again with the same arguments.";

/// The meaning of a status other than success: what became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The answer points elsewhere, as many do behind a form that they took.
    Redirect,
    /// The request is wrong, and nothing was done.
    Refused,
    /// The time is wrong, and nothing was done.
    NotNow,
    /// An error of the server's own, which may have come after the deed. Not worth another attempt at once: whatever
    /// broke there mostly breaks again.
    Broken,
    /// A gateway's word, not the tool's; worth another attempt, if it does no harm.
    Gateway,
}

fn meaning_of(status: u16) -> Meaning {
    match status {
        // Those from 520 on are Cloudflare's.
        408 | 502..=504 | 520..=524 => Meaning::Gateway,
        425 | 429 => Meaning::NotNow,
        300..400 => Meaning::Redirect,
        500.. => Meaning::Broken,
        _ => Meaning::Refused,
    }
}

fn gateway_words(effect: EffectClass) -> Option<&'static str> {
    match effect {
        EffectClass::Read | EffectClass::Idempotent => effect_words::may_have_acted(effect),
        EffectClass::Queryable | EffectClass::Once => Some(effect_words::OUTCOME_UNKNOWN),
    }
}

fn said(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text { .. } => {
            let shown = output.shown(ERROR_TEXT_BYTES_MAX);
            let text = shown.trim();
            if text.is_empty() {
                String::new()
            } else {
                format!(" It said: {text}")
            }
        }
        // A digest helps nobody who asks what went wrong.
        ToolOutput::Opaque { .. } => String::new(),
    }
}

/// `retry-after-ms`, which OpenAI and Azure send beside it, or `Retry-After`, in seconds or as a
/// date; `None` also for one that is over.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let in_ms = headers
        .get("retry-after-ms")
        .and_then(|value| value.to_str().ok());
    if let Some(ms) = in_ms.and_then(|text| text.trim().parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let text = header(headers, RETRY_AFTER).trim();
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(text).ok()?;
    // By the clock of whoever wrote it, which need not be right.
    let now =
        httpdate::parse_http_date(header(headers, DATE)).unwrap_or_else(|_| SystemTime::now());
    until.duration_since(now).ok()
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
