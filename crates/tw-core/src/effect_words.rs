//! Sentences that tell the model whether a call that failed may have taken effect.
//!
//! Every sentence holds also where it is read again with a later request.

use crate::tool::EffectClass;

/// The words for a call that its tool refused to do.
pub const NO_EFFECT: &str = "By this answer, the call took no effect.";

/// The words for a call of which nobody knows whether it took effect, and whose repetition would be
/// a second deed.
pub const OUTCOME_UNKNOWN: &str =
    "It is not known whether this call took effect. It must not simply be repeated.";

/// The words for a call whose job started, and whose end nobody has told.
pub const NO_CALLBACK: &str =
    "The job was started, but its end was not told in time. It must not simply be started again.";

const MAY_HAVE_ACTED: &str =
    "The call may have taken effect all the same. It must not simply be repeated.";

/// A call with equal arguments is sent under the same key: see `turn::same_key`.
const MAY_HAVE_ACTED_ONCE: &str = "The call may have taken effect all the same. Made again with the same arguments \
     before the request is answered, it takes no second effect.";

/// The words for a call that was sent and of which nobody knows whether it took effect; `None` for
/// one that only reads.
pub fn may_have_acted(effect: EffectClass) -> Option<&'static str> {
    match effect {
        EffectClass::Read => None,
        EffectClass::Idempotent => Some(MAY_HAVE_ACTED_ONCE),
        EffectClass::Queryable | EffectClass::Once => Some(MAY_HAVE_ACTED),
    }
}

/// The text `shown` with `words` about the call's effect behind it, if there are any.
pub fn with(mut shown: String, words: Option<&str>) -> String {
    if let Some(words) = words {
        if !shown.ends_with(['.', '!', '?']) {
            shown.push('.');
        }
        shown.push(' ');
        shown.push_str(words);
    }
    shown
}
