//! Messages as C uses them.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::repr::{BLOCK_MAX, INLINE_MAX};
use super::*;
use crate::error::{errno, set_errno};

/// Memory for a zmq_msg_t, as C has it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Raw([u8; 64]);

impl Raw {
    fn garbage() -> Raw {
        Raw([0xA5; 64])
    }

    fn ptr(&mut self) -> *mut Message {
        (&raw mut self.0).cast()
    }

    fn of(data: &[u8]) -> Raw {
        let mut raw = Raw::garbage();
        // SAFETY: memory for a message, then one with room for the data.
        unsafe {
            assert_eq!(zmq_msg_init_size(raw.ptr(), data.len()), 0);
            let to = zmq_msg_data(raw.ptr());
            std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), data.len());
        }
        raw
    }

    fn data(&mut self) -> Vec<u8> {
        // SAFETY: a message.
        unsafe {
            let (at, len) = (zmq_msg_data(self.ptr()), zmq_msg_size(self.ptr()));
            assert!(!at.is_null());
            std::slice::from_raw_parts(at.cast::<u8>(), len).to_vec()
        }
    }

    fn close(&mut self) -> c_int {
        // SAFETY: memory of a message.
        unsafe { zmq_msg_close(self.ptr()) }
    }

    fn lies_inside(&mut self) -> bool {
        let at = self.ptr().addr();
        // SAFETY: a message.
        (at..at + 64).contains(&unsafe { zmq_msg_data(self.ptr()) }.addr())
    }
}

unsafe extern "C" fn count(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: each test passes a counter that outlives its messages.
    unsafe { &*hint.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn counted(data: &'static [u8], freed: &AtomicUsize) -> Raw {
    let mut raw = Raw::garbage();
    let (data_ptr, hint) = (data.as_ptr().cast_mut().cast(), (&raw const *freed).cast_mut().cast());
    // SAFETY: static data, and a counter that outlives the message.
    assert_eq!(unsafe { zmq_msg_init_data(raw.ptr(), data_ptr, data.len(), Some(count), hint) }, 0);
    raw
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7) as u8).collect()
}

#[test]
fn every_size_holds_its_bytes() {
    for len in [0, 1, 33, 34, INLINE_MAX, INLINE_MAX + 1, 1032, BLOCK_MAX, BLOCK_MAX + 1, 3 << 20] {
        let mut raw = Raw::of(&pattern(len));
        assert_eq!(raw.data(), pattern(len));
        assert_eq!(raw.lies_inside(), len <= INLINE_MAX, "{len} bytes");
        assert_eq!(raw.close(), 0);
    }
}

#[test]
fn large_data_are_aligned_as_mallocs_are() {
    for len in [INLINE_MAX + 1, 1000, BLOCK_MAX] {
        let mut raw = Raw::of(&pattern(len));
        // SAFETY: a message.
        assert_eq!(unsafe { zmq_msg_data(raw.ptr()) }.addr() % 16, 0);
        raw.close();
    }
}

#[test]
fn a_message_moves_by_memcpy() {
    for len in [5, INLINE_MAX, 100, BLOCK_MAX + 1] {
        let mut here = Raw::of(&pattern(len));
        let mut there = here;
        here = Raw::garbage();
        assert_eq!(there.data(), pattern(len));
        assert_eq!(there.close(), 0);
        assert_eq!(here.close(), -1);
    }
}

#[test]
fn what_is_no_message_is_a_fault() {
    let mut ok = Raw::of(b"ok");
    let closed = {
        let mut raw = Raw::of(b"x");
        assert_eq!(raw.close(), 0);
        raw
    };
    for mut bad in [Raw([0; 64]), Raw([0xff; 64]), Raw::garbage(), closed] {
        let ptr = bad.ptr();
        let outcomes = |ptr: *mut Message, ok: *mut Message| {
            // SAFETY: memory of messages, or null.
            unsafe {
                [
                    zmq_msg_close(ptr),
                    zmq_msg_get(ptr, 1),
                    zmq_msg_set(ptr, 1, 1),
                    zmq_msg_move(ok, ptr),
                    zmq_msg_copy(ok, ptr),
                    zmq_msg_move(ptr, ok),
                    zmq_msg_copy(ptr, ok),
                ]
            }
        };
        for ptr in [ptr, null_mut()] {
            set_errno(0);
            assert_eq!(outcomes(ptr, ok.ptr()), [-1; 7]);
            assert_eq!(errno(), libc::EFAULT);
            // SAFETY: as above. A program that loops while there are more frames must not loop forever on an invalid
            // message.
            assert_eq!(unsafe { zmq_msg_more(ptr) }, 0);
            // SAFETY: memory of a message, or null.
            unsafe {
                assert!(zmq_msg_data(ptr).is_null());
                assert_eq!(zmq_msg_size(ptr), 0);
            }
        }
        assert_eq!(ok.data(), b"ok", "what failed changed nothing");
    }
    // SAFETY: null pointers.
    unsafe {
        assert_eq!(zmq_msg_init(null_mut()), -1);
        assert_eq!(zmq_msg_init_size(null_mut(), 1), -1);
        assert_eq!(zmq_msg_init_data(null_mut(), null_mut(), 0, None, null_mut()), -1);
    }
    ok.close();
}

#[test]
fn a_size_that_cannot_be_is_no_memory() {
    let mut raw = Raw::garbage();
    for size in [usize::MAX, isize::MAX as usize, 1 << 60] {
        // SAFETY: memory for a message.
        assert_eq!(unsafe { zmq_msg_init_size(raw.ptr(), size) }, -1);
        assert_eq!(errno(), libc::ENOMEM);
    }
}

