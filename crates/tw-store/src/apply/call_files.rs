//! Files that calls made, and the room that they take.

use tw_core::call_file::{CallFile, FileContent};
use tw_core::id::{CallRef, OrgId};
use tw_core::time::Timestamp;

use super::{StoreApplyError, execute, run};
use crate::blob::{FilePlace, store_file};
use crate::session::WriteSession;
use crate::session::bound::params;

const WHAT: &str = "storing files of a call";

/// Whether the files of an organization have room, which they then have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRoom {
    Taken,
    None,
}

const BEGIN: &str =
    "INSERT INTO file_room (organization, created_us, updated_us) VALUES (?1, ?2, ?2)
    ON CONFLICT (organization) DO NOTHING";
const TAKE: &str = "UPDATE file_room SET bytes = bytes + ?2, files = files + ?3, updated_us = ?4
    WHERE organization = ?1 AND bytes + ?2 <= ?5";
const GIVE_BACK: &str =
    "UPDATE file_room SET bytes = bytes - ?2, files = files - ?3, updated_us = ?4
    WHERE organization = ?1";

/// Takes room for files. Of two that come at once, the second waits for the first.
pub(super) fn take_room(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    files: &[CallFile],
    bytes_max: u64,
    at: Timestamp,
) -> Result<FileRoom, StoreApplyError> {
    let (bytes, count) = size(files);
    if count == 0 {
        return Ok(FileRoom::Taken);
    }
    run(db, WHAT, BEGIN, params![organization.0, at.0])?;
    let max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
    let bound = params![organization.0, bytes, count, at.0, max];
    Ok(match execute(db, WHAT, TAKE, bound)? {
        0 => FileRoom::None,
        _ => FileRoom::Taken,
    })
}

pub(super) fn give_room_back(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    files: &[CallFile],
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    let (bytes, count) = size(files);
    if count == 0 {
        return Ok(());
    }
    let bound = params![organization.0, bytes, count, at.0];
    run(db, WHAT, GIVE_BACK, bound)
}

/// Bytes and number of those that are kept.
fn size(files: &[CallFile]) -> (i64, i64) {
    let kept = files.iter().filter_map(|file| match &file.content {
        FileContent::Kept { bytes, .. } => Some(i64::try_from(bytes.len()).unwrap_or(i64::MAX)),
        FileContent::Missing(_) => None,
    });
    kept.fold((0, 0), |(bytes, count), of| (bytes + of, count + 1))
}

const ADD: &str = "INSERT INTO call_file
        (turn, round, position, n, organization, id, content_type, hash, bytes, fault, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)";

/// Adds the files of a call, for which room was taken.
pub(super) fn add(
    db: &mut WriteSession<'_>,
    (organization, turn, call): (OrgId, i64, CallRef),
    files: &[CallFile],
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    for file in files {
        let (content_type, hash, bytes, fault) = match &file.content {
            FileContent::Kept {
                bytes,
                hash,
                content_type,
            } => {
                let place = FilePlace {
                    organization,
                    turn,
                    call,
                    n: file.n,
                    at,
                };
                store_file(db, WHAT, place, (bytes, *hash))?;
                (Some(content_type.as_str()), Some(*hash), bytes.len(), None)
            }
            FileContent::Missing(fault) => (None, None, 0, Some(fault.as_str())),
        };
        let bound = params![
            turn,
            call.round,
            call.position,
            file.n,
            organization.0,
            file.id.to_string(),
            content_type,
            hash,
            i64::try_from(bytes).unwrap_or(i64::MAX),
            fault,
            at.0,
        ];
        run(db, WHAT, ADD, bound)?;
    }
    Ok(())
}
