//! The key of an `idempotent` call that the model makes again.

use serde_json::Value;

use super::{Call, CallState, Turn};
use crate::arguments::ValidArgs;
use crate::call::CallRunner;
use crate::tool::EffectClass;

/// The state of the deed behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Done,
    Unsure,
    NotDone,
}

impl Turn {
    /// The key of an earlier call of the tool with equal arguments, if nobody knows whether that one took effect: sent
    /// again under it, the call takes no second effect.
    ///
    /// A call that completed was told to the model, so that one more is one more deed. Of several keys the oldest is
    /// taken that none of `beside`, the calls of the same answer, has.
    pub(super) fn key_to_repeat(
        &self,
        name: &str,
        args: &ValidArgs,
        beside: &[Call],
    ) -> Option<String> {
        let mut deeds: Vec<(&str, Deed)> = Vec::new();
        let mut wanted: Option<Value> = None;
        let candidates = self.calls().filter(|call| {
            call.runs == CallRunner::Server
                && call.effect == Some(EffectClass::Idempotent)
                && call.name == name
        });
        for call in candidates {
            let Some(given) = &call.given else {
                continue;
            };
            let wanted = wanted.get_or_insert_with(|| args.json().to_value());
            if !are_equal(&given.json().to_value(), wanted) {
                continue;
            }
            let deed = deed_of(call);
            let key = call.idempotency_key.as_str();
            match deeds.iter_mut().find(|(known, _)| *known == key) {
                Some((_, before)) => {
                    // What was not sent again says nothing of what was sent before.
                    if deed != Deed::NotDone {
                        *before = deed;
                    }
                }
                None => deeds.push((key, deed)),
            }
        }
        deeds
            .into_iter()
            .filter(|(_, deed)| *deed == Deed::Unsure)
            .map(|(key, _)| key)
            .find(|key| beside.iter().all(|call| call.idempotency_key != *key))
            .map(str::to_owned)
    }
}

fn deed_of(call: &Call) -> Deed {
    let is_done = match &call.state {
        CallState::Ended(end) => end.reason.is_none(),
        CallState::Detached { .. } => !call.unsure,
        CallState::Pending { .. }
        | CallState::Held
        | CallState::Running { .. }
        | CallState::Waiting { .. }
        | CallState::LookingUp { .. }
        | CallState::AwaitingCallback => false,
    };
    if is_done {
        Deed::Done
    } else if call.unsure {
        Deed::Unsure
    } else {
        Deed::NotDone
    }
}

/// Whether two JSON values are equal: the order of members counts as little as how a number is written.
fn are_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let are_integers = [one, other]
                .iter()
                .all(|number| number.is_i64() || number.is_u64());
            one == other || (!are_integers && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| are_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| are_equal(one, other)))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str};

    use super::are_equal;

    #[test]
    fn values_are_equal_however_they_are_written() {
        for (one, other, expected) in [
            (r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1e0}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,1]", false),
            (r#""1""#, "1", false),
            ("true", "1", false),
            // A number of a double would be equal.
            ("9007199254740993", "9007199254740992", false),
        ] {
            let read = |text| from_str::<Value>(text).unwrap();
            assert_eq!(
                are_equal(&read(one), &read(other)),
                expected,
                "{one} {other}"
            );
            assert_eq!(
                are_equal(&read(other), &read(one)),
                expected,
                "{other} {one}"
            );
        }
    }
}
