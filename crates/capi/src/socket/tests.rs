//! Sockets through the C functions.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::context::{zmq_ctx_new, zmq_ctx_shutdown, zmq_ctx_term, zmq_socket};
use crate::error::errno;
use crate::message::{
    Message, zmq_msg_close, zmq_msg_init, zmq_msg_init_data, zmq_msg_init_size, zmq_msg_more, zmq_msg_recv,
    zmq_msg_send, zmq_msg_size,
};

const PAIR: c_int = 0;
const DEALER: c_int = 5;
const DONTWAIT: c_int = 1;
const SNDMORE: c_int = 2;
const SNDHWM: c_int = 23;
const RCVMORE: c_int = 13;
const LAST_ENDPOINT: c_int = 32;

/// Two connected PAIR sockets.
struct Pair {
    context: *mut c_void,
    one: *mut c_void,
    other: *mut c_void,
}

impl Pair {
    fn new() -> Pair {
        let context = zmq_ctx_new();
        let (one, other) = (zmq_socket(context, PAIR), zmq_socket(context, PAIR));
        let endpoint = c"inproc://pair".as_ptr();
        // SAFETY: C strings.
        unsafe { assert_eq!((zmq_bind(one, endpoint), zmq_connect(other, endpoint)), (0, 0)) };
        Pair { context, one, other }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        zmq_close(self.one);
        zmq_close(self.other);
        zmq_ctx_term(self.context);
    }
}

#[test]
fn each_call_takes_back_its_own_role_first() {
    let context = zmq_ctx_new();
    let dealer = zmq_socket(context, DEALER);
    let endpoint = c"inproc://both".as_ptr();
    type Call = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
    let calls: [(Call, Call, bool); 2] =
        [(zmq_unbind, zmq_disconnect, true), (zmq_disconnect, zmq_unbind, false)];
    for (first, second, frees_the_name) in calls {
        // SAFETY: C strings.
        unsafe {
            assert_eq!((zmq_bind(dealer, endpoint), zmq_connect(dealer, endpoint)), (0, 0));
            assert_eq!(first(dealer, endpoint), 0);
            assert_eq!(zmq_bind(dealer, endpoint) == 0, frees_the_name);
            if frees_the_name {
                assert_eq!(zmq_unbind(dealer, endpoint), 0);
            }
            assert_eq!(second(dealer, endpoint), 0);
            assert_eq!((second(dealer, endpoint), errno()), (-1, libc::ENOENT));
        }
    }
    assert_eq!((zmq_close(dealer), zmq_ctx_term(context)), (0, 0));
}

fn send(socket: *mut c_void, data: &[u8], flags: c_int) -> c_int {
    // SAFETY: the slice is valid for its length.
    unsafe { zmq_send(socket, data.as_ptr().cast(), data.len(), flags) }
}

fn recv(socket: *mut c_void, room: &mut [u8], flags: c_int) -> c_int {
    // SAFETY: the slice is valid for its length.
    unsafe { zmq_recv(socket, room.as_mut_ptr().cast(), room.len(), flags) }
}

