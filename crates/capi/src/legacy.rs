//! Functions that libzmq keeps for old programs: former names, and frames in iovecs.

use std::ffi::{c_int, c_void};

use libc::iovec;
use pinnace_engine::{Error, Invalid, Outgoing, Socket};

use crate::arguments::{Flags, bytes, int_size};
use crate::context::{zmq_ctx_new, zmq_ctx_set, zmq_ctx_term};
use crate::error::set_errno;
use crate::guard::guard;
use crate::handle::socket;
use crate::message::{Message, zmq_msg_recv, zmq_msg_send};
use crate::proxy::zmq_proxy;

const IO_THREADS: c_int = 1;

/// A new context with `io_threads` I/O threads, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_init(io_threads: c_int) -> *mut c_void {
    if io_threads < 0 {
        set_errno(libc::EINVAL);
        return std::ptr::null_mut();
    }
    let context = zmq_ctx_new();
    if !context.is_null() {
        zmq_ctx_set(context, IO_THREADS, io_threads);
    }
    context
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn zmq_term(context: *mut c_void) -> c_int {
    zmq_ctx_term(context)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn zmq_ctx_destroy(context: *mut c_void) -> c_int {
    zmq_ctx_term(context)
}

/// Runs a proxy; the type is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_device(_type: c_int, frontend: *mut c_void, backend: *mut c_void) -> c_int {
    zmq_proxy(frontend, backend, std::ptr::null_mut())
}

/// # Safety
/// As for `zmq_msg_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_sendmsg(
    handle: *mut c_void,
    message: *mut Message,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { zmq_msg_send(message, handle, flags) }
}

/// # Safety
/// As for `zmq_msg_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_recvmsg(
    handle: *mut c_void,
    message: *mut Message,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { zmq_msg_recv(message, handle, flags) }
}

/// Sends each vector as a frame. With SNDMORE, every frame but the last is followed by more. Returns the size of the
/// last frame.
///
/// # Safety
/// `vectors` must be null or point to `count` vectors of readable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sendiov(
    handle: *mut c_void,
    vectors: *mut iovec,
    count: usize,
    flags: c_int,
) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        let flags = Flags::read(flags)?;
        if vectors.is_null() || count == 0 {
            return Err(Error::Invalid(Invalid::Count));
        }
        let mut size = 0;
        for index in 0..count {
            // SAFETY: the caller's promise.
            let data = unsafe {
                let vector = &*vectors.add(index);
                bytes(vector.iov_base, vector.iov_len)?
            };
            socket.send(Outgoing::Bytes(data), flags.more && index + 1 < count, flags.wait)?;
            size = data.len();
        }
        Ok(int_size(size))
    })
}

/// Receives the frames of a message, at most `*count`, each into memory that the caller frees with free(3). Writes
/// their number to `*count` and returns it. If a receive fails, `*count` is the number of frames received before.
///
/// # Safety
/// `count` must be null or valid for reads and writes; `vectors` null or valid for writes of `*count` vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_recviov(
    handle: *mut c_void,
    vectors: *mut iovec,
    count: *mut usize,
    flags: c_int,
) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        let flags = Flags::read(flags)?;
        // SAFETY: the caller's promise.
        let Some(count) = (unsafe { count.as_mut() }) else { return Err(Error::Invalid(Invalid::Count)) };
        if vectors.is_null() || *count == 0 {
            return Err(Error::Invalid(Invalid::Count));
        }
        let room = std::mem::take(count);
        while *count < room {
            let (vector, more) = receive(socket, flags.wait)?;
            // SAFETY: the caller's promise.
            unsafe { vectors.add(*count).write(vector) };
            *count += 1;
            if !more {
                break;
            }
        }
        Ok(int_size(*count))
    })
}

/// Receives a frame into memory of malloc(3), and returns whether more frames of the message follow.
fn receive(socket: Socket, wait: bool) -> Result<(iovec, bool), Error> {
    let frame = Message::receive(socket, wait)?;
    let data = frame.data();
    // SAFETY: no conditions. At least one byte, because malloc(0) may return null.
    let to = unsafe { libc::malloc(data.len().max(1)) };
    if to.is_null() {
        return Err(Error::NoMemory);
    }
    // SAFETY: this much memory was allocated above.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), data.len()) };
    Ok((iovec { iov_base: to, iov_len: data.len() }, frame.more()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
    use std::ptr::null_mut;

    #[test]
    fn a_context_has_the_threads_it_was_asked_for() {
        let context = zmq_init(2);
        assert_eq!(crate::context::zmq_ctx_get(context, IO_THREADS), 2);
        assert_eq!(zmq_term(context), 0);
        assert_eq!((zmq_ctx_destroy(context), errno()), (-1, libc::EFAULT));
        assert!(zmq_init(-1).is_null());
        assert_eq!(errno(), libc::EINVAL);
    }

    #[test]
    fn vectors_are_frames() {
        use crate::context::zmq_socket;
        use crate::socket::{zmq_bind, zmq_close, zmq_connect};
        let context = zmq_ctx_new();
        let (one, other) = (zmq_socket(context, 0), zmq_socket(context, 0));
        let vector =
            |text: &'static [u8]| iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
        let mut sent = [vector(b"one"), vector(b""), vector(b"three")];
        let mut received = [vector(b""), vector(b""), vector(b""), vector(b"")];
        let mut count = 4;
        // SAFETY: C strings, and arrays of the given lengths.
        unsafe {
            assert_eq!(zmq_bind(one, c"inproc://iov".as_ptr()), 0);
            assert_eq!(zmq_connect(other, c"inproc://iov".as_ptr()), 0);
            assert_eq!(zmq_sendiov(one, sent.as_mut_ptr(), 3, 2), 5);
            assert_eq!(zmq_recviov(other, received.as_mut_ptr(), &mut count, 0), 3);
            for (sent, received) in sent.iter().zip(&received) {
                let text = std::slice::from_raw_parts(received.iov_base.cast::<u8>(), received.iov_len);
                assert_eq!(text, std::slice::from_raw_parts(sent.iov_base.cast::<u8>(), sent.iov_len));
                libc::free(received.iov_base);
            }
            assert_eq!((zmq_sendiov(one, sent.as_mut_ptr(), 0, 0), errno()), (-1, libc::EINVAL));
            count = 0;
            let outcome = zmq_recviov(other, received.as_mut_ptr(), &mut count, 0);
            assert_eq!((outcome, errno()), (-1, libc::EINVAL));
        }
        assert_eq!((count, zmq_close(one), zmq_close(other), zmq_term(context)), (0, 0, 0, 0));
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        let (mut vector, mut count) = (iovec { iov_base: null_mut(), iov_len: 0 }, 1);
        // SAFETY: one vector, and null.
        unsafe {
            assert_eq!((zmq_sendiov(null_mut(), &mut vector, 1, 0), errno()), (-1, libc::ENOTSOCK));
            assert_eq!((zmq_recviov(null_mut(), &mut vector, &mut count, 0), errno()), (-1, libc::ENOTSOCK));
        }
        assert_eq!((zmq_device(1, null_mut(), null_mut()), errno()), (-1, libc::EFAULT));
    }
}
