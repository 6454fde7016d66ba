//! Request bodies; what a body has in common with that of the turn before is stored once.

use tw_core::change::{BodyCuts, NewTurn};
use tw_core::time::Timestamp;

use crate::apply::{StoreApplyError, run};
use crate::blob::{self, BodyForm, ContentCutter, HeldText, PlacedBlob, TextHolder};
use crate::read::ReadError;
use crate::read::columns::unsigned;
use crate::session::ReadSession;
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;

/// Most bodies that one is made of beside its own row: reading it reads as many rows.
pub const DEPTH_MAX: u32 = 64;
/// Most bytes of bodies that are made whole in one transaction; the last may go beyond.
const MADE_WHOLE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The parts of a body that are not stored again, since the parent's body has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    parent: i64,
    start_bytes: usize,
    end_bytes: usize,
    depth: u32,
}

const INSERT: &str = "INSERT INTO turn_input
    (turn, body, context, parent, kept_start_bytes, kept_end_bytes, depth, start_bytes, start_hash, end_hash,
     created_us, updated_us, blob_bytes)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12)";

/// Stores the body of a new turn, which continues `parent`.
pub fn insert(
    db: &mut WriteSession<'_>,
    what: &'static str,
    turn: i64,
    new: &NewTurn,
    parent: Option<i64>,
    contents: ContentCutter<'_>,
) -> Result<(), StoreApplyError> {
    let body = new.body.as_str();
    let kept = match (&new.cuts, parent) {
        (Some(cuts), Some(parent)) => find_kept(db, what, body.as_bytes(), cuts, parent)?,
        (None, _) | (_, None) => None,
    };
    let from = kept.map_or(0, |kept| kept.start_bytes);
    let to = body.len() - kept.map_or(0, |kept| kept.end_bytes);
    let own = body.get(from..to).ok_or(StoreApplyError::Guard { what })?;
    let spans = contents.of_body(from..to);
    let held = HeldText {
        organization: new.organization,
        turn,
        holder: TextHolder::Body(BodyForm::First),
        text: own,
        at: new.at,
    };
    let stored = blob::store(db, what, held, &spans)?;
    let bound = params![
        turn,
        stored.as_bytes(),
        new.context,
        kept.map(|kept| kept.parent),
        kept.map(|kept| kept.start_bytes as i64),
        kept.map(|kept| kept.end_bytes as i64),
        kept.map_or(0, |kept| kept.depth),
        new.cuts.map(|cuts| cuts.start.bytes as i64),
        new.cuts.map(|cuts| cuts.start.hash),
        new.cuts.map(|cuts| cuts.end_hash),
        new.at.0,
        (own.len() - stored.len()) as i64,
    ];
    run(db, what, INSERT, bound)
}

/// The stored parts of a parent's body that a new body is compared with.
struct Known {
    start_bytes: Option<i64>,
    start_hash: Option<[u8; 32]>,
    end_hash: Option<[u8; 32]>,
    depth: u32,
}

fn find_kept(
    db: &mut WriteSession<'_>,
    what: &'static str,
    body: &[u8],
    cuts: &BodyCuts,
    parent: i64,
) -> Result<Option<Kept>, StoreApplyError> {
    let Some(start) = cuts.before_answer else {
        return Ok(None);
    };
    let sql = "SELECT start_bytes, start_hash, end_hash, depth FROM turn_input WHERE turn = ?1";
    let read = |row: Row<'_>| {
        Ok(Known {
            start_bytes: row.get(0)?,
            start_hash: row.get(1)?,
            end_hash: row.get(2)?,
            depth: row.get(3)?,
        })
    };
    let known = db.first(sql, params![parent], read);
    let known = known.map_err(|error| StoreApplyError::db(what, error))?;
    let is_same = |known: &Known| {
        known.start_bytes == Some(start.bytes as i64)
            && known.start_hash == Some(start.hash)
            && known.depth < DEPTH_MAX
    };
    Ok(known.filter(is_same).map(|known| Kept {
        parent,
        start_bytes: start.bytes,
        end_bytes: if known.end_hash == Some(cuts.end_hash) {
            body.len() - cuts.start.bytes
        } else {
            0
        },
        depth: known.depth + 1,
    }))
}

/// The row of a turn and those that its body is made of, in this order.
const PARTS: Sql = Sql {
    postgres: "WITH RECURSIVE part (turn, body, blob_bytes, parent, kept_start_bytes, kept_end_bytes, n) AS (
        SELECT turn, body, blob_bytes, parent, kept_start_bytes, kept_end_bytes, 1 FROM turn_input WHERE turn = ?1
        UNION ALL
        SELECT i.turn, i.body, i.blob_bytes, i.parent, i.kept_start_bytes, i.kept_end_bytes, part.n + 1
        FROM part JOIN turn_input i ON i.turn = part.parent WHERE part.n < ?2
    )
    SELECT turn, body, blob_bytes, parent, kept_start_bytes, kept_end_bytes FROM part ORDER BY n",
    sqlite: "WITH RECURSIVE part (turn, body, blob_bytes, parent, kept_start_bytes, kept_end_bytes) AS (
        SELECT turn, body, blob_bytes, parent, kept_start_bytes, kept_end_bytes FROM turn_input WHERE turn = ?1
        UNION ALL
        SELECT i.turn, i.body, i.blob_bytes, i.parent, i.kept_start_bytes, i.kept_end_bytes
        FROM part CROSS JOIN turn_input i ON i.turn = part.parent
        LIMIT ?2
    )
    SELECT turn, body, blob_bytes, parent, kept_start_bytes, kept_end_bytes FROM part",
};

