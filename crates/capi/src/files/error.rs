//! Errors of file transfer as C sees them.

use std::ffi::{c_char, c_int};

use pinnace_files::error::{Code, Error as FilesError};

use crate::call_error::{CallError, last_text};

/// The errno for a file's error; each code has its own.
pub(super) fn errno_of(code: Code) -> c_int {
    match code {
        Code::NotFound => libc::ENOENT,
        Code::Denied => libc::EACCES,
        Code::InUse => libc::EBUSY,
        Code::NotPlain => libc::ELOOP,
        Code::Changed => libc::ESTALE,
        Code::NoRoom => libc::ENOSPC,
        Code::Disk => libc::EIO,
        Code::Limit => libc::E2BIG,
        Code::Invalid => libc::EINVAL,
        Code::Corrupt => libc::EBADMSG,
        Code::Unknown => libc::EREMOTEIO,
    }
}

impl From<&FilesError> for CallError {
    fn from(error: &FilesError) -> CallError {
        let number = match error {
            FilesError::File { error, .. } => errno_of(error.code),
            FilesError::NoServer(_) => libc::EHOSTUNREACH,
            FilesError::Refused(_) => libc::EACCES,
            FilesError::Protocol(_) => libc::EPROTO,
            FilesError::Socket(error) => error.errno(),
            FilesError::Users | FilesError::Access(_) => libc::EINVAL,
            FilesError::Cancelled => libc::ECANCELED,
            // Of a later version of the crate.
            _ => libc::EREMOTEIO,
        };
        CallError::new(number, error)
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
