//! Large contents: images, files and sounds, stored once for an organization beside the texts that hold them.
//!
//! A text is stored without its contents, and beside it where each stood: read again, it is byte for byte what it was.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memrchr};
use sha2::{Digest, Sha256};
use tw_core::change::{Change, ChangeGroup};
use tw_core::id::{CallRef, OrgId};
use tw_core::imported::ImportTurns;
use tw_core::time::Timestamp;

use crate::apply::imported::EncodedImport;
use crate::apply::{StoreApplyError, insert, new_key, query_key, run};
use crate::db_error::Failure;
use crate::read::ReadError;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::session::{KeyedTable, ReadSession, WriteSession};

/// Most contents that are taken out of one text; further ones stay in it.
const CONTENTS_MAX: usize = 1024;
/// Longest beginning of a `data:` address, up to its content.
const DATA_PREFIX_BYTES_MAX: usize = 256;

/// A content within a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentSpan {
    at: usize,
    bytes: usize,
    /// SHA-256.
    hash: [u8; 32],
}

impl ContentSpan {
    fn end(&self) -> usize {
        self.at + self.bytes
    }
}

/// A group of changes on its way to the writer, with what of it takes long to find and needs no database.
pub struct WritableGroup {
    pub group: ChangeGroup,
    content_bytes_min: usize,
    /// The contents of a new turn's body.
    body: Vec<ContentSpan>,
    /// Of each import.
    pub imports: Vec<EncodedImport>,
}

impl WritableGroup {
    /// `content_bytes_min` is the length from which a content is stored by itself; none is with 0.
    pub fn new(group: ChangeGroup, content_bytes_min: usize) -> Self {
        let (body, imports) = match &group {
            ChangeGroup::Accept(new, _) => (find(new.body.as_str(), content_bytes_min), Vec::new()),
            ChangeGroup::OfTurn(..) => (Vec::new(), Vec::new()),
            ChangeGroup::Free(changes) => {
                let imports = changes.iter().filter_map(import_of);
                (Vec::new(), imports.map(EncodedImport::of).collect())
            }
        };
        Self {
            group,
            content_bytes_min,
            body,
            imports,
        }
    }

    /// Whether that takes so long that it is done aside.
    pub fn is_long(group: &ChangeGroup, content_bytes_min: usize) -> bool {
        match group {
            ChangeGroup::Accept(new, _) => {
                content_bytes_min > 0 && new.body.as_str().len() >= LONG_BODY_BYTES
            }
            ChangeGroup::OfTurn(..) => false,
            ChangeGroup::Free(changes) => changes.iter().any(|change| import_of(change).is_some()),
        }
    }

    pub fn cutter(&self) -> ContentCutter<'_> {
        let body = match &self.group {
            ChangeGroup::Accept(new, _) => new.body.as_str(),
            ChangeGroup::OfTurn(..) | ChangeGroup::Free(_) => "",
        };
        ContentCutter {
            bytes_min: self.content_bytes_min,
            body,
            spans: &self.body,
        }
    }
}

fn import_of(change: &Change) -> Option<&ImportTurns> {
    if let Change::ImportTurns(import) = change {
        Some(import)
    } else {
        None
    }
}

/// Length of a body whose contents are hashed aside: at most a millisecond of hashing stays where it is asked for.
const LONG_BODY_BYTES: usize = 256 * 1024;

/// The contents of a group's texts.
#[derive(Clone, Copy)]
pub struct ContentCutter<'a> {
    bytes_min: usize,
    body: &'a str,
    spans: &'a [ContentSpan],
}

impl ContentCutter<'_> {
    /// The contents of a new turn's body that stand within a part of it, which is stored by itself.
    pub fn of_body(&self, part: Range<usize>) -> Vec<ContentSpan> {
        let within = |span: &&ContentSpan| part.start <= span.at && span.end() <= part.end;
        let moved = |span: &ContentSpan| ContentSpan {
            at: span.at - part.start,
            ..*span
        };
        self.spans.iter().filter(within).map(moved).collect()
    }

    /// The contents of a text. One that the body has, too, is not hashed again.
    pub fn find(&self, text: &str) -> Vec<ContentSpan> {
        let known = |content: &[u8]| {
            let is_same = |span: &&ContentSpan| {
                span.bytes == content.len()
                    && self.body.as_bytes().get(span.at..span.end()) == Some(content)
            };
            self.spans.iter().find(is_same).map(|span| span.hash)
        };
        find_hashed(text, self.bytes_min, known)
    }
}