#[test]
fn a_message_is_cut_to_the_room_and_tells_its_size() {
    let pair = Pair::new();
    let mut room = [b'.'; 5];
    assert_eq!(send(pair.one, b"longer than that", 0), 16);
    assert_eq!(recv(pair.other, &mut room[..3], 0), 16);
    assert_eq!(&room, b"lon..");
    assert_eq!(send(pair.one, b"", 0), 0);
    // SAFETY: null is allowed for 0 bytes.
    unsafe {
        assert_eq!(zmq_send(pair.one, null_mut(), 0, 0), 0);
        assert_eq!(zmq_recv(pair.other, null_mut(), 0, 0), 0);
        assert_eq!(zmq_recv(pair.other, null_mut(), 0, 0), 0);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let pair = Pair::new();
    // SAFETY: null pointers, which are under test.
    unsafe {
        assert_eq!((zmq_send(pair.one, null_mut(), 1, 0), errno()), (-1, libc::EFAULT));
        assert_eq!((zmq_recv(pair.one, null_mut(), 1, 0), errno()), (-1, libc::EFAULT));
        assert_eq!((zmq_bind(pair.one, null_mut()), errno()), (-1, libc::EFAULT));
        assert_eq!((zmq_bind(pair.one, c"foo://x".as_ptr()), errno()), (-1, libc::EPROTONOSUPPORT));
        assert_eq!((zmq_connect(pair.one, c"tcp://\xff:1".as_ptr()), errno()), (-1, libc::EINVAL));
        assert_eq!((zmq_setsockopt(pair.one, SNDHWM, null_mut(), 4), errno()), (-1, libc::EFAULT));
        assert_eq!((zmq_setsockopt(pair.one, SNDHWM, null_mut(), 0), errno()), (-1, libc::EINVAL));
        assert_eq!((zmq_getsockopt(pair.one, SNDHWM, null_mut(), null_mut()), errno()), (-1, libc::EFAULT));
    }
    assert_eq!((send(pair.one, b"x", 4), errno()), (-1, libc::EINVAL));
    assert_eq!((recv(pair.one, &mut [], 8), errno()), (-1, libc::EINVAL));
    assert_eq!((recv(pair.one, &mut [], DONTWAIT), errno()), (-1, libc::EAGAIN));
    assert!(zmq_socket(pair.context, 99).is_null());
    assert_eq!(errno(), libc::EINVAL);
}

/// These are absent according to docs/compatibility.md.
#[test]
fn what_is_not_there_yet_is_refused() {
    let pair = Pair::new();
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md"));
    let absent = if cfg!(feature = "pgm") { &["norm", "vmci"][..] } else { &["norm", "vmci", "pgm", "epgm"] };
    for later in absent {
        let endpoint = std::ffi::CString::new(format!("{later}://127.0.0.1:1")).unwrap();
        // SAFETY: a C string.
        unsafe {
            assert_eq!((zmq_bind(pair.one, endpoint.as_ptr()), errno()), (-1, libc::EPROTONOSUPPORT));
            assert_eq!((zmq_connect(pair.one, endpoint.as_ptr()), errno()), (-1, libc::EPROTONOSUPPORT));
        }
        assert!(page.contains(&format!("`{later}`")), "{later}");
    }
}

#[test]
fn options_tell_their_length() {
    let pair = Pair::new();
    let (mut value, mut len) = ([0_u8; 64], 64);
    // SAFETY: the buffer and its length.
    unsafe {
        assert_eq!(zmq_getsockopt(pair.one, LAST_ENDPOINT, value.as_mut_ptr().cast(), &mut len), 0);
        assert_eq!(CStr::from_bytes_with_nul(&value[..len]), Ok(c"inproc://pair"));
        len = 3;
        assert_eq!(zmq_getsockopt(pair.one, SNDHWM, value.as_mut_ptr().cast(), &mut len), -1);
        assert_eq!(errno(), libc::EINVAL);
        let hwm = 7_i32;
        assert_eq!(zmq_setsockopt(pair.one, SNDHWM, (&raw const hwm).cast(), 4), 0);
        len = 64;
        assert_eq!(zmq_getsockopt(pair.one, SNDHWM, value.as_mut_ptr().cast(), &mut len), 0);
        assert_eq!((len, &value[..4]), (4, &7_i32.to_ne_bytes()[..]));
    }
}

#[test]
fn parts_tell_that_more_follow() {
    let pair = Pair::new();
    assert_eq!((send(pair.one, b"a", SNDMORE), send(pair.one, b"b", 0)), (1, 1));
    let (mut more, mut len) = (0_i32, 4);
    for expected in [1, 0] {
        assert_eq!(recv(pair.other, &mut [0], 0), 1);
        // SAFETY: an int and its length.
        unsafe { zmq_getsockopt(pair.other, RCVMORE, (&raw mut more).cast(), &mut len) };
        assert_eq!(more, expected);
    }
}

#[test]
fn a_closed_socket_is_no_socket() {
    let pair = Pair::new();
    assert_eq!(zmq_close(pair.one), 0);
    assert_eq!((zmq_close(pair.one), errno()), (-1, libc::ENOTSOCK));
    assert_eq!((send(pair.one, b"x", 0), errno()), (-1, libc::ENOTSOCK));
    let next = zmq_socket(pair.context, PAIR);
    assert_ne!(next, pair.one);
    assert_eq!(zmq_close(next), 0);
}

#[test]
fn an_ended_context_ends_its_sockets() {
    let pair = Pair::new();
    assert_eq!(zmq_ctx_shutdown(pair.context), 0);
    assert_eq!((send(pair.one, b"x", 0), errno()), (-1, pinnace_engine::ETERM));
    assert_eq!((recv(pair.one, &mut [], 0), errno()), (-1, pinnace_engine::ETERM));
    assert!(zmq_socket(pair.context, PAIR).is_null());
    assert_eq!(errno(), pinnace_engine::ETERM);
}

/// CZMQ reads four bytes at every pointer.
#[test]
fn the_pointer_of_a_socket_can_be_read() {
    let pair = Pair::new();
    // SAFETY: under test: the pointer refers to a readable int, which is no descriptor's number.
    assert_eq!(unsafe { pair.one.cast::<c_int>().read_volatile() }, -1);
}

#[test]
fn messages_travel_and_are_freed_once() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn free(data: *mut c_void, len: *mut c_void) {
        FREED.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the boxed slice of that length, leaked below.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast::<u8>(), len.addr())) });
    }
    let pair = Pair::new();
    let mut memory = std::mem::MaybeUninit::<Message>::uninit();
    let message = memory.as_mut_ptr();
    let sizes = [0, 1, 48, 49, 1023, 1024, 32 * 1024, 32 * 1024 + 1, 1 << 20];
    for (count, &size) in sizes.iter().enumerate() {
        let data = Box::into_raw(vec![size as u8; size].into_boxed_slice()).cast::<c_void>();
        // SAFETY: a message, initialised before each use, and data of that size.
        unsafe {
            let hint = std::ptr::without_provenance_mut(size);
            assert_eq!(zmq_msg_init_data(message, data, size, Some(free), hint), 0);
            assert_eq!(zmq_msg_send(message, null_mut(), 0), -1);
            assert_eq!(zmq_msg_size(message), size, "what failed leaves it");
            assert_eq!(zmq_msg_send(message, pair.one, SNDMORE), size as c_int);
            assert_eq!(zmq_msg_size(message), 0, "what was sent is empty");
            assert_eq!(zmq_msg_init_size(message, size), 0);
            assert_eq!(zmq_msg_send(message, pair.one, 0), size as c_int);

            assert_eq!(zmq_msg_init(message), 0);
            assert_eq!(zmq_msg_recv(message, pair.other, 0), size as c_int);
            assert_eq!((zmq_msg_size(message), zmq_msg_more(message)), (size, 1));
            assert!((*message).data().iter().all(|&byte| byte == size as u8));
            assert_eq!(zmq_msg_recv(message, pair.other, 0), size as c_int);
            assert_eq!(zmq_msg_more(message), 0);
            assert_eq!((zmq_msg_close(message), zmq_msg_close(message)), (0, -1));
        }
        assert_eq!(FREED.load(Ordering::SeqCst), count + 1, "{size} bytes");
    }
}

