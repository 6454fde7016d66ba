//! Which call a piece belongs to.
//!
//! Upstreams number calls from 1, number all of them 0, number none, send id and name once, with
//! every piece or empty with every piece. A piece begins a new call only if
//! - its index is new, or there is no index and no call yet;
//! - it brings another id than the call at its place has;
//! - it brings another name than that call has;
//! - it has no id and the call's object was complete at the end of an earlier piece, and another
//!   object begins;
//! - it is a further entry of the same list, without index and id but with a name.
//!
//! The same id or name sent again never begins one. With the same id, a second object is added to
//! the first, so that the arguments are refused rather than a call run twice.

use std::borrow::Cow;

use scan::ObjectScan;
use tw_core::json::Literal;
use tw_core::limits::CALLS_PER_CHOICE_MAX;
use tw_core::model::{CallForm, CallPiece};

/// The answer holds more than [`CALLS_PER_CHOICE_MAX`] calls in one choice.
#[derive(Debug)]
pub struct TooManyCalls;

/// A piece as written; empty ids, names and texts are `None`.
pub struct Piece<'a> {
    pub index: Option<i64>,
    pub id: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    pub form: CallForm,
    pub text: Option<Literal>,
}

impl Piece<'_> {
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
#[derive(Debug, Default)]
pub struct Calls {
    entries: Vec<Entry>,
    /// The call that was added to last.
    last: Option<usize>,
    /// Calls that were there when the current list of pieces began.
    before_list: usize,
}

#[derive(Debug)]
struct Entry {
    index: Option<i64>,
    id: Option<Box<str>>,
    name: Option<Box<str>>,
    form: CallForm,
    scan: ObjectScan,
}

enum Place {
    New { name_of: Option<usize> },
    At(usize),
}

impl Calls {
    /// A list of pieces, that is, one `tool_calls` array, begins.
    pub fn begin_list(&mut self) {
        self.before_list = self.entries.len();
    }

    /// Adds a piece where it belongs; `None` if it adds nothing.
    pub fn add(
        &mut self,
        choice: u32,
        piece: Piece<'_>,
    ) -> Result<Option<CallPiece>, TooManyCalls> {
        match self.place(&piece) {
            Place::At(at) => Ok(self.extend(choice, at, piece)),
            Place::New { .. } if piece.is_blank() => Ok(None),
            Place::New { name_of } => self.begin(choice, piece, name_of).map(Some),
        }
    }

    /// Adds a call that was written as a whole.
    pub fn add_whole(&mut self, choice: u32, piece: Piece<'_>) -> Result<CallPiece, TooManyCalls> {
        self.begin(choice, piece, None)
    }

    fn place(&self, piece: &Piece<'_>) -> Place {
        if piece.form == CallForm::Legacy {
            // The old form has one call for each choice.
            let legacy = self
                .entries
                .iter()
                .position(|entry| entry.form == CallForm::Legacy);
            return legacy.map_or(Place::New { name_of: None }, Place::At);
        }
        match piece.index {
            Some(index) => self.place_with_index(index, piece),
            None => self.place_without_index(piece),
        }
    }

    fn place_with_index(&self, index: i64, piece: &Piece<'_>) -> Place {
        let find = |test: &dyn Fn(&Entry) -> bool| self.entries.iter().rposition(test);
        let has_id =
            |entry: &Entry| entry.id.is_some() && entry.id.as_deref() == piece.id.as_deref();
        if let Some(same) = find(&|entry| entry.index == Some(index) && has_id(entry)) {
            return Place::At(same);
        }
        if let Some(at) = find(&|entry| entry.index == Some(index)) {
            return self.place_at_or_after(at, piece);
        }
        // The index came later than the call.
        let late = match (&piece.id, &piece.name) {
            (Some(_), _) => find(&|entry| entry.index.is_none() && has_id(entry)),
            (None, Some(_)) => None,
            (None, None) => self.last.filter(|&at| {
                self.entries
                    .get(at)
                    .is_some_and(|entry| entry.index.is_none())
            }),
        };
        late.map_or(Place::New { name_of: None }, Place::At)
    }

    fn place_without_index(&self, piece: &Piece<'_>) -> Place {
        if let Some(id) = &piece.id
            && let Some(same) = self
                .entries
                .iter()
                .rposition(|entry| entry.id.as_deref() == Some(id))
        {
            return Place::At(same);
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

    /// Whether a piece, whose id is not that of the call `at`, goes on with it.
    fn place_at_or_after(&self, at: usize, piece: &Piece<'_>) -> Place {
        let Some(entry) = self.entries.get(at) else {
            return Place::New { name_of: None };
        };
        let other_name = match (&entry.name, &piece.name) {
            (Some(have), Some(name)) => **have != **name,
            (None, _) | (_, None) => false,
        };
        let other_id = piece.id.is_some()
            && (entry.id.is_some() || (piece.name.is_some() && entry.scan.has_begun()));
        if other_name || other_id {
            return Place::New { name_of: None };
        }
        if entry.scan.is_complete() && piece.begins_object() {
            // The index said which function it is, or nothing did: it is the same one.
            return Place::New { name_of: Some(at) };
        }
        Place::At(at)
    }

    fn begin(
        &mut self,
        choice: u32,
        piece: Piece<'_>,
        name_of: Option<usize>,
    ) -> Result<CallPiece, TooManyCalls> {
        if ordinal(self.entries.len()) >= CALLS_PER_CHOICE_MAX {
            return Err(TooManyCalls);
        }
        let inherited = name_of
            .and_then(|at| self.entries.get(at))
            .and_then(|entry| entry.name.clone());
        let name = piece.name.map(|name| Box::from(&*name)).or(inherited);
        let id: Option<Box<str>> = piece.id.map(|id| Box::from(&*id));
        let mut scan = ObjectScan::default();
        if let Some(text) = &piece.text {
            scan.read(text.as_str());
        }
        let at = self.entries.len();
        self.entries.push(Entry {
            index: piece.index,
            id: id.clone(),
            name: name.clone(),
            form: piece.form,
            scan,
        });
        self.last = Some(at);
        Ok(CallPiece {
            choice,
            call: ordinal(at),
            id,
            name,
            form: piece.form,
            arguments: piece.text,
        })
    }

    fn extend(&mut self, choice: u32, at: usize, piece: Piece<'_>) -> Option<CallPiece> {
        let entry = self.entries.get_mut(at)?;
        self.last = Some(at);
        entry.index = entry.index.or(piece.index);
        let id = piece
            .id
            .filter(|_| entry.id.is_none())
            .map(|id| Box::from(&*id));
        let name = piece
            .name
            .filter(|_| entry.name.is_none())
            .map(|name| Box::from(&*name));
        if id.is_some() {
            entry.id.clone_from(&id);
        }
        if name.is_some() {
            entry.name.clone_from(&name);
        }
        if let Some(text) = &piece.text {
            entry.scan.read(text.as_str());
        }
        let adds = id.is_some() || name.is_some() || piece.text.is_some();
        adds.then(|| CallPiece {
            choice,
            call: ordinal(at),
            id,
            name,
            form: entry.form,
            arguments: piece.text,
        })
    }
}

fn ordinal(at: usize) -> u32 {
    // At most CALLS_PER_CHOICE_MAX.
    u32::try_from(at).unwrap_or(u32::MAX)
}

mod scan;

#[cfg(test)]
mod tests;