fn find(text: &str, bytes_min: usize) -> Vec<ContentSpan> {
    find_hashed(text, bytes_min, |_| None)
}

fn find_hashed(
    text: &str,
    bytes_min: usize,
    known: impl Fn(&[u8]) -> Option<[u8; 32]>,
) -> Vec<ContentSpan> {
    let span = |found: Range<usize>| {
        let content = &text.as_bytes()[found.clone()];
        ContentSpan {
            at: found.start,
            bytes: content.len(),
            hash: known(content).unwrap_or_else(|| Sha256::digest(content).into()),
        }
    };
    let ranges = ranges(text.as_bytes(), bytes_min);
    ranges.into_iter().map(span).collect()
}

/// The stretches of a text that are long and hold no quotation mark: in JSON the contents of a string, or a part of it.
///
/// Whether the text is JSON does not matter. Of a long text few bytes are looked at, since quotation marks stand close.
fn ranges(text: &[u8], bytes_min: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if bytes_min == 0 {
        return found;
    }
    let mut start = 0;
    while let Some(window) = text.get(start..start + bytes_min)
        && found.len() < CONTENTS_MAX
    {
        if let Some(quote) = memrchr(b'"', window) {
            start += quote + 1;
            continue;
        }
        let behind = start + bytes_min;
        let end = memchr(b'"', &text[behind..]).map_or(text.len(), |quote| behind + quote);
        let from = start + data_prefix_bytes(&text[start..end]);
        if end - from >= bytes_min {
            found.push(from..end);
        }
        start = end + 1;
    }
    found
}

/// The length of what stands before the content of a `data:` address, since the content stands alone elsewhere.
fn data_prefix_bytes(text: &[u8]) -> usize {
    let prefix = &text[..text.len().min(DATA_PREFIX_BYTES_MAX)];
    match memchr(b',', prefix) {
        Some(comma) if prefix.starts_with(b"data:") => comma + 1,
        Some(_) | None => 0,
    }
}

/// The stored text that holds contents, among those of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextHolder {
    Body(BodyForm),
    Message {
        round: u32,
        seq: u32,
    },
    Result(CallRef),
    Events {
        first: i64,
    },
    /// A file that a call made, which is a content by itself.
    File(CallRef),
}

/// A body as it was stored first, or made whole since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    First,
    MadeWhole,
}

impl TextHolder {
    /// The columns `holder`, `round` and `place`.
    fn columns(self) -> (&'static str, i64, i64) {
        match self {
            Self::Body(BodyForm::First) => ("body", 0, 0),
            Self::Body(BodyForm::MadeWhole) => ("body", 0, 1),
            Self::Message { round, seq } => ("message", i64::from(round), i64::from(seq)),
            Self::Result(call) => ("result", i64::from(call.round), i64::from(call.position)),
            Self::Events { first } => ("events", 0, first),
            Self::File(call) => ("file", i64::from(call.round), i64::from(call.position)),
        }
    }
}

/// A text that is about to be stored.
#[derive(Clone, Copy)]
pub struct HeldText<'a> {
    pub organization: OrgId,
    pub turn: i64,
    pub holder: TextHolder,
    pub text: &'a str,
    pub at: Timestamp,
}

/// PostgreSQL keeps the content from going with its last use until the new one is there.
const FIND: Sql = Sql {
    sqlite: "SELECT key FROM blob WHERE organization = ?1 AND hash = ?2",
    postgres: "SELECT key FROM blob WHERE organization = ?1 AND hash = ?2 FOR KEY SHARE",
};
const ADD: &str = "INSERT INTO blob (organization, hash, content, created_us, updated_us, key)
    VALUES (?1, ?2, ?3, ?4, ?4, ?5) ON CONFLICT (organization, hash) DO NOTHING";
const USE: &str = "INSERT INTO blob_use
    (turn, holder, round, place, at, organization, blob, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)";

/// Where a content that is no text stands, among those of its holder.
#[derive(Clone, Copy, Debug)]
pub struct FilePlace {
    pub organization: OrgId,
    pub turn: i64,
    pub call: CallRef,
    pub n: u32,
    pub at: Timestamp,
}

