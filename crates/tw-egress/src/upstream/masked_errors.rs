//! Errors of upstreams without the key that some of them quote.

use tw_core::model::{ModelEvent, ReportedError};

use super::ModelProgress;
use crate::secret::Secret;
use crate::secrets::secret_needle::MASKED_CHARS_MIN;

/// Masks the key in the texts of errors, which are passed on: some upstreams quote it there.
pub fn mask_errors(key: &Secret, events: &mut [ModelEvent], progress: &mut ModelProgress) {
    let of_events = events.iter_mut().filter_map(|event| match event {
        ModelEvent::Error(error) => Some(&mut **error),
        ModelEvent::Start { .. }
        | ModelEvent::Delta(_)
        | ModelEvent::Call(_)
        | ModelEvent::BlockEnd(_)
        | ModelEvent::Native { .. }
        | ModelEvent::Extra { .. }
        | ModelEvent::Progress { .. }
        | ModelEvent::Finish { .. }
        | ModelEvent::Usage(_)
        | ModelEvent::Done => None,
    });
    let of_failure = match progress {
        ModelProgress::Failed(failure) => Some(&mut failure.error),
        ModelProgress::More | ModelProgress::Ended => None,
    };
    for error in of_events.chain(of_failure) {
        mask_error(key, error);
    }
}

pub fn mask_error(key: &Secret, error: &mut ReportedError) {
    let ReportedError {
        message,
        code,
        kind,
        param,
        ..
    } = error;
    let words = [Some(message), code.as_mut(), kind.as_mut(), param.as_mut()];
    for text in words.into_iter().flatten() {
        mask(key.reveal(), text);
    }
}

/// Puts `***` in the place of the key.
///
/// A text that was cut may end within the key, so it loses as much as could be of it, whatever
/// stands there: hiding only what looks like the key would tell a client that makes an upstream
/// quote its guesses how far they are right.
fn mask(key: &str, text: &mut String) {
    // A local server's key is often one letter, or a word; in every text there is one.
    if key.chars().count() < MASKED_CHARS_MIN {
        return;
    }
    if text.contains(key) {
        *text = text.replace(key, "***");
    }
    if let Some(said) = text.strip_suffix('…') {
        let mut end = said.len().saturating_sub(key.len() - 1);
        while !said.is_char_boundary(end) {
            end -= 1;
        }
        *text = format!("{}…", &said[..end]);
    }
}

#[cfg(test)]
mod tests;
