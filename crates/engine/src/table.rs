//! Handles that can be validated: a slot and a generation.
//!
//! An invalid handle from a caller (a closed socket, a number that was never a handle) is detected before any memory
//! that may be gone is touched. Slots are never freed, so a slot's lock can be taken without knowing whether its
//! content still exists. Content made before a fork belongs to the parent: calls by the child are refused without
//! taking a lock.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{BiasedGuard, BiasedLock, OwnerGuard, Reentered};
use pinnace_sys::fork;

use crate::error::Error;

/// Slots per chunk and number of chunks: 2^20 slots in all.
const CHUNK: usize = 256;
const CHUNKS: usize = 4096;
/// Number of generations in a handle; 0 is not used.
const GENERATIONS: u32 = 1 << 24;

/// A handle: a slot, and the generation of its content.
pub(crate) struct Handle<T: 'static> {
    slot: &'static Slot<T>,
    generation: u32,
}

impl<T> Handle<T> {
    #[inline(always)]
    pub(crate) fn new(slot: &'static Slot<T>, generation: u32) -> Handle<T> {
        Handle { slot, generation }
    }

    #[inline(always)]
    pub(crate) fn slot(self) -> &'static Slot<T> {
        self.slot
    }

    pub(crate) fn generation(self) -> u32 {
        self.generation
    }
}

impl<T> Clone for Handle<T> {
    #[inline(always)]
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Handle<T>) -> bool {
        std::ptr::eq(self.slot, other.slot) && self.generation == other.generation
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.slot.index, self.generation).hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot.index, self.generation)
    }
}

/// Why a handle is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dead {
    /// The content was removed, or never existed.
    Gone,
    /// Made before a fork, by the parent.
    Inherited,
    /// The calling thread already holds the lock: the engine called application code, which called back.
    Entered,
}

/// For handles of sockets.
impl From<Dead> for Error {
    fn from(dead: Dead) -> Error {
        match dead {
            Dead::Gone | Dead::Inherited => Error::NotSocket,
            Dead::Entered => Error::Reentered,
        }
    }
}

/// On cache lines of its own, because other threads use the neighbouring slots.
#[repr(align(128))]
pub(crate) struct Slot<T> {
    /// Its index in the table.
    index: u32,
    fork: AtomicU32,
    held: BiasedLock<Held<T>>,
}

type Entered<T> = Result<BiasedGuard<'static, Held<T>>, Reentered>;

pub(crate) struct Held<T> {
    generation: u32,
    content: Option<T>,
}

/// All objects of one kind that callers hold handles of. `TAG`, below 16, distinguishes them from other kinds.
pub(crate) struct Table<T: 'static, const TAG: usize> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: Mutex<Vec<&'static Slot<T>>>,
    never_used: AtomicU32,
}

