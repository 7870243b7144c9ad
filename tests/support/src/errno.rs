//! Errors as the C ABI reports them: a number, shown by name.

use libc::c_int;

use crate::consts::*;

/// An errno, as `zmq_errno()` returns it after a call that returned -1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// The result of a call: its value or its errno.
pub type Outcome<T> = Result<T, Errno>;

impl std::fmt::Debug for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            libc::EAGAIN => "EAGAIN",
            libc::EINVAL => "EINVAL",
            libc::EFAULT => "EFAULT",
            libc::EINTR => "EINTR",
            libc::ENOTSUP => "ENOTSUP",
            libc::ENOTSOCK => "ENOTSOCK",
            libc::EMFILE => "EMFILE",
            libc::EADDRINUSE => "EADDRINUSE",
            libc::ENODEV => "ENODEV",
            libc::ENOENT => "ENOENT",
            libc::EHOSTUNREACH => "EHOSTUNREACH",
            libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
            EFSM => "EFSM",
            ENOCOMPATPROTO => "ENOCOMPATPROTO",
            ETERM => "ETERM",
            EMTHREAD => "EMTHREAD",
            other => return write!(f, "errno {other}"),
        };
        f.write_str(name)
    }
}

/// The errno of the last failed call of this thread.
pub fn last() -> Errno {
    // SAFETY: the function takes no arguments and returns a number.
    Errno(unsafe { crate::api::zmq_errno() })
}

/// Turns the C convention (-1 and errno) into an [`Outcome`].
pub fn check(rc: c_int) -> Outcome<c_int> {
    if rc == -1 { Err(last()) } else { Ok(rc) }
}