#[test]
fn constant_bytes_are_sent_without_being_freed() {
    static DATA: [u8; 4096] = [7; 4096];
    let pair = Pair::new();
    for len in [0, 10, 4096] {
        // SAFETY: static data.
        assert_eq!(unsafe { zmq_send_const(pair.one, DATA.as_ptr().cast(), len, 0) }, len as c_int);
        let mut room = [0; 4096];
        assert_eq!(recv(pair.other, &mut room, 0), len as c_int);
        assert_eq!(room[..len], DATA[..len]);
    }
}

#[test]
fn draft_functions_refuse_null() {
    use super::draft::{zmq_connect_peer, zmq_disconnect_peer, zmq_join, zmq_leave};
    let pair = Pair::new();
    for kind in [15, 19] {
        let socket = zmq_socket(pair.context, kind);
        // SAFETY: null pointers, and a socket.
        unsafe {
            assert_eq!((zmq_join(null_mut(), c"g".as_ptr()), errno()), (-1, libc::ENOTSOCK));
            assert_eq!((zmq_join(socket, std::ptr::null()), errno()), (-1, libc::EFAULT));
            assert_eq!((zmq_leave(socket, std::ptr::null()), errno()), (-1, libc::EFAULT));
            assert_eq!((zmq_connect_peer(null_mut(), c"inproc://x".as_ptr()), errno()), (0, libc::ENOTSOCK));
            assert_eq!((zmq_connect_peer(socket, std::ptr::null()), errno()), (0, libc::EFAULT));
        }
        assert_eq!((zmq_disconnect_peer(null_mut(), 1), errno()), (-1, libc::ENOTSOCK));
        assert_eq!(zmq_close(socket), 0);
    }
}
