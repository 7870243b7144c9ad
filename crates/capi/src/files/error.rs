//! Errors of file transfer as C sees them.

use std::ffi::c_char;

use pinnace_files::error::Error as FilesError;
use pinnace_interface::errno;

use crate::call_error::{CallError, last_text};

impl From<&FilesError> for CallError {
    fn from(error: &FilesError) -> CallError {
        CallError::new(errno::of_files(error), error)
    }
}

impl From<FilesError> for CallError {
    fn from(error: FilesError) -> CallError {
        CallError::from(&error)
    }
}

/// The message of this thread's last failure of a function of file transfer; empty before the first. Valid until the
/// thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_error() -> *const c_char {
    last_text()
}