#[test]
fn moving_empties_and_closes() {
    let freed = AtomicUsize::new(0);
    let (mut to, mut from) = (counted(b"old", &freed), Raw::of(&pattern(100)));
    // SAFETY: two messages.
    assert_eq!(unsafe { zmq_msg_move(to.ptr(), from.ptr()) }, 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
    assert_eq!((to.data(), from.data()), (pattern(100), Vec::new()));
    // SAFETY: the same message twice.
    unsafe {
        assert_eq!(zmq_msg_move(to.ptr(), to.ptr()), 0);
        assert_eq!(zmq_msg_copy(to.ptr(), to.ptr()), 0);
    }
    assert_eq!(to.data(), pattern(100));
    assert_eq!((to.close(), from.close()), (0, 0));
}

#[test]
fn copies_share_what_is_large() {
    for len in [3, INLINE_MAX, 100, BLOCK_MAX + 1] {
        let (mut first, mut second) = (Raw::of(&pattern(len)), Raw::of(b"old"));
        // SAFETY: two messages.
        unsafe {
            assert_eq!(zmq_msg_get(first.ptr(), SHARED), 0);
            assert_eq!(zmq_msg_copy(second.ptr(), first.ptr()), 0);
            let large = len > INLINE_MAX;
            assert_eq!(zmq_msg_get(first.ptr(), SHARED), c_int::from(large));
            assert_eq!(zmq_msg_data(first.ptr()) == zmq_msg_data(second.ptr()), large);
        }
        assert_eq!(first.close(), 0);
        assert_eq!(second.data(), pattern(len));
        assert_eq!(second.close(), 0);
    }
}

#[test]
fn the_free_function_is_called_once() {
    static LARGE: [u8; 5000] = [7; 5000];
    for data in [b"".as_slice(), b"small", &LARGE] {
        let freed = AtomicUsize::new(0);
        let (mut first, mut second) = (counted(data, &freed), Raw::of(b""));
        // SAFETY: two messages.
        unsafe {
            assert_eq!(
                zmq_msg_data(first.ptr()).addr(),
                data.as_ptr().addr(),
                "the bytes stay where they are"
            );
            assert_eq!(zmq_msg_copy(second.ptr(), first.ptr()), 0);
        }
        assert_eq!(first.close(), 0);
        assert_eq!((freed.load(Ordering::SeqCst), first.close()), (0, -1));
        let mut second = [second];
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(second[0].close(), 0));
        });
        assert_eq!(freed.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn sending_in_vain_leaves_the_message() {
    let freed = AtomicUsize::new(0);
    let mut raw = counted(b"still here", &freed);
    // SAFETY: a message, and no socket.
    unsafe {
        assert_eq!(zmq_msg_send(raw.ptr(), null_mut(), 0), -1);
        assert_eq!(errno(), libc::ENOTSOCK);
        assert_eq!(zmq_msg_recv(raw.ptr(), null_mut(), 0), -1);
        assert_eq!(errno(), libc::ENOTSOCK);
    }
    assert_eq!((raw.data().as_slice(), freed.load(Ordering::SeqCst)), (b"still here".as_slice(), 0));
    raw.close();
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

#[test]
fn constant_data_are_borrowed() {
    static DATA: [u8; 3] = *b"abc";
    let mut raw = Raw::garbage();
    let data = DATA.as_ptr().cast_mut().cast();
    // SAFETY: static data.
    unsafe {
        assert_eq!(zmq_msg_init_data(raw.ptr(), data, 3, None, null_mut()), 0);
        assert_eq!(zmq_msg_data(raw.ptr()), data);
        assert_eq!(zmq_msg_get(raw.ptr(), SHARED), 1);
        assert_eq!(zmq_msg_init_data(Raw::garbage().ptr(), null_mut(), 3, None, null_mut()), -1);
    }
    assert_eq!((raw.data().as_slice(), raw.close()), (b"abc".as_slice(), 0));
}

#[test]
fn properties_are_few() {
    let mut raw = Raw::of(b"x");
    // SAFETY: a message, C strings, and null.
    unsafe {
        assert_eq!(zmq_msg_more(raw.ptr()), 0);
        assert_eq!(zmq_msg_get(raw.ptr(), MORE), 0);
        assert_eq!(zmq_msg_get(raw.ptr(), SRCFD), -1);
        assert_eq!(zmq_msg_get(raw.ptr(), 99), -1);
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(zmq_msg_set(raw.ptr(), MORE, 1), -1);
        assert_eq!(errno(), libc::EINVAL);
        for name in [c"Socket-Type", c"Routing-Id", c"User-Id", c"Peer-Address", c""] {
            set_errno(0);
            assert_eq!(zmq_msg_gets(raw.ptr(), name.as_ptr()), null());
            assert_eq!(errno(), libc::EINVAL);
        }
        assert_eq!(zmq_msg_gets(raw.ptr(), null()), null());
        assert_eq!(errno(), libc::EFAULT);
    }
    raw.close();
}

#[test]
fn uninitialised_memory_can_be_initialised() {
    let mut memory = MaybeUninit::<Message>::uninit();
    // SAFETY: memory for a message.
    unsafe {
        assert_eq!(zmq_msg_init(memory.as_mut_ptr()), 0);
        assert_eq!(zmq_msg_size(memory.as_ptr()), 0);
        assert_eq!(zmq_msg_close(memory.as_mut_ptr()), 0);
    }
}
