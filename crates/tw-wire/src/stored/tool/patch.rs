//! RFC 7396, JSON merge patch, over texts: what is not patched keeps its digits and its order.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tw_core::definition::DefinitionError;

use super::parameters::{StaticValue, Visibility, is_mask};
use super::read::{ReadDefinition, read};
use super::value_at_path::ValueAtPath;
use super::whole;

/// The stored definition with `patch` over it, and readable again.
pub fn merge(stored: &str, patch: &str) -> Result<String, DefinitionError> {
    let before = read(stored)?;
    let patch = whole::check(patch)?;
    if !patch.is_object() {
        return Err(patch.wrong_type("an object"));
    }
    let merge = Merge {
        masked: before
            .statics
            .0
            .iter()
            .filter(|found| found.visibility == Visibility::Masked)
            .map(|found| (found.place.path.as_str(), found.place.raw))
            .collect(),
    };
    let mut merged = String::with_capacity(stored.len() + patch.raw.get().len());
    merge.object(Some(&whole::check(stored)?), &patch, &mut merged)?;
    refuse_unmasked(&merge, &read(&merged)?)?;
    Ok(merged)
}

struct Merge<'a> {
    /// The stored values for which the mask is shown, by path.
    masked: HashMap<&'a str, &'a RawValue>,
}

impl Merge<'_> {
    fn object(
        &self,
        target: Option<&ValueAtPath<'_>>,
        patch: &ValueAtPath<'_>,
        out: &mut String,
    ) -> Result<(), DefinitionError> {
        let mut patches = patch.members()?;
        let targets = match target {
            Some(target) if target.is_object() => target.members()?,
            Some(_) | None => Vec::new(),
        };
        let mut members = Members::start(out);
        for (name, target) in targets {
            let patch = patches.iter().position(|(patched, _)| *patched == name);
            match patch.map(|at| patches.remove(at).1) {
                Some(patch) if patch.is_null() => {}
                Some(patch) => self.value(Some(&target), &patch, members.next(&name))?,
                None => members.next(&name).push_str(target.raw.get()),
            }
        }
        for (name, patch) in patches {
            if !patch.is_null() {
                self.value(None, &patch, members.next(&name))?;
            }
        }
        members.end();
        Ok(())
    }

    fn value(
        &self,
        target: Option<&ValueAtPath<'_>>,
        patch: &ValueAtPath<'_>,
        out: &mut String,
    ) -> Result<(), DefinitionError> {
        if !patch.is_object() {
            return self.whole(patch, out);
        }
        // What is shown there is a string, which an object replaces. Merging with what is hidden
        // would mix the two, and show both to whom may change what is sensitive.
        let is_masked = self.masked.contains_key(patch.path.as_str());
        self.object(target.filter(|_| !is_masked), patch, out)
    }

    /// Writes a value that replaces another entirely, nulls included; only masks in it mean what is
    /// stored.
    fn whole(&self, patch: &ValueAtPath<'_>, out: &mut String) -> Result<(), DefinitionError> {
        if patch.is_object() {
            let mut members = Members::start(out);
            for (name, member) in patch.members()? {
                self.whole(&member, members.next(&name))?;
            }
            members.end();
            return Ok(());
        }
        if patch.is_array() {
            out.push('[');
            for (at, element) in patch.elements()?.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                self.whole(element, out)?;
            }
            out.push(']');
            return Ok(());
        }
        let stored = self.masked.get(patch.path.as_str());
        match stored {
            Some(stored) if is_mask(patch) => out.push_str(stored.get()),
            Some(_) | None => out.push_str(patch.raw.get()),
        }
        Ok(())
    }
}

/// An object being written.
struct Members<'o> {
    out: &'o mut String,
    is_first: bool,
}

impl<'o> Members<'o> {
    fn start(out: &'o mut String) -> Self {
        out.push('{');
        Self {
            out,
            is_first: true,
        }
    }

    /// The place for the next member's value.
    fn next(&mut self, name: &str) -> &mut String {
        if !self.is_first {
            self.out.push(',');
        }
        self.is_first = false;
        self.out
            .push_str(&serde_json::Value::from(name).to_string());
        self.out.push(':');
        self.out
    }

    fn end(self) {
        self.out.push('}');
    }
}

/// Refuses a patch that would show a masked value without holding it.
fn refuse_unmasked(merge: &Merge<'_>, after: &ReadDefinition<'_>) -> Result<(), DefinitionError> {
    let is_unmasked = |now: &&StaticValue<'_>| {
        let stored = merge.masked.get(now.place.path.as_str());
        now.visibility == Visibility::Shown
            && stored.is_some_and(|stored| stored.get() == now.place.raw.get())
    };
    match after.statics.0.iter().find(is_unmasked) {
        Some(now) => Err(now
            .place
            .error("is sensitive: to show it from now on, write another value with it")),
        None => Ok(()),
    }
}
