//! Assembly of calls from their pieces: the call that a piece belongs to is decided from what the
//! whole would be.
//!
//! Upstreams number calls from 1, number all of them 0, number none, send id and name once, with
//! every piece or empty with every piece, write names in pieces, or another id with each piece.
//! A piece begins a new call only if
//! - its index is new, and it has not the id of a call without a name of its own; or there is no
//!   index and no call yet;
//! - it brings another name than the call at its place has, and not the rest of that name;
//! - it brings another id and a name, and neither arguments that go on with what is incomplete, nor the first arguments
//!   of the same name, nor the rest of a name, all of which a later list may bring under another id;
//! - the call's object was complete at the end of an earlier piece, and another object begins that
//!   is not the same once more (below);
//! - it is a further entry of the same list, without index and id but with a name.
//!
//! The same id or name sent again never begins one. With the same id, another object is added to
//! the first, so that the arguments are refused rather than a call run twice.
//!
//! A new index in a piece without id and name counts for nothing as long as the last call is incomplete.
//!
//! A name goes on as long as no arguments have begun, if the joined name is one of those offered
//! or begins one, and the piece alone is none. Until it cannot go on, neither the call nor one behind it is told of.
//!
//! An object behind a complete one, in a piece without a name of its own, is
//! - the same call once more if it is equal, but for white space between its parts, and left out;
//! - the call's arguments if the first was `{}`, which is not told of as long as it may be
//!   replaced;
//! - filler if it is `{}` itself;
//! - else another call of that function.
//!
//! A name that stands with it, or before it in a piece without arguments, means another call, and two equal calls stay
//! two, unless the upstream was seen to write it with every piece, or wrote it with `{}` at the same index.

use std::borrow::Cow;

use scan::ObjectScan;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::limits::CALLS_PER_CHOICE_MAX;
use tw_core::model::{CallDelta, CallForm, CallNative, ModelEvent};
use tw_core::native::NativeFields;

use super::surrogates;
use crate::upstream_answer::OfferedNames;

/// The answer holds more than [`CALLS_PER_CHOICE_MAX`] calls in one choice.
#[derive(Debug)]
pub struct TooManyCalls;

/// A piece as written; empty ids, names and texts are `None`.
pub struct WrittenCallPiece<'a> {
    pub index: Option<i64>,
    pub id: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    pub form: CallForm,
    pub text: Option<Literal>,
    pub native: Option<Box<CallNative>>,
}

impl WrittenCallPiece<'_> {
    fn is_blank(&self) -> bool {
        self.id.is_none() && self.name.is_none() && self.text.is_none()
    }

    fn begins_object(&self) -> bool {
        self.text
            .as_ref()
            .is_some_and(|text| scan::begins_object(text.as_str()))
    }
}

/// The calls of one choice.
#[derive(Debug)]
pub struct CallAssembler {
    choice: u32,
    offered: OfferedNames,
    entries: Vec<Entry>,
    /// The call that was added to last.
    last: Option<usize>,
    /// Calls that were there when the current list of pieces began.
    before_list: usize,
    /// Calls, from the first on, of which something was told: they are told of in their order.
    told_of: usize,
    /// The upstream wrote a name again with a piece that went on with its call.
    repeats_names: bool,
    /// The upstream wrote a name that had become longer in the place of the shorter one.
    grows_names: bool,
}

#[derive(Debug)]
struct Entry {
    index: Option<i64>,
    id: Option<Box<str>>,
    name: Option<Box<str>>,
    form: CallForm,
    scan: ObjectScan,
    told: Told,
    /// The name was written once more behind the complete arguments, as for another call.
    named_again: bool,
    /// Arguments that were not told of.
    held: LiteralBuf,
    /// Fields that were not told of.
    native: Option<Box<CallNative>>,
    /// Fields that were: some upstreams write them again with every piece.
    native_told: Option<Box<CallNative>>,
    /// A second object, as long as it may be the first one once more.
    again: Option<Box<Again>>,
}

/// The parts of a call that were told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    id: bool,
    name: bool,
    /// Some of the arguments.
    arguments: bool,
}

#[derive(Debug)]
struct Again {
    text: LiteralBuf,
    scan: ObjectScan,
    index: Option<i64>,
    id: Option<Box<str>>,
    native: Option<Box<CallNative>>,
    unequal: Unequal,
}

