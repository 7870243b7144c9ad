//! A pool of buffers for large bodies.
//!
//! A fresh buffer of a MiB costs a system call and a page fault per 4 KiB, which is more than moving the bytes. So
//! freed buffers are kept here, by size class, up to [`KEPT_BYTES`] for the whole process.

use std::alloc::{Layout, alloc_zeroed};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::NoMemory;

/// The most bytes of free buffers that the process keeps.
const KEPT_BYTES: usize = 16 << 20;
/// Smallest and largest size class, as powers of two: 32 KiB to 4 MiB.
const MIN_CLASS: u32 = 15;
const MAX_CLASS: u32 = 22;
const CLASSES: usize = (MAX_CLASS - MIN_CLASS + 1) as usize;

/// Smaller buffers are allocated and freed without the pool.
const POOLED_MIN: usize = 16 * 1024;

static FREE: [Mutex<Vec<Vec<u8>>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];
static KEPT: AtomicUsize = AtomicUsize::new(0);

fn class_of(size: usize) -> Option<u32> {
    let class = size.checked_next_power_of_two()?.trailing_zeros().max(MIN_CLASS);
    (class <= MAX_CLASS).then_some(class)
}

fn shelf(class: u32) -> &'static Mutex<Vec<Vec<u8>>> {
    &FREE[(class - MIN_CLASS) as usize]
}

/// A buffer of at least `size` bytes, all initialised: zeros in a fresh one, old content in a kept one.
pub(crate) fn take(size: usize) -> Result<Vec<u8>, NoMemory> {
    match kept(size) {
        Some(mut buffer) => {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            Ok(buffer)
        }
        None => zeroed(room_for(size)),
    }
}

/// A buffer that begins with `data`; nothing else is written to it.
pub(crate) fn take_filled(data: &[u8]) -> Result<Vec<u8>, NoMemory> {
    let mut buffer = match kept(data.len()) {
        Some(buffer) => buffer,
        None => unset(room_for(data.len()))?,
    };
    match buffer.get_mut(..data.len()) {
        Some(start) => start.copy_from_slice(data),
        None => {
            buffer.clear();
            buffer.extend_from_slice(data);
        }
    }
    Ok(buffer)
}

/// An empty buffer with room for `size` bytes.
pub(crate) fn take_empty(size: usize) -> Result<Vec<u8>, NoMemory> {
    match kept(size) {
        Some(mut buffer) => {
            buffer.clear();
            Ok(buffer)
        }
        None => unset(room_for(size)),
    }
}

/// Bytes to allocate for `size` bytes: the full size of the class, so that the buffer can be kept.
fn room_for(size: usize) -> usize {
    match class_of(size) {
        Some(class) if size >= POOLED_MIN => 1 << class,
        _ => size,
    }
}

/// A kept buffer with room for `size` bytes. Its bytes up to `len()` are initialised.
fn kept(size: usize) -> Option<Vec<u8>> {
    if size < POOLED_MIN {
        return None;
    }
    // After a fork the lock may stay held in the child for ever: never wait for it.
    let buffer = shelf(class_of(size)?).try_lock().ok()?.pop()?;
    KEPT.fetch_sub(buffer.capacity(), Ordering::Relaxed);
    Some(buffer)
}

/// Fresh uninitialised memory.
fn unset(size: usize) -> Result<Vec<u8>, NoMemory> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(size).map_err(|_| NoMemory)?;
    Ok(buffer)
}

/// Fresh zeros. The kernel backs large ones lazily: what a peer announces but never sends takes no pages.
fn zeroed(size: usize) -> Result<Vec<u8>, NoMemory> {
    let layout = Layout::array::<u8>(size).map_err(|_| NoMemory)?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let ptr = unsafe { alloc_zeroed(layout) };
    if ptr.is_null() {
        return Err(NoMemory);
    }
    // SAFETY: just allocated by the global allocator with this size and alignment, and zeroed.
    Ok(unsafe { Vec::from_raw_parts(ptr, size, size) })
}

/// Returns a buffer to the pool.
pub(crate) fn give(buffer: Vec<u8>) {
    let capacity = buffer.capacity();
    let Some(class) = class_of(capacity) else { return };
    if capacity != 1 << class || KEPT.load(Ordering::Relaxed) + capacity > KEPT_BYTES {
        return;
    }
    if let Ok(mut free) = shelf(class).try_lock() {
        KEPT.fetch_add(capacity, Ordering::Relaxed);
        free.push(buffer);
    }
}