/// A body, or a part of one, with the contents in it that are stored by themselves.
struct BodyPart {
    bytes: Vec<u8>,
    /// In their order.
    placed: Vec<PlacedBlob>,
}

/// A part of a body that stands between the start and the end of what is kept of another one.
struct BodyStep {
    own: BodyPart,
    start_bytes: usize,
    end_bytes: usize,
}

/// The whole body of a turn; `None` if there is no such turn.
pub fn whole(conn: ReadSession<'_>, turn: i64) -> Result<Option<Vec<u8>>, ReadError> {
    let whole = whole_with_contents(conn, turn)?;
    Ok(whole.map(|whole| whole.bytes))
}

fn whole_with_contents(conn: ReadSession<'_>, turn: i64) -> Result<Option<BodyPart>, ReadError> {
    let mut statement = conn.prepare_cached(PARTS)?;
    let mut rows = statement.query(params![turn, DEPTH_MAX + 1])?;
    // Newest first; of each what it adds to the next.
    let mut steps: Vec<BodyStep> = Vec::new();
    while let Some(row) = rows.next()? {
        let blob_bytes = unsigned(row, "blob_bytes")?;
        let (bytes, placed) =
            blob::whole_body(conn, row.get("turn")?, row.get("body")?, blob_bytes)?;
        let own = BodyPart { bytes, placed };
        if row.get::<Option<i64>>("parent")?.is_none() {
            return made_of(own, steps).map(Some);
        }
        let bytes = |column| -> Result<usize, ReadError> {
            let bytes: i64 = row.get(column)?;
            usize::try_from(bytes).map_err(|_| ReadError::Column { column })
        };
        steps.push(BodyStep {
            own,
            start_bytes: bytes("kept_start_bytes")?,
            end_bytes: bytes("kept_end_bytes")?,
        });
    }
    match steps.len() {
        0 => Ok(None),
        _ => Err(ReadError::Column { column: "parent" }),
    }
}

fn made_of(first: BodyPart, steps: Vec<BodyStep>) -> Result<BodyPart, ReadError> {
    let mut body = first;
    for step in steps.into_iter().rev() {
        let start = step.start_bytes;
        let end_from = body.bytes.len().checked_sub(step.end_bytes);
        let Some(end_from) = end_from.filter(|from| *from >= start) else {
            return Err(ReadError::Column {
                column: "kept_start_bytes",
            });
        };
        // What was stored by itself there is so here, if all of it is kept.
        let at_start = body.placed.iter().filter(|blob| blob.end() <= start);
        let own = step.own.placed.iter().map(|blob| moved(blob, start));
        let end_to = start + step.own.bytes.len();
        let at_end = body.placed.iter().filter(|blob| blob.at >= end_from);
        let at_end = at_end.map(|blob| PlacedBlob {
            at: blob.at - end_from + end_to,
            ..*blob
        });
        body.placed = at_start.copied().chain(own).chain(at_end).collect();
        body.bytes.splice(start..end_from, step.own.bytes);
    }
    Ok(body)
}

fn moved(blob: &PlacedBlob, by: usize) -> PlacedBlob {
    PlacedBlob {
        at: blob.at + by,
        ..*blob
    }
}

const MADE_OF: &str = "SELECT turn FROM turn_input WHERE parent = ?1";
const MAKE_WHOLE: &str = "UPDATE turn_input
    SET body = ?2, parent = NULL, kept_start_bytes = NULL, kept_end_bytes = NULL, depth = 0, updated_us = ?3,
        blob_bytes = ?4
    WHERE turn = ?1";

/// Bodies that are made whole, before those that they are made of are erased.
#[derive(Default)]
pub struct MadeWhole {
    bytes: usize,
}

impl MadeWhole {
    /// Makes the bodies that are made of that of `turn` whole; `false` if there was no room for all.
    pub fn free(
        &mut self,
        db: &mut WriteSession<'_>,
        what: &'static str,
        turn: i64,
        at: Timestamp,
    ) -> Result<bool, StoreApplyError> {
        let rest: Vec<i64> = db
            .all(MADE_OF, params![turn])
            .map_err(|error| StoreApplyError::db(what, error))?;
        for turn in rest {
            if self.bytes >= MADE_WHOLE_BYTES_MAX {
                return Ok(false);
            }
            let whole = match whole_with_contents(db.reader(), turn) {
                Ok(Some(whole)) => whole,
                Ok(None) => continue,
                Err(ReadError::Db(error)) => return Err(StoreApplyError::db(what, error)),
                Err(error) => {
                    // It is lost already, and what is due to be erased must not stay for it.
                    tracing::error!(turn.key = turn, error = %error, "a stored body cannot be put together");
                    continue;
                }
            };
            self.bytes += whole.bytes.len();
            let held = (turn, &whole.bytes[..]);
            let stored = blob::store_made_whole(db, what, held, &whole.placed, at)?;
            let blob_bytes = (whole.bytes.len() - stored.len()) as i64;
            let bound = params![turn, stored, at.0, blob_bytes];
            run(db, what, MAKE_WHOLE, bound)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::MADE_OF;
    use crate::read::plan::assert_each_looks;

    #[test]
    fn what_is_made_of_a_body_is_found_by_it() {
        assert_each_looks(&[(MADE_OF, "turn_input_parent")]);
    }
}