impl<T, const TAG: usize> Table<T, TAG> {
    pub(crate) const fn new() -> Table<T, TAG> {
        assert!(TAG < 16);
        Table {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Vec::new()),
            never_used: AtomicU32::new(0),
        }
    }

    /// Inserts `content`; None if the table is full.
    pub(crate) fn insert(&'static self, content: T) -> Option<Handle<T>> {
        // After a fork the list may stay locked by a thread that exists only in the parent: take a fresh slot then.
        let free = self.free.try_lock().and_then(|mut free| free.pop());
        let slot = free.or_else(|| self.fresh())?;
        let mut held = slot.held.lock().ok()?;
        slot.fork.store(fork::generation(), Ordering::Relaxed);
        held.generation = held.generation % (GENERATIONS - 1) + 1;
        held.content = Some(content);
        Some(Handle::new(slot, held.generation))
    }

    /// A slot that was never used.
    fn fresh(&'static self) -> Option<&'static Slot<T>> {
        let index = self.never_used.fetch_add(1, Ordering::Relaxed) as usize;
        let first = (index - index % CHUNK) as u32;
        let chunk = self.chunks.get(index / CHUNK)?;
        let chunk = chunk.get_or_init(|| (first..first + CHUNK as u32).map(Slot::empty).collect());
        Some(&chunk[index % CHUNK])
    }

    /// Locks the content of a handle.
    #[inline(always)]
    pub(crate) fn lock(handle: Handle<T>) -> Result<Locked<T>, Dead> {
        Self::enter(handle, |held| held.lock())
    }

    /// As `lock`, if this thread owns the lock and can take it at once. None: use `lock`.
    #[inline(always)]
    pub(crate) fn lock_owned(Handle { slot, generation }: Handle<T>) -> Option<Owned<T>> {
        if slot.fork.load(Ordering::Relaxed) != fork::generation() {
            return None;
        }
        let held = slot.held.lock_owned()?;
        if held.generation != generation || held.content.is_none() {
            return leave(held);
        }
        Some(Content(held))
    }

    /// As `lock`, for occasional callers: the thread that uses the lock most keeps its ownership.
    pub(crate) fn visit(handle: Handle<T>) -> Result<Locked<T>, Dead> {
        Self::enter(handle, |held| held.visit())
    }

    #[inline(always)]
    fn enter(
        Handle { slot, generation }: Handle<T>,
        way: impl FnOnce(&'static BiasedLock<Held<T>>) -> Entered<T>,
    ) -> Result<Locked<T>, Dead> {
        if slot.fork.load(Ordering::Relaxed) != fork::generation() {
            return Err(Dead::Inherited);
        }
        let held = way(&slot.held).map_err(|_| Dead::Entered)?;
        if held.generation != generation || held.content.is_none() {
            return Err(Dead::Gone);
        }
        Ok(Content(held))
    }

    /// Removes the content; the handle is invalid from now on.
    pub(crate) fn remove(&'static self, handle: Handle<T>) -> Result<T, Dead> {
        let content = Self::lock(handle)?.0.content.take().ok_or(Dead::Gone)?;
        handle.slot.held.leave_to_others();
        if let Some(mut free) = self.free.try_lock() {
            free.push(handle.slot);
        }
        Ok(content)
    }

    /// The handle as a number for callers: the size of a pointer, never 0.
    pub(crate) fn to_raw(handle: Handle<T>) -> usize {
        (handle.generation as usize) << 24 | (handle.slot.index as usize) << 4 | TAG
    }

    /// The handle that a number encodes, if it has the form of one.
    pub(crate) fn handle(&'static self, raw: usize) -> Option<Handle<T>> {
        if raw & 15 != TAG || raw >> 48 != 0 {
            return None;
        }
        let index = raw >> 4 & 0xf_ffff;
        let chunk = self.chunks.get(index / CHUNK)?.get()?;
        Some(Handle::new(&chunk[index % CHUNK], (raw >> 24) as u32))
    }
}

impl<T> Slot<T> {
    fn empty(index: u32) -> Slot<T> {
        let held = BiasedLock::new(Held { generation: 0, content: None });
        Slot { index, fork: AtomicU32::new(0), held }
    }
}

/// Releases a lock on the slow path, which keeps the fast path inline.
#[cold]
#[inline(never)]
pub(crate) fn leave<G, R>(guard: G) -> Option<R> {
    drop(guard);
    None
}

/// The locked content of a slot, behind either guard of the lock.
pub(crate) struct Content<G>(G);

pub(crate) type Locked<T> = Content<BiasedGuard<'static, Held<T>>>;
pub(crate) type Owned<T> = Content<OwnerGuard<'static, Held<T>>>;

impl<T: 'static, G: Deref<Target = Held<T>>> Deref for Content<G> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0.content.as_ref().expect("looked at when it was locked")
    }
}

impl<T: 'static, G: DerefMut<Target = Held<T>>> DerefMut for Content<G> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.0.content.as_mut().expect("looked at when it was locked")
    }
}
