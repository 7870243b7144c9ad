//! Errors of guaranteed delivery as C sees them.

use std::ffi::{c_char, c_int};
use std::io::ErrorKind;

use pinnace_delivery::Error as DeliveryError;
use pinnace_delivery::registry::RegistryError;

use crate::call_error::last_text;
pub(super) use crate::call_error::{CallError, caught, told_call as delivery_call};

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

/// The message of this thread's last failure of a function of clients, options or deliveries; empty before the first.
/// Valid until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_error() -> *const c_char {
    last_text()
}
