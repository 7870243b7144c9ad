//! Handles that can be checked: an index and a generation, instead of an address.
//!
//! Whatever a caller passes in (a closed socket, a pointer to something else, garbage) is found out before
//! any memory is touched. A slot's memory is never given back, so that its lock can be taken without knowing
//! whether its content is still there. What was made before a fork belongs to the parent: the child's calls
//! on it are told so without taking a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{BiasedGuard, BiasedLock, Reentered};
use pinnace_sys::fork;

use crate::error::Error;

/// Slots in a chunk, and chunks: 2^20 slots in all.
const CHUNK: usize = 256;
const CHUNKS: usize = 4096;
/// Generations that a handle can tell apart.
const GENERATIONS: u32 = 1 << 24;

/// A handle: which slot, and which of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    index: u32,
    generation: u32,
}

/// Why a handle leads to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// There is nothing (any more).
    Gone,
    /// It was made before a fork, and is the parent's.
    Inherited,
    /// This very thread has it locked: the engine has called the caller's code, which called back.
    Entered,
}

/// For a socket's handle.
impl From<Dead> for Error {
    fn from(dead: Dead) -> Error {
        match dead {
            Dead::Gone | Dead::Inherited => Error::NotSocket,
            Dead::Entered => Error::Reentered,
        }
    }
}

/// On cache lines of its own: neighbours are used by other threads.
#[repr(align(128))]
struct Slot<T> {
    fork: AtomicU32,
    held: BiasedLock<Held<T>>,
}

type Entered<T> = Result<BiasedGuard<'static, Held<T>>, Reentered>;

pub(crate) struct Held<T> {
    generation: u32,
    content: Option<T>,
}

/// All things of one kind that callers hold handles of.
pub(crate) struct Table<T: 'static> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: Mutex<Vec<u32>>,
    never_used: AtomicU32,
    /// Tells this table's handles from another's.
    tag: usize,
}

impl<T> Table<T> {
    pub(crate) const fn new(tag: usize) -> Table<T> {
        assert!(tag < 16);
        Table {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Vec::new()),
            never_used: AtomicU32::new(0),
            tag,
        }
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.get()?;
        chunk.get(index as usize % CHUNK)
    }

    /// Puts `content` in; None where the table is full.
    pub(crate) fn insert(&self, content: T) -> Option<Handle> {
        // After a fork the list may stay locked for ever by a thread that is not here: then take a fresh
        // slot.
        let index = self.free.try_lock().and_then(|mut free| free.pop());
        let index = index.unwrap_or_else(|| self.never_used.fetch_add(1, Ordering::Relaxed));
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::empty()).collect());
        let slot = &chunk[index as usize % CHUNK];
        let mut held = slot.held.lock().ok()?;
        slot.fork.store(fork::generation(), Ordering::Relaxed);
        held.generation = (held.generation + 1) % GENERATIONS;
        held.content = Some(content);
        Some(Handle { index, generation: held.generation })
    }

    /// What the handle leads to, locked.
    #[inline(always)]
    pub(crate) fn lock(&'static self, handle: Handle) -> Result<Locked<T>, Dead> {
        self.enter(handle, |held| held.lock())
    }

    /// The same for a look now and then, which leaves the lock to the thread that uses it most.
    pub(crate) fn visit(&'static self, handle: Handle) -> Result<Locked<T>, Dead> {
        self.enter(handle, |held| held.visit())
    }

    #[inline(always)]
    fn enter(
        &'static self,
        handle: Handle,
        way: impl FnOnce(&'static BiasedLock<Held<T>>) -> Entered<T>,
    ) -> Result<Locked<T>, Dead> {
        let slot = self.slot(handle.index).ok_or(Dead::Gone)?;
        if slot.fork.load(Ordering::Relaxed) != fork::generation() {
            return Err(Dead::Inherited);
        }
        let held = way(&slot.held).map_err(|_| Dead::Entered)?;
        if held.generation != handle.generation || held.content.is_none() {
            return Err(Dead::Gone);
        }
        Ok(Locked(held))
    }

    /// Takes the content out; the handle is dead from now on.
    pub(crate) fn remove(&'static self, handle: Handle) -> Result<T, Dead> {
        let content = self.lock(handle)?.0.content.take().ok_or(Dead::Gone)?;
        if let Some(slot) = self.slot(handle.index) {
            slot.held.leave_to_others();
        }
        if let Some(mut free) = self.free.try_lock() {
            free.push(handle.index);
        }
        Ok(content)
    }

    /// The handle as a number that callers keep: never 0, never odd enough to be taken for text, the same
    /// width as a pointer.
    pub(crate) fn to_raw(&self, handle: Handle) -> usize {
        (handle.generation as usize) << 24 | (handle.index as usize) << 4 | self.tag
    }

    /// The handle that a number stands for, if it has the form of one.
    #[inline(always)]
    pub(crate) fn handle(&self, raw: usize) -> Option<Handle> {
        if raw & 15 != self.tag || raw >> 48 != 0 {
            return None;
        }
        Some(Handle { index: (raw >> 4 & 0xf_ffff) as u32, generation: (raw >> 24) as u32 })
    }
}

impl<T> Slot<T> {
    fn empty() -> Slot<T> {
        Slot { fork: AtomicU32::new(0), held: BiasedLock::new(Held { generation: 0, content: None }) }
    }
}

/// The locked content of a slot.
pub(crate) struct Locked<T: 'static>(BiasedGuard<'static, Held<T>>);

impl<T> std::ops::Deref for Locked<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0.content.as_ref().expect("looked at when it was locked")
    }
}

impl<T> std::ops::DerefMut for Locked<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.0.content.as_mut().expect("looked at when it was locked")
    }
}
