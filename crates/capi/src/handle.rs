//! The pointers that C knows sockets by.
//!
//! CZMQ looks at the first word behind every pointer it is given, to see whether it is one of its own
//! objects: a socket's pointer must therefore be readable. So each leads to a cell of a static table. A cell
//! is never freed; its first word stays zero, its second holds the engine's handle while the socket is open.
//! Whatever pointer C passes in is compared with the table's bounds before anything is read, and cells are
//! used in turn, so that a closed socket's pointer stays dead for the next 262,143.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinnace_engine::{Error, Socket};

/// Sockets that can be open at once in the process.
const CELLS: usize = 1 << 18;

#[repr(C, align(16))]
struct Cell {
    /// What others may read.
    blank: AtomicUsize,
    /// The engine's handle; 0: free.
    raw: AtomicUsize,
}

/// Zeros, which take no memory until they are used.
static TABLE: [Cell; CELLS] =
    [const { Cell { blank: AtomicUsize::new(0), raw: AtomicUsize::new(0) } }; CELLS];
/// Where the next search for a free cell begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The pointer for a socket. The socket is closed where there is no room for it.
pub(crate) fn publish(socket: Socket) -> Result<*mut c_void, Error> {
    let raw = socket.into_raw();
    for _ in 0..CELLS {
        let cell = &TABLE[NEXT.fetch_add(1, Ordering::Relaxed) % CELLS];
        if cell.raw.compare_exchange(0, raw, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Ok((&raw const *cell).cast_mut().cast());
        }
    }
    // It has never been used; there is nothing to lose.
    let _ = socket.close();
    Err(Error::TooManySockets)
}

/// The cell that a pointer leads to, if it is one of ours.
#[inline(always)]
fn cell(pointer: *mut c_void) -> Option<&'static Cell> {
    let offset = pointer.addr().wrapping_sub((&raw const TABLE).addr());
    if !offset.is_multiple_of(size_of::<Cell>()) {
        return None;
    }
    TABLE.get(offset / size_of::<Cell>())
}

/// The socket behind a pointer.
#[inline(always)]
pub(crate) fn socket(pointer: *mut c_void) -> Result<Socket, Error> {
    let raw = cell(pointer).ok_or(Error::NotSocket)?.raw.load(Ordering::Relaxed);
    Socket::from_raw(raw).ok_or(Error::NotSocket)
}

/// The pointer is dead from now on. False: it was, for this socket.
pub(crate) fn retire(pointer: *mut c_void, socket: Socket) -> bool {
    let Some(cell) = cell(pointer) else { return false };
    debug_assert_eq!(cell.blank.load(Ordering::Relaxed), 0);
    cell.raw.compare_exchange(socket.into_raw(), 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_socket_is_found_out() {
        let table = (&raw const TABLE).cast_mut().cast::<c_void>();
        let last = table.wrapping_byte_add(size_of_val(&TABLE));
        let odd = table.wrapping_byte_add(8);
        let local = 7_u64;
        for pointer in [std::ptr::null_mut(), last, odd, (&raw const local).cast_mut().cast()] {
            assert_eq!(socket(pointer).err(), Some(Error::NotSocket));
        }
    }
}
