//! errno: zmq_errno(3), zmq_strerror(3), zmq_version(3), and the capabilities of the build: zmq_has(3).

use std::ffi::{CStr, c_char, c_int};

use pinnace_engine::{EFSM, EMTHREAD, ENOCOMPATPROTO, ETERM};

/// The libzmq version that this ABI matches.
const VERSION: [c_int; 3] = [4, 3, 5];

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: errno is the calling thread's own.
    unsafe { *libc::__errno_location() = number }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// The number of the last error in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_errno() -> c_int {
    errno()
}

/// The text for an error number. It stays readable as strerror(3)'s does.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_strerror(number: c_int) -> *const c_char {
    let text = match number {
        EFSM => c"The operation is not allowed in the socket's current state",
        ENOCOMPATPROTO => c"The transport does not support the socket type",
        ETERM => c"The context was terminated",
        EMTHREAD => c"No I/O thread may serve this socket (ZMQ_AFFINITY)",
        // SAFETY: every number is allowed; the text is static, or valid until this thread's next call.
        system => return unsafe { libc::strerror(system) },
    };
    text.as_ptr()
}

/// Writes libzmq's version; null pointers are skipped.
///
/// # Safety
/// Each pointer must be null or valid for writes of an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) {
    for (to, number) in [major, minor, patch].into_iter().zip(VERSION) {
        if !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { to.write(number) }
        }
    }
}

/// Pinnace's own version.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Capabilities that `zmq_has` reports as 1, in libzmq's spelling. tipc and vsock depend on the kernel, pgm on the
/// build; anything else is 0.
const CAPABILITIES: &[&CStr] = &[c"ipc", c"curve", c"draft", c"WS", c"WSS", c"tls+tcp"];

/// Returns 1 if the named capability is supported, else 0.
///
/// # Safety
/// `capability` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_has(capability: *const c_char) -> c_int {
    if capability.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let capability = unsafe { CStr::from_ptr(capability) };
    c_int::from(match capability.to_bytes() {
        b"tipc" => pinnace_engine::kernel_has_tipc(),
        b"vsock" => pinnace_engine::kernel_has_vsock(),
        b"pgm" => pinnace_engine::has_pgm(),
        _ => CAPABILITIES.contains(&capability),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: c_int) -> String {
        // SAFETY: strerror gives C strings.
        unsafe { CStr::from_ptr(zmq_strerror(number)) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn every_number_has_words() {
        for own in [EFSM, ENOCOMPATPROTO, ETERM, EMTHREAD] {
            assert!(!text(own).starts_with("Unknown"), "{own}");
        }
        assert_eq!(text(libc::EINVAL), "Invalid argument");
        assert!(!text(-7).is_empty());
    }

    #[test]
    fn version_is_libzmqs_and_ours_is_ours() {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three ints, and nulls.
        unsafe {
            zmq_version(&mut major, &mut minor, &mut patch);
            zmq_version(std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        }
        assert_eq!((major, minor, patch), (4, 3, 5));
        // SAFETY: a static C string.
        assert_eq!(unsafe { CStr::from_ptr(pinnace_version()) }.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn it_has_what_it_has() {
        // SAFETY: C strings, and null.
        unsafe {
            assert_eq!(zmq_has(c"ipc".as_ptr()), 1);
            for not in [c"norm", c"gssapi", c"vmci", c"IPC", c"CURVE", c""] {
                assert_eq!(zmq_has(not.as_ptr()), 0);
            }
            assert_eq!(zmq_has(c"pgm".as_ptr()), c_int::from(cfg!(feature = "pgm")));
            assert_eq!(zmq_has(std::ptr::null()), 0);
        }
    }
}
