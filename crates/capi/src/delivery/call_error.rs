//! Errors as C sees them: a number in errno, and a message stored for the thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pinnace_delivery::Error as DeliveryError;
use pinnace_delivery::registry::RegistryError;
use pinnace_engine::{Error, Uncancelled};

use crate::error::set_errno;
use crate::guard::Returned;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The error of a failed call.
pub(super) struct CallError {
    pub(super) number: c_int,
    pub(super) words: String,
}

impl CallError {
    pub(super) fn new(number: c_int, words: impl Display) -> CallError {
        CallError { number, words: words.to_string() }
    }

    /// The message as a C string.
    pub(super) fn text(&self) -> CString {
        CString::new(self.words.replace('\0', "?")).unwrap_or_default()
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::new(error.errno(), error)
    }
}

impl From<DeliveryError> for CallError {
    fn from(error: DeliveryError) -> CallError {
        CallError::from(&error)
    }
}

impl From<&DeliveryError> for CallError {
    fn from(error: &DeliveryError) -> CallError {
        let number = match error {
            DeliveryError::Name
            | DeliveryError::Ttl
            | DeliveryError::Setting(_)
            | DeliveryError::Property(_)
            | DeliveryError::Together(_) => libc::EINVAL,
            // The C interface reads certificates itself.
            DeliveryError::Certificate { .. } => libc::EBADMSG,
            DeliveryError::Endpoint(error) => error.errno(),
            DeliveryError::NameTaken => libc::EEXIST,
            DeliveryError::Registry(error) => of_registry(error),
            DeliveryError::InUse => libc::EBUSY,
            DeliveryError::Public(_) => libc::EPERM,
            DeliveryError::Io(kind) | DeliveryError::Metrics { kind, .. } => of_kind(*kind),
            DeliveryError::Damaged(_) => libc::EBADMSG,
            DeliveryError::Failed(_) => libc::EIO,
            DeliveryError::NoRoom(_) => libc::ENOSPC,
            DeliveryError::TimedOut => libc::EAGAIN,
            DeliveryError::TooLarge | DeliveryError::TooLargeTogether(_) => libc::EMSGSIZE,
            DeliveryError::Closed => libc::ECANCELED,
            DeliveryError::Refused { .. } | DeliveryError::NotAdmitted { .. } => libc::EACCES,
            DeliveryError::Unreachable { .. }
            | DeliveryError::NoAnswer { .. }
            | DeliveryError::HeldBack { .. } => libc::EHOSTUNREACH,
            DeliveryError::Copied { .. } | DeliveryError::Void => libc::ESTALE,
            DeliveryError::Dropped { .. } => libc::EDQUOT,
            DeliveryError::PeerLacks { .. } => libc::EOPNOTSUPP,
        };
        CallError::new(number, error)
    }
}

pub(super) fn of_registry(error: &RegistryError) -> c_int {
    match error {
        RegistryError::Name
        | RegistryError::Endpoint
        | RegistryError::Topics
        | RegistryError::Lease
        | RegistryError::Url(_)
        | RegistryError::Feature(_) => libc::EINVAL,
        RegistryError::NameTaken | RegistryError::Lost => libc::EEXIST,
        RegistryError::Busy => libc::EBUSY,
        RegistryError::Unreachable(_) => libc::EHOSTUNREACH,
        RegistryError::Foreign(_) | RegistryError::Damaged(_) => libc::EBADMSG,
        RegistryError::Io { kind, .. } => of_kind(*kind),
    }
}

/// The errno for an error kind; the original errno was not kept.
fn of_kind(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        ErrorKind::StorageFull => libc::ENOSPC,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::FileTooLarge => libc::EFBIG,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        _ => libc::EIO,
    }
}

/// Runs `body`; a panic becomes an error.
pub(super) fn caught<R>(body: impl FnOnce() -> Result<R, CallError>) -> Result<R, CallError> {
    // The file I/O in `body` would be a cancellation point.
    let _uncancelled = Uncancelled::begin();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(CallError::new(libc::ENOTRECOVERABLE, "internal error: the library panicked"))
    })
}

/// Runs `body`. An error or a panic becomes errno, the thread's error message, and `R::FAILED`.
pub(super) fn delivery_call<R: Returned>(body: impl FnOnce() -> Result<R, CallError>) -> R {
    caught(body).unwrap_or_else(|error| {
        // Not available while the thread is exiting.
        let _ = LAST.try_with(|last| last.replace(error.text()));
        set_errno(error.number);
        R::FAILED
    })
}

/// The message of this thread's last failure of a function of clients, options or deliveries; empty before the first.
/// Valid until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
