//! Errors of links to files.

use tw_runtime::files::FileError;
use tw_wire::client_error::ErrorKind;

use super::{ApiError, capitalized};
use crate::server::RequestId;

impl ApiError {
    pub(crate) fn of_file(error: &FileError, id: &RequestId) -> Self {
        let said = |kind, code| Self::new(kind, Some(code), capitalized(&error.to_string()));
        match error {
            FileError::NotFound => said(ErrorKind::NotFound, "file_not_found"),
            FileError::Expired => said(ErrorKind::Gone, "link_expired"),
            FileError::Read(error) => Self::of_read(error, id),
        }
    }
}
