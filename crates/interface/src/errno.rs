//! The numbers of errors: those of the C library (errno(3)).

use std::io::ErrorKind;

use pinnace_cert::Error as CertError;
use pinnace_delivery::Error as DeliveryError;
use pinnace_delivery::registry::RegistryError;
use pinnace_files::error::{Code, Error as FilesError};
use rustix::io::Errno;

/// That of an error of guaranteed delivery.
pub fn of_delivery(error: &DeliveryError) -> i32 {
    let number = match error {
        DeliveryError::Name
        | DeliveryError::Ttl
        | DeliveryError::Setting(_)
        | DeliveryError::Property(_)
        | DeliveryError::Together(_) => Errno::INVAL,
        // The C interface reads certificates itself.
        DeliveryError::Certificate { .. } => Errno::BADMSG,
        DeliveryError::Endpoint(error) => return error.errno(),
        DeliveryError::NameTaken => Errno::EXIST,
        DeliveryError::Registry(error) => registry(error),
        DeliveryError::InUse => Errno::BUSY,
        DeliveryError::Public(_) => Errno::PERM,
        DeliveryError::Io(kind) | DeliveryError::Metrics { kind, .. } => of_kind(*kind),
        DeliveryError::Damaged(_) => Errno::BADMSG,
        DeliveryError::Failed(_) => Errno::IO,
        DeliveryError::NoRoom(_) => Errno::NOSPC,
        DeliveryError::TimedOut => Errno::AGAIN,
        DeliveryError::TooLarge | DeliveryError::TooLargeTogether(_) => Errno::MSGSIZE,
        DeliveryError::Closed => Errno::CANCELED,
        DeliveryError::Refused { .. } | DeliveryError::NotAdmitted { .. } => Errno::ACCESS,
        DeliveryError::Unreachable { .. }
        | DeliveryError::NoAnswer { .. }
        | DeliveryError::HeldBack { .. } => Errno::HOSTUNREACH,
        DeliveryError::Copied { .. } | DeliveryError::Void => Errno::STALE,
        DeliveryError::Dropped { .. } => Errno::DQUOT,
        DeliveryError::PeerLacks { .. } => Errno::OPNOTSUPP,
    };
    number.raw_os_error()
}

/// That of an error of a registry.
pub fn of_registry(error: &RegistryError) -> i32 {
    registry(error).raw_os_error()
}

fn registry(error: &RegistryError) -> Errno {
    match error {
        RegistryError::Name
        | RegistryError::Endpoint
        | RegistryError::Topics
        | RegistryError::Lease
        | RegistryError::Url(_)
        | RegistryError::Feature(_) => Errno::INVAL,
        RegistryError::NameTaken | RegistryError::Lost => Errno::EXIST,
        RegistryError::Busy => Errno::BUSY,
        RegistryError::Unreachable(_) => Errno::HOSTUNREACH,
        RegistryError::Foreign(_) | RegistryError::Damaged(_) => Errno::BADMSG,
        RegistryError::Io { kind, .. } => of_kind(*kind),
    }
}

/// That of an error of a certificate.
pub fn of_certificate(error: &CertError) -> i32 {
    let number = match error {
        CertError::Io(error) => return error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
        CertError::Metadata => Errno::INVAL,
        CertError::NoSecretKey => Errno::NOKEY,
        CertError::WrongSecretKey => Errno::KEYREJECTED,
        CertError::NoRandomness => Errno::AGAIN,
        _ => Errno::BADMSG,
    };
    number.raw_os_error()
}

/// The errno for an error kind; the original errno was not kept.
fn of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::NotADirectory => Errno::NOTDIR,
        ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::FileTooLarge => Errno::FBIG,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::AddrInUse => Errno::ADDRINUSE,
        ErrorKind::AddrNotAvailable => Errno::ADDRNOTAVAIL,
        _ => Errno::IO,
    }
}

/// The errno for a file's error; each code has its own.
pub fn of_code(code: Code) -> i32 {
    let number = match code {
        Code::NotFound => Errno::NOENT,
        Code::Denied => Errno::ACCESS,
        Code::InUse => Errno::BUSY,
        Code::NotPlain => Errno::LOOP,
        Code::Changed => Errno::STALE,
        Code::NoRoom => Errno::NOSPC,
        Code::Disk => Errno::IO,
        Code::Limit => Errno::TOOBIG,
        Code::Invalid => Errno::INVAL,
        Code::Corrupt => Errno::BADMSG,
        Code::Unknown => Errno::REMOTEIO,
    };
    number.raw_os_error()
}

/// That of an error of file transfer.
pub fn of_files(error: &FilesError) -> i32 {
    let number = match error {
        FilesError::File { error, .. } => return of_code(error.code),
        FilesError::NoServer(_) => Errno::HOSTUNREACH,
        FilesError::Refused(_) => Errno::ACCESS,
        FilesError::Protocol(_) => Errno::PROTO,
        FilesError::Socket(error) => return error.errno(),
        FilesError::Users | FilesError::Access(_) => Errno::INVAL,
        FilesError::Cancelled => Errno::CANCELED,
        // Of a later version of the crate.
        _ => Errno::REMOTEIO,
    };
    number.raw_os_error()
}
