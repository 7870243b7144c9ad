//! The pointers that C knows sockets by.
//!
//! CZMQ looks at the first word behind every pointer it is given, to see whether it is one of its own
//! objects: a socket's pointer must therefore be readable. So each leads to a cell of a static table. A cell
//! is never freed; its first word stays zero, those behind it hold the engine's handle while the socket is open.
//! Whatever pointer C passes in is compared with the table's bounds before anything is read, and cells are
//! used in turn, so that a closed socket's pointer stays dead for the next 262,143.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{mem, ptr};

use pinnace_engine::{Error, Socket, SocketSlot};

/// Sockets that can be open at once in the process.
const CELLS: usize = 1 << 18;

#[repr(C, align(32))]
struct Cell {
    /// What others may read.
    blank: AtomicUsize,
    /// The parts of the engine's handle: the slot, null where there is no socket, ...
    slot: AtomicPtr<()>,
    /// ... and the number; 0: free.
    number: AtomicU32,
}

/// The number of a cell whose parts are just being put in or taken out. No socket has it.
const TAKEN: u32 = u32::MAX;

/// Zeros, which take no memory until they are used.
static TABLE: [Cell; CELLS] = [const {
    Cell { blank: AtomicUsize::new(0), slot: AtomicPtr::new(ptr::null_mut()), number: AtomicU32::new(0) }
}; CELLS];
/// Where the next search for a free cell begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The pointer for a socket. The socket is closed where there is no room for it.
pub(crate) fn publish(socket: Socket) -> Result<*mut c_void, Error> {
    let (slot, number) = socket.into_parts();
    for _ in 0..CELLS {
        let cell = &TABLE[NEXT.fetch_add(1, Ordering::Relaxed) % CELLS];
        if cell.number.compare_exchange(0, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            cell.slot.store(address(slot), Ordering::Relaxed);
            cell.number.store(number, Ordering::Release);
            return Ok((&raw const *cell).cast_mut().cast());
        }
    }
    // It has never been used; there is nothing to lose.
    let _ = socket.close();
    Err(Error::TooManySockets)
}

/// A slot as its address.
fn address(slot: SocketSlot) -> *mut () {
    // SAFETY: it is a reference, and nothing else (`repr(transparent)`).
    unsafe { mem::transmute::<SocketSlot, *mut ()>(slot) }
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
    let cell = cell(pointer).ok_or(Error::NotSocket)?;
    let number = cell.number.load(Ordering::Acquire);
    let slot = cell.slot.load(Ordering::Relaxed);
    if slot.is_null() {
        return Err(Error::NotSocket);
    }
    // SAFETY: what is no longer null came from `address`, and slots stay for good.
    Ok(Socket::from_parts(unsafe { mem::transmute::<*mut (), SocketSlot>(slot) }, number))
}

/// The pointer is dead from now on. False: it was, for this socket.
pub(crate) fn retire(pointer: *mut c_void, socket: Socket) -> bool {
    let Some(cell) = cell(pointer) else { return false };
    debug_assert_eq!(cell.blank.load(Ordering::Relaxed), 0);
    let (slot, number) = socket.into_parts();
    if cell.number.compare_exchange(number, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return false;
    }
    // Sockets in other slots have the same numbers.
    let is_its = cell.slot.load(Ordering::Relaxed) == address(slot);
    if is_its {
        cell.slot.store(ptr::null_mut(), Ordering::Relaxed);
    }
    cell.number.store(if is_its { 0 } else { number }, Ordering::Release);
    is_its
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
