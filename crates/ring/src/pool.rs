//! Buffers for large bodies, kept for their next use.
//!
//! A fresh buffer of a MiB costs a system call and a page fault per 4 KiB, which is more than moving the
//! bytes; so freed buffers wait here, by size class, up to [`KEPT_BYTES`] in all for the process.

use std::alloc::{Layout, alloc_zeroed};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::NoMemory;

/// Bytes of free buffers that are kept for the process.
const KEPT_BYTES: usize = 16 << 20;
/// Smallest and largest class that is kept, as powers of two: 32 KiB to 4 MiB.
const MIN_CLASS: u32 = 15;
const MAX_CLASS: u32 = 22;
const CLASSES: usize = (MAX_CLASS - MIN_CLASS + 1) as usize;

/// Smaller buffers are had and given back as any other memory.
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

/// A buffer of `size` bytes at least, all of them set: zeros in a fresh one, whatever it held before in a kept one.
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

/// A buffer that begins with `data`, into which nothing else was written.
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

/// What is allocated for `size` bytes: all of its class, so that it can be kept.
fn room_for(size: usize) -> usize {
    match class_of(size) {
        Some(class) if size >= POOLED_MIN => 1 << class,
        _ => size,
    }
}

/// A buffer that was handed back, with room for `size` bytes; as many of them are set as its length says.
fn kept(size: usize) -> Option<Vec<u8>> {
    if size < POOLED_MIN {
        return None;
    }
    // A fork may leave the lock held in the child for ever: never wait for it.
    let buffer = shelf(class_of(size)?).try_lock().ok()?.pop()?;
    KEPT.fetch_sub(buffer.capacity(), Ordering::Relaxed);
    Some(buffer)
}

/// Fresh memory of which nothing is set.
fn unset(size: usize) -> Result<Vec<u8>, NoMemory> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(size).map_err(|_| NoMemory)?;
    Ok(buffer)
}

/// Fresh zeros. The kernel gives large ones lazily: what a peer claims but never sends is never touched.
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
    // SAFETY: allocated just now by the global allocator with this size and alignment, and set to zero.
    Ok(unsafe { Vec::from_raw_parts(ptr, size, size) })
}

/// Hands a buffer back.
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
