//! The pointers that represent sockets and contexts in C.
//!
//! Bindings read the memory behind a pointer. CZMQ compares its first four bytes with the tags of its own objects; some
//! versions then ask getsockopt(2) whether these bytes are a descriptor. Other bindings keep the pointer where their
//! language expects an address: Go's runtime aborts the process if a pointer into its own heap does not point to an
//! object. So each pointer refers to a cell of a static table, and the cell's first bytes are -1: neither a tag nor a
//! descriptor.
//!
//! A cell is never freed, and holds the engine's handle while the object is open. A pointer passed in by C is checked
//! against the table's bounds before anything is read. Cells are allocated round-robin, so the pointer of a closed
//! object stays invalid until all other cells were used.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::{mem, ptr};

use pinnace_engine::{Context, Error, Socket, SocketSlot};

/// Tables of open sockets and of contexts; their sizes are process-wide limits. They are zeros, and untouched pages
/// take no memory.
static SOCKETS: Cells<{ 1 << 18 }> = Cells::new();
static CONTEXTS: Cells<{ 1 << 16 }> = Cells::new();

struct Cells<const N: usize> {
    cells: [Cell; N],
    /// Index at which the next search for a free cell starts.
    next: AtomicUsize,
}

#[repr(C, align(32))]
struct Cell {
    /// Read by bindings: `NO_DESCRIPTOR` from the cell's first use on.
    shown: AtomicUsize,
    /// First part of the engine's handle; null if nothing is open.
    content: AtomicPtr<()>,
    /// Second part: the number; `FREE` if nothing is open.
    number: AtomicU32,
}

const NO_DESCRIPTOR: usize = usize::MAX;
/// Numbers that no object has: `FREE` in a free cell, `TAKEN` in one that is being claimed or released.
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

    /// Claims a cell for the two parts, and returns its address; None if all are in use.
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

    /// The cell at a pointer, if the pointer is one of ours.
    #[inline(always)]
    fn cell(&self, pointer: *mut c_void) -> Option<&Cell> {
        let offset = pointer.addr().wrapping_sub((&raw const self.cells).addr());
        if !offset.is_multiple_of(size_of::<Cell>()) {
            return None;
        }
        self.cells.get(offset / size_of::<Cell>())
    }

    /// Both parts of an open object's handle.
    #[inline(always)]
    fn parts(&self, pointer: *mut c_void) -> Option<(*mut (), u32)> {
        let cell = self.cell(pointer)?;
        let number = cell.number.load(Ordering::Acquire);
        let content = cell.content.load(Ordering::Relaxed);
        (!content.is_null()).then_some((content, number))
    }

    /// Invalidates the pointer. False if it does not belong to this object (any more).
    fn release(&self, pointer: *mut c_void, content: *mut (), number: u32) -> bool {
        let Some(cell) = self.cell(pointer) else { return false };
        if cell.number.compare_exchange(number, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        // Sockets in different slots may have equal numbers, so compare the slot too.
        let is_its = cell.content.load(Ordering::Relaxed) == content;
        if is_its {
            cell.content.store(ptr::null_mut(), Ordering::Relaxed);
        }
        cell.number.store(if is_its { FREE } else { number }, Ordering::Release);
        is_its
    }
}

/// Returns the pointer for a socket. If the table is full, closes the socket and returns TooManySockets.
pub(crate) fn publish(socket: Socket) -> Result<*mut c_void, Error> {
    let (slot, number) = socket.into_parts();
    if let Some(pointer) = SOCKETS.claim(address(slot), number) {
        return Ok(pointer);
    }
    // The socket is unused, so closing it loses nothing.
    let _ = socket.close();
    Err(Error::TooManySockets)
}

/// A slot as its address.
fn address(slot: SocketSlot) -> *mut () {
    // SAFETY: a slot is only a reference (`repr(transparent)`).
    unsafe { mem::transmute::<SocketSlot, *mut ()>(slot) }
}

/// The socket behind a pointer.
#[inline(always)]
pub(crate) fn socket(pointer: *mut c_void) -> Result<Socket, Error> {
    let (slot, number) = SOCKETS.parts(pointer).ok_or(Error::NotSocket)?;
    // SAFETY: a non-null entry of this table came from `address`, and slots are never freed.
    Ok(Socket::from_parts(unsafe { mem::transmute::<*mut (), SocketSlot>(slot) }, number))
}

/// Invalidates the pointer. False if it was invalid for this socket already.
pub(crate) fn retire(pointer: *mut c_void, socket: Socket) -> bool {
    let (slot, number) = socket.into_parts();
    SOCKETS.release(pointer, address(slot), number)
}

/// The number in every context's cell: a context's engine handle is a single word.
const CONTEXT: u32 = 1;

/// Returns the pointer for a context.
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

/// The context behind a pointer; None if it belongs to the parent of this forked process.
pub(crate) fn context(pointer: *mut c_void) -> Result<Option<Context>, Error> {
    let (raw, _) = CONTEXTS.parts(pointer).ok_or(Error::Fault)?;
    Context::from_raw(raw.addr())
}

/// Invalidates the pointer to a context.
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