/// Stores a file as a content.
pub fn store_file(
    db: &mut WriteSession<'_>,
    what: &'static str,
    place: FilePlace,
    (content, hash): (&[u8], [u8; 32]),
) -> Result<(), StoreApplyError> {
    let held = HeldText {
        organization: place.organization,
        turn: place.turn,
        holder: TextHolder::File(place.call),
        text: "",
        at: place.at,
    };
    let blob = store_content(db, what, &held, content, hash)?;
    refer(db, what, &held, place.n as usize, blob)
}

/// Stores the contents of a text, and gives what else is to be stored of it.
pub fn store<'a>(
    db: &mut WriteSession<'_>,
    what: &'static str,
    held: HeldText<'a>,
    spans: &[ContentSpan],
) -> Result<Cow<'a, str>, StoreApplyError> {
    if spans.is_empty() {
        return Ok(Cow::Borrowed(held.text));
    }
    let rest = without(held.text, spans).ok_or(StoreApplyError::Guard { what })?;
    for span in spans {
        let content = &held.text.as_bytes()[span.at..span.end()];
        let blob = store_content(db, what, &held, content, span.hash)?;
        refer(db, what, &held, span.at, blob)?;
    }
    Ok(Cow::Owned(rest))
}

/// The row of a content that is there now, whoever stored it.
fn store_content(
    db: &mut WriteSession<'_>,
    what: &'static str,
    held: &HeldText<'_>,
    content: &[u8],
    hash: [u8; 32],
) -> Result<i64, StoreApplyError> {
    let organization = held.organization.0;
    if let Some(key) = query_key(db, what, FIND, params![organization, hash])? {
        return Ok(key);
    }
    let key = new_key(db, what, KeyedTable::Blob)?;
    let bound = params![organization, hash, content, held.at.0, key];
    if let Some(key) = insert(db, what, ADD, key, bound)? {
        return Ok(key);
    }
    // Somebody else has stored it meanwhile; with its last use it may be gone again.
    let found = query_key(db, what, FIND, params![organization, hash])?;
    found.ok_or_else(|| StoreApplyError::db(what, Failure::Raced.into()))
}

fn refer(
    db: &mut WriteSession<'_>,
    what: &'static str,
    held: &HeldText<'_>,
    at: usize,
    blob: i64,
) -> Result<(), StoreApplyError> {
    let (holder, round, place) = held.holder.columns();
    let bound = params![
        held.turn,
        holder,
        round,
        place,
        at as i64,
        held.organization.0,
        blob,
        held.at.0
    ];
    run(db, what, USE, bound)
}

/// A text without these parts, which stand in order and begin and end between characters.
fn without(text: &str, spans: &[ContentSpan]) -> Option<String> {
    let taken: usize = spans.iter().map(|span| span.bytes).sum();
    let mut rest = String::with_capacity(text.len().checked_sub(taken)?);
    let mut from = 0;
    for span in spans {
        rest.push_str(text.get(from..span.at)?);
        from = span.end();
    }
    rest.push_str(text.get(from..)?);
    Some(rest)
}

/// A content that stands in a body, by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBlob {
    pub at: usize,
    pub bytes: usize,
    pub blob: i64,
}

impl PlacedBlob {
    pub fn end(&self) -> usize {
        self.at + self.bytes
    }
}

const FORGET_FIRST: &str =
    "DELETE FROM blob_use WHERE turn = ?1 AND holder = 'body' AND round = 0 AND place = 0";
const ORGANIZATION: &str = "SELECT organization FROM turn_start WHERE key = ?1";

/// Refers to contents that are there already from a body that is made whole, and gives what else is to be stored of it.
pub fn store_made_whole(
    db: &mut WriteSession<'_>,
    what: &'static str,
    (turn, body): (i64, &[u8]),
    placed: &[PlacedBlob],
    at: Timestamp,
) -> Result<Vec<u8>, StoreApplyError> {
    if placed.is_empty() {
        run(db, what, FORGET_FIRST, params![turn])?;
        return Ok(body.to_vec());
    }
    let organization = query_key(db, what, ORGANIZATION, params![turn])?;
    let held = HeldText {
        organization: OrgId(organization.ok_or(StoreApplyError::Guard { what })?),
        turn,
        holder: TextHolder::Body(BodyForm::MadeWhole),
        text: "",
        at,
    };
    let mut rest = Vec::new();
    let mut from = 0;
    for blob in placed {
        refer(db, what, &held, blob.at, blob.blob)?;
        rest.extend_from_slice(&body[from..blob.at]);
        from = blob.end();
    }
    rest.extend_from_slice(&body[from..]);
    // Last, since a content goes with the last use of it.
    run(db, what, FORGET_FIRST, params![turn])?;
    Ok(rest)
}