/// The fate of a second object that is not the first one once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unequal {
    /// Another call of the same function.
    NewCall,
    /// The object is added to the first, whose arguments are then none.
    Joined,
}

enum Place {
    New { name_of: Option<usize> },
    At(usize),
    Again { at: usize, unequal: Unequal },
}

impl CallAssembler {
    pub fn new(choice: u32, offered: OfferedNames) -> Self {
        Self {
            choice,
            offered,
            entries: Vec::new(),
            last: None,
            before_list: 0,
            told_of: 0,
            repeats_names: false,
            grows_names: false,
        }
    }

    /// A list of pieces, that is, one `tool_calls` array, begins.
    pub fn begin_list(&mut self) {
        self.before_list = self.entries.len();
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a piece where it belongs, and what can be told now to `out`.
    pub fn add(
        &mut self,
        piece: WrittenCallPiece<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), TooManyCalls> {
        match self.place(&piece) {
            Place::At(at) => self.extend(at, piece, out),
            Place::Again { at, unequal } => self.begin_again(at, unequal, piece, out),
            Place::New { .. } if piece.is_blank() => Ok(()),
            Place::New { name_of } => {
                self.end_all_again(out)?;
                self.begin(piece, name_of)?;
                self.tell(self.entries.len() - 1, Certainty::Open, out);
                Ok(())
            }
        }
    }

    /// Adds a call that was written as a whole.
    pub fn add_whole(
        &mut self,
        piece: WrittenCallPiece<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), TooManyCalls> {
        self.begin(piece, None)?;
        self.tell(self.entries.len() - 1, Certainty::Settled, out);
        Ok(())
    }

    /// Tells of everything that was held back: nothing more comes of these calls.
    pub fn settle(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), TooManyCalls> {
        self.end_all_again(out)?;
        for at in 0..self.entries.len() {
            self.tell(at, Certainty::Settled, out);
        }
        Ok(())
    }

    fn end_all_again(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), TooManyCalls> {
        for at in 0..self.entries.len() {
            if self.entries[at].again.is_some() {
                self.end_again(at, out)?;
            }
        }
        Ok(())
    }

    fn place(&self, piece: &WrittenCallPiece<'_>) -> Place {
        if piece.form == CallForm::ByName {
            // The old form has one call for each choice.
            let legacy = self
                .entries
                .iter()
                .position(|entry| entry.form == CallForm::ByName);
            return legacy.map_or(Place::New { name_of: None }, |at| {
                self.place_at(at, piece, Unequal::Joined)
            });
        }
        match piece.index {
            Some(index) => self.place_with_index(index, piece),
            None => self.place_without_index(piece),
        }
    }

    fn place_with_index(&self, index: i64, piece: &WrittenCallPiece<'_>) -> Place {
        let find = |test: &dyn Fn(&Entry) -> bool| self.entries.iter().rposition(test);
        let has_id =
            |entry: &Entry| entry.id.is_some() && entry.id.as_deref() == piece.id.as_deref();
        if let Some(same) = find(&|entry| entry.index == Some(index) && has_id(entry)) {
            return self.place_at(same, piece, Unequal::Joined);
        }
        let of_index = find(&|entry| entry.index == Some(index));
        // An id says more than an index, if there is no name that makes it another call's.
        let of_id = find(&has_id).filter(|_| piece.name.is_none());
        if let Some(at) = of_index.filter(|_| of_id.is_none()) {
            return self.place_at_or_after(at, piece);
        }
        let late = match (&piece.id, &piece.name) {
            // The index came later than the call, or differs although the id says which it is.
            (Some(_), None) => of_id,
            (Some(_), Some(_)) => find(&|entry| entry.index.is_none() && has_id(entry)),
            (None, Some(_)) => None,
            (None, None) => self.last.filter(|&at| {
                self.entries
                    .get(at)
                    .is_some_and(|entry| entry.index.is_none() || !entry.scan.is_complete())
            }),
        };
        late.map_or(Place::New { name_of: None }, |at| {
            self.place_at(at, piece, Unequal::Joined)
        })
    }

    fn place_without_index(&self, piece: &WrittenCallPiece<'_>) -> Place {
        if let Some(id) = &piece.id
            && let Some(same) = self
                .entries
                .iter()
                .rposition(|entry| entry.id.as_deref() == Some(id))
        {
            return self.place_at(same, piece, Unequal::Joined);
        }
        let Some(last) = self.last else {
            return Place::New { name_of: None };
        };
        let in_this_list = last >= self.before_list;
        if in_this_list && piece.id.is_none() && piece.name.is_some() {
            return Place::New { name_of: None };
        }
        self.place_at_or_after(last, piece)
    }

    /// The place of a piece whose id is not that of the call `at`: with that call if it goes on
    /// with it, else in a new one.
    fn place_at_or_after(&self, at: usize, piece: &WrittenCallPiece<'_>) -> Place {
        let Some(entry) = self.entries.get(at) else {
            return Place::New { name_of: None };
        };
        let more_of_name = piece
            .name
            .as_deref()
            .and_then(|name| self.goes_on(entry, name));
        let is_same_name = piece.name.is_some() && piece.name.as_deref() == entry.name.as_deref();
        let other_name =
            entry.name.is_some() && piece.name.is_some() && !is_same_name && more_of_name.is_none();
        let is_header = piece.id.is_some()
            && piece.name.is_some()
            && (entry.id.is_some() || entry.scan.has_begun());
        let is_rest = entry.scan.has_begun()
            && !entry.scan.is_complete()
            && piece.text.is_some()
            && !piece.begins_object();
        let is_first_of_it = !entry.scan.has_begun()
            && at < self.before_list
            && (more_of_name.is_some() || piece.text.is_some());
        if other_name || (is_header && !is_rest && !is_first_of_it) {
            return Place::New { name_of: None };
        }
        if !entry.may_be_followed_by(piece) {
            return Place::At(at);
        }
        let is_placeholder = entry.scan.may_be_empty_object() && piece.index.is_some();
        let names_another = piece.name.is_some() && entry.id.is_none() && !self.repeats_names;
        if entry.named_again || (names_another && !is_placeholder) {
            // The index said which function it is, or nothing did: it is the same one.
            return Place::New { name_of: Some(at) };
        }
        Place::Again {
            at,
            unequal: Unequal::NewCall,
        }
    }

    /// The place of a piece that belongs to the call `at`, whatever it says.
    fn place_at(&self, at: usize, piece: &WrittenCallPiece<'_>, unequal: Unequal) -> Place {
        let entry = self.entries.get(at);
        if entry.is_some_and(|entry| entry.may_be_followed_by(piece)) {
            Place::Again { at, unequal }
        } else {
            Place::At(at)
        }
    }

    /// The name that a call has once `more` was written behind its name or in its place; `None`
    /// if `more` is no more of it.
    fn goes_on(&self, entry: &Entry, more: &str) -> Option<String> {
        let have = entry.name.as_deref()?;
        if entry.scan.has_begun() || entry.told.name {
            return None;
        }
        let joined = format!("{have}{more}");
        if self.begins_name(&joined) && !self.is_offered(more) {
            return Some(joined);
        }
        let grows = more.starts_with(have) && more != have && self.begins_name(more);
        // Two names that are both offered are two calls, unless the first was seen to grow.
        let are_two = self.is_offered(have) && self.is_offered(more) && !self.grows_names;
        (grows && !are_two).then(|| more.to_owned())
    }

    fn is_offered(&self, name: &str) -> bool {
        self.offered.iter().any(|offered| **offered == *name)
    }

    /// Whether an offered name begins with `name`.
    fn begins_name(&self, name: &str) -> bool {
        self.offered.iter().any(|offered| offered.starts_with(name))
    }

    /// Whether more of the call's name may come.
    fn name_is_open(&self, entry: &Entry) -> bool {
        !entry.scan.has_begun()
            && entry.name.as_deref().is_some_and(|name| {
                let begins_another = |offered: &str| offered != name && offered.starts_with(name);
                self.offered.iter().any(|offered| begins_another(offered))
            })
    }

    fn begin(
        &mut self,
        piece: WrittenCallPiece<'_>,
        name_of: Option<usize>,
    ) -> Result<(), TooManyCalls> {
        if ordinal(self.entries.len()) >= CALLS_PER_CHOICE_MAX {
            return Err(TooManyCalls);
        }
        let inherited = name_of
            .and_then(|at| self.entries.get(at))
            .and_then(|entry| entry.name.clone());
        let mut entry = Entry {
            index: piece.index,
            id: piece.id.map(|id| Box::from(&*id)),
            name: piece.name.map(|name| Box::from(&*name)).or(inherited),
            form: piece.form,
            scan: ObjectScan::default(),
            told: Told::default(),
            named_again: false,
            held: LiteralBuf::default(),
            native: piece.native,
            native_told: None,
            again: None,
        };
        if let Some(text) = &piece.text {
            entry.scan.read(text.as_str());
            entry.held.push(text);
        }
        self.last = Some(self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    fn extend(
        &mut self,
        at: usize,
        piece: WrittenCallPiece<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), TooManyCalls> {
        self.last = Some(at);
        let joined = match (&self.entries[at].name, &piece.name) {
            (Some(have), Some(name)) if **have != **name => self.goes_on(&self.entries[at], name),
            (Some(_), Some(_)) => {
                let entry = &mut self.entries[at];
                let is_header = entry.scan.is_complete() && piece.text.is_none();
                if is_header && entry.id.is_none() && piece.id.is_none() && !self.repeats_names {
                    entry.named_again = true;
                } else {
                    self.repeats_names = true;
                }
                None
            }
            (None, _) | (_, None) => None,
        };
        let entry = &mut self.entries[at];
        entry.index = entry.index.or(piece.index);
        if entry.id.is_none() {
            entry.id = piece.id.map(|id| Box::from(&*id));
        }
        match joined {
            Some(joined) => {
                self.grows_names |= piece.name.as_deref() == Some(&*joined);
                entry.name = Some(joined.into());
            }
            None if entry.name.is_none() => entry.name = piece.name.map(|name| Box::from(&*name)),
            None => {}
        }
        match (&mut entry.again, piece.native) {
            (Some(again), Some(native)) => again.native.get_or_insert_default().add(&native),
            (None, Some(native)) => entry.add_native(&native),
            (_, None) => {}
        }
        let Some(text) = piece.text else {
            self.tell(at, Certainty::Open, out);
            return Ok(());
        };
        if let Some(again) = &mut entry.again {
            again.scan.read(text.as_str());
            again.text.push(&text);
            return self.judge_again(at, out);
        }
        entry.scan.read(text.as_str());
        entry.held.push(&text);
        self.tell(at, Certainty::Open, out);
        Ok(())
    }

    /// Begins another object behind the complete one of the call `at`.
    fn begin_again(
        &mut self,
        at: usize,
        unequal: Unequal,
        piece: WrittenCallPiece<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), TooManyCalls> {
        if self.entries[at].again.is_some() {
            self.end_again(at, out)?;
        }
        self.last = Some(at);
        let mut again = Again {
            text: LiteralBuf::default(),
            scan: ObjectScan::default(),
            index: piece.index,
            id: piece.id.map(|id| Box::from(&*id)),
            native: piece.native,
            unequal,
        };
        if let Some(text) = &piece.text {
            again.scan.read(text.as_str());
            again.text.push(text);
        }
        self.entries[at].again = Some(Box::new(again));
        self.judge_again(at, out)
    }

    /// Decides about a second object as soon as it is known whether it equals the first.
    fn judge_again(&mut self, at: usize, out: &mut Vec<ModelEvent>) -> Result<(), TooManyCalls> {
        let entry = &self.entries[at];
        let Some(again) = &entry.again else {
            return Ok(());
        };
        let is_longer = again.scan.print().units > entry.scan.print().units;
        if is_longer || again.scan.is_complete() {
            self.end_again(at, out)
        } else {
            Ok(())
        }
    }

    fn end_again(&mut self, at: usize, out: &mut Vec<ModelEvent>) -> Result<(), TooManyCalls> {
        let entry = &mut self.entries[at];
        let Some(again) = entry.again.take() else {
            return Ok(());
        };
        let is_filler = again.scan.may_be_empty_object();
        if again.scan.is_complete() && (is_filler || again.scan.print() == entry.scan.print()) {
            if let Some(native) = &again.native {
                entry.add_native(native);
                self.tell(at, Certainty::Open, out);
            }
            return Ok(());
        }
        if entry.scan.may_be_empty_object() && !entry.held.is_empty() {
            entry.held = again.text;
            entry.scan = again.scan;
            if let Some(native) = &again.native {
                entry.add_native(native);
            }
            self.tell(at, Certainty::Open, out);
            return Ok(());
        }
        let text = again.text.to_literal();
        match again.unequal {
            Unequal::Joined => {
                entry.scan.read(text.as_str());
                entry.held.push(&text);
                if let Some(native) = &again.native {
                    entry.add_native(native);
                }
                self.tell(at, Certainty::Open, out);
            }
            Unequal::NewCall => {
                let piece = WrittenCallPiece {
                    index: again.index,
                    id: again.id.map(|id| Cow::Owned(id.into())),
                    name: None,
                    form: entry.form,
                    text: Some(text),
                    native: again.native,
                };
                self.begin(piece, Some(at))?;
                self.tell(self.entries.len() - 1, Certainty::Open, out);
            }
        }
        Ok(())
    }

    /// Tells what of a call was not told of and cannot change any more, and what waited for that.
    fn tell(&mut self, at: usize, certainty: Certainty, out: &mut Vec<ModelEvent>) {
        if at < self.told_of {
            self.tell_one(at, certainty, out);
            return;
        }
        while self.told_of < self.entries.len() {
            let next = self.told_of;
            self.tell_one(next, certainty, out);
            let Told {
                id,
                name,
                arguments,
            } = self.entries[next].told;
            if certainty == Certainty::Open && !(id || name || arguments) {
                return;
            }
            self.told_of += 1;
        }
    }

    fn tell_one(&mut self, at: usize, certainty: Certainty, out: &mut Vec<ModelEvent>) {
        let entry = &self.entries[at];
        let is_settled = certainty == Certainty::Settled;
        if !is_settled && !entry.told.name && self.name_is_open(entry) {
            return;
        }
        let choice = self.choice;
        let entry = &mut self.entries[at];
        let may_change = entry.form != CallForm::Custom && entry.scan.may_be_empty_object();
        let arguments = if entry.held.is_empty() || (may_change && !is_settled) {
            None
        } else {
            entry.take_arguments(certainty)
        };
        let id = entry.id.clone().filter(|_| !entry.told.id);
        let name = entry.name.clone().filter(|_| !entry.told.name);
        let native = entry.native.take();
        if id.is_none() && name.is_none() && arguments.is_none() && native.is_none() {
            return;
        }
        if let Some(native) = &native {
            entry.native_told.get_or_insert_default().add(native);
        }
        entry.told = Told {
            id: entry.told.id || id.is_some(),
            name: entry.told.name || name.is_some(),
            arguments: entry.told.arguments || arguments.is_some(),
        };
        out.push(ModelEvent::Call(CallDelta {
            choice,
            call: ordinal(at),
            id,
            name,
            form: entry.form,
            arguments,
            native,
        }));
    }
}

impl Entry {
    /// Whether the piece begins an object behind this call's complete one.
    fn may_be_followed_by(&self, piece: &WrittenCallPiece<'_>) -> bool {
        // A custom tool's input is text, whatever it looks like.
        self.form != CallForm::Custom && self.scan.is_complete() && piece.begins_object()
    }

    /// Adds fields of a later piece that were not told of with the same value.
    fn add_native(&mut self, more: &CallNative) {
        let told = self.native_told.as_deref();
        let fresh = |more: &NativeFields, told: Option<&NativeFields>| -> NativeFields {
            let is_told = |field: &&(Box<str>, Json)| told.is_some_and(|told| told.contains(field));
            more.iter()
                .filter(|field| !is_told(field))
                .cloned()
                .collect()
        };
        let fresh = CallNative {
            beside: fresh(&more.beside, told.map(|told| &told.beside)),
            inside: fresh(&more.inside, told.map(|told| &told.inside)),
        };
        if !fresh.beside.is_empty() || !fresh.inside.is_empty() {
            self.native.get_or_insert_default().add(&fresh);
        }
    }

    /// Takes the arguments that are to be told; half a surrogate pair waits for its other half.
    fn take_arguments(&mut self, certainty: Certainty) -> Option<Literal> {
        let written = std::mem::take(&mut self.held);
        if certainty == Certainty::Settled {
            return Literal::checked(&surrogates::mend_all(written.as_str()).0);
        }
        let mended = surrogates::mend(written.as_str());
        if let Some(half) = mended.half.and_then(Literal::checked) {
            self.held.push(&half);
        }
        Literal::checked(&mended.text).filter(|text| !text.is_empty())
    }
}

/// Whether more of a call may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Open,
    Settled,
}

fn ordinal(at: usize) -> u32 {
    // At most CALLS_PER_CHOICE_MAX.
    u32::try_from(at).unwrap_or(u32::MAX)
}

mod scan;

#[cfg(test)]
mod tests;
