//! Handles that can be checked: a slot and a generation.
//!
//! Whatever a caller passes in (a closed socket, a number that was never a handle) is found out before anything that
//! may be gone is touched. A slot is never given back, so that its lock can be taken without knowing whether its
//! content is still there. What was made before a fork belongs to the parent: the child's calls
//! on it are told so without taking a lock.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{BiasedGuard, BiasedLock, OwnerGuard, Reentered};
use pinnace_sys::fork;

use crate::error::Error;

/// Slots in a chunk, and chunks: 2^20 slots in all.
const CHUNK: usize = 256;
const CHUNKS: usize = 4096;
/// Generations that a handle can tell apart; the first is no content's.
const GENERATIONS: u32 = 1 << 24;

/// A handle: which slot, and which of its contents.
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
pub(crate) struct Slot<T> {
    /// Which one it is.
    index: u32,
    fork: AtomicU32,
    held: BiasedLock<Held<T>>,
}

type Entered<T> = Result<BiasedGuard<'static, Held<T>>, Reentered>;

pub(crate) struct Held<T> {
    generation: u32,
    content: Option<T>,
}

/// All things of one kind that callers hold handles of; `TAG`, below 16, tells its handles from another's.
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

    /// Puts `content` in; None where the table is full.
    pub(crate) fn insert(&'static self, content: T) -> Option<Handle<T>> {
        // After a fork the list may stay locked for ever by a thread that is not here: then take a fresh
        // slot.
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

    /// What the handle leads to, locked.
    #[inline(always)]
    pub(crate) fn lock(handle: Handle<T>) -> Result<Locked<T>, Dead> {
        Self::enter(handle, |held| held.lock())
    }

    /// The same for the thread that has it locked most, where nothing stands in its way; else `lock` is to be asked.
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

    /// The same for a look now and then, which leaves the lock to the thread that uses it most.
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

    /// Takes the content out; the handle is dead from now on.
    pub(crate) fn remove(&'static self, handle: Handle<T>) -> Result<T, Dead> {
        let content = Self::lock(handle)?.0.content.take().ok_or(Dead::Gone)?;
        handle.slot.held.leave_to_others();
        if let Some(mut free) = self.free.try_lock() {
            free.push(handle.slot);
        }
        Ok(content)
    }

    /// The handle as a number that callers keep: never 0, never odd enough to be taken for text, the same
    /// width as a pointer.
    pub(crate) fn to_raw(handle: Handle<T>) -> usize {
        (handle.generation as usize) << 24 | (handle.slot.index as usize) << 4 | TAG
    }

    /// The handle that a number stands for, if it can be one.
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

/// Opens a lock out of the ordinary way: what follows the ordinary one stays in line.
#[cold]
#[inline(never)]
pub(crate) fn leave<G, R>(guard: G) -> Option<R> {
    drop(guard);
    None
}

/// The locked content of a slot, by one of the lock's guards.
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
