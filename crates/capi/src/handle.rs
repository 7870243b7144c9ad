//! The pointers that C knows sockets and contexts by.
//!
//! Bindings look at the memory behind a pointer. CZMQ compares its first four bytes with the tags of its own
//! objects; then some of its versions ask getsockopt(2) whether they are the number of a descriptor. Others keep it
//! where their language expects an address: Go's runtime ends the process over one that lies in its own heap and
//! leads nowhere. So each pointer leads to a cell of a static table whose first bytes are -1: no tag, no descriptor.
//!
//! A cell is never freed, and holds the engine's handle while the object is open. A pointer that C passes in is
//! compared with the table's bounds before anything is read. Cells are used in turn, so that the pointer of a closed
//! object stays dead until all the others were used.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{mem, ptr};

use pinnace_engine::{Context, Error, Socket, SocketSlot};

/// Sockets, and contexts, that can be open at once in the process. As zeros, they take no memory until they are used.
static SOCKETS: Cells<{ 1 << 18 }> = Cells::new();
static CONTEXTS: Cells<{ 1 << 16 }> = Cells::new();

struct Cells<const N: usize> {
    cells: [Cell; N],
    /// Where the next search for a free cell begins.
    next: AtomicUsize,
}

#[repr(C, align(32))]
struct Cell {
    /// For bindings to read: `NO_DESCRIPTOR` once the cell was used.
    shown: AtomicUsize,
    /// The parts of the engine's handle: null where nothing is open, ...
    content: AtomicPtr<()>,
    /// ... and the number; `FREE` where nothing is open.
    number: AtomicU32,
}

const NO_DESCRIPTOR: usize = usize::MAX;
/// Numbers that no object has: of a free cell, and of one that is just being claimed or released.
const FREE: u32 = 0;
const TAKEN: u32 = u32::MAX;

impl Cell {
    const fn new() -> Cell {
        Cell {
            shown: AtomicUsize::new(0),
            content: AtomicPtr::new(ptr::null_mut()),
            number: AtomicU32::new(FREE),
        }
    }
}

impl<const N: usize> Cells<N> {
    const fn new() -> Cells<N> {
        Cells { cells: [const { Cell::new() }; N], next: AtomicUsize::new(0) }
    }

    /// The pointer to a cell that now holds the two parts; None where all are in use.
    fn claim(&self, content: *mut (), number: u32) -> Option<*mut c_void> {
        for _ in 0..N {
            let cell = &self.cells[self.next.fetch_add(1, Ordering::Relaxed) % N];
            if cell.number.compare_exchange(FREE, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                cell.shown.store(NO_DESCRIPTOR, Ordering::Relaxed);
                cell.content.store(content, Ordering::Relaxed);
                cell.number.store(number, Ordering::Release);
                return Some((&raw const *cell).cast_mut().cast());
            }
        }
        None
    }

    /// The cell that a pointer leads to, if it is one of ours.
    #[inline(always)]
    fn cell(&self, pointer: *mut c_void) -> Option<&Cell> {
        let offset = pointer.addr().wrapping_sub((&raw const self.cells).addr());
        if !offset.is_multiple_of(size_of::<Cell>()) {
            return None;
        }
        self.cells.get(offset / size_of::<Cell>())
    }

    /// Both parts of an open object.
    #[inline(always)]
    fn parts(&self, pointer: *mut c_void) -> Option<(*mut (), u32)> {
        let cell = self.cell(pointer)?;
        let number = cell.number.load(Ordering::Acquire);
        let content = cell.content.load(Ordering::Relaxed);
        (!content.is_null()).then_some((content, number))
    }

    /// The pointer is dead from now on. False where it does not lead to this object (any more).
    fn release(&self, pointer: *mut c_void, content: *mut (), number: u32) -> bool {
        let Some(cell) = self.cell(pointer) else { return false };
        if cell.number.compare_exchange(number, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        // Sockets in other slots have the same numbers.
        let is_its = cell.content.load(Ordering::Relaxed) == content;
        if is_its {
            cell.content.store(ptr::null_mut(), Ordering::Relaxed);
        }
        cell.number.store(if is_its { FREE } else { number }, Ordering::Release);
        is_its
    }
}

/// The pointer for a socket. The socket is closed where there is no room for it.
pub(crate) fn publish(socket: Socket) -> Result<*mut c_void, Error> {
    let (slot, number) = socket.into_parts();
    if let Some(pointer) = SOCKETS.claim(address(slot), number) {
        return Ok(pointer);
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

/// The socket behind a pointer.
#[inline(always)]
pub(crate) fn socket(pointer: *mut c_void) -> Result<Socket, Error> {
    let (slot, number) = SOCKETS.parts(pointer).ok_or(Error::NotSocket)?;
    // SAFETY: what is not null in this table came from `address`, and slots stay for good.
    Ok(Socket::from_parts(unsafe { mem::transmute::<*mut (), SocketSlot>(slot) }, number))
}

/// The pointer is dead from now on. False: it was, for this socket.
pub(crate) fn retire(pointer: *mut c_void, socket: Socket) -> bool {
    let (slot, number) = socket.into_parts();
    SOCKETS.release(pointer, address(slot), number)
}

/// The number of every context's cell: its engine handle is one word.
const CONTEXT: u32 = 1;

/// The pointer for a context.
pub(crate) fn publish_context(context: Context) -> Result<*mut c_void, Error> {
    let raw = context.into_raw();
    if raw == 0 {
        return Err(Error::NoMemory);
    }
    CONTEXTS.claim(ptr::without_provenance_mut(raw), CONTEXT).ok_or_else(|| {
        Context::forget_raw(raw);
        Error::NoMemory
    })
}

/// The context behind a pointer; None where it is that of a forked parent.
pub(crate) fn context(pointer: *mut c_void) -> Result<Option<Context>, Error> {
    let (raw, _) = CONTEXTS.parts(pointer).ok_or(Error::Fault)?;
    Context::from_raw(raw.addr())
}

/// The pointer to a context is dead from now on.
pub(crate) fn retire_context(pointer: *mut c_void) {
    if let Some((raw, number)) = CONTEXTS.parts(pointer)
        && CONTEXTS.release(pointer, raw, number)
    {
        Context::forget_raw(raw.addr());
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;

    #[test]
    fn what_is_no_socket_is_found_out() {
        let table = (&raw const SOCKETS.cells).cast_mut().cast::<c_void>();
        let last = table.wrapping_byte_add(size_of_val(&SOCKETS.cells));
        let odd = table.wrapping_byte_add(8);
        let local = 7_u64;
        for pointer in [std::ptr::null_mut(), last, odd, (&raw const local).cast_mut().cast()] {
            assert_eq!(socket(pointer).err(), Some(Error::NotSocket));
        }
    }

    #[test]
    fn a_cell_is_used_once_and_stays_readable() {
        static CELLS: Cells<2> = Cells::new();
        let content = |raw| ptr::without_provenance_mut(raw);
        let first = CELLS.claim(content(64), 1).unwrap();
        let second = CELLS.claim(content(128), 1).unwrap();
        assert_eq!(CELLS.claim(content(192), 1), None);
        assert_eq!(CELLS.parts(second), Some((content(128), 1)));
        assert!(!CELLS.release(first, content(128), 1), "another one's");
        assert!(CELLS.release(first, content(64), 1));
        assert_eq!((CELLS.release(first, content(64), 1), CELLS.parts(first)), (false, None));
        // SAFETY: cells are never freed.
        assert_eq!(unsafe { first.cast::<c_int>().read() }, -1);
        assert_eq!(CELLS.claim(content(256), 1), Some(first));
    }
}
