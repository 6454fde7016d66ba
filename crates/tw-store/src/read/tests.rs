use rusqlite::{Error, ffi};

use super::ReadError;

#[test]
fn what_the_disk_the_memory_or_the_lock_refuses_may_pass() {
    let cases = [
        (ffi::SQLITE_BUSY, true),
        (ffi::SQLITE_LOCKED, true),
        (ffi::SQLITE_IOERR_READ, true),
        (ffi::SQLITE_CANTOPEN, true),
        (ffi::SQLITE_FULL, true),
        (ffi::SQLITE_NOMEM, true),
        (ffi::SQLITE_CORRUPT, false),
        (ffi::SQLITE_NOTADB, false),
        (ffi::SQLITE_ERROR, false),
    ];
    for (code, may_pass) in cases {
        let error = ReadError::Db(Error::SqliteFailure(ffi::Error::new(code), None).into());
        assert_eq!(error.may_pass(), may_pass, "{code}");
    }
    assert!(!ReadError::Column { column: "status" }.may_pass());
}