const USES: &str = "SELECT u.at, u.blob, b.content FROM blob_use u JOIN blob b ON b.key = u.blob
    WHERE u.turn = ?1 AND u.holder = ?2 AND u.round = ?3 AND u.place = ?4 ORDER BY u.at";
const USES_OF_BODY: &str =
    "SELECT u.at, u.blob, b.content FROM blob_use u JOIN blob b ON b.key = u.blob
    WHERE u.turn = ?1 AND u.holder = 'body' ORDER BY u.round, u.place, u.at";

/// The whole text of which `rest` was stored, and `blob_bytes` were taken out.
pub fn whole_text(
    conn: ReadSession<'_>,
    turn: i64,
    holder: TextHolder,
    rest: String,
    blob_bytes: u64,
) -> Result<String, ReadError> {
    if blob_bytes == 0 {
        return Ok(rest);
    }
    let mut statement = conn.prepare_cached(USES)?;
    let (word, round, place) = holder.columns();
    let mut rows = statement.query(params![turn, word, round, place])?;
    let mut whole = Joining::of(rest.as_bytes(), blob_bytes)?;
    while let Some(row) = rows.next()? {
        whole.add(row)?;
    }
    let (whole, _) = whole.end()?;
    String::from_utf8(whole).map_err(|_| CONTENT_LOST)
}

/// The same of a body, with where its contents stand.
pub fn whole_body(
    conn: ReadSession<'_>,
    turn: i64,
    rest: Vec<u8>,
    blob_bytes: u64,
) -> Result<(Vec<u8>, Vec<PlacedBlob>), ReadError> {
    if blob_bytes == 0 {
        return Ok((rest, Vec::new()));
    }
    let mut statement = conn.prepare_cached(USES_OF_BODY)?;
    let mut rows = statement.query(params![turn])?;
    let mut whole = Joining::of(&rest, blob_bytes)?;
    while let Some(row) = rows.next()? {
        whole.add(row)?;
    }
    whole.end()
}

const CONTENT_LOST: ReadError = ReadError::Column {
    column: "blob_bytes",
};

/// A text that is put together.
struct Joining<'a> {
    rest: &'a [u8],
    /// Length of the whole.
    bytes: usize,
    whole: Vec<u8>,
    placed: Vec<PlacedBlob>,
}

impl<'a> Joining<'a> {
    fn of(rest: &'a [u8], blob_bytes: u64) -> Result<Self, ReadError> {
        let blob_bytes = usize::try_from(blob_bytes).map_err(|_| CONTENT_LOST)?;
        let bytes = rest.len().checked_add(blob_bytes).ok_or(CONTENT_LOST)?;
        Ok(Self {
            rest,
            bytes,
            whole: Vec::with_capacity(rest.len()),
            placed: Vec::new(),
        })
    }

    fn add(&mut self, row: Row<'_>) -> Result<(), ReadError> {
        let at: i64 = row.get("at")?;
        let at = usize::try_from(at).map_err(|_| CONTENT_LOST)?;
        let content = row.column("content")?.as_bytes();
        let content = content.ok_or(CONTENT_LOST)?;
        let gap = at.checked_sub(self.whole.len()).ok_or(CONTENT_LOST)?;
        let (before, rest) = self.rest.split_at_checked(gap).ok_or(CONTENT_LOST)?;
        self.whole.extend_from_slice(before);
        self.whole.extend_from_slice(content);
        self.rest = rest;
        self.placed.push(PlacedBlob {
            at,
            bytes: content.len(),
            blob: row.get("blob")?,
        });
        Ok(())
    }

    fn end(mut self) -> Result<(Vec<u8>, Vec<PlacedBlob>), ReadError> {
        self.whole.extend_from_slice(self.rest);
        if self.whole.len() != self.bytes {
            return Err(CONTENT_LOST);
        }
        Ok((self.whole, self.placed))
    }
}

#[cfg(test)]
mod tests;
